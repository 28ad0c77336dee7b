"""A recording on a page: spectrogram, tiers of phones on the time axis, and the sound."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.resampling import resample
from speechctc.pages.page import data_url
from speechctc.pages.spectrogram import SpectrogramSettings, spectrogram_png

STYLE, SCRIPT = "timeline.css", "timeline.js"  # files that a page with a timeline needs
Kind = Literal["plain", "right", "substituted", "deleted", "inserted", "doubtful", "weak", "poor"]
STRIP_WIDTH = 340  # most pixels of a piece: it fits on a telephone; on wider screens several are in a line
NARROWEST, WIDEST = 150, 400  # pixels for a second
LETTER, AROUND = 8.5, 6  # pixels of a letter, and of the space around a label
FITTING = 0.8  # share of the labels that fit into their cells

MEDIA_TYPE = "audio/ogg"
RATES = (8000, 12000, 16000, 24000, 48000)  # Hz; those of Opus (RFC 6716)
LEVEL = 0.93  # of libsndfile's compression, 0 to 1: about 24 kbit/s of speech
BLOCK = 1 << 16  # samples to encode at a time


@dataclass(frozen=True)
class Cell:
    """A labelled interval of a tier.

    Attributes
    ----------
    start, end : float
        Seconds from the recording's start.
    label : str
    kind : str
        Decides the colour and the line below the label.
    about : str
        A sentence on this cell, shown under the pointer and read to those who do not see the page.
    """

    start: float
    end: float
    label: str
    kind: Kind = "plain"
    about: str = ""


@dataclass(frozen=True)
class Tier:
    """A named row of cells, in the order of time."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Strip:
    """A part of a recording that is shown in one line.

    Attributes
    ----------
    start, end : float
        Seconds from the recording's start.
    picture : str
        The spectrogram as a ``data:`` URL.
    width : int
        Pixels.
    tiers : tuple of Tier
        The cells that lie in this part, cut at its ends.
    ticks : tuple of float
        Times to label on the axis: the half seconds.
    """

    start: float
    end: float
    picture: str
    width: int
    tiers: tuple[Tier, ...]
    ticks: tuple[float, ...]

    def percent(self, seconds: float) -> str:
        """Return where a moment lies, in per cent of the width, for CSS."""
        return f"{100 * (seconds - self.start) / max(self.end - self.start, 1e-9):.3f}%"

    def percent_wide(self, cell: Cell) -> str:
        """Return the width of a cell, in per cent, for CSS."""
        return f"{100 * (cell.end - cell.start) / max(self.end - self.start, 1e-9):.3f}%"


@dataclass(frozen=True)
class Timeline:
    """What the template ``timeline.html`` shows of a recording.

    Attributes
    ----------
    id : str
        For links on the page; letters and digits.
    name : str
        The name of the recording.
    seconds : float
    sound : str
        The sound as a ``data:`` URL.
    strips : tuple of Strip
    frequencies : tuple of (str, str)
        Labels of the frequency axis, and how far from the top they lie, for CSS.
    """

    id: str
    name: str
    seconds: float
    sound: str
    strips: tuple[Strip, ...]
    frequencies: tuple[tuple[str, str], ...]


def make_timeline(id: str, name: str, samples: NDArray[np.float32], rate: int, tiers: Sequence[Tier]) -> Timeline:
    """Return a recording as it is shown on a page.

    Parameters
    ----------
    id, name : str
        See `Timeline`.
    samples : ndarray, float32, shape = (n,)
    rate : int
        Hz.
    tiers : sequence of Tier
        Those below the spectrogram, from top to bottom.
    """
    settings = SpectrogramSettings()
    seconds = len(samples) / rate
    scale = pixels_per_second([cell for tier in tiers for cell in tier.cells])
    starts = [[cell.start for cell in tier.cells] for tier in tiers]
    strips = []
    for start, end in pairwise(cuts(seconds, starts, STRIP_WIDTH / scale)):
        part = samples[round(start * rate) : round(end * rate)]
        picture = data_url(spectrogram_png(part, rate, settings), "image/png")
        inside = tuple(Tier(tier.name, tuple(_within(tier.cells, start, end))) for tier in tiers)
        width = max(round((end - start) * scale), 1)
        ticks = tuple(k / 2 for k in range(int(np.ceil(2 * start)), int(np.floor(2 * end)) + 1))
        strips.append(Strip(start, end, picture, width, inside, ticks))
    sound = data_url(ogg_opus(samples, rate), MEDIA_TYPE)
    return Timeline(id, name, seconds, sound, tuple(strips), tuple(_kilohertz(settings)))


def _kilohertz(settings: SpectrogramSettings) -> Iterator[tuple[str, str]]:
    """Yield the labels of the frequency axis and their places, for CSS; none at the lower and the upper end."""
    for k in range(int(settings.lowest // 1000) + 1, int(np.ceil(settings.highest / 1000))):
        yield f"{k} kHz", f"{100 * (settings.highest - 1000 * k) / (settings.highest - settings.lowest):.2f}%"


def pixels_per_second(cells: Sequence[Cell]) -> int:
    """Return a scale at which most labels fit into their cells."""
    needed = [(LETTER * len(cell.label) + AROUND) / max(cell.end - cell.start, 0.01) for cell in cells]
    return round(float(np.clip(np.quantile(needed, FITTING), NARROWEST, WIDEST))) if needed else NARROWEST


def cuts(seconds: float, starts: Sequence[Sequence[float]], longest: float) -> list[float]:
    """Return where the pieces of a recording begin and end, seconds; they are cut where a word or phone starts.

    Parameters
    ----------
    seconds : float
    starts : sequence of sequence of float
        Of the cells of each tier; the first tier that has one in the second half of a piece decides.
    longest : float
        Seconds of a piece.
    """
    places = [0.0]
    while seconds - places[-1] > longest:
        half, latest = places[-1] + longest / 2, places[-1] + longest
        near = (max((each for each in tier if half < each <= latest), default=None) for tier in starts)
        places.append(next((each for each in near if each is not None), latest))
    return [*places, seconds]


def _within(cells: Iterable[Cell], start: float, end: float) -> Iterator[Cell]:
    """Yield the cells between two moments, cut at these."""
    for cell in cells:
        if cell.start < end and cell.end > start:
            yield replace(cell, start=max(cell.start, start), end=min(cell.end, end))


def ogg_opus(samples: NDArray[np.float32], rate: int) -> bytes:
    """Return a recording as Opus in an Ogg file, about 3 kB a second.

    Parameters
    ----------
    samples : ndarray, float32, shape = (n,)
        What exceeds [-1, 1] is clipped.
    rate : int
        Hz. Rates that Opus does not have are resampled to the next higher one.
    """
    chosen = next((each for each in RATES if each >= rate), RATES[-1])
    clipped = np.clip(resample(samples, rate, chosen) if rate != chosen else samples, -1, 1)
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", chosen, 1, "OPUS", format="OGG", compression_level=LEVEL) as file:
        for start in range(0, len(clipped), BLOCK):
            file.write(clipped[start : start + BLOCK])
    return out.getvalue()
