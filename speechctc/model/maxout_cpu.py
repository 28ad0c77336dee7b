"""Maxout and dropout in one pass over memory, compiled. Importing this loads numba.

In a small net on a CPU the convolutions are fast and elementwise operations dominate: torch draws dropout masks one
random number after the other, and compares, multiplies and selects in separate passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from speechctc.ctc.compiler import PRIMITIVES, numba, sources, types, with_cache
from speechctc.ctc.pointers import fetch_and_add, memory
from speechctc.ctc.simd import njit_inline
from speechctc.ctc.threads import run_in_threads

# By data type: the numba type that represents it in memory (see `speechctc.ctc.pointers`).
KINDS: dict[torch.dtype, Any] = {torch.float32: np.float32(0), torch.bfloat16: np.uint16(0)}
# Marks a dropped unit, in place of the number of its winning piece.
DROPPED = 255

_BYTE = np.uint8(0)
_UNITS = 8192  # per turn of a thread, about
_WORTH_THREADS = 50_000  # units from which several threads are faster
_SIGNATURE = types.none(types.intp)


class _Work(NamedTuple):
    """The data that the threads share. The pieces of a row are consecutive in memory, each of `units` numbers."""

    taken: int  # rows that a thread has taken
    rows: int
    units: int
    pieces: int
    seed: int
    rate: int  # of dropout, in 2**32
    whole: int  # address of the pieces, or of their gradient
    result: int  # address of the maxima, or of their gradient
    winner: int  # address of bytes: which piece was largest, or `DROPPED`
    scale: int  # address of the factor on the units that are kept


def forward(whole: Tensor, rate: float, seed: int) -> tuple[Tensor, Tensor]:
    """Return the maximum over the pieces of each unit, with dropout.

    Parameters
    ----------
    whole : Tensor, shape = (rows, pieces, units)
        float32 or bfloat16, contiguous; at least 2 pieces, and fewer than `DROPPED`.
    rate : float
        Probability that a unit becomes 0; the others are divided by 1 - `rate`.
    seed : int
        32 bits. The dropped units depend only on the seed and their positions, not on the threads.

    Returns
    -------
    result : Tensor, shape = (rows, units)
    winner : Tensor, shape = (rows, units), uint8
        The number of the winning piece, the first of equal ones; or `DROPPED`.
    """
    rows, _, units = whole.shape
    result, winner = whole.new_empty(rows, units), whole.new_empty(rows, units, dtype=torch.uint8)
    _run(True, whole, result, winner, rate, seed)
    return result, winner


def backward(gradient: Tensor, winner: Tensor, pieces: int, rate: float) -> Tensor:
    """Return the gradient of all pieces, (rows, pieces, units), given that of the result, contiguous (rows, units)."""
    whole = gradient.new_empty(len(gradient), pieces, gradient.shape[1])
    _run(False, whole, gradient, winner, rate, 0)
    return whole


def _run(forwards: bool, whole: Tensor, result: Tensor, winner: Tensor, rate: float, seed: int) -> None:
    rows, pieces, units = whole.shape
    share = round(rate * 2**32)
    scale = np.array([1 / (1 - share / 2**32)], np.float32)
    addresses = (whole.data_ptr(), result.data_ptr(), winner.data_ptr(), scale.ctypes.data)
    work = _Work(0, rows, units, pieces, seed, share, *addresses)
    threads = torch.get_num_threads() if winner.numel() > _WORTH_THREADS else 1
    run_in_threads(_entry(forwards, whole.dtype), work, threads)


@njit_inline
def _random(number: Any, seed: Any) -> Any:
    """Return 32 pseudo-random bits: the finaliser of MurmurHash3 (A. Appleby)."""
    h = np.uint32(np.uint32(number) * np.uint32(0x9E3779B1) + np.uint32(seed))
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@njit_inline
def _forward(whole: Any, result: Any, winner: Any, units: int, pieces: int, seed: Any, rate: Any, scale: Any) -> None:
    """Process one row. LLVM vectorises these loops."""
    for i in range(units):
        first, second = whole[i], whole[units + i]
        more = (second > first) | (second != second)  # propagates NaN, as torch.maximum does
        result[i] = second if more else first
        winner[i] = np.uint8(more)
    for piece in range(2, pieces):
        for i in range(units):
            best, other = result[i], whole[piece * units + i]
            more = (other > best) | (other != other)
            result[i] = other if more else best
            winner[i] = np.uint8(piece) if more else winner[i]
    if rate:
        for i in range(units):
            stays = _random(i, seed) >= rate
            result[i] = result[i] * scale if stays else np.float32(0)
            winner[i] = winner[i] if stays else np.uint8(DROPPED)


@njit_inline
def _backward(whole: Any, result: Any, winner: Any, units: int, pieces: int, seed: Any, rate: Any, scale: Any) -> None:
    """Process one row."""
    for piece in range(pieces):
        for i in range(units):
            whole[piece * units + i] = result[i] * scale if winner[i] == np.uint8(piece) else np.float32(0)


@cache
def _entry(forwards: bool, dtype: torch.dtype) -> Any:
    """Compile the entry for numbers of one type, or fetch it from the cache on disk."""
    return with_cache(numba.cfunc, _source(forwards, dtype), _SIGNATURE, error_model="numpy").ctypes


def _source(forwards: bool, dtype: torch.dtype) -> Callable[[int], None]:
    """Return the entry to be compiled.

    What it captures is part of its key in numba's cache, and a compiled function is another in each process: the
    function of a row is therefore not captured but chosen inside.
    """
    like = KINDS[dtype]
    made_of = sources([*PRIMITIVES, Path(__file__)])

    def entry(address: int) -> None:
        """Do rows of the work at an address until none is left; any number of threads may do so at once."""
        made_of  # noqa: B018 - part of its key in numba's cache
        shared = memory(address, 0)
        rows, units, pieces, seed, rate = shared[1], shared[2], shared[3], shared[4], np.uint32(shared[5])
        scale = memory(shared[9], np.float32(0))[0]
        some = max(1, _UNITS // max(units, 1))
        first = fetch_and_add(shared, some)
        while first < rows:
            for r in range(first, min(first + some, rows)):
                whole = memory(shared[6], like) + r * units * pieces
                result, winner = memory(shared[7], like) + r * units, memory(shared[8], _BYTE) + r * units
                if forwards:
                    _forward(whole, result, winner, units, pieces, _random(r, seed), rate, scale)
                else:
                    _backward(whole, result, winner, units, pieces, _random(r, seed), rate, scale)
            first = fetch_and_add(shared, some)

    return entry
