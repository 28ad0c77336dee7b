"""Examine a corpus and the machine before long work. Nothing is changed; a demo corpus is made if it is not there."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import psutil
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.sound_file import COPIED_AS_TEXT, channels_differ, open_sound
from speechctc.audio.tracks import Channel, number_of
from speechctc.config.schema import Config
from speechctc.core.errors import InputError, counted, first_few, plural, with_extra
from speechctc.core.parallel import cores, map_in_threads, threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import doubtful_labels, not_phones, notation_pairs, spellings
from speechctc.corpora.findings import (
    NAMES,
    Finding,
    Severity,
    check_counts,
    check_disk,
    finding,
    listed,
    with_counts,
)
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.tiers import without_drafts
from speechctc.features.extractor import extractor
from speechctc.model.layers import output_frames
from speechctc.pages.page import render_text
from speechctc.phones.inventory import FOUND, frames_needed
from speechctc.phones.label_rules import are_strings

SHOWN = 6  # places named in the report for people; JSON has all


@dataclass(frozen=True)
class Diagnosis:
    """All findings, and the facts that were measured.

    Attributes
    ----------
    findings : tuple of Finding
    facts : dict of str to str
        What was examined, by subject, in words.
    """

    findings: tuple[Finding, ...]
    facts: dict[str, str]

    @property
    def is_possible(self) -> bool:
        """Return whether training is possible."""
        return all(finding.severity != "stops" for finding in self.findings)

    def to_text(self) -> str:
        """Return the report for people: the facts, then the findings, the gravest first."""
        width = max(map(len, self.facts), default=0) + 2
        counts = Counter(NAMES[each.severity] for each in self.findings)
        values = {"facts": self.facts, "findings": self._in_order(), "counts": counts, "width": width}
        return render_text("diagnosis.txt", values | {"names": NAMES, "some": first_few, "shown": SHOWN}).strip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        found = [finding.to_dict() for finding in self._in_order()]
        return {"possible": self.is_possible, "facts": self.facts, "findings": found}

    def _in_order(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: [*NAMES].index(finding.severity))


def cannot_train(error: InputError) -> Finding:
    """Return the finding for an error that ends training before it begins."""
    return finding("cannot-train", severity="stops", what=error.what, fix=error.fix)


NEAR = 0.8  # share of the memory from which it may run out


Samples: TypeAlias = NDArray[np.float32]


class Place(NamedTuple):
    """A recording, its channel, counted from 1 (None: the mean of all), and its stretch in seconds (None: all)."""

    path: Path
    channel: Channel | None = None
    stretch: tuple[float, float] | None = None

    @classmethod
    def of(cls, utterance: Utterance) -> Place:
        """Return what is heard of an utterance."""
        return cls(utterance.audio, utterance.channel, utterance.stretch)

    def __str__(self) -> str:
        """Return the path, and from when to when it is heard."""
        return str(self.path) if self.stretch is None else "{} ({:.2f} to {:.2f} s)".format(self.path, *self.stretch)


HOP = 0.02  # s; the level is measured in pieces of this length
TELEPHONE = 4200.0  # Hz; a telephone passes less
FLAT = 1e-5  # largest difference of neighbouring samples of a clipped peak
SPECTRUM = 4096  # samples of a Fourier transform
MAX_SPECTRA = 400  # of a block of samples


@dataclass
class SoundAnalysis:
    """What was measured of one recording, or of one of its channels.

    Attributes
    ----------
    rate : int
        Hz.
    channels : int
        Of the file.
    samples, clipped : int
        Samples read, and those in peaks that are cut flat.
    offset : float
        Mean of the samples; 1 is full scale.
    level_db : float
        Level of the loudest 20 ms, dB of full scale (RMS); -inf for silence.
    high_db : float
        Power above 4.2 kHz relative to all power, dB; 0 where the rate has no such frequencies.
    digest : str
        Equal for recordings with the same samples in 16 bits, in any format.
    remark : str
        What is odd about how the file is read, in words (see `speechctc.audio.sound_file.remark`); or ``""``.
    differ : bool
        Whether its channels hold different sounds and are averaged.
    """

    rate: int
    channels: int
    samples: int = 0
    clipped: int = 0
    offset: float = 0.0
    level_db: float = -np.inf
    high_db: float = 0.0
    digest: str = ""
    remark: str = ""
    differ: bool = False

    @property
    def seconds(self) -> float:
        """Return the duration, s."""
        return self.samples / self.rate


def analyse_sound(
    path: Path, channel: Channel | None = None, stretch: tuple[float, float] | None = None
) -> SoundAnalysis:
    """Measure a recording, or a stretch of it, block by block.

    Raises
    ------
    InputError
        It cannot be read to its end, or has no such channel.
    """
    digest = hashlib.blake2b(digest_size=16)
    total, loudest, power, high = 0.0, 0.0, 0.0, 0.0
    with open_sound(path, stretch[0] if stretch else 0.0, channel) as file:
        heard = SoundAnalysis(int(file.samplerate), int(file.channels))
        for block in sound_file.segment_blocks(file, path, channel, stretch):
            heard.samples += len(block)
            heard.clipped += _count_clipped(block)
            total += float(block.sum(dtype=np.float64))
            loudest = max(loudest, _loudest(block, max(round(HOP * heard.rate), 1)))
            power, high = (old + new for old, new in zip((power, high), _powers(block, heard.rate), strict=True))
            digest.update(np.rint(block * 32767).astype(np.int32).tobytes())
    heard.digest, heard.offset = digest.hexdigest(), total / heard.samples
    heard.level_db = 10 * float(np.log10(loudest)) if loudest else -np.inf
    heard.high_db = 10 * float(np.log10(max(high, 1e-30) / power)) if power and heard.rate > 2.5 * TELEPHONE else 0.0
    heard.remark = sound_file.remark(path, channel)
    heard.differ = number_of(channel) is None and heard.channels > 1 and channels_differ(path, channel)
    return heard


def _count_clipped(block: Samples) -> int:
    """Return the number of samples in flat peaks: three or more in a row that are equal and near the largest."""
    size = np.abs(block)
    limit = 0.98 * float(size.max(initial=0.0))
    if limit < 0.2:  # so quiet that equal samples are common
        return 0
    equal = (np.abs(np.diff(block)) <= FLAT) & (size[1:] >= limit)
    inner = equal[1:] & equal[:-1]  # samples that equal both their neighbours
    edges = np.diff(np.concatenate([[False], inner, [False]]).astype(np.int8))
    return int(inner.sum()) + 2 * int((edges == 1).sum())


def _loudest(block: Samples, hop: int) -> float:
    """Return the mean square of the loudest piece of `hop` samples, without its mean."""
    pieces = block[: len(block) // hop * hop].reshape(-1, hop) if len(block) >= hop else block[None]
    return float(pieces.var(axis=1, dtype=np.float64).max(initial=0.0))


def _powers(block: Samples, rate: int) -> tuple[float, float]:
    """Return the power of a block, and that above 4.2 kHz, both on one scale."""
    count = min(len(block) // SPECTRUM, MAX_SPECTRA)
    if count == 0 or rate <= 2.5 * TELEPHONE:
        return 0.0, 0.0
    step = len(block) // SPECTRUM // count
    pieces = block[: count * step * SPECTRUM].reshape(count, step, SPECTRUM)[:, 0]
    power = (np.abs(np.fft.rfft(pieces * np.blackman(SPECTRUM).astype(np.float32), axis=1)) ** 2).sum(axis=0)
    first = int(np.ceil(TELEPHONE / rate * SPECTRUM))
    return float(power[4:].sum()), float(power[first:].sum())  # without what an offset gives


CLIPPED = 5e-4  # share of a recording's samples in flat peaks, from which it is clipped
MIN_CLIPPED_SAMPLES = 20  # samples; fewer are not heard
SILENT_DB = -65.0  # dB of full scale; the loudest 20 ms of speech are louder
QUIET_DB = -45.0  # dB of full scale; below, 16 bits leave few steps for soft sounds
OFFSET = 0.03  # of full scale
TELEPHONE_DB = -70.0  # of the whole power, above 4.2 kHz: less has been filtered away
MAX_SECONDS = 60.0  # s
TOLD = re.compile(f": cut short: |{COPIED_AS_TEXT}")  # remarks that are findings of their own


class Sounds(NamedTuple):
    """What was measured of the recordings of a corpus, and what is wrong with those that cannot be read."""

    heard: Mapping[Place, SoundAnalysis]
    errors: Sequence[str]


def _is_clipped(sound: SoundAnalysis) -> bool:
    return sound.clipped > CLIPPED * sound.samples and sound.clipped >= MIN_CLIPPED_SAMPLES


CHECKS: Mapping[str, Callable[[SoundAnalysis], str]] = {
    "cut-short": lambda sound: sound.remark.partition(": cut short: ")[2],
    "copied-as-text": lambda sound: sound.remark.partition(": ")[2] if COPIED_AS_TEXT in sound.remark else "",
    "gaps": lambda sound: sound.remark.partition(": ")[2] if not TOLD.search(sound.remark) else "",
    "channels-differ": lambda sound: f"{sound.channels} channels" if sound.differ else "",
    "clipped": lambda sound: f"{100 * sound.clipped / sound.samples:.2g} % of samples" if _is_clipped(sound) else "",
    "silent": lambda sound: f"{sound.level_db:.0f} dB" if sound.level_db <= SILENT_DB else "",
    "quiet": lambda sound: f"{sound.level_db:.0f} dB" if SILENT_DB < sound.level_db <= QUIET_DB else "",
    "offset": lambda sound: f"{sound.offset:+.2f}" if abs(sound.offset) > OFFSET else "",
    "long": lambda sound: f"{sound.seconds:.0f} s" if sound.seconds > MAX_SECONDS else "",
}
"""By kind of finding, what is said of a recording that has it; ``""`` of others."""


def check_sounds(sounds: Sounds, rate: int) -> list[Finding]:
    """Check what was heard of each recording against the sample rate of the features, Hz."""
    heard, every = sounds.heard, len(sounds.heard) + len(sounds.errors)
    found = listed("unreadable", sounds.errors, "warning" if heard else "stops", all=every)
    low = {place: sound.rate for place, sound in heard.items() if sound.rate < rate}
    where = (f"{place} ({own:,} Hz)" for place, own in low.items())
    found += listed("low-rate", where, rate=rate, all=len(heard), highest=max(low.values(), default=0) / 2)
    narrow = [place for place, sound in heard.items() if sound.high_db < TELEPHONE_DB and sound.level_db > SILENT_DB]
    if len(narrow) <= len(heard) / 2:  # else it is a corpus of telephone speech
        found += listed("telephone", narrow, all=len(heard))
    for kind, see in CHECKS.items():
        seen = (f"{place} ({said})" for place, sound in heard.items() if (said := see(sound)))
        found += listed(kind, seen, quiet=QUIET_DB, long=MAX_SECONDS)
    return found


def examine(config: Config | None, reporter: Reporter) -> Diagnosis:
    """Examine the machine, and the corpus of a config if there is one.

    Parameters
    ----------
    config : Config or None
        None: only the machine.
    reporter : Reporter
    """
    if config is None:
        return check_machine()
    about = check_machine(config.train.device, (config.data.dir, config.run))
    try:
        corpus = read_corpus(config.corpus)
    except InputError as error:
        return Diagnosis((cannot_train(error), *about.findings), about.facts)
    sounds = analyse_sounds(corpus, reporter)
    found = [*check_corpus(config, corpus, sounds), *about.findings]
    facts = corpus_facts(corpus, sounds) | about.facts
    if about.is_possible and find_spec("torch"):
        more, estimated = _estimate(config, corpus, sounds)
        found += more
        facts |= estimated
    return Diagnosis(tuple(found), facts)


def check_machine(device: str = "auto", folders: tuple[Path, ...] = ()) -> Diagnosis:
    """Check the machine for training on `device` (``"auto"``, ``"cpu"`` or ``"cuda"``), writing into these folders."""
    found = check_disk(folders)
    if find_spec("torch") is None:
        memory = psutil.virtual_memory().total / 2**30
        processor = f"{cores()} cores, {threads()} threads, {memory:.1f} GiB of memory"
        found.append(finding("no-torch", severity="note", fix=with_extra("train")))
        return Diagnosis(tuple(found), {"torch": "not installed: recognition does without", "processor": processor})
    from speechctc.stages import machine  # late: it loads torch

    facts, has_gpu = machine.facts()
    for place in ("cpu", "cuda")[: 1 + has_gpu]:
        fault = machine.loss_fault(place)
        facts[f"CTC loss on the {place.upper()}"] = "does not start" if fault else "starts"
        found += [finding("loss", severity="stops", **fault)] if fault else []
    if not has_gpu:
        why, fix = machine.why_no_gpu()
        facts["GPU"] = f"none is used: {why}; {fix}"
        if device == "cuda" or machine.has_nvidia():
            severity: Severity = "stops" if device == "cuda" else "warning"
            found.append(finding("no-gpu", severity=severity, reason=why, fix=fix))
    return Diagnosis(tuple(found), facts)


def check_corpus(config: Config, corpus: Corpus, sounds: Sounds) -> list[Finding]:
    """Return the findings on recordings, splits and labels."""
    found = check_sounds(sounds, config.features.sample_rate)
    return [*found, *check_splits(corpus, sounds), *check_labels(corpus, sounds, config)]


def analyse_sounds(corpus: Corpus, reporter: Reporter) -> Sounds:
    """Measure all recordings of a corpus."""
    places = list(dict.fromkeys(map(Place.of, corpus.utterances())))
    found = map_in_threads(lambda each: analyse_sound(*each), places, cores())
    pairs = dict(reporter.track("listening", zip(places, found, strict=True), len(places)))
    errors = [each.what for each in pairs.values() if isinstance(each, InputError)]
    return Sounds({place: each for place, each in pairs.items() if not isinstance(each, InputError)}, errors)


def _estimate(config: Config, corpus: Corpus, sounds: Sounds) -> tuple[list[Finding], dict[str, str]]:
    """Estimate the memory of training; return findings and facts."""
    from speechctc.stages.machine import estimate_memory  # late: it loads torch

    kind, rate, heard = extractor(config.features), config.features.sample_rate, sounds.heard
    there = [heard[place] for place in map(Place.of, corpus.splits["train"]) if place in heard]
    frames = [kind.frames(round(sound.seconds * rate)) for sound in there]
    used = np.array([count for count in frames if count], dtype=np.int64)
    if not len(used):
        return [cannot_train(InputError("no training utterance has a frame", "add longer recordings"))], {}
    try:
        memory = estimate_memory(config, corpus.inventory(), used)
    except InputError as error:
        return [cannot_train(error)], {}
    found, needed, free = [], memory.device / 2**20, memory.available / 2**20
    if needed >= NEAR * free > 0:
        found = [finding("memory", [f"the largest batch: {memory.largest}"], needed=needed, there=free)]
    return found, {"memory": memory.to_text().removeprefix("memory ")}


def corpus_facts(corpus: Corpus, sounds: Sounds) -> dict[str, str]:
    """Return the facts by subject."""
    facts = {}
    for split, part in corpus.splits.items():
        if part:
            seconds = sum(sounds.heard[each].seconds for each in map(Place.of, part) if each in sounds.heard)
            speakers = {each.speaker for each in part} - {""}
            who = f", {len(speakers)} speaker{'s' * (len(speakers) > 1)}" if speakers else ""
            labels = sum(len(each.phones) for each in part)
            facts[split] = f"{plural(len(part), 'utterance')}, {seconds / 60:.1f} minutes{who}, {labels:,} phones"
    endings = Counter(path.suffix.lower().removeprefix(".") for path in {place.path for place in sounds.heard})
    rates = Counter(f"{sound.rate:,} Hz" for sound in sounds.heard.values())
    channels = Counter(f"{sound.channels} channel{'s' * (sound.channels > 1)}" for sound in sounds.heard.values())
    facts["formats"] = "; ".join(filter(None, map(counted, (endings, rates, channels))))
    phones = Counter(phone for each in corpus.splits["train"] for phone in each.phones)
    facts["phones"] = f"{len(phones)} in train: {counted(phones)}" if phones else "none"
    return facts


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
            if sound := sounds.heard.get(Place.of(utterance)):
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
        found += [*listed("spellings", spellings(total)), *listed("notations", notation_pairs(total))]
        labels = [label for label, _ in total.most_common()] if are_strings(total) else []
        found += listed("strings", with_counts(labels, total), all=total.total())
        for name, there, names in not_phones(total):
            kind = "pauses" if name == "pauses" else "unclear"
            where = with_counts(sorted(there), total)
            found.append(finding(kind, where, "note", name=name, number=there.total(), names=names))
    pairs = [(each, sound) for each in everything if (sound := sounds.heard.get(Place.of(each)))]
    short = {utterance.id: place for utterance, sound in pairs if (place := _too_short(utterance, sound, config))}
    severity: Severity = "stops" if len(short) == len(pairs) else "warning"
    more = ", or lower model.time_stride" if config.model.time_stride > 1 else ""
    found += listed("too-short", short.values(), severity, more=more)
    found += listed("no-phones", (one.id for one, sound in pairs if not one.phones and sound.level_db > SILENT_DB + 20))
    return found + _speech_rates([pair for pair in pairs if pair[0].id not in short])


def _too_short(utterance: Utterance, sound: SoundAnalysis, config: Config) -> str:
    """Return in words by how much an utterance has too few output frames for its phones; ``""`` if it has enough."""
    samples = round(sound.seconds * config.features.sample_rate)
    frames = int(output_frames(extractor(config.features).frames(samples), config.model))
    classes = {phone: k for k, phone in enumerate(dict.fromkeys(utterance.phones), start=1)}
    labels = [classes[phone] for phone in utterance.phones]
    needed = frames_needed(labels)
    if frames >= max(needed, 1):
        return ""
    return f"{utterance.id} ({len(labels)} phones need {needed} frames, {sound.seconds:.2f} s have {frames})"


def _speech_rates(pairs: Sequence[tuple[Utterance, SoundAnalysis]]) -> list[Finding]:
    """Find utterances with far more or far fewer phones a second than the others."""
    rates = [(each, len(each.phones) / sound.seconds) for each, sound in pairs if each.phones]
    if len(rates) < 10:
        return []
    usual = statistics.median(rate for _, rate in rates)
    slowest, fastest = SLOW * usual, min(FAST * usual, max(MAX_PHONE_RATE, usual))
    odd = (f"{each.id} ({rate:.1f})" for each, rate in rates if not slowest <= rate <= fastest)
    return listed("speech-rate", odd, usual=usual)
