"""Listen to recordings: their format, level, clipping, bandwidth, and a digest of their samples."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.sound_file import channels_differ, open_sound
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Utterance

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
MOST_SPECTRA = 400  # of a block of samples


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


def listen_to_all(places: Iterable[Place], heard: Callable[[], None] = lambda: None) -> dict[Place, Heard | InputError]:
    """Measure recordings, several at a time; those that cannot be read have their error.

    Parameters
    ----------
    places : iterable of Place
    heard : callable
        Called after each recording.
    """
    found: dict[Place, Heard | InputError] = {}
    wanted = list(dict.fromkeys(places))
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="listening") as pool:
        for place, result in zip(wanted, pool.map(_attempt, wanted), strict=True):
            found[place] = result
            heard()
    return found


def _attempt(place: Place) -> Heard | InputError:
    try:
        return listen_to(*place)
    except InputError as error:
        return error


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
        for block in sound_file.stretch_blocks(file, path, channel, stretch):
            heard.samples += len(block)
            heard.clipped += _clipped(block)
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


def _clipped(block: Samples) -> int:
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
    count = min(len(block) // SPECTRUM, MOST_SPECTRA)
    if count == 0 or rate <= 2.5 * TELEPHONE:
        return 0.0, 0.0
    step = len(block) // SPECTRUM // count
    pieces = block[: count * step * SPECTRUM].reshape(count, step, SPECTRUM)[:, 0]
    power = (np.abs(np.fft.rfft(pieces * np.blackman(SPECTRUM).astype(np.float32), axis=1)) ** 2).sum(axis=0)
    first = int(np.ceil(TELEPHONE / rate * SPECTRUM))
    return float(power[4:].sum()), float(power[first:].sum())  # without what an offset gives
