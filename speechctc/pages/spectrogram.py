"""Spectrograms with the settings of Praat, as greyscale PNG pictures."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COLUMNS_PER_SECOND = 200
MAX_COLUMNS = 900
ROWS = 120
BLOCK = 256  # columns to compute at a time
_EDGE = np.exp(-12.0)

LEVELS = 16  # shades of grey; 4 bits a pixel
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


def spectrogram_png(
    samples: NDArray[np.float32],
    rate: int,
    settings: SpectrogramSettings | None = None,
    columns: int | None = None,
    rows: int = ROWS,
) -> bytes:
    """Return the spectrogram of a recording as PNG, dark where there is energy.

    Parameters
    ----------
    samples : ndarray, float32, shape = (n,)
        May be empty.
    rate : int
        Hz.
    settings : SpectrogramSettings, optional
    columns, rows : int
        Size of the picture, pixels. Default of `columns`: 200 for each second, at most 900. The picture spans exactly
        the recording: column ``k`` is centred at ``(k + 0.5) / columns`` of its duration.
    """
    if columns is None:
        columns = min(max(round(len(samples) / rate * COLUMNS_PER_SECOND), 1), MAX_COLUMNS)
    settings = settings or SpectrogramSettings()
    levels = levels_db(samples, rate, settings, columns, rows)
    return grey_png(shades(levels, levels.max(initial=-np.inf), settings.dynamic_range))


def levels_db(
    samples: NDArray[np.float32], rate: int, settings: SpectrogramSettings, columns: int, rows: int
) -> NDArray[np.float64]:
    """Return the levels of a spectrogram, dB, shape = (rows, columns); the first row is the highest frequency.

    Frequencies above half the rate, and columns of digital silence, are ``-inf``.
    """
    window = gaussian(max(round(2 * settings.window_length * rate), 3))
    half = len(window) // 2
    padded = np.pad(np.asarray(samples, dtype=np.float64), (half, len(window)))
    starts = ((np.arange(columns) + 0.5) / columns * len(samples)).astype(np.int64)
    height = (settings.highest - settings.lowest) / rows
    hertz = settings.lowest + (np.arange(rows)[::-1] + 0.5) * height
    size = 1 << int(np.ceil(np.log2(max(len(window), rate / max(height, 1.0)))))
    bins = np.clip(np.rint(hertz / rate * size).astype(np.int64), 0, size // 2)
    power = np.empty((rows, columns))
    for first in range(0, columns, BLOCK):
        each = slice(first, first + BLOCK)
        frames = padded[starts[each, None] + np.arange(len(window))] * window
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
        return np.full(levels.shape, LEVELS - 1, dtype=np.uint8)
    below = np.clip((most - levels) / dynamic_range, 0, 1)
    return np.asarray(np.minimum(below * LEVELS, LEVELS - 1), dtype=np.uint8)


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
