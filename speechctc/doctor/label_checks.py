"""Checks of labels and splits: what the reader said, speakers, recordings that occur twice; phones and how many fit."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from speechctc.config.schema import Config
from speechctc.core.errors import some
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import PAUSES, UNCLEAR, doubtful_labels
from speechctc.doctor.finding import Finding, listed
from speechctc.doctor.sound_checks import SILENT_DB, Heard, Place, Sounds
from speechctc.features.one_recording import frame_count
from speechctc.model.layers import output_frames
from speechctc.phones.articulation import sounds_of
from speechctc.phones.inventory import FOUND, frames_needed
from speechctc.phones.label_rules import are_strings
from speechctc.phones.labels import spelling_variants, with_code_points
from speechctc.phones.matching import is_arpabet

RARE = 5  # a phone with fewer occurrences in training is hardly learned
COMMON = 0.4  # share of all labels, from which one label is suspicious
FEWEST = 100  # labels; of fewer, shares say nothing
SLOW, FAST = 0.2, 3.0  # of the corpus's median number of phones a second
MOST_A_SECOND = 30.0  # phones; nobody speaks faster

Member = tuple[str, Utterance]
"""A split, and an utterance of it."""


def check_splits(corpus: Corpus, sounds: Sounds) -> list[Finding]:
    """Check how the utterances are divided, and what the reader of the corpus said of them."""
    return [*_rejected(corpus), *_warned(corpus), *_speakers(corpus), *_duplicates(corpus, sounds)]


def _rejected(corpus: Corpus) -> list[Finding]:
    return listed(
        "left-out",
        "utterances that cannot be used",
        (f"{each.id}: {each.reason}" for part in corpus.rejected.values() for each in part),
        "they are in no split: neither trained on nor scored",
        "correct what each reason says",
    )


def _warned(corpus: Corpus) -> Iterator[Finding]:
    """Yield the reader's warnings, except those that other checks give with their places."""
    phones = Counter(phone for part in corpus.splits.values() for each in part for phone in each.phones)
    known = doubtful_labels(phones)
    why, fix = "the corpus may not be read as you meant it", "see docs/guide/training.md"
    for warning in corpus.warnings:
        if warning not in known and "left out" not in warning and not warning.startswith("recordings longer than"):
            yield Finding("reading", "warning", warning, (), why, fix)


def _speakers(corpus: Corpus) -> list[Finding]:
    splits = defaultdict(set)
    for split, part in corpus.splits.items():
        for utterance in part:
            splits[utterance.speaker].add(split)
    unknown = splits.pop("", None)
    shared = sorted(speaker for speaker, names in splits.items() if "train" in names and len(names) > 1)
    found = listed(
        "speakers-shared",
        "speakers who are in train and in another split",
        (f"{speaker} ({', '.join(sorted(splits[speaker]))})" for speaker in shared),
        "the PER on that split is too low: it says little about new speakers",
        "keep all recordings of a speaker in one split",
    )
    if unknown:
        everything = [each for part in corpus.splits.values() for each in part]
        nameless = tuple(each.id for each in everything if not each.speaker)
        what = f"utterances without a speaker: {len(nameless)} of {len(everything)}"
        why = "their voices may be in train and in dev, and the PER on dev is then too low"
        fix = "fill in the column speaker, or put the recordings of each speaker into a folder"
        found.append(Finding("no-speaker", "note" if splits else "warning", what, nameless, why, fix))
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
    what = "recordings that occur twice with"
    why_alike = "these utterances weigh more than the others"
    return [
        *listed(
            "duplicates-across",
            "recordings that are in several splits",
            map(_names, across),
            why_across,
            "keep each in one split",
        ),
        *listed("duplicates-differ", f"{what} different labels", map(_names, differ), why_differ, "correct the labels"),
        *listed("duplicates", f"{what} equal labels", map(_names, alike), why_alike, "keep one of them"),
    ]


def _names(group: Iterable[Member]) -> str:
    return " = ".join(f"{each.id} ({split})" for split, each in group)


def check_labels(corpus: Corpus, sounds: Sounds, config: Config) -> list[Finding]:
    """Check the labels of a corpus, alone and against what was heard of its recordings."""
    counts = {split: Counter(p for each in part for p in each.phones) for split, part in corpus.splits.items()}
    everything = [utterance for part in corpus.splits.values() for utterance in part]
    found = check_counts(counts)
    if corpus.phone_set == FOUND:
        total = sum(counts.values(), Counter[str]())
        found += [*_spellings(total), *_strings(total), *_notations(everything), *_not_phones(total)]
    pairs = [
        (utterance, sound) for utterance in everything if isinstance(sound := sounds.get(Place.of(utterance)), Heard)
    ]
    short = {utterance.id: place for utterance, sound in pairs if (place := _too_short(utterance, sound, config))}
    found += listed(
        "too-short",
        "utterances with too few frames for their phones",
        short.values(),
        "no path of CTC fits into them, and training leaves them out",
        "check that labels and recording belong together"
        + (", or lower model.time_stride" if config.model.time_stride > 1 else ""),
        "stops" if len(short) == len(pairs) else "warning",
    )
    return [*found, *_unlabelled(pairs), *_rates([pair for pair in pairs if pair[0].id not in short])]


