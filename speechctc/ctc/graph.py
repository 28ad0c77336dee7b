"""A graph of CTC states: what a transcript with alternatives, optional parts and gaps allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_SOURCES = 254
"""Most arcs into one state: a step back is kept in one byte."""
NODE = -1
"""The column of states that take no frame."""


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
            state, or a state has more than `MOST_SOURCES` arcs.
        """
        if len(column) < 2 or column[0] != NODE or column[-1] != NODE or counts[0]:
            raise ValueError("the first and the last state must be nodes, and no arc may lead to the first")
        if counts.max() > MOST_SOURCES:
            raise ValueError(f"a state has {counts.max()} arcs; at most {MOST_SOURCES} are possible")
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
