"""The inner loop of the prefix beam search, for the interpreter and for the compiler.

One description serves both. A frame costs 0.5 ms in the interpreter and 0.02 ms in compiled code, at beam 64; loading
the compiler and its cache costs 1.2 s, as much as 50 s of speech. So a process searches its first `INTERPRETED_WORK` by
the interpreter, unless the first of many recordings tells that more will come. Indices and numbers are read through
memoryviews there, which return Python's own, not numpy's: this is 3.5 times as fast, and integers do not overflow.

The candidates of a frame meet in a hash table.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.lm.model import PhoneLM

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Short = NDArray[np.int32]
Rows = NDArray[np.float32]

STRIDE = 8  # frames between commits
NEVER = -1e300
PRIME = 1099511628211  # FNV-1a, with phones in place of octets, is the hash of phones
SPREAD = 0x9E3779B1
MAX_INT64 = 2**63 - 1  # so that products are the same whether integers overflow or not
INTERPRETED_WORK = 1500 * 64  # frames times tokens: 30 s of speech at beam 64 and 50 frames a second


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
    new_score, new_best, new_code, new_last, new_parent : ndarray, shape = (beam * classes,)
        Candidates.
    new_state : ndarray, shape = (beam,)
        States of the candidates that are kept.
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
    new_last: Short
    new_parent: Short
    new_state: Short
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
            new_last=np.zeros(most, np.int32),
            new_parent=np.zeros(most, np.int32),
            new_state=np.zeros(beam, np.int32),
            slot=np.zeros(slots, np.int32),
            stamp=np.full(slots, -1),
            clock=np.array([1, 0, 0]),
            total=np.zeros(1),
        )


def _extend(tokens: Tokens, row: Reals, lm_log_probs: Rows, weight: float, bonus: float, margin: float) -> int:
    """Write the candidates of a frame, one per phone sequence and last class; sum paths that meet."""
    slot, stamp, mask, frame = tokens.slot, tokens.stamp, len(tokens.slot) - 1, tokens.clock[1]
    new_score, new_best, new_parent = tokens.new_score, tokens.new_best, tokens.new_parent
    new_code, new_last, count, floor = tokens.new_code, tokens.new_last, 0, float(row.max()) - margin
    likely = [(label, float(row[label])) for label in range(len(row)) if row[label] >= floor]
    for k in range(tokens.clock[0]):
        own, state, last, score, best = tokens.code[k], tokens.state[k], tokens.last[k], tokens.score[k], tokens.best[k]
        for label, gain in likely:
            code = own
            if label > 0 and label != last:
                gain += weight * lm_log_probs[state, label] + bonus
                code = (own ^ label) * PRIME & MAX_INT64
            at = ((code ^ label) * SPREAD >> 24) & mask
            while stamp[at] == frame and (new_code[slot[at]] != code or new_last[slot[at]] != label):
                at = (at + 1) & mask
            if stamp[at] != frame:
                stamp[at], slot[at] = frame, count
                new_score[count], new_best[count], new_parent[count] = score + gain, best + gain, k
                new_code[count], new_last[count] = code, label
                count += 1
                continue
            found = slot[at]
            new_score[found] = _sum(new_score[found], score + gain)
            if best + gain > new_best[found]:
                new_best[found], new_parent[found] = best + gain, k
    return count


def _sum(a: float, b: float) -> float:
    """Return log(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return high + math.log1p(math.exp(low - high))


def _select(tokens: Tokens, count: int, next_state: Short) -> None:
    """Keep the best candidates; of equal ones, the first."""
    kept = min(count, len(tokens.score))
    chosen = best_of(tokens.new_score[:count], kept)
    score, best = tokens.new_score[chosen[0]], tokens.new_best[chosen[0]]
    at = tokens.clock[1] % len(tokens.parent)
    for k in range(kept):
        parent, label = tokens.new_parent[chosen[k]], tokens.new_last[chosen[k]]
        tokens.parent[at, k], tokens.label[at, k] = parent, label
        state = tokens.state[parent]
        tokens.new_state[k] = state if label == 0 or label == tokens.last[parent] else next_state[state, label]
    for k in range(kept):
        candidate = chosen[k]
        tokens.score[k], tokens.best[k] = tokens.new_score[candidate] - score, tokens.new_best[candidate] - best
        tokens.code[k], tokens.last[k] = tokens.new_code[candidate], tokens.new_last[candidate]
        tokens.state[k] = tokens.new_state[k]
    tokens.total[0] += score
    tokens.clock[0] = kept
    tokens.clock[1] += 1


def best_of(scores: Reals, kept: int) -> Integers:
    """Return the indices of the best scores, best first; of equal ones, the first. For the interpreter."""
    scores = np.asarray(scores)
    chosen = np.flatnonzero(scores >= np.partition(scores, len(scores) - kept)[len(scores) - kept])
    return chosen[np.argsort(-scores[chosen], kind="mergesort")][:kept]


def best_by_loops(scores: Reals, kept: int) -> Integers:
    """Do the same for the compiler, to which numpy's functions take 7 s: Hoare's selection, then Shell's sort."""
    values, low, high, at = scores.copy(), 0, len(scores) - 1, len(scores) - kept
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        low, high = i if at > j else low, j if at < i else high
    chosen, found = np.empty(len(scores), np.int64), 0
    for n in range(len(scores)):
        if scores[n] >= values[at]:
            chosen[found] = n
            found += 1
    gap = found
    while gap > 1:
        gap = max(5 * gap // 11, 1)
        for k in range(gap, found):
            n, m = chosen[k], k
            while m >= gap and (scores[n], -n) > (scores[chosen[m - gap]], -chosen[m - gap]):
                chosen[m] = chosen[m - gap]
                m -= gap
            chosen[m] = n
    return chosen[:kept]


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
    rows: Reals,
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
        _select(tokens, _extend(tokens, rows[n], lm_log_probs, weight, bonus, margin), next_state)
        if tokens.clock[1] % STRIDE == 0:
            if tokens.clock[1] - tokens.clock[2] > limit:
                _agree(tokens, tokens.clock[1] - limit - 1)
            done += _commit(tokens, path[done:])
    if ends and tokens.clock[1] > tokens.clock[2]:
        _finish(tokens, lm_log_probs, weight)
        done += _commit(tokens, path[done:])
    return path[:done]


class Compiled:
    """`_advance`, compiled or from numba's cache on disk, and when this process needs it."""

    recordings = 1  # that will be searched, as far as `expect` told
    done = 0  # what was searched by the interpreter, in frames times tokens
    loaded: Callable[..., Integers] | None = None
    loading = threading.Lock()

    @classmethod
    def is_worth_it(cls, work: int) -> bool:
        """Return whether to compile for the next frames times tokens; they are counted if not."""
        to_come = cls.done + work if cls.done else work * cls.recordings
        if "numba" in sys.modules or to_come > INTERPRETED_WORK:
            return True
        cls.done += work
        return False

    @classmethod
    def function(cls, work: int) -> Callable[..., Integers] | None:
        """Return the function, which releases the GIL; None while another thread loads it and little is to be done."""
        if cls.loaded is None and cls.loading.acquire(blocking=work > INTERPRETED_WORK):
            try:
                cls.loaded = cls.loaded or _compiled()
            finally:
                cls.loading.release()
        return cls.loaded


def expect(recordings: int) -> None:
    """Tell that so many recordings will be searched in this process."""
    Compiled.recordings = max(recordings, 1)


def _compiled() -> Callable[..., Integers]:
    from speechctc.ctc.compiler import numba, overload, register_jitable, with_cache

    for function in (_extend, _sum, _select, _agree, _commit, _finish):
        register_jitable(function)
    overload(best_of, strict=False)(lambda scores, kept: best_by_loops)
    return with_cache(numba.njit, _advance, nogil=True)  # type: ignore[no-any-return]


def advance(tokens: Tokens, rows: Reals, lm: PhoneLM, numbers: tuple[float, float, float], ends: bool) -> Integers:
    """Process the next frames; return the classes of the frames that are committed by them.

    Parameters
    ----------
    tokens : Tokens
    rows : ndarray, shape = (n_frames, classes), float64
        Log posteriors.
    lm : PhoneLM
    numbers : tuple of float
        Weight and bonus of the n-gram, margin.
    ends : bool
        Whether the recording ends after these frames.
    """
    work = len(rows) * len(tokens.score)
    if Compiled.is_worth_it(work) and (compiled := Compiled.function(work)) is not None:
        return compiled(tokens, rows, lm.log_probs, lm.next_state, *numbers, ends)
    view: Any = memoryview
    views, found = Tokens(*map(view, tokens)), []
    for n in range(len(rows) + ends):
        log_probs, next_state = lm.tables(tokens.state[: tokens.clock[0]])
        found.append(_advance(views, rows[n : n + 1], view(log_probs), view(next_state), *numbers, n == len(rows)))
    return np.concatenate([np.zeros(0, np.int64), *found])
