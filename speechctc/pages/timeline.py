"""A recording on a page: a spectrogram with the settings of Praat, tiers of phones on the time axis, and the sound."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.resampling import resample
from speechctc.pages.page import data_url

STYLE, SCRIPT = "timeline.css", "timeline.js"  # files that a page with a timeline needs
Kind = Literal["plain", "right", "substituted", "deleted", "inserted", "doubtful", "weak", "poor"]
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
    width : int
        Pixels; what is wider than the page scrolls.
    pictures : tuple of (str, str)
        The spectrogram, from left to right: a ``data:`` URL, and its width, for CSS; up to 20 s are in one.
    tiers : tuple of Tier
    ticks : tuple of float
        Times to label on the axis: the half seconds.
    frequencies : tuple of (str, str)
        Labels of the frequency axis, and how far from the top they lie, for CSS.
    """

    id: str
    name: str
    seconds: float
    sound: str
    width: int
    pictures: tuple[tuple[str, str], ...]
    tiers: tuple[Tier, ...]
    ticks: tuple[float, ...]
    frequencies: tuple[tuple[str, str], ...]

    def percent(self, seconds: float) -> str:
        """Return a time, from the start or of a length, in per cent of the width, for CSS."""
        return f"{100 * seconds / max(self.seconds, 1e-9):.4f}%"

    def is_narrow(self, cell: Cell) -> bool:
        """Return whether a label has too little room; then it is small, and stands above or below the others."""
        room = (cell.end - cell.start) / max(self.seconds, 1e-9) * self.width
        return room < LETTER * len(cell.label) + AROUND


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
        Those above the spectrogram, from top to bottom.
    """
    settings = SpectrogramSettings()
    seconds = len(samples) / rate
    width = max(round(seconds * pixels_per_second([cell for tier in tiers for cell in tier.cells])), 1)
    columns = columns_of(samples, rate)
    pictures = (
        (data_url(png, "image/png"), f"{100 * min(PICTURE, columns - PICTURE * k) / columns:.4f}%")
        for k, png in enumerate(spectrogram_pngs(samples, rate, settings, columns))
    )
    ticks = tuple(k / 2 for k in range(int(np.floor(2 * seconds)) + 1))
    sound = sound_url(samples, rate)
    return Timeline(id, name, seconds, sound, width, tuple(pictures), tuple(tiers), ticks, tuple(_kilohertz(settings)))


def _kilohertz(settings: SpectrogramSettings) -> Iterator[tuple[str, str]]:
    """Yield the labels of the frequency axis and their places, for CSS; none at the lower and the upper end."""
    for k in range(int(settings.lowest // 1000) + 1, int(np.ceil(settings.highest / 1000))):
        yield f"{k} kHz", f"{100 * (settings.highest - 1000 * k) / (settings.highest - settings.lowest):.2f}%"


def pixels_per_second(cells: Sequence[Cell]) -> int:
    """Return a scale at which most labels fit into their cells."""
    needed = [(LETTER * len(cell.label) + AROUND) / max(cell.end - cell.start, 0.01) for cell in cells]
    return round(float(np.clip(np.quantile(needed, FITTING), NARROWEST, WIDEST))) if needed else NARROWEST


def sound_url(samples: NDArray[np.float32], rate: int) -> str:
    """Return a recording as a ``data:`` URL, as `ogg_opus` compresses it."""
    return data_url(ogg_opus(samples, rate), MEDIA_TYPE)


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


COLUMNS_PER_SECOND = 200
PICTURE = 4000  # columns of a picture at most: browsers do not show pictures of any width
ROWS = 120
COLUMNS_AT_ONCE = 256  # to compute
_EDGE = np.exp(-12.0)

SHADES = 16  # of grey; 4 bits a pixel
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _UP = 0, 2  # colour type; the filter that keeps the difference from the row above


@dataclass(frozen=True)
class SpectrogramSettings:
    """How a spectrogram is computed; the names and the values are those of Praat's "Spectrogram settings".

    Attributes
    ----------
    window_length : float
        Length of the Gaussian window, s: 0.005 gives a broad-band spectrogram, 0.03 a narrow-band one. As in Praat, the
        window is computed over twice this length.
    lowest, highest : float
        View range, Hz.
    dynamic_range : float
        What is more than this below the maximum is white, dB.
    preemphasis : float
        dB for each octave above 1 kHz, and less below.
    """

    window_length: float = 0.005
    lowest: float = 0.0
    highest: float = 5500.0
    dynamic_range: float = 50.0
    preemphasis: float = 6.0


def columns_of(samples: NDArray[np.float32], rate: int) -> int:
    """Return how many columns the spectrogram of a recording has on a page: 200 for each second, at least one."""
    return max(round(len(samples) / rate * COLUMNS_PER_SECOND), 1)


def spectrogram_pngs(
    samples: NDArray[np.float32],
    rate: int,
    settings: SpectrogramSettings | None = None,
    columns: int | None = None,
    rows: int = ROWS,
) -> list[bytes]:
    """Return the spectrogram of a recording as PNG, dark where there is energy, in pictures that fit side by side.

    Parameters
    ----------
    samples : ndarray, float32, shape = (n,)
        May be empty.
    rate : int
        Hz.
    settings : SpectrogramSettings, optional
        What is black is the maximum of the whole recording.
    columns, rows : int
        Size of all pictures together, pixels. Default of `columns`: see `columns_of`. They span exactly the recording:
        column ``k`` is centred at ``(k + 0.5) / columns`` of its duration. Each picture but the last has 4,000 columns.
    """
    columns = columns or columns_of(samples, rate)
    settings = settings or SpectrogramSettings()

    def levels() -> Iterator[NDArray[np.float64]]:  # twice, since those of an hour take 700 MB
        for first in range(0, columns, PICTURE):
            yield levels_db(samples, rate, settings, columns, rows, first, first + PICTURE)

    most = max(float(each.max()) for each in levels())
    return [grey_png(shades(each, most, settings.dynamic_range)) for each in levels()]


def levels_db(
    samples: NDArray[np.float32],
    rate: int,
    settings: SpectrogramSettings,
    columns: int,
    rows: int,
    first: int = 0,
    last: int | None = None,
) -> NDArray[np.float64]:
    """Return the levels of a spectrogram, dB, shape = (rows, columns); the first row is the highest frequency.

    Frequencies above half the rate, and columns of digital silence, are ``-inf``. Of all columns, those from `first` to
    `last` can be had alone.
    """
    window = gaussian(max(round(2 * settings.window_length * rate), 3))
    starts = ((np.arange(columns)[first:last] + 0.5) / columns * len(samples)).astype(np.int64) - len(window) // 2
    begin, end = int(starts[0]), int(starts[-1]) + len(window)
    part = np.asarray(samples[max(begin, 0) : end], dtype=np.float64)
    padded = np.pad(part, (max(-begin, 0), max(end - max(begin, 0) - len(part), 0)))
    height = (settings.highest - settings.lowest) / rows
    hertz = settings.lowest + (np.arange(rows)[::-1] + 0.5) * height
    size = 1 << int(np.ceil(np.log2(max(len(window), rate / max(height, 1.0)))))
    bins = np.clip(np.rint(hertz / rate * size).astype(np.int64), 0, size // 2)
    power = np.empty((rows, len(starts)))
    for k in range(0, len(starts), COLUMNS_AT_ONCE):
        each = slice(k, k + COLUMNS_AT_ONCE)
        frames = padded[(starts[each] - begin)[:, None] + np.arange(len(window))] * window
        power[:, each] = np.abs(np.fft.rfft(frames, size)[:, bins].T) ** 2
    power[hertz > rate / 2] = 0
    with np.errstate(divide="ignore"):
        levels = 10 * np.log10(power)
    return np.asarray(levels + settings.preemphasis * np.log2(np.maximum(hertz, 1.0) / 1000)[:, None])


def gaussian(length: int) -> NDArray[np.float64]:
    """Return Praat's Gaussian window of so many samples, 0 at both ends."""
    phase = (np.arange(length) - 0.5 * (length - 1)) / (length + 1)
    return np.asarray((np.exp(-48 * phase**2) - _EDGE) / (1 - _EDGE))


