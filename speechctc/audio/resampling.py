"""Resampling between rates with a small common divisor, in bounded memory.

torchaudio's filter holds ``rate * wanted / gcd**2`` weights: 90 million from 22254 Hz to 16000 Hz, almost all 0.
Here each output sample takes its own few weights, of the same windowed sinc.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

ROLLOFF = 0.99  # the cut-off as a share of the lower Nyquist frequency, as torchaudio's
KEPT = 1 << 23  # weights that are computed once and kept, at most: 32 MiB
AT_ONCE = 1 << 20  # weights that are applied at a time, at most
HELD = 1 << 18  # input samples that wait for a piece to be complete, about


class SincFilter:
    """A sinc in a Hann window, for one ratio of rates.

    Output sample n lies at ``n * step / group`` in the input. Its `taps` weights depend on the remainder of that
    alone.

    Parameters
    ----------
    step, group : int
        The rates of input and output, divided by their greatest common divisor.
    zero_crossings : int
        Of the sinc on each side.
    """

    def __init__(self, step: int, group: int, zero_crossings: int) -> None:
        self.step, self.group, self.zero_crossings = step, group, zero_crossings
        self.cutoff = min(step, group) * ROLLOFF
        self.width = math.ceil(zero_crossings * step / self.cutoff)
        self.taps = 2 * self.width + 2
        self._kept: Samples | None = None
        if group * self.taps <= KEPT:
            rows = max(AT_ONCE // self.taps, 1)
            parts = [np.arange(first, min(first + rows, group)) for first in range(0, group, rows)]
            self._kept = np.concatenate([self._weights(remainders) for remainders in parts])

    def apply(self, samples: Samples, offset: int, first: int, count: int) -> Samples:
        """Return `count` output samples from the `first` on; ``samples[0]`` is input sample `offset`.

        The sum of each is taken by itself, so it does not depend on how many are asked for.
        """
        windows = np.lib.stride_tricks.sliding_window_view(samples, self.taps)
        result = np.empty(count, np.float32)
        rows = max(AT_ONCE // self.taps, 1)
        for start in range(0, count, rows):
            numbers = np.arange(first + start, first + min(start + rows, count)) * self.step
            remainders = numbers % self.group
            weights: Samples = self._weights(remainders) if self._kept is None else self._kept[remainders]
            weights *= windows[numbers // self.group - self.width - offset]
            result[start : start + len(numbers)] = weights.sum(axis=1)
        return result

    def begin(self, number: int) -> int:
        """Return the first input sample that an output sample is made from."""
        return number * self.step // self.group - self.width

    def _weights(self, remainders: NDArray[np.int64]) -> Samples:
        places = np.arange(self.taps) - self.width
        times = (places / self.step - (remainders / (self.group * self.step))[:, None]) * self.cutoff
        times = np.clip(times, -self.zero_crossings, self.zero_crossings)
        window = np.cos(times * (np.pi / self.zero_crossings / 2)) ** 2
        weights: Samples = (np.sinc(times) * window * (self.cutoff / self.step)).astype(np.float32)
        return weights


@lru_cache(maxsize=2)
def sinc_filter(step: int, group: int, zero_crossings: int) -> SincFilter:
    """Return the filter for one ratio, made once."""
    return SincFilter(step, group, zero_crossings)


def sinc_blocks(blocks: Iterable[Samples], sinc: SincFilter, piece: int) -> Iterator[Samples]:
    """Resample samples that come in blocks, cut anywhere; the result does not depend on where, to the bit.

    Parameters
    ----------
    blocks : iterable of ndarray, float32
    sinc : SincFilter
    piece : int
        Output samples made at a time, at most.
    """
    piece = max(min(piece, HELD * sinc.group // sinc.step), 1)
    offset, done = -sinc.width, 0
    waiting: Samples = np.zeros(sinc.width, np.float32)
    for block in blocks:
        waiting = np.concatenate([waiting, block])
        while offset + len(waiting) >= sinc.begin(done + piece) + sinc.taps:
            yield sinc.apply(waiting, offset, done, piece)
            done += piece
            waiting, offset = waiting[sinc.begin(done) - offset :], sinc.begin(done)
    total = -(-(offset + len(waiting)) * sinc.group // sinc.step)
    waiting = np.concatenate([waiting, np.zeros(sinc.taps, np.float32)])
    while done < total:
        yield sinc.apply(waiting, offset, done, min(piece, total - done))
        done += min(piece, total - done)
