"""The compiled inner loop of the prefix beam search; importing it loads numba.

The candidates of a frame meet in a hash table, and a heap selects the best. At beam 64 this is 3.7 times as fast as
sorting them in compiled code, and 6 times as fast as sorting them in numpy, which also holds the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from speechctc.jit.cache import with_cache
from speechctc.jit.simd import njit_inline

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Short = NDArray[np.int32]
Rows = NDArray[np.float32]

STRIDE = 8  # frames between commits
NEVER = -1e300
PRIME = 1099511628211  # FNV-1a, with phones in place of octets, is the hash of phones
SPREAD = 0x9E3779B1


class Tokens(NamedTuple):
    """The tokens of the beam, best first, and the candidates for the next frame.

    A token represents all paths with the same phones and the same class in the last frame.

    Attributes
    ----------
    score, best : ndarray, shape = (beam,)
        Log-probability of all its paths together and of its best path, relative to the first token's.
    code, state, last : ndarray, shape = (beam,)
        Hash of its phones, state of the n-gram, class of the last frame.
    parent, label : ndarray, shape = (window, beam)
        By frame, modulo the window: the previous token on the best path, and the class.
    new_score, new_best, new_code, new_state, new_last, new_parent : ndarray, shape = (beam * classes,)
        Candidates.
    slot, stamp : ndarray, shape = (slots,)
        Hash table of the candidates: candidate and its frame. `slots` is a power of two, at least twice their number.
    clock : ndarray, shape = (3,)
        Tokens kept, frames seen, frames committed.
    total : ndarray, shape = (1,)
        Sum of what was subtracted from the scores so far, frame by frame.
    """

    score: Reals
    best: Reals
    code: Integers
    state: Short
    last: Short
    parent: Short
    label: Short
    new_score: Reals
    new_best: Reals
    new_code: Integers
    new_state: Short
    new_last: Short
    new_parent: Short
    slot: Short
    stamp: Integers
    clock: Integers
    total: Reals

    @classmethod
    def at_start(cls, beam: int, classes: int, limit: int) -> Tokens:
        """Allocate, with one token that has no phones and no frames."""
        window, most = limit + STRIDE, beam * classes
        slots = 1 << (2 * most).bit_length()
        return cls(
            score=np.zeros(beam),
            best=np.zeros(beam),
            code=np.zeros(beam, np.int64),
            state=np.zeros(beam, np.int32),
            last=np.zeros(beam, np.int32),
            parent=np.zeros((window, beam), np.int32),
            label=np.zeros((window, beam), np.int32),
            new_score=np.zeros(most),
            new_best=np.zeros(most),
            new_code=np.zeros(most, np.int64),
            new_state=np.zeros(most, np.int32),
            new_last=np.zeros(most, np.int32),
            new_parent=np.zeros(most, np.int32),
            slot=np.zeros(slots, np.int32),
            stamp=np.full(slots, -1),
            clock=np.array([1, 0, 0]),
            total=np.zeros(1),
        )


@njit_inline
def _extend(
    tokens: Tokens, row: Rows, lm_log_probs: Rows, next_state: Short, weight: float, bonus: float, margin: float
) -> int:
    """Write the candidates of a frame, one per phone sequence and last class; sum paths that meet."""
    floor, count = row.max() - margin, 0
    for k in range(tokens.clock[0]):
        for label in range(len(row)):
            if row[label] < floor:
                continue
            gain, code, state = np.float64(row[label]), tokens.code[k], tokens.state[k]
            if label > 0 and label != tokens.last[k]:
                gain += weight * lm_log_probs[state, label] + bonus
                code, state = (code ^ label) * PRIME, next_state[state, label]
            at = _candidate(tokens, code, label, count)
            if at == count:
                tokens.new_score[at] = tokens.new_best[at] = NEVER
                tokens.new_code[at], tokens.new_state[at], tokens.new_last[at] = code, state, label
                count += 1
            tokens.new_score[at] = _sum(tokens.new_score[at], tokens.score[k] + gain)
            if tokens.best[k] + gain > tokens.new_best[at]:
                tokens.new_best[at], tokens.new_parent[at] = tokens.best[k] + gain, k
    return count


@njit_inline
def _candidate(tokens: Tokens, code: int, label: int, count: int) -> int:
    """Return the candidate with these phones and this class; register `count` as it if there is none."""
    mask, frame = len(tokens.slot) - 1, tokens.clock[1]
    at = ((code ^ label) * SPREAD >> 24) & mask
    while tokens.stamp[at] == frame:
        found = tokens.slot[at]
        if tokens.new_code[found] == code and tokens.new_last[found] == label:
            return int(found)
        at = (at + 1) & mask
    tokens.stamp[at], tokens.slot[at] = frame, count
    return count


@njit_inline
def _sum(a: float, b: float) -> float:
    """Return log(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return float(high + np.log1p(np.exp(low - high)))


@njit_inline
def _sink(heap: Integers, score: Reals, k: int, size: int) -> None:
    """Sift down the element at `k` of a heap with the worst candidate at its top (of equal ones, the last)."""
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and _worse(score, heap[child + 1], heap[child]):
            child += 1
        if not _worse(score, heap[child], heap[k]):
            return
        heap[k], heap[child] = heap[child], heap[k]
        k = child


@njit_inline
def _worse(score: Reals, a: int, b: int) -> bool:
    return bool(score[a] < score[b] or (score[a] == score[b] and a > b))


@njit_inline
def _select(tokens: Tokens, count: int) -> None:
    """Keep the best candidates; of equal ones, the first."""
    kept = min(count, len(tokens.score))
    chosen = np.arange(kept)
    for k in range(kept // 2 - 1, -1, -1):
        _sink(chosen, tokens.new_score, k, kept)
    for k in range(kept, count):
        if tokens.new_score[k] > tokens.new_score[chosen[0]]:
            chosen[0] = k
            _sink(chosen, tokens.new_score, 0, kept)
    for end in range(kept - 1, 0, -1):
        chosen[0], chosen[end] = chosen[end], chosen[0]
        _sink(chosen, tokens.new_score, 0, end)
    score, best = tokens.new_score[chosen[0]], tokens.new_best[chosen[0]]
    tokens.total[0] += score
    at = tokens.clock[1] % len(tokens.parent)
    for k, candidate in enumerate(chosen):
        tokens.score[k], tokens.best[k] = tokens.new_score[candidate] - score, tokens.new_best[candidate] - best
        tokens.code[k] = tokens.new_code[candidate]
        tokens.state[k], tokens.last[k] = tokens.new_state[candidate], tokens.new_last[candidate]
        tokens.parent[at, k], tokens.label[at, k] = tokens.new_parent[candidate], tokens.new_last[candidate]
    tokens.clock[0] = kept
    tokens.clock[1] += 1


@njit_inline
def _agree(tokens: Tokens, frame: int) -> None:
    """Drop the tokens whose best path differs from the first token's up to a frame."""
    window, kept = len(tokens.parent), 0
    newest = (tokens.clock[1] - 1) % window
    before = np.arange(tokens.clock[0])
    for t in range(tokens.clock[1] - 1, frame, -1):
        for k in range(len(before)):
            before[k] = tokens.parent[t % window, before[k]]
    for k in range(len(before)):
        if before[k] == before[0]:
            tokens.score[kept], tokens.best[kept], tokens.code[kept] = tokens.score[k], tokens.best[k], tokens.code[k]
            tokens.state[kept], tokens.last[kept] = tokens.state[k], tokens.last[k]
            tokens.parent[newest, kept] = tokens.parent[newest, k]
            tokens.label[newest, kept] = tokens.label[newest, k]
            kept += 1
    tokens.clock[0] = kept


@njit_inline
def _commit(tokens: Tokens, path: Integers) -> int:
    """Write the uncommitted frames in which all best paths agree; return their number."""
    window, committed, frame = len(tokens.parent), tokens.clock[2], tokens.clock[1] - 1
    one = np.arange(tokens.clock[0])
    seen = np.zeros(len(tokens.score), np.bool_)
    while len(one) > 1 and frame >= committed:
        seen[:] = False
        distinct = 0
        for k in range(len(one)):
            parent = tokens.parent[frame % window, one[k]]
            if not seen[parent]:
                seen[parent] = True
                one[distinct] = parent
                distinct += 1
        one = one[:distinct]
        frame -= 1
    count, k = int(max(frame - committed + 1, 0)), one[0]
    for t in range(frame, committed - 1, -1):
        path[t - committed] = tokens.label[t % window, k]
        k = tokens.parent[t % window, k]
    tokens.clock[2] += count
    return count


@njit_inline
def _finish(tokens: Tokens, lm_log_probs: Rows, weight: float) -> None:
    """Keep only the best path of the sequence that is best with the end of the utterance included."""
    best, most, newest = 0, -np.inf, (tokens.clock[1] - 1) % len(tokens.parent)
    for k in range(tokens.clock[0]):
        score, path = NEVER, k
        for other in range(tokens.clock[0]):  # with a blank or a phone in the last frame
            if tokens.code[other] == tokens.code[k]:
                score = _sum(score, tokens.score[other])
                path = other if tokens.best[other] > tokens.best[path] else path
        score += weight * lm_log_probs[tokens.state[k], 0]
        if score > most:
            best, most = path, score
    tokens.parent[newest, 0], tokens.label[newest, 0] = tokens.parent[newest, best], tokens.label[newest, best]
    tokens.clock[0] = 1


def _advance(
    tokens: Tokens,
    rows: Rows,
    lm_log_probs: Rows,
    next_state: Short,
    weight: float,
    bonus: float,
    margin: float,
    ends: bool,
) -> Integers:
    """Process the next frames; return the classes of the frames that are committed by them."""
    path = np.zeros(len(rows) + len(tokens.parent), np.int64)
    limit, done = len(tokens.parent) - STRIDE, 0
    for n in range(len(rows)):
        _select(tokens, _extend(tokens, rows[n], lm_log_probs, next_state, weight, bonus, margin))
        if tokens.clock[1] % STRIDE == 0:
            if tokens.clock[1] - tokens.clock[2] > limit:
                _agree(tokens, tokens.clock[1] - limit - 1)
            done += _commit(tokens, path[done:])
    if ends and tokens.clock[1] > tokens.clock[2]:
        _finish(tokens, lm_log_probs, weight)
        done += _commit(tokens, path[done:])
    return path[:done]


@cache
def advance() -> Callable[..., Integers]:
    """Return `_advance`, compiled or from numba's cache on disk; it releases the GIL."""
    return with_cache(numba.njit, _advance, nogil=True)  # type: ignore[no-any-return]