def check_counts(counts: Mapping[str, Counter[str]]) -> list[Finding]:
    """Check how often each phone occurs in each split (``"train"`` and others)."""
    train = counts["train"]
    others = sum((count for split, count in counts.items() if split != "train"), Counter[str]())
    rare = sorted((phone for phone in train if train[phone] < RARE), key=lambda phone: train[phone])
    found = listed(
        "rare-phones",
        f"phones that occur fewer than {RARE} times in train",
        _with_counts(rare, train),
        "they are hardly learned, and mistakes of spelling often look like this",
        "correct them, label more of them, or leave them out with corpus.ignore",
    )
    unseen = sorted(set(others) - set(train))
    only = sorted(phone for phone in set(train) - set(others) if train[phone] >= RARE and others)
    why = "no score tells how well they are recognised"
    found += _one_split(unseen, others, "dev or test and not in train", "the model never recognises them")
    found += _one_split(only, train, "train and neither in dev nor in test", why)
    total = train.total()
    for phone, count in train.most_common(1):
        if total >= FEWEST and count > COMMON * total and len(train) > 2:
            what = f"one label makes up {100 * count / total:.0f} % of all labels in train"
            where = (f"{phone} ({count:,} of {total:,})",)
            why = "the other phones have few examples; a filler or an unfinished transcription looks like this"
            fix = "look at the labels; corpus.ignore leaves a label out that is not a phone"
            found.append(Finding("one-label", "warning", what, where, why, fix))
    return found


def _with_counts(phones: Iterable[str], counts: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{phone} ({counts[phone]})" for phone in phones)


def _one_split(phones: Sequence[str], counts: Counter[str], where: str, why: str) -> list[Finding]:
    fix = "correct them if they are mistakes, or choose other speakers for dev and test"
    return listed("one-split", f"phones that occur only in {where}", _with_counts(phones, counts), why, fix)


def _spellings(counts: Counter[str]) -> list[Finding]:
    return listed(
        "spellings",
        "phones that may be spelt in several ways",
        (
            " and ".join(f"{with_code_points(label)} ({counts[label]})" for label in group)
            for group in spelling_variants(counts)
        ),
        "they are learned as different phones, each from a part of the recordings",
        "write each phone in one way",
    )


def _strings(counts: Counter[str]) -> list[Finding]:
    if not are_strings(counts):
        return []
    what = f"these labels look like strings of IPA: {len(counts)} different ones in {counts.total():,} labels"
    where = _with_counts((label for label, _ in counts.most_common()), counts)
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


def _not_phones(counts: Counter[str]) -> Iterator[Finding]:
    for kind, name, labels in (("pauses", "pauses", PAUSES), ("unclear", "unclear speech", UNCLEAR)):
        if there := sorted(labels & set(counts)):
            number = sum(counts[label] for label in there)
            what = f"labels that look like {name} and are learned as phones: {number}"
            why = "they count in the PER, and take examples from phones"
            names = ", ".join(f"'{label}'" for label in there)
            fix = f'keep them if you want them recognised; else: corpus.ignore="[{names}]"'
            yield Finding(kind, "note", what, _with_counts(there, counts), why, fix)


def _too_short(utterance: Utterance, sound: Heard, config: Config) -> str:
    """Return in words by how much an utterance has too few output frames for its phones; ``""`` if it has enough."""
    samples = round(sound.seconds * config.features.sample_rate)
    frames = int(output_frames(frame_count(samples, config.features), config.model))
    classes = {phone: k for k, phone in enumerate(dict.fromkeys(utterance.phones), start=1)}
    labels = [classes[phone] for phone in utterance.phones]
    needed = frames_needed(labels)
    if frames >= max(needed, 1):
        return ""
    return f"{utterance.id} ({len(labels)} phones need {needed} frames, {sound.seconds:.2f} s have {frames})"


def _unlabelled(pairs: Sequence[tuple[Utterance, Heard]]) -> list[Finding]:
    return listed(
        "no-phones",
        "utterances without phones whose recordings have sound",
        (each.id for each, sound in pairs if not each.phones and sound.level_db > SILENT_DB + 20),
        "if it is speech, the model learns to ignore it",
        "label them, or leave them out; noise without speech may stay",
    )


def _rates(pairs: Sequence[tuple[Utterance, Heard]]) -> list[Finding]:
    """Find utterances with far more or far fewer phones a second than the others."""
    rates = [(each, len(each.phones) / sound.seconds) for each, sound in pairs if each.phones]
    if len(rates) < 10:
        return []
    usual = statistics.median(rate for _, rate in rates)
    slowest, fastest = SLOW * usual, min(FAST * usual, max(MOST_A_SECOND, usual))
    return listed(
        "speech-rate",
        f"utterances with far more or far fewer phones a second than the median, {usual:.1f}",
        (f"{each.id} ({rate:.1f})" for each, rate in rates if not slowest <= rate <= fastest),
        "their labels belong to another recording, or cover only a part of it",
        "compare these recordings with their labels",
    )
