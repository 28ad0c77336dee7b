"""Listen to recordings, and check them: unreadable, cut short, clipped, silent, other rates or channels than most."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.sound_file import COPIED_AS_TEXT, channels_differ, open_sound
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Utterance
from speechctc.stages.doctor.finding import Finding, Severity, finding, listed

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
class Heard:
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


def listen_to(path: Path, channel: int | None = None, stretch: tuple[float, float] | None = None) -> Heard:
    """Measure a recording, or a stretch of it, block by block.

    Raises
    ------
    InputError
        It cannot be read to its end, or has no such channel.
    """
    digest = hashlib.blake2b(digest_size=16)
    total, loudest, power, high = 0.0, 0.0, 0.0, 0.0
    with open_sound(path, stretch[0] if stretch else 0.0) as file:
        heard = Heard(int(file.samplerate), int(file.channels))
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

Sounds: TypeAlias = Mapping[Place, Heard | InputError]


def _is_clipped(sound: Heard) -> bool:
    return sound.clipped > CLIPPED * sound.samples and sound.clipped >= MIN_CLIPPED_SAMPLES


CHECKS: Mapping[str, Callable[[Heard], str]] = {
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
    heard = {place: sound for place, sound in sounds.items() if isinstance(sound, Heard)}
    found = [*_unreadable(sounds), *_rates(heard, rate, of_model), *_telephone(heard)]
    for kind, see in CHECKS.items():
        seen = (f"{place} ({said})" for place, sound in heard.items() if (said := see(sound)))
        found += listed(kind, seen, quiet=QUIET_DB, long=MAX_SECONDS)
    return found


def _unreadable(sounds: Sounds) -> list[Finding]:
    errors = [error.what for error in sounds.values() if isinstance(error, InputError)]
    severity: Severity = "stops" if len(errors) == len(sounds) else "warning"
    return listed("unreadable", errors, severity, all=len(sounds))


def _rates(heard: Mapping[Place, Heard], rate: int, of_model: bool) -> list[Finding]:
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


def _telephone(heard: Mapping[Place, Heard]) -> list[Finding]:
    found = [place for place, sound in heard.items() if sound.high_db < TELEPHONE_DB and sound.level_db > SILENT_DB]
    is_usual = len(found) > len(heard) / 2  # a corpus of telephone speech
    return [] if is_usual else listed("telephone", found, all=len(heard))
