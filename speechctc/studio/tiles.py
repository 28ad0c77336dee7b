"""Tiles of a spectrogram: parts of fixed length and place, made when the page asks for them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.pages.spectrogram import LEVELS, SpectrogramSettings, grey_png, levels_db
from speechctc.studio.sound import Sound

COLUMNS, ROWS = 512, 256  # pixels of a tile
LEVEL_SECONDS = tuple(2.0**power for power in range(-3, 6))
"""Seconds of a tile, by zoom level: from 1/8 s to 32 s."""
PROBES = 64  # places of a recording whose loudest one is its maximum
PROBE_SECONDS = 0.1
LIMITS = {"window": (0.001, 0.1), "highest": (500.0, 24000.0), "dynamic_range": (10.0, 120.0)}


def settings_of(window: float, highest: float, dynamic_range: float) -> SpectrogramSettings:
    """Return settings that the page asks for.

    Raises
    ------
    InputError
        A value is out of range.
    """
    given = {"window": window, "highest": highest, "dynamic_range": dynamic_range}
    for name, value in given.items():
        low, high = LIMITS[name]
        if not (math.isfinite(value) and low <= value <= high):
            raise InputError(f"spectrogram: {name} {value}", f"choose a value from {low:g} to {high:g}")
    return SpectrogramSettings(window, 0.0, highest, dynamic_range)


def tile_png(sound: Sound, level: int, number: int, settings: SpectrogramSettings, maximum: float) -> bytes:
    """Return a tile as PNG, dark where there is energy.

    Parameters
    ----------
    sound : Sound
    level : int
        Index into `LEVEL_SECONDS`.
    number : int
        The tile begins at ``number * LEVEL_SECONDS[level]`` seconds.
    settings : SpectrogramSettings
    maximum : float
        The level that is black, dB: the same for all tiles, so that they fit together; see `loudest`.

    Raises
    ------
    InputError
        There is no such tile.
    """
    if not 0 <= level < len(LEVEL_SECONDS) or not 0 <= number * LEVEL_SECONDS[level] < sound.seconds:
        raise InputError(f"spectrogram: no tile {number} of level {level}", "choose a part of the recording")
    column = LEVEL_SECONDS[level] / COLUMNS * sound.rate  # samples
    around = math.ceil(2 * settings.window_length * sound.rate / column) + 1  # columns of context
    first = round((number * COLUMNS - around) * column)
    last = round(((number + 1) * COLUMNS + around) * column)
    levels = levels_db(sound.read(first, last), sound.rate, settings, COLUMNS + 2 * around, ROWS)
    return grey_png(_grey(levels[:, around : around + COLUMNS], maximum, settings.dynamic_range), effort=1)


def loudest(sound: Sound, settings: SpectrogramSettings) -> float:
    """Return the highest level of the spectrogram, dB, from places spread over the recording."""
    length = min(round(PROBE_SECONDS * sound.rate), sound.frames)
    probes = max(min(PROBES, sound.frames // max(length, 1)), 1)
    starts = np.linspace(0, sound.frames - length, probes).astype(np.int64)
    found = max(levels_db(sound.read(int(k), int(k) + length), sound.rate, settings, 20, 64).max() for k in starts)
    return float(found)


def _grey(levels: NDArray[np.float64], maximum: float, dynamic_range: float) -> NDArray[np.uint8]:
    if not math.isfinite(maximum):
        return np.full(levels.shape, LEVELS - 1, dtype=np.uint8)
    below = np.clip((maximum - levels) / dynamic_range, 0, 1)
    return np.minimum(below * LEVELS, LEVELS - 1).astype(np.uint8)
