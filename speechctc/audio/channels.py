"""Tells whether the channels of a recording hold different sounds, as of two speakers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.ffmpeg import Decoded
from speechctc.audio.opening import Sound, open_sound
from speechctc.audio.sound_file import BLOCK
from speechctc.core.errors import InputError

EXCERPTS = 8  # spread over the recording, so that they contain both of two speakers who take turns
EXCERPT = 2.0  # length of an excerpt, s
BEGINNING = 60.0  # seconds compared of a recording that ffmpeg decodes
MOST = 1 << 23  # numbers in memory: a damaged header can give any rate and number of channels
ALIKE = 0.5  # least correlation of the channels of two microphones in one room
QUIET = 0.003  # a channel with less than this share of the loudest channel's energy (-25 dB) is silent


def channels_differ(path: Path) -> bool:
    """Return whether two channels of a recording both have sound, and not the same.

    Excerpts of 16 s in all are compared, or the first minute of a recording that ffmpeg decodes. Damage within the
    recording is not an error here.

    Raises
    ------
    InputError
        The recording cannot be opened.
    """
    with open_sound(path) as file:
        if file.channels < 2:
            return False
        sound = np.nan_to_num(_excerpts(file)).astype(np.float64)  # damaged floats may be NaN
    if not len(sound):
        return False
    sound -= sound.mean(axis=0)
    energy = (sound**2).sum(axis=0)
    sound = sound[:, energy > max(QUIET * energy.max(initial=0.0), 1e-12)]
    if sound.shape[1] < 2 or not np.isfinite(sound).all():
        return False
    return bool((np.corrcoef(sound, rowvar=False) < ALIKE).any())


def _excerpts(file: Sound) -> NDArray[np.float32]:
    """Read the excerpts; shape (samples, channels)."""
    size = min(round(EXCERPT * file.samplerate), BLOCK)  # a damaged header can give any rate
    if isinstance(file, Decoded):  # to find its end, all of it would have to be decoded
        return _read(file, min(round(BEGINNING * file.samplerate), MOST // file.channels))
    starts = np.linspace(0, file.frames - size, EXCERPTS).astype(int) if file.frames > size else [0]
    return np.concatenate([_read(file, size, start) for start in sorted(set(map(int, starts)))])


def _read(file: Sound, size: int, start: int = 0) -> NDArray[np.float32]:
    """Read at most `size` samples; none where the recording is damaged."""
    try:
        file.seek(start)
        samples: NDArray[np.float32] = file.read(size, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, InputError):
        return np.zeros((0, file.channels), np.float32)
    return samples
