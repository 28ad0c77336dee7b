"""Whether the channels of a recording hold different sounds, as two speakers with a microphone each do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.sound_file import BLOCK, Sound, open_sound

EXCERPTS = 8  # spread over the recording, so that speakers who take turns are both met
EXCERPT = 2.0  # seconds of each
ALIKE = 0.5  # correlation of two microphones' channels in one room, at least
QUIET = 0.003  # share of the loudest channel's energy (25 dB below it) under which a channel counts as silent


def channels_differ(path: Path) -> bool:
    """Tell whether two channels of a recording both carry sound, and not the same.

    Excerpts are compared, 16 s in all. An unreadable recording raises nothing here: reading it does.

    Raises
    ------
    InputError
        The recording cannot be opened.
    """
    with open_sound(path) as file:
        if file.channels < 2:
            return False
        sound = _excerpts(file).astype(np.float64)
    if not len(sound):
        return False
    sound -= sound.mean(axis=0)
    energy = (sound**2).sum(axis=0)
    sound = sound[:, energy > max(QUIET * energy.max(initial=0.0), 1e-12)]
    if sound.shape[1] < 2 or not np.isfinite(sound).all():
        return False
    return bool((np.corrcoef(sound, rowvar=False) < ALIKE).any())


def _excerpts(file: Sound) -> NDArray[np.float32]:
    """Read excerpts from the whole length of a recording; of shape (samples, channels)."""
    size = min(round(EXCERPT * file.samplerate), BLOCK)  # a damaged header can give any rate
    starts = np.linspace(0, max(file.frames - size, 0), EXCERPTS).astype(int) if file.frames > size else [0]
    parts = []
    for start in sorted(set(map(int, starts))):
        try:
            file.seek(start)
            parts.append(file.read(size, dtype="float32", always_2d=True))
        except soundfile.LibsndfileError:
            break
    return np.concatenate(parts) if parts else np.zeros((0, file.channels), np.float32)
