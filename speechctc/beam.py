"""The compiled inner loop of `speechctc.search.LmSearch`; importing this loads numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from speechctc.compiled.cached import with_cache
from speechctc.compiled.parts import compiled

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Short = NDArray[np.int32]
Rows = NDArray[np.float32]

STRIDE = 8  # frames from one look for what is settled to the next
NEVER = -1e300
PRIME = 1099511628211  # the hash of phones is FNV-1a's, a phone for an octet
SPREAD = 0x9E3779B1


class Tokens(NamedTuple):
    """What is kept, best first, and the candidates for the next frame.

    A token stands for all paths with the same phones and the same class in the last frame.

    Attributes
    ----------
    score, best : ndarray, shape = (beam,)
        Of all its paths together, and of the best of them; both relative to the first token's.
    code, state, last : ndarray, shape = (beam,)
        A hash of its phones; state of the n-gram; class of the last frame.
    parent, label : ndarray, shape = (window, beam)
        By frame, modulo the window: from which token of the frame before the best path comes, and its class.
    new_score, new_best, new_code, new_state, new_last, new_parent : ndarray, shape = (beam * classes,)
        Candidates.
    slot, stamp : ndarray, shape = (slots,)
        A hash table of them: candidate, and the frame it is of. `slots` is a power of two, twice the candidates.
    clock : ndarray, shape = (3,)
        Tokens kept, frames seen, frames settled.
    total : ndarray, shape = (1,)
        What has been taken off the scores so far.
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
        """Make room, with one token that has no phones and no frames."""
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


@compiled
def _extend(
    tokens: Tokens, row: Rows, lm_log_probs: Rows, next_state: Short, weight: float, bonus: float, margin: float
) -> int:
    """Write the candidates of a frame, one for each phones and class; paths that meet are added up."""
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


@compiled
def _candidate(tokens: Tokens, code: int, label: int, count: int) -> int:
    """Return which candidate has these phones and this class; `count`, from now on, if none had."""
    mask, frame = len(tokens.slot) - 1, tokens.clock[1]
    at = ((code ^ label) * SPREAD >> 24) & mask
    while tokens.stamp[at] == frame:
        found = tokens.slot[at]
        if tokens.new_code[found] == code and tokens.new_last[found] == label:
            return int(found)
        at = (at + 1) & mask
    tokens.stamp[at], tokens.slot[at] = frame, count
    return count


@compiled
def _sum(a: float, b: float) -> float:
    """Return log(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return float(high + np.log1p(np.exp(low - high)))


@compiled
def _sink(heap: Integers, score: Reals, k: int, size: int) -> None:
    """Move the element at `k` down a heap of candidates, the worst of which is at its top: of equal ones the last."""
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and _worse(score, heap[child + 1], heap[child]):
            child += 1
        if not _worse(score, heap[child], heap[k]):
            return
        heap[k], heap[child] = heap[child], heap[k]
        k = child


@compiled
def _worse(score: Reals, a: int, b: int) -> bool:
    return bool(score[a] < score[b] or (score[a] == score[b] and a > b))


@compiled
def _select(tokens: Tokens, count: int) -> None:
    """Keep the best candidates; of equal ones the first."""
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


@compiled
def _agree(tokens: Tokens, frame: int) -> None:
    """Drop the tokens whose best path is not as the first one's until a frame."""
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


@compiled
def _settle(tokens: Tokens, path: Integers) -> int:
    """Write the frames in which all best paths are one, from the first not settled; return how many there are."""
    window, settled, frame = len(tokens.parent), tokens.clock[2], tokens.clock[1] - 1
    one = np.arange(tokens.clock[0])
    seen = np.zeros(len(tokens.score), np.bool_)
    while len(one) > 1 and frame >= settled:
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
    count, k = int(max(frame - settled + 1, 0)), one[0]
    for t in range(frame, settled - 1, -1):
        path[t - settled] = tokens.label[t % window, k]
        k = tokens.parent[t % window, k]
    tokens.clock[2] += count
    return count


@compiled
def _finish(tokens: Tokens, lm_log_probs: Rows, weight: float) -> None:
    """Keep only the best path of the phones that are best with the end of the utterance after them."""
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
    """Take in the next frames; return the classes of the frames that they settle."""
    path = np.zeros(len(rows) + len(tokens.parent), np.int64)
    limit, done = len(tokens.parent) - STRIDE, 0
    for n in range(len(rows)):
        _select(tokens, _extend(tokens, rows[n], lm_log_probs, next_state, weight, bonus, margin))
        if tokens.clock[1] % STRIDE == 0:
            if tokens.clock[1] - tokens.clock[2] > limit:
                _agree(tokens, tokens.clock[1] - limit - 1)
            done += _settle(tokens, path[done:])
    if ends and tokens.clock[1] > tokens.clock[2]:
        _finish(tokens, lm_log_probs, weight)
        done += _settle(tokens, path[done:])
    return path[:done]


@cache
def advance() -> Callable[..., Integers]:
    """Return `_advance`, fetched from numba's cache on disk or compiled at its first call; it lets go of the GIL."""
    return with_cache(numba.njit, _advance, nogil=True)  # type: ignore[no-any-return]
