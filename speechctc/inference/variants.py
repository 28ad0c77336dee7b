"""Recognisers of the same model with other language models, or restricted to the phones of an inventory.

A phone that the model has not learned gets an output composed of those of similar phones, by kernel ridge regression
over the distances of articulation. With each of 41 phones of VoxAngeles taken out of the model `ipa` in turn, composed
outputs gain 73 % of what learned ones gain over the nearest phone's (docs/records/experiments.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError, some
from speechctc.core.progress import Reporter
from speechctc.corpora.table_rows import ENDING, read_cells
from speechctc.inference.recogniser import ONLY, Recogniser
from speechctc.lm.load import load_lm, relative
from speechctc.lm.model import LanguageModel, NgramModel, PartModel
from speechctc.lm.tuned import lm_settings
from speechctc.model import checkpoint
from speechctc.model.numpy_net import Weights
from speechctc.ngram.automaton import PhoneLM
from speechctc.phones.articulation import Sound, distance, plain, sounds_of
from speechctc.phones.espeak import phones_of_language, voices
from speechctc.phones.inventory import BLANK, SILENCES, Inventory
from speechctc.phones.label_rules import KINDS, apply_marks, divide_phone, segment_ipa
from speechctc.phones.labels import TIES, nfc
from speechctc.phones.languages import LISTED, find_voice, said_of
from speechctc.phones.matching import Match, is_arpabet, match_phones
from speechctc.phones.notations import from_xsampa
from speechctc.phones.texts import listed

OUTPUT, BIAS = "output.weight", "output.bias"  # of the net
COUNTS = "phones.tsv"  # the phones of a corpus, beside its features
# Distance of articulation at which a known phone counts 1/e for a composed one; chosen on half of the languages.
REACH = 8.0
RIDGE = 0.1
# Added to the bias of composed phones: regression draws them to the mean of all, where they would seldom win.
BONUS = 2.0
_COMMENT_LINE = re.compile(r"^ *#(?![,;\t]).*\n?", re.MULTILINE)  # a column may be called #
_REMARK = re.compile(r"(?<!\S)#.*|\([^()\n]*\s[^()\n]*\)")
_RAISED = {"h": "ʰ", "ɦ": "ʱ", "w": "ʷ", "j": "ʲ"}  # what a letter after a consonant is often meant as


class Wanted(NamedTuple):
    """The phones that may be heard, and where they are from, in words."""

    source: str
    phones: tuple[str, ...]


def find_wanted(inventory: str | None, language: str | None = None) -> Wanted | None:
    """Return the phones that a command line asks for; None where it does not.

    Parameters
    ----------
    inventory : str, optional
        A file of labels with white space between them, or of a table with a column of phones; the folder of a corpus's
        features, of a run or of a checkpoint; or the labels themselves, with spaces between them.
    language : str, optional
        A language of eSpeak NG; see `speechctc.phones.espeak.phones_of_language`.

    Raises
    ------
    InputError
        Both are given, there is no such place or language, or no phones are in it.
    """
    if language is not None:
        if inventory is not None:
            raise InputError("--inventory and --language both name phones", "give one of them")
        voice = find_voice(language, voices(), LISTED)
        code = f" ({voice.languages[0]})" if said_of(language, voice) else ""
        return Wanted(f"--language {language}{code}", phones_of_language(language))
    if inventory is None:
        return None
    path, labels = Path(inventory), _labels(inventory)
    if not labels:
        raise InputError("--inventory is empty", "name a file, or phones with spaces between them")
    if path.is_file():
        return Wanted(inventory, read_inventory(path))
    if path.is_dir():
        own = path / COUNTS
        return Wanted(inventory, read_inventory(own) if own.is_file() else _phones_of_model(path))
    if len(labels) < 2 and not sounds_of(labels[0]):
        raise InputError(f"--inventory {inventory}: no such file", "name a file, or phones with spaces between them")
    return Wanted("--inventory", labels)


def read_inventory(path: Path) -> tuple[str, ...]:
    """Read the phones of an inventory: labels with spaces or commas between them, or the column of phones of a table.

    Of an Excel table without such a column the first is read. What comes after ``#`` is left out, and remarks of
    several words in brackets.

    Raises
    ------
    InputError
        The file cannot be read, or is empty.
    """
    is_sheet = path.suffix.lower() == ENDING
    text = _COMMENT_LINE.sub("", read_cells(path, ("phones",)).text)
    first, *rows = text.splitlines() or [""]
    sign = max("\t;,", key=first.count)
    names = [name.strip().lower() for name in first.split(sign)]
    column = next((k for k, name in enumerate(names) if name in ("phone", "phones")), None)
    if column is not None and (len(names) > 1 or all(len(row.split()) < 2 for row in rows)):
        text = "\n".join(fields[column] for row in rows if len(fields := row.split(sign)) > column)
    elif is_sheet:
        text = "\n".join(row.split(sign)[0] for row in (first, *rows))
    phones = _labels(_REMARK.sub("", text))
    if not phones:
        raise InputError(f"{path}: no phones in it", "write the labels with spaces between them")
    return phones


def _labels(text: str) -> tuple[str, ...]:
    """Return labels that white space, commas or semicolons separate, each once."""
    return tuple(dict.fromkeys(map(nfc, re.split(r"[\s,;]+", text.strip(" \t\r\n,;"))))) if text.strip() else ()


def _phones_of_model(folder: Path) -> tuple[str, ...]:
    try:
        return checkpoint.read_inventory(checkpoint.find_checkpoint(folder)).phones
    except InputError as error:
        what = f"--inventory {folder}: holds no {COUNTS} of extracted features, and no model ({error.what})"
        raise InputError(what, error.fix) from None


def restrict(recogniser: Recogniser, wanted: Wanted, reporter: Reporter) -> Recogniser:
    """Return a recogniser of the same model that hears only these phones, blanks and silences.

    The posteriors are those of the model given that no other phone is said: the other classes leave the output layer,
    and so the softmax, which makes what is left sum to 1.

    Parameters
    ----------
    recogniser : Recogniser
    wanted : Wanted
        In the model's own labels or in IPA. A phone that the model does not have is heard as the most similar one that
        it has, if they differ in marks only, if the model does not write IPA, or if it has a language model; else
        its output is composed. A diphthong is heard as its vowels.
    reporter : Reporter
        Is told which those are, and which phones are like none of the model's.

    Raises
    ------
    InputError
        There are labels that are neither IPA nor the model's, or none is like one of the model's.
    """
    own, source = recogniser.phones, wanted.source
    phones = _known(wanted, own, reporter)
    matches = match_phones(phones, own)
    if not matches:
        raise InputError(f"{source}: none of its phones is like one of the model's", f"its phones: {' '.join(own)}")
    may_compose = recogniser.checkpoint.lm is None and recogniser.lstm is None and not is_arpabet(own)
    new = [phone for phone in phones if may_compose and _is_new(phone, matches, own)]
    heard = {match.phone for phone, match in matches.items() if phone not in new} | SILENCES
    kept = [BLANK, *(k for k, phone in enumerate(own, start=BLANK + 1) if phone in heard)]
    _say(source, phones, matches, new, reporter)
    whole = recogniser.checkpoint
    counts = whole.facts.get(checkpoint.FREQUENCIES)
    shares = {checkpoint.FREQUENCIES: [counts[k - 1] for k in kept[1:]] + [0] * len(new)} if counts else {}
    part = replace(
        whole,
        inventory=Inventory(whole.inventory.name, (*(own[k - 1] for k in kept[1:]), *new)),
        weights=with_outputs(whole.weights, kept, compose_outputs(whole.weights, own, new)),
        lm=_part(whole.lm, kept) if whole.lm else None,
        facts={**whole.facts, **shares, ONLY: f"only the {len(kept) - 1 + len(new)} phones of {source}"},
    )
    lstm = PartModel(recogniser.lstm, part.inventory, kept) if recogniser.lstm else None
    return Recogniser(part, recogniser.device, recogniser.calibration, lstm, recogniser.boundaries)


def _say(
    source: str, phones: Sequence[str], matches: Mapping[str, Match], new: Sequence[str], reporter: Reporter
) -> None:
    near = [f"{phone} as {match.phone}" for phone, match in matches.items() if match.how == "nearness"]
    near = [pair for pair in near if pair.split()[0] not in new]
    if near:
        reporter.note(f"{source}: phones that the model does not have are heard as the nearest: {some(near, 20)}")
    if new:
        reporter.note(f"{source}: phones that the model has not learned are composed of similar ones: {some(new, 20)}")
    if lost := [phone for phone in phones if phone not in matches and phone not in new]:
        reporter.warn(f"{source}: no phone of the model is like these, which are never heard: {some(lost, 20)}")
    known = {phone for phone, match in matches.items() if match.how != "nearness"}
    doubts = [f"{phone} ({meant}?)" for phone in phones if phone not in known and (meant := _divided(phone))]
    if doubts and not is_arpabet(phones):
        reporter.warn(f"{source}: read as one phone each; did you mean something else? {some(doubts, 20)}")


def _divided(phone: str) -> str:
    """Return what two letters may be meant as that are seldom one phone and have no tie bar; else ``""``."""
    parts = [*segment_ipa(phone)]
    if len(parts) != 2 or not sounds_of(phone) or any(tie in phone for tie in TIES):
        return ""
    first, second = parts
    if second in _RAISED:
        return first + _RAISED[second]
    if first == second:
        return f"{first} or {first}ː"
    return "" if _are_one(*sounds_of(phone)) else f"{first} {second}"


def _are_one(a: Sound, b: Sound) -> bool:
    """Return whether two sounds are often one phone: an affricate, prenasalised, glottalised, doubly articulated."""
    if a.vowel or b.vowel:
        return False
    if 10 in (a.place, b.place) or 7 in (a.closeness, b.closeness):  # of the glottis, or a click
        return True
    if (a.place, b.place) == (7, 0):  # as kp, gb and ŋm
        return a.closeness == b.closeness
    is_near = abs(a.place - b.place) <= 1 or (
        2 <= a.place <= 6 and 2 <= b.place <= 6
    )  # both with the tip of the tongue
    return is_near and not b.rhotic and (a.closeness > b.closeness or a.nasal)


def _of_lists(wanted: Wanted, own: Sequence[str], reporter: Reporter) -> list[str]:
    """Return labels without slashes and brackets around them, and without remarks and marks of prosody alone."""
    taken, left = [], []
    for label in wanted.phones:
        bare_label = label if label in own or label in SILENCES else re.sub(r"^[/\[]+|[/\]]+$", "", label)
        inner = re.fullmatch(r"\((.+)\)", bare_label)
        if bare_label in own or not (inner or _is_mark(bare_label)):
            taken.append(bare_label)
        elif inner and sounds_of(inner[1]):
            taken.append(inner[1])
        else:
            left.append(label)
    if left:
        reporter.note(f"{wanted.source}: left out, as this model writes none of them by themselves: {some(left, 20)}")
    return [label for label in taken if label]


def _is_mark(label: str) -> bool:
    """Return whether a label consists of tones, stress or length, without a letter."""
    return bool(label) and not apply_marks(label.replace("◌", ""), dict.fromkeys(("tone", "stress", "length"), "strip"))


def _known(wanted: Wanted, own: Sequence[str], reporter: Reporter) -> tuple[str, ...]:
    """Return the phones of an inventory; of diphthongs that the model does not have, the vowels."""
    labels = _of_lists(wanted, own, reporter)
    whole = {phone for phone, match in match_phones(labels, own).items() if match.how != "nearness"}
    parts = tuple(
        part
        for phone in labels
        for part in ((phone,) if phone in whole else divide_phone(phone, diphthongs=True, affricates=False))
    )
    if unknown := [part for part in parts if part not in whole and not sounds_of(part)]:
        what = f"{wanted.source}: neither IPA nor labels of the model: {some(unknown, 10)}"
        meant = [f"{' or '.join(readings)} ({part})" for part in unknown if (readings := _readings(part))]
        advice = f"did you mean {some(meant, 10)}? " if meant else ""
        raise InputError(what, f"{advice}the model's: {' '.join(own)}")
    return tuple(dict.fromkeys(parts))


def _readings(label: str) -> list[str]:
    """Return phones in IPA that may be meant: in small letters, of X-SAMPA, with a raised last letter."""
    raised = label[:-1] + _RAISED.get(label[-1], label[-1])
    found = label.lower(), raised, "" if label.isdecimal() else from_xsampa(label) or ""
    return [text for text in dict.fromkeys(found) if sounds_of(text)]


def _is_new(phone: str, matches: Mapping[str, Match], own: Sequence[str]) -> bool:
    """Return whether a phone differs from all of the model's by more than marks."""
    if phone in SILENCES or (phone in matches and matches[phone].how != "nearness"):
        return False
    return bare(phone) not in {bare(each) for each in own}


