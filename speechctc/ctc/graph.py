"""A graph of CTC states: what a transcript with alternatives and gaps allows; the most probable path through it.

The most probable path through a graph of CTC states, in bounded memory. Frames are worked on in blocks. The first pass
keeps the scores before each block only. The second pass goes through the blocks from the last to the first, computes
each again, now with a byte for each step back, and follows the path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.ctc.compiler import numba, with_cache

# Most arcs into one state: a step back is kept in one byte.
MAX_SOURCES = 254
# The column of states that take no frame.
NODE = -1

# Memory for the steps back of one block.
BLOCK_BYTES = 16_000_000

Rows = NDArray[np.float32] | NDArray[np.float64]
Scores = NDArray[np.float64]
# Returns the log emissions of frames ``start`` to ``stop - 1``, shape (n, columns), float32 or float64.
Emissions = Callable[[int, int], Rows]


class StateGraph(NamedTuple):
    """States and the arcs between them, arcs sorted by the state that they lead to.

    State 0 is the start and the last state is the end; both are nodes. A state with a column takes one frame or more:
    it also leads to itself. A node takes no frame: a path passes through it between two frames.

    Attributes
    ----------
    column : ndarray, shape = (states,), int32
        Column of the emissions for each state; `NODE` for nodes.
    first : ndarray, shape = (states + 1,), int64
        Arcs ``first[s]`` to ``first[s + 1] - 1`` lead to state s.
    source : ndarray, shape = (arcs,), int32
        Where each arc comes from. Arcs to a node come from earlier states.
    weight : ndarray, shape = (arcs,), float64
        Log weight of each arc.
    """

    column: NDArray[np.int32]
    first: NDArray[np.int64]
    source: NDArray[np.int32]
    weight: NDArray[np.float64]

    @classmethod
    def build(cls, columns: Sequence[int], arcs: Sequence[Sequence[tuple[int, float]]]) -> StateGraph:
        """Build a graph from the column of each state, and its arcs as pairs of source and log weight.

        Raises
        ------
        ValueError
            As `from_arrays`.
        """
        counts = np.array([len(each) for each in arcs], np.int64)
        source = np.array([source for each in arcs for source, _ in each], np.int32)
        weight = np.array([weight for each in arcs for _, weight in each], np.float64)
        return cls.from_arrays(np.asarray(columns, np.int32), counts, source, weight)

    @classmethod
    def from_arrays(
        cls,
        column: NDArray[np.int32],
        counts: NDArray[np.int64],
        source: NDArray[np.int32],
        weight: NDArray[np.float64],
    ) -> StateGraph:
        """Build a graph; `counts` has the number of arcs that lead to each state.

        Raises
        ------
        ValueError
            The start or the end is not a node, the start has arcs, an arc to a node does not come from an earlier
            state, or a state has more than `MAX_SOURCES` arcs.
        """
        if len(column) < 2 or column[0] != NODE or column[-1] != NODE or counts[0]:
            raise ValueError("the first and the last state must be nodes, and no arc may lead to the first")
        if counts.max() > MAX_SOURCES:
            raise ValueError(f"a state has {counts.max()} arcs; at most {MAX_SOURCES} are possible")
        to = np.repeat(np.arange(len(column)), counts)
        if (source[column[to] == NODE] >= to[column[to] == NODE]).any():
            raise ValueError("an arc to a node must come from an earlier state")
        return cls(column, np.concatenate([[0], np.cumsum(counts)]), source, weight)

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.column)


class Band(NamedTuple):
    """The states to look at in each frame: ``low[t]`` to ``high[t] - 1``; neither ever falls.

    Attributes
    ----------
    low, high : ndarray, shape = (n_frames,), int32
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]

    @classmethod
    def full(cls, frames: int, states: int) -> Band:
        """Return the band of all states."""
        return cls(np.zeros(frames, np.int32), np.full(frames, states, np.int32))

    @property
    def width(self) -> int:
        """Most states in a frame."""
        return int((self.high - self.low).max(initial=0))

    @property
    def cells(self) -> int:
        """Number of pairs of a frame and a state in the band."""
        return int((self.high - self.low).sum(dtype=np.int64))


class GraphPath(NamedTuple):
    """The most probable path.

    Attributes
    ----------
    states : ndarray, shape = (n_frames,), int32
        The state of each frame.
    score : float
        Sum of the emissions and of the weights of the arcs; -inf if there is no path.
    jumps : ndarray, shape = (n, 2), int64
        Arcs from a state to a node that the path took: the frame after which, and the number of the arc.
    """

    states: NDArray[np.int32]
    score: float
    jumps: NDArray[np.int64]


