"""The best path through graphs of CTC states: against all paths, the linear lattice, and itself in small blocks."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.ctc.graph import MAX_SOURCES, NODE, Band, GraphPath, StateGraph, graph_viterbi

Arcs = list[list[tuple[int, float]]]


def linear(labels: list[int]) -> StateGraph:
    """Return the CTC lattice of these labels as a graph; state k of the lattice is state k + 1."""
    columns, arcs = [NODE], Arcs([[]])
    for k in range(2 * len(labels) + 1):
        columns.append(0 if k % 2 == 0 else labels[k // 2])
        into = [(k, 0.0)] if k != 1 else [(1, 0.0), (0, 0.0)]
        if k % 2 and k > 1 and labels[k // 2] != labels[k // 2 - 1]:
            into.append((k - 1, 0.0))
        arcs.append(into)
    last = len(columns) - 1
    return StateGraph.build([*columns, NODE], [*arcs, [(last, 0.0), (last - 1, 0.0)] if labels else [(last, 0.0)]])


def random_graph(rng: np.random.Generator, states: int, columns: int) -> StateGraph:
    """Return a graph with nodes among its states, and weights."""
    column = [NODE, *np.where(rng.random(states) < 0.4, NODE, rng.integers(columns, size=states)).tolist(), NODE]
    arcs: Arcs = [[]]
    for s in range(1, states + 2):
        sources = rng.choice(s, size=min(s, int(rng.integers(1, 4))), replace=False)
        arcs.append([(int(u), float(rng.normal())) for u in sources])
    return StateGraph.build(column, arcs)


def all_scores(graph: StateGraph, rows: NDArray[np.float32]) -> dict[tuple[int, ...], float]:
    """Return the best score of each sequence of states, one a frame, that leads from start to end, by enumeration."""
    into = {s: list(range(graph.first[s], graph.first[s + 1])) for s in range(graph.states)}

    def reach(source: int, target: int) -> float:
        """Return the best weight from a state, through nodes only, to another."""
        through = [
            graph.weight[k] + (0.0 if graph.source[k] == source else reach(source, int(graph.source[k])))
            for k in into[target]
            if graph.source[k] == source or (graph.column[graph.source[k]] == NODE and graph.source[k] > 0)
        ]
        return max(through, default=-math.inf)

    emitting = np.flatnonzero(graph.column != NODE).tolist()
    found = {}
    for states in itertools.product(emitting, repeat=len(rows)):
        steps = [(0, states[0]), *itertools.pairwise(states)]
        score = sum(max(reach(a, b), 0.0 if a == b else -math.inf) for a, b in steps) + reach(
            states[-1], graph.states - 1
        )
        if score > -math.inf:
            found[states] = score + float(sum(rows[t, graph.column[s]] for t, s in enumerate(states)))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_all_paths_through_a_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 6, 3)
    rows = rng.normal(size=(4, 3)).astype(np.float32)
    wanted = all_scores(graph, rows)
    for block in (1, 10, 10_000):
        path = run(graph, rows, block_bytes=block)
        if not wanted:
            assert path.score == -math.inf and (path.states == -1).all()
            continue
        best = max(wanted.values())
        assert path.score == pytest.approx(best) and wanted[tuple(path.states.tolist())] == pytest.approx(best)


def run(graph: StateGraph, rows: NDArray[np.float32], **options: object) -> GraphPath:
    return graph_viterbi(graph, lambda a, b: rows[a:b], len(rows), **options)  # type: ignore[arg-type]


def test_jumps_name_the_arcs_to_nodes_with_the_frame_before() -> None:
    """start -> a -> node -> b -> end, and from start past a, at a price."""
    graph = StateGraph.build([NODE, 0, NODE, 1, NODE], [[], [(0, 0.0)], [(1, 0.0), (0, -1.0)], [(2, 0.0)], [(3, 0.0)]])
    rows = np.array([[0, -9], [0, -9], [-9, 0]], np.float32)
    assert run(graph, rows).jumps.tolist() == [[1, 1], [2, 4]]
    path = run(graph, rows[2:])
    assert path.score == -1 and path.jumps.tolist() == [[-1, 2], [0, 4]]
    assert run(graph, rows[:0]).score == -math.inf


def test_in_a_band_the_path_is_the_best_inside_of_it() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(1, 5, size=60).tolist()
    rows = rng.normal(size=(300, 5)).astype(np.float32)
    graph = linear(labels)
    whole = run(graph, rows)
    middle = np.maximum.accumulate(whole.states)
    band = Band(np.maximum(middle - 9, 0), np.minimum(middle + 9, graph.states).astype(np.int32))
    band.high[-1] = graph.states
    for block in (1, 500, 10**6):
        inside = run(graph, rows, band=band, block_bytes=block)
        assert inside.score == pytest.approx(whole.score) and inside.states.tolist() == whole.states.tolist()
    narrow = Band(band.low, np.minimum(np.maximum.accumulate(middle // 2 + 4), graph.states).astype(np.int32))
    narrow.low[:] = 0
    narrow.high[-30:] = graph.states
    forced = run(graph, rows, band=narrow, block_bytes=400)
    assert (forced.states < narrow.high).all() and forced.score < whole.score
    blocked = rows.copy()
    states = np.arange(graph.states)
    wide = np.repeat(blocked[:, :, None], 1, axis=2)[:, :, 0]
    by_state = np.where((states[None] < narrow.high[:, None]), wide[:, np.maximum(graph.column, 0)], -np.inf)
    alone = graph._replace(column=np.where(graph.column == NODE, NODE, states).astype(np.int32))
    assert run(alone, by_state.astype(np.float32)).score == pytest.approx(forced.score)


def peak(labels: list[int], block_bytes: int) -> int:
    """Return the most memory that a path through a narrow band takes, four frames a label."""
    graph, frames = linear(labels), 4 * len(labels)
    middle = np.arange(frames) // 2
    high = np.minimum(middle + 12, graph.states).astype(np.int32)
    band = Band(np.maximum(middle - 8, 0).astype(np.int32), high)
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        path = graph_viterbi(graph, lambda a, b: rng.normal(size=(b - a, 5)).astype("f"), frames, band, block_bytes)
        assert path.score > -math.inf
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_path_takes_little_more_than_its_states_and_jumps() -> None:
    """A number of 4 bytes a frame; nothing of 8 bytes for each state of the graph."""
    labels = np.random.default_rng(0).integers(1, 5, size=20_000).tolist()
    peak(labels[:100], 8_000)  # compiled
    more = peak(labels, 8_000) - peak(labels[:5_000], 8_000)
    assert more < 15_000 * (4 * 4 + 8), f"{more:,} bytes"


def test_what_is_no_graph_is_refused_and_what_just_is_one_is_not() -> None:
    end: list[tuple[int, float]] = [(0, 0.0)]
    assert StateGraph.build([NODE, NODE], [[], end]).states == 2
    for columns, arcs in (([NODE], [[]]), ([0, NODE], [[], end]), ([NODE, 0], [[], end]), ([NODE, NODE], [end, end])):
        with pytest.raises(ValueError, match="first and the last state"):
            StateGraph.build(columns, arcs)
    for source in (1, 2):  # to itself, or from a later state
        with pytest.raises(ValueError, match="earlier state"):
            StateGraph.build([NODE, NODE, NODE], [[], [(source, 0.0)], end])
    assert StateGraph.build([NODE, 0, NODE], [[], [(2, 0.0), (1, 0.0)], end]).states == 3, "a column may go back"
    assert StateGraph.build([NODE, NODE], [[], end * MAX_SOURCES]).states == 2
    with pytest.raises(ValueError, match=f"{MAX_SOURCES + 1} arcs; at most {MAX_SOURCES}"):
        StateGraph.build([NODE, NODE], [[], end * (MAX_SOURCES + 1)])


def test_progress_is_told_in_frames_and_each_is_passed_twice() -> None:
    rows = np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
    told: list[int] = []
    graph = linear([1, 2, 1])
    path = graph_viterbi(graph, lambda a, b: rows[a:b], 23, block_bytes=5 * graph.states, advance=told.append)
    assert path.score > -math.inf and sorted(told) == [3, 3] + [5] * 8
