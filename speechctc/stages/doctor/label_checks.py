"""Checks of labels and splits: what the reader said, speakers, recordings that occur twice; phones and how many fit."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from speechctc.config.schema import Config
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import doubtful_labels, not_phones, notation_pairs, spellings
from speechctc.corpora.tier_utterances import without_drafts
from speechctc.features.extractor import extractor
from speechctc.model.layers import output_frames
from speechctc.phones.inventory import FOUND, frames_needed
from speechctc.phones.label_rules import are_strings
from speechctc.stages.doctor.finding import Finding, Severity, finding, listed
from speechctc.stages.doctor.quick_checks import check_counts, with_counts
from speechctc.stages.doctor.sound_checks import SILENT_DB, Heard, Place, Sounds

SLOW, FAST = 0.2, 3.0  # of the corpus's median number of phones a second
MAX_PHONE_RATE = 30.0  # phones; nobody speaks faster

Member = tuple[str, Utterance]
"""A split, and an utterance of it."""


def check_splits(corpus: Corpus, sounds: Sounds) -> list[Finding]:
    """Check how the utterances are divided, and what the reader of the corpus said of them."""
    rejected = (f"{each.id}: {each.reason}" for part in corpus.rejected.values() for each in without_drafts(part))
    found = [*listed("left-out", rejected), *_warned(corpus), *_speakers(corpus)]
    return found + _duplicates(corpus, sounds)


def _warned(corpus: Corpus) -> Iterator[Finding]:
    """Yield the reader's warnings, except those that other checks give with their places."""
    counts = Counter(phone for each in corpus.utterances() for phone in each.phones)
    known = doubtful_labels(counts, counts)
    for warning in corpus.warnings:
        if warning not in known and "left out" not in warning and not warning.startswith("recordings longer than"):
            yield finding("reading", warning=warning)


def _speakers(corpus: Corpus) -> list[Finding]:
    splits = defaultdict(set)
    for split, part in corpus.splits.items():
        for utterance in part:
            splits[utterance.speaker].add(split)
    unknown = splits.pop("", None)
    shared = sorted(speaker for speaker, names in splits.items() if "train" in names and len(names) > 1)
    found = listed("speakers-shared", (f"{speaker} ({', '.join(sorted(splits[speaker]))})" for speaker in shared))
    if unknown:
        everything = corpus.utterances()
        nameless = (each.id for each in everything if not each.speaker)
        found.append(finding("no-speaker", nameless, "note" if splits else "warning", all=len(everything)))
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
    return [
        *listed("duplicates-across", map(_names, across)),
        *listed("duplicates-differ", map(_names, differ)),
        *listed("duplicates", map(_names, alike)),
    ]


def _names(group: Iterable[Member]) -> str:
    return " = ".join(f"{each.id} ({split})" for split, each in group)


def check_labels(corpus: Corpus, sounds: Sounds, config: Config) -> list[Finding]:
    """Check the labels of a corpus, alone and against what was heard of its recordings."""
    counts = {split: Counter(p for each in part for p in each.phones) for split, part in corpus.splits.items()}
    everything = corpus.utterances()
    found = check_counts(counts)
    if corpus.phone_set == FOUND:
        total = sum(counts.values(), Counter[str]())
        found += [*listed("spellings", spellings(total)), *listed("notations", notation_pairs(total)), *_strings(total)]
        for name, there, names in not_phones(total):
            kind = "pauses" if name == "pauses" else "unclear"
            where = with_counts(sorted(there), total)
            found.append(finding(kind, where, "note", name=name, number=there.total(), names=names))
    pairs = [
        (utterance, sound) for utterance in everything if isinstance(sound := sounds.get(Place.of(utterance)), Heard)
    ]
    short = {utterance.id: place for utterance, sound in pairs if (place := _too_short(utterance, sound, config))}
    severity: Severity = "stops" if len(short) == len(pairs) else "warning"
    more = ", or lower model.time_stride" if config.model.time_stride > 1 else ""
    found += listed("too-short", short.values(), severity, more=more)
    found += listed("no-phones", (one.id for one, sound in pairs if not one.phones and sound.level_db > SILENT_DB + 20))
    return found + _rates([pair for pair in pairs if pair[0].id not in short])


def _strings(counts: Counter[str]) -> list[Finding]:
    if not are_strings(counts):
        return []
    where = with_counts((label for label, _ in counts.most_common()), counts)
    return [finding("strings", where, all=counts.total())]


def _too_short(utterance: Utterance, sound: Heard, config: Config) -> str:
    """Return in words by how much an utterance has too few output frames for its phones; ``""`` if it has enough."""
    samples = round(sound.seconds * config.features.sample_rate)
    frames = int(output_frames(extractor(config.features).frames(samples), config.model))
    classes = {phone: k for k, phone in enumerate(dict.fromkeys(utterance.phones), start=1)}
    labels = [classes[phone] for phone in utterance.phones]
    needed = frames_needed(labels)
    if frames >= max(needed, 1):
        return ""
    return f"{utterance.id} ({len(labels)} phones need {needed} frames, {sound.seconds:.2f} s have {frames})"


def _rates(pairs: Sequence[tuple[Utterance, Heard]]) -> list[Finding]:
    """Find utterances with far more or far fewer phones a second than the others."""
    rates = [(each, len(each.phones) / sound.seconds) for each, sound in pairs if each.phones]
    if len(rates) < 10:
        return []
    usual = statistics.median(rate for _, rate in rates)
    slowest, fastest = SLOW * usual, min(FAST * usual, max(MAX_PHONE_RATE, usual))
    odd = (f"{each.id} ({rate:.1f})" for each, rate in rates if not slowest <= rate <= fastest)
    return listed("speech-rate", odd, usual=usual)
