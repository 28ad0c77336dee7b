"""All ways to divide frames among states in a row, some of which may be left out, and the probability of each.

A linear-chain conditional random field [1]_ whose states are in a fixed order: forward-backward in float64.

References
----------
.. [1] J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields", ICML 2001, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from speechctc.jit.cache import with_cache

Scores = NDArray[np.float64]
_NONE = -1e30  # the logarithm of 0, in sums that must stay finite


class Lattice(NamedTuple):
    """States in a row.

    Attributes
    ----------
    inside : ndarray, shape = (n_frames, n_states)
        Score of a frame in a state.
    entered : ndarray, shape = (n_frames, n_states)
        Score of a state that begins in a frame, after the state before it.
    skipped : ndarray, shape = (n_frames, n_states)
        The same after the last but one, where the state between may be left out.
    optional : ndarray, shape = (n_states,), bool
        Which states may be left out; no two in a row.
    low, high : ndarray, shape = (n_states,), int64
        A state takes frames from `low` to before `high` only; neither decreases.
    """

    inside: Scores
    entered: Scores
    skipped: Scores
    optional: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class Marginals(NamedTuple):
    """Probabilities over all ways; shapes as in `Lattice`.

    Attributes
    ----------
    total : float
        Log of the sum over all ways; below -1e29 if there is none.
    inside, entered, skipped : ndarray
        Probability that a frame is in a state, and that a state begins in a frame.
    """

    total: float
    inside: Scores
    entered: Scores
    skipped: Scores


def marginals(lattice: Lattice) -> Marginals:
    """Return the probabilities of all states and boundaries."""
    forward, backward = _compiled()
    return Marginals(*backward(*lattice[:4], forward(*lattice)))


@cache
def _compiled() -> tuple[Callable[..., Scores], Callable[..., tuple[float, Scores, Scores, Scores]]]:
    return with_cache(numba.njit, _forward, nogil=True), with_cache(numba.njit, _backward, nogil=True)


def _forward(inside, entered, skipped, optional, low, high):  # type: ignore[no-untyped-def]
    """Return the log sums over the ways up to a frame and a state."""
    frames, states = inside.shape
    ahead = np.full((frames, states), _NONE)
    for s in range(min(states, 2)):
        if low[s] == 0 and (s == 0 or optional[0]):
            ahead[0, s] = inside[0, s]
    begin, end = 0, 0  # states whose frames include this one
    for t in range(1, frames):
        while begin < states - 1 and high[begin] <= t:
            begin += 1
        while end < states and low[end] <= t:
            end += 1
        for s in range(begin, end):
            total = ahead[t - 1, s]
            for step in range(1, 3):
                if s >= step and (step == 1 or optional[s - 1]):
                    score = ahead[t - 1, s - step] + (entered[t, s] if step == 1 else skipped[t, s])
                    total = max(total, score) + np.log1p(np.exp(-abs(total - score)))
            if total > _NONE / 2:
                ahead[t, s] = total + inside[t, s]
    return ahead


def _backward(inside, entered, skipped, optional, ahead):  # type: ignore[no-untyped-def]
    """Return the log sum over all ways, and the probabilities."""
    frames, states = inside.shape
    here, steps, skips = np.zeros((frames, states)), np.zeros((frames, states)), np.zeros((frames, states))
    rest = np.full(states, _NONE)  # log sums over the ways from a frame and a state to the end
    rest[states - 1] = 0.0
    if states > 1 and optional[states - 1]:
        rest[states - 2] = 0.0
    top = (ahead[frames - 1] + rest).max()
    if top < _NONE / 2:
        return _NONE, here, steps, skips
    total = top + np.log(np.exp(ahead[frames - 1] + rest - top).sum())
    for t in range(frames - 1, -1, -1):
        before = np.full(states, _NONE)
        for s in range(states):
            if ahead[t, s] < _NONE / 2 or rest[s] < _NONE / 2:
                continue
            here[t, s] = np.exp(ahead[t, s] + rest[s] - total)
            for step in range(3):
                if t and s >= step and (step < 2 or optional[s - 1]) and ahead[t - 1, s - step] > _NONE / 2:
                    score = inside[t, s] + rest[s]
                    if step == 1:
                        score += entered[t, s]
                        steps[t, s] = np.exp(ahead[t - 1, s - 1] + score - total)
                    elif step == 2:
                        score += skipped[t, s]
                        skips[t, s] = np.exp(ahead[t - 1, s - 2] + score - total)
                    other = before[s - step]
                    before[s - step] = max(other, score) + np.log1p(np.exp(-abs(other - score)))
        rest = before
    return total, here, steps, skips
