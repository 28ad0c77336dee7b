"""Divide frames among states in a row: the probabilities of all ways, by a semi-Markov conditional random field [1]_.

A state has a score in each frame, one for beginning in a frame, and may have one for how many frames it lasts.
Forward-backward in float64; backward is forward on the lattice read from its end.

References
----------
.. [1] S. Sarawagi and W. Cohen, "Semi-Markov conditional random fields for information extraction", NIPS 2004.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
_NONE = -1e30  # the logarithm of 0, in sums that must stay finite
IMPOSSIBLE = _NONE / 10  # a sum below it has no way
RARE = 6.0  # nats; a state may last as long as it likes at this cost, if its length has a score


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
        A state takes frames from `low` to before `high` only; neither decreases, and no `high` is above n_frames.
    lasting : ndarray, shape = (n_lengths, n_states)
        Score of a state that lasts 0, 1, ... frames. A state may also last without such a score, `RARE` nats less
        probable; a state whose column begins with NaN lasts without at no cost.
    """

    inside: Scores
    entered: Scores
    skipped: Scores
    optional: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    lasting: Scores

    def reversed(self) -> Lattice:
        """Return the lattice read from its end: a state is entered where the next one was."""
        entered, skipped = np.zeros_like(self.entered), np.zeros_like(self.skipped)
        entered[1:, 1:] = self.entered[:0:-1, :0:-1]
        skipped[1:, 2:] = self.skipped[:0:-1, :1:-1]
        low, high = (len(self.inside) - each[::-1] for each in (self.high, self.low))
        inside, lasting = self.inside[::-1, ::-1].copy(), self.lasting[:, ::-1].copy()
        return Lattice(inside, entered, skipped, self.optional[::-1].copy(), low, high, lasting)


class Marginals(NamedTuple):
    """Probabilities over all ways; shapes as in `Lattice`.

    Attributes
    ----------
    total : float
        Log of the sum over all ways; below `IMPOSSIBLE` if there is none.
    inside, entered, skipped : ndarray
        Probability that a frame is in a state, and that a state begins in a frame.
    """

    total: float
    inside: Scores
    entered: Scores
    skipped: Scores


def marginals(lattice: Lattice) -> Marginals:
    """Return the probabilities of all states and boundaries."""
    begun, ended = _ways()(*lattice)
    _, rest = (each[::-1, ::-1] for each in _ways()(*lattice.reversed()))
    total = np.logaddexp(ended[-1, -1], ended[-1, -2] if lattice.optional[-1] and len(lattice.optional) > 1 else _NONE)
    entered, skipped = np.zeros_like(lattice.inside), np.zeros_like(lattice.inside)
    if total < IMPOSSIBLE:
        return Marginals(total, np.zeros_like(lattice.inside), entered, skipped)
    entered[:, 1:] = np.exp(ended[:-1, :-1] + lattice.entered[:, 1:] + rest[:-1, 1:] - total)
    after = lattice.optional[1:-1]  # the state between
    ways = ended[:-1, :-2] + lattice.skipped[:, 2:] + rest[:-1, 2:] - total
    skipped[:, 2:] = np.exp(np.where(after, ways, _NONE))  # those that leave a phone out may be too probable
    begins = entered + skipped
    begins[0] = np.exp(begun[0] + rest[0] - total)
    begins[:, :-1] -= entered[:, 1:]  # where the next begins, this one has ended
    begins[:, :-2] -= skipped[:, 2:]
    return Marginals(float(total), begins.cumsum(0), entered, skipped)


@cache
def _ways() -> Callable[..., tuple[Scores, Scores]]:
    from speechctc.ctc.compiler import numba, with_cache  # late: it loads slowly, and what is recognised needs none

    compiled: Callable[..., tuple[Scores, Scores]] = with_cache(numba.njit, _forward, nogil=True)
    return compiled


def _forward(inside, entered, skipped, optional, low, high, lasting):  # type: ignore[no-untyped-def]
    """Return the log sums over the ways to where a state begins in a frame, and to where it has ended before one.

    Both have a row more than there are frames.
    """
    frames, states = inside.shape
    begun, ended = np.full((frames + 1, states), _NONE), np.full((frames + 1, states), _NONE)
    so_far = np.zeros(frames + 1)  # scores of the state's frames before each
    for s in range(states):
        if s == 0 or (s == 1 and optional[0]):
            begun[0, s] = 0.0
        for t in range(max(low[s], 1), high[s]):
            for step in range(1, min(s, 2) + 1):
                if step == 1 or optional[s - 1]:
                    score = ended[t, s - step] + (entered[t, s] if step == 1 else skipped[t, s])
                    begun[t, s] = max(begun[t, s], score) + np.log1p(np.exp(-abs(begun[t, s] - score)))
        going, is_timed = _NONE, not np.isnan(lasting[0, s])
        for t in range(low[s] + 1, high[s] + 1):
            so_far[t] = so_far[t - 1] + inside[t - 1, s]
            going = max(going, begun[t - 1, s]) + np.log1p(np.exp(-abs(going - begun[t - 1, s]))) + inside[t - 1, s]
            ended[t, s] = going
            if is_timed:
                first, top = max(low[s], t - len(lasting) + 1), going - RARE
                for begin in range(first, t):
                    top = max(top, begun[begin, s] + so_far[t] - so_far[begin] + lasting[t - begin, s])
                total = np.exp(going - RARE - top)
                for begin in range(first, t):
                    total += np.exp(begun[begin, s] + so_far[t] - so_far[begin] + lasting[t - begin, s] - top)
                ended[t, s] = top + np.log(total)
    return begun, ended