def graph_viterbi(
    graph: StateGraph,
    emissions: Emissions,
    frames: int,
    band: Band | None = None,
    block_bytes: int = BLOCK_BYTES,
    advance: Callable[[int], None] | None = None,
) -> GraphPath:
    """Find the most probable path from start to end (Viterbi's algorithm), in float64.

    Of paths that are equally probable, the one that stays longest in a state is returned, then the one whose arc is
    listed first.

    Parameters
    ----------
    graph : StateGraph
    emissions : callable
        Called for all frames once or twice, the second time backwards.
    frames : int
    band : Band, optional
        States to look at; all by default. The path is the best of those inside the band.
    block_bytes : int
        Bounds memory; a frame takes a byte for each state in its band. Scores are kept once for each block.
    advance : callable, optional
        Called with a number of frames when these are done in one of the two passes.
    """
    band = band or Band.full(frames, graph.states)
    width = band.width
    block = max(block_bytes // max(width, 1), 1)
    scores, entered = _before(graph, band)
    kept: list[tuple[int, Scores]] = []
    report = advance or (lambda frames: None)
    for start in range(0, frames, block):
        stop = min(start + block, frames)
        kept.append((start, scores))
        if stop < frames:
            scores = _forward(graph, emissions(start, stop), start, band, scores, None)
        report(stop - start)
    states = np.full(frames, -1, np.int32)
    jumps: list[NDArray[np.int64]] = []
    state, score, stop = graph.states - 1, float(scores[-1]), frames
    while kept:
        start, saved = kept.pop()
        steps = np.zeros((stop - start, width), np.uint8)
        ends = _forward(graph, emissions(start, stop), start, band, saved, steps)
        if stop == frames:
            score = float(ends[-1]) if band.high[-1] == graph.states else -np.inf
            if score == -np.inf:
                return GraphPath(states, score, np.zeros((0, 2), np.int64))
        found, state = _compiled()[1](graph, steps, start, band.low, state, states[start:stop])
        jumps.append(found.copy())  # a view would keep what was made for more
        report(stop - start)
        stop = start
        del steps  # before the next are made
    while state:  # the nodes before the first frame
        arc = int(graph.first[state]) + int(entered[state]) - 1
        jumps.append(np.array([[-1, arc]]))
        state = int(graph.source[arc])
    return GraphPath(states, score, np.concatenate([np.zeros((0, 2), np.int64), *jumps])[::-1])


def _before(graph: StateGraph, band: Band) -> tuple[Scores, NDArray[np.uint8]]:
    """Return the scores before the first frame, of the states in its band and before, and the steps back of nodes."""
    high = int(band.high[0]) if len(band.high) else graph.states
    scores = np.full(high, -np.inf)
    scores[0] = 0.0
    steps = np.zeros(high, np.uint8)
    for state in np.flatnonzero(graph.column[:high] == NODE).tolist():
        for step, arc in enumerate(range(graph.first[state], graph.first[state + 1]), start=1):
            score = scores[graph.source[arc]] + graph.weight[arc]
            if score > scores[state]:
                scores[state], steps[state] = score, step
    return scores, steps


def _forward(
    graph: StateGraph, rows: Rows, start: int, band: Band, scores: Scores, steps: NDArray[np.uint8] | None
) -> Scores:
    """Return the scores after a block of frames, given those before it, both inside the band of their frame.

    Fill `steps`, shape (n, band.width), unless it is None. Only the states of the block are looked at: of hours, all
    would be many.
    """
    steps = np.zeros((0, 0), np.uint8) if steps is None else steps
    last = start + len(rows) - 1
    low, high = int(band.low[start - 1]) if start else 0, int(band.high[last])
    before = np.full(high - low + 1, -np.inf)  # the last one stands for all states that are not in the block
    before[: len(scores)] = scores
    part = _part(graph, low, high)
    ends = _compiled()[0](part, np.ascontiguousarray(rows), start, band, before, steps, low)
    return ends[band.low[last] - low : high - low].copy()


def _part(graph: StateGraph, low: int, high: int) -> StateGraph:
    """Return the states `low` to ``high - 1``, numbered from 0; arcs from others come from one after these."""
    arcs = slice(graph.first[low], graph.first[high])
    source = graph.source[arcs] - np.int32(low)
    source[(source < 0) | (source > high - low)] = high - low
    return StateGraph(graph.column[low:high], graph.first[low : high + 1] - arcs.start, source, graph.weight[arcs])


@cache
def _compiled() -> tuple[Callable[..., Scores], Callable[..., tuple[NDArray[np.int64], int]]]:
    return with_cache(numba.njit, _sweep, nogil=True), with_cache(numba.njit, _trace, nogil=True)


def _sweep(graph, rows, start, band, before, steps, from_):  # type: ignore[no-untyped-def]
    """Advance the scores by the frames of a block; the graph's first state is `from_` of the band."""
    column, first, source, weight = graph
    low, high = band
    now = np.full(len(before), -np.inf)
    for i in range(len(rows)):
        t = start + i
        begin, end = low[t] - from_, high[t] - from_
        for s in range(max(low[t - 2] - from_, 0) if t > 1 else 0, begin):  # left two frames ago, and outside now
            now[s] = -np.inf
        for s in range(begin, end):
            c = column[s]
            best, step = -np.inf, 0
            if c >= 0:
                best = before[s]
                for k in range(first[s], first[s + 1]):
                    score = before[source[k]] + weight[k]
                    if score > best:
                        best, step = score, k - first[s] + 1
                now[s] = best + rows[i, c]
            else:
                for k in range(first[s], first[s + 1]):
                    score = now[source[k]] + weight[k]
                    if score > best:
                        best, step = score, k - first[s] + 1
                now[s] = best
            if len(steps):
                steps[i, s - begin] = step
        before, now = now, before
    return before


def _trace(graph, steps, start, low, state, states):  # type: ignore[no-untyped-def]
    """Follow the path back through a block; return the jumps, last first, and the state before the block."""
    column, first, source, _ = graph
    jumps: NDArray[np.int64] = np.zeros((len(steps) + 16, 2), np.int64)
    count = 0
    for i in range(len(steps) - 1, -1, -1):
        while column[state] < 0:
            arc = first[state] + steps[i, state - low[start + i]] - 1
            if count == len(jumps):
                jumps = np.concatenate((jumps, np.zeros_like(jumps)))
            jumps[count, 0], jumps[count, 1] = start + i, arc
            count += 1
            state = source[arc]
        states[i] = state
        step = steps[i, state - low[start + i]]
        if step:
            state = source[first[state] + step - 1]
    return jumps[:count], state
