"""Checks of splits: recordings that occur twice, speakers in several splits, utterances that cannot be used."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import doubtful_labels
from speechctc.doctor.finding import Finding
from speechctc.doctor.sound_checks import Heard, Place, Sounds

Member = tuple[str, Utterance]
"""A split, and an utterance of it."""


def check_splits(corpus: Corpus, sounds: Sounds) -> list[Finding]:
    """Check how the utterances are divided, and what the reader of the corpus said of them."""
    return [*_rejected(corpus), *_warned(corpus), *_speakers(corpus), *_duplicates(corpus, sounds)]


def _rejected(corpus: Corpus) -> list[Finding]:
    places = [f"{each.id}: {each.reason}" for part in corpus.rejected.values() for each in part]
    if not places:
        return []
    what = f"utterances that cannot be used: {len(places)}"
    why = "they are in no split: neither trained on nor scored"
    return [Finding("left-out", "warning", what, tuple(places), why, "correct what each reason says")]


def _warned(corpus: Corpus) -> list[Finding]:
    """Return the reader's warnings, except those that other checks give with their places."""
    phones = Counter(phone for part in corpus.splits.values() for each in part for phone in each.phones)
    known = doubtful_labels(phones)
    return [
        Finding(
            "reading",
            "warning",
            warning,
            (),
            "the corpus may not be read as you meant it",
            "see docs/guide/training.md",
        )
        for warning in corpus.warnings
        if warning not in known and "left out" not in warning and not warning.startswith("recordings longer than")
    ]


def _speakers(corpus: Corpus) -> list[Finding]:
    splits = defaultdict(set)
    for split, part in corpus.splits.items():
        for utterance in part:
            splits[utterance.speaker].add(split)
    unknown = splits.pop("", None)
    found = []
    if shared := sorted(speaker for speaker, names in splits.items() if "train" in names and len(names) > 1):
        found.append(
            Finding(
                "speakers-shared",
                "warning",
                f"speakers who are in train and in another split: {len(shared)}",
                tuple(f"{speaker} ({', '.join(sorted(splits[speaker]))})" for speaker in shared),
                "the PER on that split is too low: it says little about new speakers",
                "keep all recordings of a speaker in one split",
            )
        )
    if unknown:
        everything = [each for part in corpus.splits.values() for each in part]
        nameless = [each.id for each in everything if not each.speaker]
        found.append(
            Finding(
                "no-speaker",
                "note" if splits else "warning",
                f"utterances without a speaker: {len(nameless)} of {len(everything)}",
                tuple(nameless),
                "their voices may be in train and in dev, and the PER on dev is then too low",
                "fill in the column speaker, or put the recordings of each speaker into a folder",
            )
        )
    return found


def _duplicates(corpus: Corpus, sounds: Sounds) -> list[Finding]:
    groups: dict[str, list[Member]] = defaultdict(list)
    for split, part in corpus.splits.items():
        for utterance in part:
            if isinstance(sound := sounds.get(Place.of(utterance)), Heard):
                groups[sound.digest].append((split, utterance))
    twice = [group for group in groups.values() if len(group) > 1]
    across = [group for group in twice if len({split for split, _ in group}) > 1]
    differ = [group for group in twice if len({each.phones for _, each in group}) > 1]
    alike = [group for group in twice if group not in across and group not in differ]
    why_across = "a model is scored on what it was trained on, and the PER is too low"
    why_differ = "at least one of the transcripts is wrong"
    why_alike = "these utterances weigh more than the others"
    texts = (
        ("duplicates-across", across, "recordings that are in several splits", why_across, "keep each in one split"),
        (
            "duplicates-differ",
            differ,
            "recordings that occur twice with different labels",
            why_differ,
            "correct the labels",
        ),
        ("duplicates", alike, "recordings that occur twice with equal labels", why_alike, "keep one of them"),
    )
    return [
        Finding(kind, "warning", f"{what}: {len(found)}", tuple(map(_names, found)), why, fix)
        for kind, found, what, why, fix in texts
        if found
    ]


def _names(group: Iterable[Member]) -> str:
    return " = ".join(f"{each.id} ({split})" for split, each in group)
