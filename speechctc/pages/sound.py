"""Sound for pages: small files that browsers play."""

from __future__ import annotations

import io

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.resampling import resample

MEDIA_TYPE = "audio/ogg"
RATES = (8000, 12000, 16000, 24000, 48000)  # Hz; those of Opus (RFC 6716)
LEVEL = 0.93  # of libsndfile's compression, 0 to 1: about 24 kbit/s of speech
BLOCK = 1 << 16  # samples to encode at a time


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
    wanted = np.clip(resample(samples, rate, chosen) if rate != chosen else samples, -1, 1)
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", chosen, 1, "OPUS", format="OGG", compression_level=LEVEL) as file:
        for start in range(0, len(wanted), BLOCK):
            file.write(wanted[start : start + BLOCK])
    return out.getvalue()
