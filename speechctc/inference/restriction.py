"""Recognisers restricted to some phones: those of a list as people type it, of a table, or of a language."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from speechctc.core.errors import InputError, first_few
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import PHONES_FILE
from speechctc.corpora.table_rows import ENDING, read_cells
from speechctc.inference.decoder import ONLY, Decoder, has_ngram
from speechctc.lm.model import PhoneLM
from speechctc.lm.ngram import log_frequencies
from speechctc.model import checkpoint
from speechctc.phones.articulation import Match, is_arpabet, match_apart, match_phones, sounds_of, spelling
from speechctc.phones.espeak import phones_of_language, voices
from speechctc.phones.inventory import BLANK, SILENCES, Inventory, nfc, spelling_key
from speechctc.phones.label_rules import divide_phone
from speechctc.phones.languages import LISTED, alias_note, find_voice
from speechctc.phones.marks import apply_marks
from speechctc.phones.notations import from_xsampa

AnyDecoder = TypeVar("AnyDecoder", bound=Decoder)

_COMMENT_LINE = re.compile(r"^ *#(?![,;\t]).*\n?", re.MULTILINE)  # a column may be called #
_REMARK = re.compile(r"(?<!\S)#.*|\([^()\n]*\s[^()\n]*\)")
_RAISED = {"h": "ʰ", "ɦ": "ʱ", "w": "ʷ", "j": "ʲ"}  # what a letter after a consonant is often meant as


class RequestedPhones(NamedTuple):
    """The phones that may be heard, where they are from, in words, and whether they are spelled as the user does."""

    source: str
    phones: tuple[str, ...]
    own: bool = True


def find_requested(inventory: str | None, language: str | None = None) -> RequestedPhones | None:
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
        code = f" ({voice.languages[0]})" if alias_note(language, voice) else ""
        return RequestedPhones(f"--language {language}{code}", phones_of_language(language), own=False)
    if inventory is None:
        return None
    path, labels = Path(inventory), _labels(inventory)
    if not labels:
        raise InputError("--inventory is empty", "name a file, or phones with spaces between them")
    if os.path.isfile(path):  # False of a list that is too long for a path, too
        return RequestedPhones(inventory, read_inventory(path))
    if os.path.isdir(path):
        own = path / PHONES_FILE
        return RequestedPhones(inventory, read_inventory(own) if own.is_file() else _phones_of_model(path))
    if len(labels) < 2 and not sounds_of(labels[0]):
        raise InputError(f"--inventory {inventory}: no such file", "name a file, or phones with spaces between them")
    return RequestedPhones("--inventory", labels)


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
        what = f"--inventory {folder}: holds no {PHONES_FILE} of extracted features, and no model ({error.what})"
        raise InputError(what, error.fix) from None


def _of_lists(wanted: RequestedPhones, own: Sequence[str], reporter: Reporter) -> list[str]:
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
        reporter.note(
            f"{wanted.source}: left out, as this model writes none of them by themselves: {first_few(left, 20)}"
        )
    return [label for label in taken if label]


def _is_mark(label: str) -> bool:
    """Return whether a label consists of tones, stress or length, without a letter."""
    return bool(label) and not apply_marks(label.replace("◌", ""), dict.fromkeys(("tone", "stress", "length"), "strip"))


def requested_phones(wanted: RequestedPhones, own: Sequence[str], reporter: Reporter) -> tuple[str, ...]:
    """Return the phones of an inventory; of diphthongs that the model does not have, the vowels."""
    labels = _of_lists(wanted, own, reporter)
    whole = {phone for phone, match in match_phones(labels, own).items() if match.how != "nearness"}
    parts = tuple(
        part
        for phone in labels
        for part in ((phone,) if phone in whole else divide_phone(phone, diphthongs=True, affricates=False))
    )
    if unknown := [part for part in parts if part not in whole and not sounds_of(spelling(part))]:
        what = f"{wanted.source}: neither IPA nor labels of the model: {first_few(unknown, 10)}"
        meant = [f"{' or '.join(readings)} ({part})" for part in unknown if (readings := _readings(part))]
        advice = f"did you mean {first_few(meant, 10)}? " if meant else ""
        raise InputError(what, f"{advice}the model's: {' '.join(own)}")
    return tuple(dict.fromkeys(parts))


def _readings(label: str) -> list[str]:
    """Return phones in IPA that may be meant: small letters, X-SAMPA, a raised last letter, look-alikes."""
    raised = label[:-1] + _RAISED.get(label[-1], label[-1])
    xsampa = "" if label.isdecimal() else from_xsampa(label) or ""
    found = label.lower(), raised, xsampa, spelling_key(label)
    return [text for text in dict.fromkeys(found) if sounds_of(text)]


OUTPUT, BIAS = "output.weight", "output.bias"  # of the net
POWER = 0.6  # times the share that leaves: 0.4 for most lists, the best power on words of 20 languages
RARE = 0.001  # of all labels; rarer phones count as so frequent


def restrict(recogniser: AnyDecoder, wanted: RequestedPhones, reporter: Reporter) -> AnyDecoder:
    """Return a recogniser of the same model that hears only these phones, blanks and silences.

    The posteriors are those of the model given that no other phone is said: the other classes leave the output layer,
    and so the softmax, which makes what is left sum to 1. In the language of a list, phones are not as frequent as they
    were in training: if no n-gram says how frequent they are, the posteriors are first divided by a power of their
    frequency in training (M. Saerens et al., Neural Computation 14, 2002, on new a priori probabilities), `POWER` times
    the share of the model's phones that leave.

    Parameters
    ----------
    recogniser : Decoder
    wanted : RequestedPhones
        In the model's own labels or in IPA. A phone that the model does not have is heard as the most similar one that
        it has, and that no other of these phones is heard as, if there is one; a diphthong as its vowels. A phone that
        a user spells otherwise than the model, such as ``g`` for ``ɡ``, is written as the user spells it.
    reporter : Reporter
        Is told which those are, and which phones are like none of the model's.

    Raises
    ------
    InputError
        There are labels that are neither IPA nor the model's, or none is like one of the model's; or it has an LSTM.
    """
    own, source = recogniser.phones, wanted.source
    if recogniser.lstm is not None:
        raise InputError(f"{source}: an LSTM ranks all phones of the model only", "name an n-gram with --lm, or none")
    phones = requested_phones(wanted, own, reporter)
    matches = match_apart(phones, own)
    if not matches:
        raise InputError(f"{source}: none of its phones is like one of the model's", f"its phones: {' '.join(own)}")
    heard = {match.phone for match in matches.values()} | SILENCES
    kept = [BLANK, *(k for k, phone in enumerate(own, start=BLANK + 1) if phone in heard)]
    written = _own_spellings(matches) if wanted.own and not is_arpabet(own) else {}
    _report_matches(source, phones, matches, written, reporter)
    whole = recogniser.checkpoint
    output = {name: whole.weights[name][kept] for name in (OUTPUT, BIAS)}
    counts = whole.facts.get(checkpoint.FREQUENCIES)
    shares = {checkpoint.FREQUENCIES: [counts[k - 1] for k in kept[1:]]} if counts else {}
    if shares and not has_ngram(recogniser):
        frequent = np.array(shares[checkpoint.FREQUENCIES])
        leaving = 1 - len(frequent) / len(own)
        frequent = np.maximum(frequent / max(frequent.sum(), 1), RARE)
        output[BIAS][1:] -= POWER * leaving * log_frequencies(frequent)
    part = replace(
        whole,
        inventory=Inventory(whole.inventory.name, tuple(written.get(own[k - 1], own[k - 1]) for k in kept[1:])),
        weights={**whole.weights, **output},
        lm=_restricted_ngram(whole.lm, kept) if whole.lm else None,
        facts={**whole.facts, **shares, ONLY: f"only the {len(kept) - 1} phones of {source}"},
    )
    return recogniser.restricted(part)


def _own_spellings(matches: Mapping[str, Match]) -> dict[str, str]:
    """Return how phones of the model are spelled in a list of the same notation, which has them in other spellings.

    A list that has a letter with one mark only, such as ``t̪`` without ``t``, means that phone where it is heard.
    """
    found: dict[str, str] = {}
    heard = Counter(match.phone for match in matches.values())
    for phone, match in matches.items():
        ours, theirs = spelling(phone), spelling(match.phone)  # not alike where the model has the labels of ARPABET
        if match.how == "nearness" and heard[match.phone] == 1:
            ours = "".join(apply_marks(ours, {"length": "strip", "diacritics": "strip"}))
        elif match.how != "table":
            continue
        if ours == theirs and match.phone not in matches:
            found.setdefault(match.phone, phone)
    return found


def _report_matches(
    source: str, phones: Sequence[str], matches: Mapping[str, Match], written: Mapping[str, str], reporter: Reporter
) -> None:
    nearest = [(phone, match.phone) for phone, match in matches.items() if match.how == "nearness"]
    near = [f"{phone} as {written.get(model, model)}" for phone, model in nearest if written.get(model) != phone]
    if near:
        reporter.note(f"{source}: phones that the model does not have are heard as the nearest: {first_few(near, 20)}")
    if marked := [f"{phone} as {model}" for phone, model in nearest if written.get(model) == phone]:
        what = f"{source}: heard without their marks, and written with them: {first_few(marked, 20)}"
        reporter.note(f"{what}; whether the sound has the mark is not heard")
    other = [f"{phone} as {match.phone}" for phone, match in matches.items() if match.how == "table"]
    if other:
        own = f"; results have {first_few(list(written.values()), 20)}" if written else ""
        reporter.note(f"{source}: phones that the model spells otherwise: {first_few(other, 20)}{own}")
    if lost := [phone for phone in phones if phone not in matches]:
        reporter.warn(f"{source}: no phone of the model is like these, which are never heard: {first_few(lost, 20)}")


def _restricted_ngram(lm: PhoneLM, kept: Sequence[int]) -> PhoneLM:
    """Return an n-gram of some phones, whose probabilities are not normalised again: all lack the same factor."""
    numbers = list(kept)
    return PhoneLM(np.ascontiguousarray(lm.log_probs[:, numbers]), np.ascontiguousarray(lm.next_state[:, numbers]))