def shades(levels: NDArray[np.float64], most: float, dynamic_range: float) -> NDArray[np.uint8]:
    """Return shades from 0, black, at the level `most`, to 15, white, at `dynamic_range` below it and further."""
    if not np.isfinite(most):
        return np.full(levels.shape, SHADES - 1, dtype=np.uint8)
    below = np.clip((most - levels) / dynamic_range, 0, 1)
    return np.asarray(np.minimum(below * SHADES, SHADES - 1), dtype=np.uint8)


def grey_png(levels: NDArray[np.uint8], effort: int = 9) -> bytes:
    """Return a picture in 16 shades of grey as PNG (ISO/IEC 15948).

    Parameters
    ----------
    levels : ndarray, uint8, shape = (height, width)
        0, black, to 15, white; the first row is at the top.
    effort : int
        Of the compression: 9, the smallest file, to 1, twenty times as fast.
    """
    height, width = levels.shape
    even = np.pad(levels, ((0, 0), (0, width % 2)))
    packed = (even[:, ::2] << 4) | even[:, 1::2]
    changes = np.diff(packed, axis=0, prepend=np.zeros_like(packed[:1]))  # modulo 256, as the filter is defined
    rows = np.concatenate([np.full((height, 1), _UP, dtype=np.uint8), changes], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 4, _GREY, 0, 0, 0)
    return _SIGNATURE + b"".join(
        _chunk(kind, content)
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), effort)), (b"IEND", b""))
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
