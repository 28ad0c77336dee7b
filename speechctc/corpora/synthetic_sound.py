"""Recordings from synthetic speech: resampled, scaled, between silences, with a little noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import resampling

RATE = 16000  # of the recordings, Hz, as in TIMIT
QUIET_MS = (100, 250)  # silence before and after each sentence


def record(
    samples: NDArray[np.int16], rate: int, end: int, level: float, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], int]:
    """Return a recording of a sentence, and how many of its samples are before the sentence.

    The sentence is scaled to the level of the voice and put between silences. A little noise is added, because no room
    is as silent as a synthesiser.

    Parameters
    ----------
    samples : ndarray, int16, shape = (n,)
    rate : int
        Their rate, Hz.
    end : int
        The sample at which the speech ends.
    level : float
        RMS of the speech, dB of full scale.
    noise_db : float
        RMS of the noise, dB of full scale.
    rng : Generator
    """
    before, after = (int(RATE * rng.uniform(*QUIET_MS) / 1000) for _ in range(2))
    length = before + round(end * RATE / rate) + after
    recording = rng.standard_normal(length, np.float32) * np.float32(10 ** (noise_db / 20))
    sound = resampling.resample(np.divide(samples, 2**15, dtype=np.float32), rate, RATE)[: length - before]
    gain = 10 ** (level / 20) / float(np.sqrt(np.mean(sound**2)))
    recording[before : before + len(sound)] += sound * min(gain, 0.95 / float(np.abs(sound).max()))
    return np.clip(np.round(recording * 2**15), -(2**15), 2**15 - 1).astype(np.int16), before


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: resampling a sentence then takes 2 ms, and with several threads on busy cores 90."""
    import torch  # late: reading an existing corpus does not need it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
