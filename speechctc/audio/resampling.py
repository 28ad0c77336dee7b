"""The sample rates that recordings may have, and resampling of mono samples by a windowed sinc, in bounded memory.

Common ratios of rates are filtered by one product of matrices. Its filter has ``rate * new_rate / gcd**2`` weights, for
example 90 million from 22254 Hz to 16000 Hz, almost all of them 0. For such ratios, the few weights of each output
sample that are not 0 are computed, from the same windowed sinc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError

Samples = NDArray[np.float32]
Rows = NDArray[Any]

ZERO_CROSSINGS = 32  # of the sinc on each side: the transition band is 1/32 of the pass band
ROLLOFF = 0.99  # cut-off as a share of the lower Nyquist frequency
MAX_WEIGHTS = 1 << 19  # weights of the matrix, about; all ratios of common rates have fewer
AT_ONCE = 1 << 20  # most weights that are applied at a time where there is no matrix
PIECE = 0.25  # seconds resampled at a time, or a second where there is no matrix; the delay of samples from a stream

LOWEST, HIGHEST = 1000, 1_000_000  # Hz; rates for ultrasound are lower


def resample(samples: NDArray[np.float32], rate: int, new_rate: int) -> NDArray[np.float32]:
    """Resample mono samples from `rate` to `new_rate`, Hz; the result has ``ceil(n * new_rate / rate)`` samples."""
    pieces = list(resample_blocks([samples], rate, new_rate))
    return np.concatenate(pieces) if pieces else samples[:0]


def resample_blocks(blocks: Iterable[NDArray[np.float32]], rate: int, new_rate: int) -> Iterator[NDArray[np.float32]]:
    """Resample blocks of mono samples; the result is the same to the bit for all ways to cut them into blocks.

    An empty block gives an empty block at once, before more are asked for: so does everything that works in blocks of
    a recording, up to its logits. A source that has no samples yet gives one (`speechctc.inference.streaming`).

    The filter turns each `step` input samples, with `context` on either side, into `group` output samples. The
    input is filtered in pieces of a fixed number of steps, counted from its start, with the context on either side,
    whose output is discarded. Pieces as long as the blocks would be summed in another order, and rounded differently.
    """
    if rate == new_rate:
        yield from blocks
        return
    common = math.gcd(rate, new_rate)
    step, group = rate // common, new_rate // common
    apply = _filter if step * group <= MAX_WEIGHTS else _filter_sparse
    context = -(-_width(step, group) // step) * step
    piece = max(round(PIECE * common) * step, context, step)  # at low rates, most work would be for the context
    yield from in_windows(blocks, lambda each: apply(each, step, group), context, context, piece, (step, group))


def in_windows(
    blocks: Iterable[Rows],
    apply: Callable[[Rows], Rows],
    behind: int,
    ahead: int,
    size: int | None = None,
    ratio: tuple[int, int] = (1, 1),
) -> Iterator[Rows]:
    """Yield what a function makes of rows that come in blocks: it is applied to windows with context on both sides.

    Parameters
    ----------
    blocks : iterable of ndarray
        Cut anywhere. `apply` gets an empty block at once.
    apply : callable
        Takes rows; what it makes of one depends on `behind` rows before it and `ahead` after it.
    size : int, optional
        Rows in a window, without its context; by default all whose context is known.
    ratio : tuple of int
        So many rows become so many others; `behind` and `size` are multiples of the first.
    """
    step, group = ratio
    waiting: Rows | None = None
    before = 0  # rows at the start of `waiting` that are done and serve as context
    for block in blocks:
        if not len(block):
            yield apply(block)
            continue
        waiting = np.concatenate([waiting, block]) if waiting is not None and len(waiting) else block
        while (done := before + size if size else len(waiting) - ahead) > before and done + ahead <= len(waiting):
            yield apply(waiting[: done + ahead])[before // step * group : done // step * group]
            before, kept = min(behind, done), done - min(behind, done)
            waiting = waiting[kept:]
    if waiting is not None and len(waiting) > before:
        yield apply(waiting)[before // step * group :]


def _filter(samples: Samples, step: int, group: int) -> Samples:
    """Return the output samples at ``0, step / group, ...`` of a piece of input, with zeros around it."""
    width, weights = _width(step, group), _kernel(step, group)
    padded = np.pad(samples, (width, width + step))
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(weights))[: len(samples) + step : step]
    resampled: Samples = np.ascontiguousarray(windows) @ weights
    return resampled.ravel()[: -(-len(samples) * group // step)]


def _width(step: int, group: int) -> int:
    """Return the input samples on each side that an output sample depends on."""
    return math.ceil(ZERO_CROSSINGS * step / (min(step, group) * ROLLOFF))


@lru_cache(maxsize=16)
def _kernel(step: int, group: int) -> Samples:
    """Return what `group` output samples take of each input sample, shape (2 * width + step, group); kept."""
    places = np.arange(-_width(step, group), _width(step, group) + step)[:, None]
    return sinc_weights(places / step - np.arange(group) / group, min(step, group) * ROLLOFF, step)


def sinc_weights(times: NDArray[np.float64], cutoff: float, step: int) -> Samples:
    """Return a sinc in a Hann window, at times in periods of the common rate; `cutoff` in its units."""
    times = np.clip(times * cutoff, -ZERO_CROSSINGS, ZERO_CROSSINGS)
    window = np.cos(times * (np.pi / ZERO_CROSSINGS / 2)) ** 2
    return np.asarray(np.sinc(times) * window * (cutoff / step), np.float32)


def _filter_sparse(samples: Samples, step: int, group: int) -> Samples:
    """As `_filter`, by the weights that are not 0; each output sample is a sum of its own products."""
    width = _width(step, group)
    taps = 2 * width + 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(samples, (width, taps)), taps)
    result = np.empty(-(-len(samples) * group // step), np.float32)
    rows = max(AT_ONCE // taps, 1)
    for first in range(0, len(result), rows):
        at = np.arange(first, min(first + rows, len(result))) * step
        result[first : first + len(at)] = (_weights(first, len(at), step, group) * windows[at // group]).sum(axis=1)
    return result


@lru_cache(maxsize=16)
def _weights(first: int, count: int, step: int, group: int) -> Samples:
    """Return what `count` output samples from number `first` on take of the input samples around, (count, taps)."""
    width = _width(step, group)
    remainders = np.arange(first, first + count) * step % group
    times = np.arange(-width, width + 2) / step - (remainders / (group * step))[:, None]
    return sinc_weights(times, min(step, group) * ROLLOFF, step)


def check_rate(file: Any, path: Path | str) -> None:
    """Refuse, and close, a sound file of a rate that no speech has.

    Read at 1 Hz, a minute would become months; one column of a spectrogram at 2 GHz would take all memory.

    Raises
    ------
    InputError
        It is.
    """
    if not LOWEST <= file.samplerate <= HIGHEST:
        file.close()
        kind = "low" if file.samplerate < LOWEST else "high"
        what = f"{path}: its sample rate is {file.samplerate} Hz, too {kind} for speech"
        raise InputError(what, "if that is wrong, export it again at its own rate; else leave it out")
