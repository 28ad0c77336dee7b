"""Checks of labels: rare and one-sided phones, several spellings, pauses, and labels that do not fit the sound."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from speechctc.config.schema import Config
from speechctc.core.errors import some
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import PAUSES, UNCLEAR
from speechctc.ctc.feasibility import frames_needed
from speechctc.doctor.finding import Finding
from speechctc.doctor.sound_checks import SILENT_DB, Heard, Place, Sounds
from speechctc.features.filterbank import frame_count
from speechctc.model.net import output_frames
from speechctc.phones.articulation import sounds_of
from speechctc.phones.inventory import FOUND
from speechctc.phones.labels import spelling_variants, with_code_points
from speechctc.phones.marks import are_strings
from speechctc.phones.matching import is_arpabet

RARE = 5  # a phone with fewer occurrences in training is hardly learned
COMMON = 0.4  # share of all labels, from which one label is suspicious
FEWEST = 100  # labels; of fewer, shares say nothing
SLOW, FAST = 0.2, 3.0  # of the corpus's median number of phones a second
MOST_A_SECOND = 30.0  # phones; nobody speaks faster


def check_labels(corpus: Corpus, sounds: Sounds, config: Config) -> list[Finding]:
    """Check the labels of a corpus, alone and against what was heard of its recordings."""
    counts = {split: Counter(p for each in part for p in each.phones) for split, part in corpus.splits.items()}
    everything = [utterance for part in corpus.splits.values() for utterance in part]
    found = check_counts(counts)
    if corpus.phone_set == FOUND:
        found += _spellings(sum(counts.values(), Counter()))
        found += _strings(sum(counts.values(), Counter()))
        found += _notations(everything)
        found += _not_phones(sum(counts.values(), Counter()))
    pairs = [
        (utterance, sound) for utterance in everything if isinstance(sound := sounds.get(Place.of(utterance)), Heard)
    ]
    short = {utterance.id: place for utterance, sound in pairs if (place := _too_short(utterance, sound, config))}
    if short:
        found.append(_short_finding(tuple(short.values()), len(short) == len(pairs), config.model.time_stride))
    return [*found, *_unlabelled(pairs), *_rates([pair for pair in pairs if pair[0].id not in short])]


def check_counts(counts: Mapping[str, Counter[str]]) -> list[Finding]:
    """Check how often each phone occurs in each split (``"train"`` and others)."""
    train = counts["train"]
    others = sum((count for split, count in counts.items() if split != "train"), Counter[str]())
    found = []
    if rare := Counter({phone: count for phone, count in train.items() if count < RARE}):
        found.append(
            Finding(
                "rare-phones",
                "warning",
                f"phones that occur fewer than {RARE} times in train: {len(rare)}",
                tuple(f"{phone} ({count})" for phone, count in sorted(rare.items(), key=lambda each: each[1])),
                "they are hardly learned, and mistakes of spelling often look like this",
                "correct them, label more of them, or leave them out with corpus.ignore",
            )
        )
    if unseen := sorted(set(others) - set(train)):
        found.append(_one_split(unseen, others, "dev or test and not in train", "the model never recognises them"))
    if others and (only := sorted(phone for phone in set(train) - set(others) if train[phone] >= RARE)):
        why = "no score tells how well they are recognised"
        found.append(_one_split(only, train, "train and neither in dev nor in test", why))
    total = train.total()
    found += [
        Finding(
            "one-label",
            "warning",
            f"one label makes up {100 * count / total:.0f} % of all labels in train",
            (f"{phone} ({count:,} of {total:,})",),
            "the other phones have few examples; a filler or an unfinished transcription looks like this",
            "look at the labels; corpus.ignore leaves a label out that is not a phone",
        )
        for phone, count in train.most_common(1)
        if total >= FEWEST and count > COMMON * total and len(train) > 2
    ]
    return found


def _one_split(phones: Sequence[str], counts: Counter[str], where: str, why: str) -> Finding:
    return Finding(
        "one-split",
        "warning",
        f"phones that occur only in {where}: {len(phones)}",
        tuple(f"{phone} ({counts[phone]})" for phone in phones),
        why,
        "correct them if they are mistakes, or choose other speakers for dev and test",
    )


def _spellings(counts: Counter[str]) -> list[Finding]:
    groups = [
        " and ".join(f"{with_code_points(label)} ({counts[label]})" for label in group)
        for group in spelling_variants(counts)
    ]
    if not groups:
        return []
    why = "they are learned as different phones, each from a part of the recordings"
    fix = "write each phone in one way"
    return [
        Finding(
            "spellings", "warning", f"phones that may be spelt in several ways: {len(groups)}", tuple(groups), why, fix
        )
    ]


def _strings(counts: Counter[str]) -> list[Finding]:
    if not are_strings(counts):
        return []
    what = f"these labels look like strings of IPA: {len(counts)} different ones in {counts.total():,} labels"
    where = tuple(f"{label} ({count})" for label, count in counts.most_common())
    why = "each is learned as one phone, and a word that training lacks is never recognised"
    return [Finding("strings", "warning", what, where, why, "set corpus.segment=ipa, which divides them into phones")]


def _notations(utterances: Sequence[Utterance]) -> list[Finding]:
    """Find a corpus in which some utterances are labelled in ARPABET and others in IPA."""
    arpabet = [each.id for each in utterances if is_arpabet(each.phones)]
    ipa = [each.id for each in utterances if any(map(_is_letter_of_ipa, each.phones))]
    if not arpabet or not ipa:
        return []
    what = f"two notations: {len(arpabet)} utterances look like ARPABET, and {len(ipa)} like IPA"
    where = (f"ARPABET: {some(arpabet)}", f"IPA: {some(ipa)}")
    why = "a phone has two labels, each learned from a part of the recordings, and y means two phones"
    return [Finding("notations", "warning", what, where, why, "write all labels in one, with a table as corpus.map")]


def _is_letter_of_ipa(label: str) -> bool:
    return not label.isascii() and bool(sounds_of(label))


def _not_phones(counts: Counter[str]) -> list[Finding]:
    found = []
    for kind, name, labels in (("pauses", "pauses", PAUSES), ("unclear", "unclear speech", UNCLEAR)):
        if there := sorted(labels & set(counts)):
            names = ", ".join(f"'{label}'" for label in there)
            found.append(
                Finding(
                    kind,
                    "note",
                    f"labels that look like {name} and are learned as phones: {sum(counts[label] for label in there)}",
                    tuple(f"{label} ({counts[label]})" for label in there),
                    "they count in the PER, and take examples from phones",
                    f'keep them if you want them recognised; else: corpus.ignore="[{names}]"',
                )
            )
    return found


def _too_short(utterance: Utterance, sound: Heard, config: Config) -> str:
    """Return in words by how much an utterance has too few output frames for its phones; ``""`` if it has enough."""
    samples = round(sound.seconds * config.features.sample_rate)
    frames = int(output_frames(frame_count(samples, config.features), config.model))
    classes = {phone: k for k, phone in enumerate(dict.fromkeys(utterance.phones), start=1)}
    labels = torch.tensor([classes[phone] for phone in utterance.phones], dtype=torch.int64)
    needed = int(frames_needed(labels, torch.tensor([len(labels)])))
    if frames >= max(needed, 1):
        return ""
    return f"{utterance.id} ({len(labels)} phones need {needed} frames, {sound.seconds:.2f} s have {frames})"


def _short_finding(places: tuple[str, ...], all_are: bool, stride: int) -> Finding:
    return Finding(
        "too-short",
        "stops" if all_are else "warning",
        f"utterances with too few frames for their phones: {len(places)}",
        places,
        "no path of CTC fits into them, and training leaves them out",
        "check that labels and recording belong together" + (", or lower model.time_stride" if stride > 1 else ""),
    )


def _unlabelled(pairs: Sequence[tuple[Utterance, Heard]]) -> list[Finding]:
    places = [each.id for each, sound in pairs if not each.phones and sound.level_db > SILENT_DB + 20]
    if not places:
        return []
    what = f"utterances without phones whose recordings have sound: {len(places)}"
    why = "if it is speech, the model learns to ignore it"
    fix = "label them, or leave them out; noise without speech may stay"
    return [Finding("no-phones", "warning", what, tuple(places), why, fix)]


def _rates(pairs: Sequence[tuple[Utterance, Heard]]) -> list[Finding]:
    """Find utterances with far more or far fewer phones a second than the others."""
    rates = [(each, len(each.phones) / sound.seconds) for each, sound in pairs if each.phones]
    if len(rates) < 10:
        return []
    usual = statistics.median(rate for _, rate in rates)
    odd = [
        f"{each.id} ({rate:.1f})"
        for each, rate in rates
        if not SLOW * usual <= rate <= min(FAST * usual, max(MOST_A_SECOND, usual))
    ]
    if not odd:
        return []
    return [
        Finding(
            "speech-rate",
            "warning",
            f"utterances with far more or far fewer phones a second than the median, {usual:.1f}: {len(odd)}",
            tuple(odd),
            "their labels belong to another recording, or cover only a part of it",
            "compare these recordings with their labels",
        )
    ]
