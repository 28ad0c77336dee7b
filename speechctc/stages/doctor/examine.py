"""Examine a corpus and the machine before long work. Nothing is changed; a demo corpus is made if it is not there."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.sound_file import COPIED_AS_TEXT, channels_differ, open_sound
from speechctc.config.schema import Config
from speechctc.core.errors import InputError, counted, first_few
from speechctc.core.parallel import cores, map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import doubtful_labels, not_phones, notation_pairs, spellings
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.tier_utterances import without_drafts
from speechctc.features.extractor import extractor
from speechctc.model.layers import output_frames
from speechctc.phones.inventory import FOUND, frames_needed
from speechctc.phones.label_rules import are_strings
from speechctc.stages.doctor.findings import (
    Diagnosis,
    Finding,
    Severity,
    cannot_train,
    check_counts,
    check_without_torch,
    finding,
    listed,
    with_counts,
)

Samples: TypeAlias = NDArray[np.float32]


class Place(NamedTuple):
    """A recording, its channel, counted from 1 (None: the mean of all), and its stretch in seconds (None: all)."""

    path: Path
    channel: int | None = None
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
    cut : str
        By how much the file is shorter than its header says, in words; or ``""``.
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
    cut: str = ""
    differ: bool = False

    @property
    def seconds(self) -> float:
        """Return the duration, s."""
        return self.samples / self.rate


def analyse_sound(path: Path, channel: int | None = None, stretch: tuple[float, float] | None = None) -> SoundAnalysis:
    """Measure a recording, or a stretch of it, block by block.

    Raises
    ------
    InputError
        It cannot be read to its end, or has no such channel.
    """
    digest = hashlib.blake2b(digest_size=16)
    total, loudest, power, high = 0.0, 0.0, 0.0, 0.0
    with open_sound(path, stretch[0] if stretch else 0.0) as file:
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
    heard.cut = sound_file.cut_short(path)
    heard.differ = channel is None and heard.channels > 1 and channels_differ(path)
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

Sounds: TypeAlias = Mapping[Place, SoundAnalysis | InputError]


def _is_clipped(sound: SoundAnalysis) -> bool:
    return sound.clipped > CLIPPED * sound.samples and sound.clipped >= MIN_CLIPPED_SAMPLES


CHECKS: Mapping[str, Callable[[SoundAnalysis], str]] = {
    "cut-short": lambda sound: sound.cut.partition(": cut short: ")[2],
    "copied-as-text": lambda sound: sound.cut.partition(": ")[2] if COPIED_AS_TEXT in sound.cut else "",
    "channels-differ": lambda sound: f"{sound.channels} channels" if sound.differ else "",
    "clipped": lambda sound: f"{100 * sound.clipped / sound.samples:.2g} % of samples" if _is_clipped(sound) else "",
    "silent": lambda sound: f"{sound.level_db:.0f} dB" if sound.level_db <= SILENT_DB else "",
    "quiet": lambda sound: f"{sound.level_db:.0f} dB" if SILENT_DB < sound.level_db <= QUIET_DB else "",
    "offset": lambda sound: f"{sound.offset:+.2f}" if abs(sound.offset) > OFFSET else "",
    "long": lambda sound: f"{sound.seconds:.0f} s" if sound.seconds > MAX_SECONDS else "",
}
"""By kind of finding, what is said of a recording that has it; ``""`` of others."""


def check_sounds(sounds: Sounds, rate: int, of_model: bool = False) -> list[Finding]:
    """Check what was heard of each recording against the sample rate of the features, Hz.

    `of_model`: training starts from a model, which reads that rate and no other.
    """
    heard = {place: sound for place, sound in sounds.items() if isinstance(sound, SoundAnalysis)}
    found = [*_unreadable(sounds), *_sample_rates(heard, rate, of_model), *_telephone(heard)]
    for kind, see in CHECKS.items():
        seen = (f"{place} ({said})" for place, sound in heard.items() if (said := see(sound)))
        found += listed(kind, seen, quiet=QUIET_DB, long=MAX_SECONDS)
    return found


def _unreadable(sounds: Sounds) -> list[Finding]:
    errors = [error.what for error in sounds.values() if isinstance(error, InputError)]
    severity: Severity = "stops" if len(errors) == len(sounds) else "warning"
    return listed("unreadable", errors, severity, all=len(sounds))


def _sample_rates(heard: Mapping[Place, SoundAnalysis], rate: int, of_model: bool) -> list[Finding]:
    low = {place: sound for place, sound in heard.items() if sound.rate < rate}
    if not low:
        return []
    every = len(low) == len(heard)
    highest = max(sound.rate for sound in low.values())
    fix = f"set features.sample_rate={highest}" if every else "set features.sample_rate to the lowest rate"
    if of_model:
        fix = f"keep {rate}, which the model of train.init_from reads: they are resampled"
    fix += "" if every else ", or leave these out"
    where = (f"{place} ({sound.rate:,} Hz)" for place, sound in low.items())
    more = "" if every else "; it learns to tell the recordings apart, not the phones"
    return [finding("low-rate", where, rate=rate, all=len(heard), highest=highest / 2, more=more, fix=fix)]


def _telephone(heard: Mapping[Place, SoundAnalysis]) -> list[Finding]:
    found = [place for place, sound in heard.items() if sound.high_db < TELEPHONE_DB and sound.level_db > SILENT_DB]
    is_usual = len(found) > len(heard) / 2  # a corpus of telephone speech
    return [] if is_usual else listed("telephone", found, all=len(heard))


EDGES = (0, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 30, 60, math.inf)  # s, of the histogram
WIDTH = 40  # signs of its longest bar


def examine(config: Config | None, reporter: Reporter) -> Diagnosis:
    """Examine the machine, and the corpus of a config if there is one.

    Parameters
    ----------
    config : Config or None
        None: only the machine.
    reporter : Reporter
    """
    if config is None:
        return _check_machine()
    about = _check_machine(config.train.device, (config.data.dir, config.run))
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


def _check_machine(device: str = "auto", folders: tuple[Path, ...] = ()) -> Diagnosis:
    if find_spec("torch") is None:
        return check_without_torch(folders)
    from speechctc.stages.doctor.machine import check_machine  # late: it loads torch

    return check_machine(device, folders)


def check_corpus(config: Config, corpus: Corpus, sounds: Sounds) -> list[Finding]:
    """Return the findings on recordings, splits and labels."""
    found = check_sounds(sounds, config.features.sample_rate, config.train.init_from is not None)
    return [*found, *check_splits(corpus, sounds)] + check_labels(corpus, sounds, config)


def analyse_sounds(corpus: Corpus, reporter: Reporter) -> Sounds:
    """Measure all recordings of a corpus."""
    places = list(dict.fromkeys(map(Place.of, corpus.utterances())))
    heard = map_in_threads(lambda each: analyse_sound(*each), places, cores())
    return dict(reporter.track("listening", zip(places, heard, strict=True), len(places)))


def _estimate(config: Config, corpus: Corpus, sounds: Sounds) -> tuple[list[Finding], dict[str, str]]:
    """Estimate the memory of training; return findings and facts."""
    from speechctc.stages.doctor.machine import check_memory, estimate_memory  # late: it loads torch

    frames = []
    for each in corpus.splits["train"]:
        sound = sounds[Place.of(each)]
        if isinstance(sound, SoundAnalysis):
            samples = round(sound.seconds * config.features.sample_rate)
            frames.append(extractor(config.features).frames(samples))
    used = np.array([count for count in frames if count], dtype=np.int64)
    if not len(used):
        return [cannot_train(InputError("no training utterance has a frame", "add longer recordings"))], {}
    try:
        memory = estimate_memory(config, corpus.inventory(), used)
    except InputError as error:
        return [cannot_train(error)], {}
    return check_memory(memory), {"memory": memory.to_text().removeprefix("memory ")}


def corpus_facts(corpus: Corpus, sounds: Sounds) -> dict[str, str]:
    """Return the facts by subject."""
    facts = {}
    for split, part in corpus.splits.items():
        if part:
            heard = [sounds.get(Place.of(each)) for each in part]
            seconds = sum(sound.seconds for sound in heard if isinstance(sound, SoundAnalysis))
            speakers = {each.speaker for each in part} - {""}
            who = f", {len(speakers)} speaker{'s' * (len(speakers) > 1)}" if speakers else ""
            labels = sum(len(each.phones) for each in part)
            facts[split] = f"{len(part):,} utterances, {seconds / 60:.1f} minutes{who}, {labels:,} phones"
    read = [sound for sound in sounds.values() if isinstance(sound, SoundAnalysis)]
    facts["formats"] = _formats(sounds, read)
    facts["phones"] = _phones(corpus)
    if read:
        facts["lengths"] = histogram([sound.seconds for sound in read])
    return facts


def _formats(sounds: Sounds, read: Sequence[SoundAnalysis]) -> str:
    endings = Counter(path.suffix.lower().removeprefix(".") for path in {place.path for place in sounds})
    rates = Counter(f"{sound.rate:,} Hz" for sound in read)
    channels = Counter(f"{sound.channels} channel{'s' if sound.channels > 1 else ''}" for sound in read)
    return "; ".join(filter(None, (counted(endings), counted(rates), counted(channels))))


def _phones(corpus: Corpus) -> str:
    """Return the number of phones, their balance, and the most and the least frequent ones."""
    train = Counter(phone for each in corpus.splits["train"] for phone in each.phones)
    if not train:
        return "none"
    shares = np.array(list(train.values())) / train.total()
    even = math.exp(-float((shares * np.log(shares)).sum()))
    ranked = [f"{phone} {count}" for phone, count in train.most_common()]
    least = f"; least: {first_few(ranked[:-6:-1], 5)}" if len(ranked) > 10 else ""
    return (
        f"{len(train)} in train, as varied as {even:.0f} that are equally frequent (perplexity);"
        f" most: {', '.join(ranked[:5])}{least}"
    )


def histogram(seconds: Sequence[float]) -> str:
    """Return a histogram of lengths, a line for each range that is between the shortest and the longest."""
    counts, _ = np.histogram(seconds, EDGES)
    there = np.flatnonzero(counts)
    lines = []
    for k in range(there[0], there[-1] + 1):
        high = "more" if math.isinf(EDGES[k + 1]) else f"{EDGES[k + 1]:g} s"
        bar = "#" * math.ceil(WIDTH * counts[k] / counts.max())
        lines.append(f"{EDGES[k]:>4g} to {high:<5} {counts[k]:>7,} {bar}")
    return "\n".join(lines)


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
            if isinstance(sound := sounds.get(Place.of(utterance)), SoundAnalysis):
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
        (utterance, sound)
        for utterance in everything
        if isinstance(sound := sounds.get(Place.of(utterance)), SoundAnalysis)
    ]
    short = {utterance.id: place for utterance, sound in pairs if (place := _too_short(utterance, sound, config))}
    severity: Severity = "stops" if len(short) == len(pairs) else "warning"
    more = ", or lower model.time_stride" if config.model.time_stride > 1 else ""
    found += listed("too-short", short.values(), severity, more=more)
    found += listed("no-phones", (one.id for one, sound in pairs if not one.phones and sound.level_db > SILENT_DB + 20))
    return found + _speech_rates([pair for pair in pairs if pair[0].id not in short])


def _strings(counts: Counter[str]) -> list[Finding]:
    if not are_strings(counts):
        return []
    where = with_counts((label for label, _ in counts.most_common()), counts)
    return [finding("strings", where, all=counts.total())]


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