@cache
def bare(phone: str) -> str:
    """Return a phone without its marks, in one notation."""
    return plain("".join(apply_marks(phone, dict.fromkeys(KINDS, "strip"))))


def compose_outputs(weights: Weights, own: Sequence[str], new: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights of new phones, and last their biases: (n_new, n_inputs + 1)."""
    numbers = [k for k, phone in enumerate(own, start=BLANK + 1) if phone not in SILENCES and sounds_of(phone)]
    known = [own[k - 1] for k in numbers]
    if not new:
        return np.zeros((0, weights[OUTPUT].shape[1] + 1))
    rows = np.column_stack([weights[OUTPUT][:, :, 0, 0], weights[BIAS]]).astype(np.float64)[numbers]
    mean = rows.mean(0)
    near = [np.exp([[-distance(a, b) / REACH for b in known] for a in each]) for each in (known, new)]
    gains = np.linalg.solve(near[0] + RIDGE * np.eye(len(known)), rows - mean)
    made: NDArray[np.float64] = mean + near[1] @ gains
    made[:, -1] += BONUS
    return made


def with_outputs(weights: Weights, kept: Sequence[int], new: NDArray[np.float64]) -> Weights:
    """Return the weights of a net that has some of its outputs, and new ones after them."""
    rows = np.concatenate([weights[OUTPUT][list(kept)], new[:, :-1, None, None].astype(np.float32)])
    biases = np.concatenate([weights[BIAS][list(kept)], new[:, -1].astype(np.float32)])
    return {**weights, OUTPUT: rows, BIAS: biases}


def _part(lm: PhoneLM, kept: Sequence[int]) -> PhoneLM:
    """Return an n-gram of which only some phones are said, as `PartModel`."""
    numbers = list(kept)
    return PhoneLM(np.ascontiguousarray(lm.log_probs[:, numbers]), np.ascontiguousarray(lm.next_state[:, numbers]))


def with_language_models(
    recogniser: Recogniser,
    folder: Path,
    lms: Sequence[Path],
    weight: float | None,
    beam: int | None,
    reporter: Reporter,
) -> Recogniser:
    """Return a recogniser with the language models and settings of a command line.

    Parameters
    ----------
    recogniser : Recogniser
    folder : Path
        The folder of its checkpoint, in which tuned settings are looked for.
    lms : sequence of Path
        See `with_lms`.
    weight : float, optional
        Weight of the language models, instead of the tuned one or the config's ``decode.lm_weight``.
    beam : int, optional
        Hypotheses to keep, instead of the config's; turns on the prefix search even without a language model.
    reporter : Reporter
        Receives the tuned settings that are used, and the phones that an n-gram has no probability for.

    Raises
    ------
    InputError
        A language model cannot be read or has other phones, or a number is out of range.
    """
    recogniser = with_lms(recogniser, lms, reporter)
    settings = lm_settings(folder, recogniser.checkpoint.lm, recogniser.lstm, weight, reporter.note)
    return recogniser.with_settings(settings + ([] if beam is None else [f"decode.beam={beam}", "decode.search=beam"]))


def with_lms(recogniser: Recogniser, lms: Sequence[Path], reporter: Reporter) -> Recogniser:
    """Return a recogniser with other language models: an n-gram replaces its own, an LSTM is added.

    Raises
    ------
    InputError
        A model cannot be read or has other phones, or two models are of one kind.
    """
    ngram: PhoneLM | None = None
    lstm: LanguageModel | None = None
    for path in lms:
        model = load_lm(path, recogniser.inventory, recogniser.device)
        if (ngram if isinstance(model, NgramModel) else lstm) is not None:
            raise InputError(f"{path}: a second language model of its kind", "name one n-gram and one LSTM at most")
        if isinstance(model, NgramModel):
            ngram = relative(model, recogniser.checkpoint)
            if model.missing:
                reporter.warn(f"{path}: has no probability for {len(model.missing)} phones: {listed(model.missing)}")
        else:
            lstm = model
    if not lms:
        return recogniser
    checkpoint = replace(recogniser.checkpoint, lm=ngram or recogniser.checkpoint.lm)
    return Recogniser(checkpoint, recogniser.device, recogniser.calibration, lstm, recogniser.boundaries)
