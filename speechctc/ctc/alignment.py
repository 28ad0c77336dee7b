"""Which frames belong to which label: state posteriors, and the Viterbi path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.ctc.alternatives import Labels
from speechctc.ctc.graph import NODE, GraphPath, StateGraph, graph_viterbi
from speechctc.ctc.problem import Lengths, make_problem
from speechctc.ctc.reference import sample_of


class ViterbiPath(NamedTuple):
    """The most probable paths of a batch.

    Attributes
    ----------
    states : Tensor
        int64, shape (N, longest input): the state of each frame, ``2i+1`` for label i, ``2i`` for the blank before
        it, ``2L`` for the last blank; -1 past the end of a sample, and where no path fits.
    scores : Tensor
        float64, shape (N,): log-probability of the path; -inf where none fits.
    spans : Tensor
        int64, shape (N, longest target, 2): the first frame of each label, and the one after its last; -1 as above.
    """

    states: Tensor
    scores: Tensor
    spans: Tensor


def posteriors(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    *,
    packed: bool = False,
) -> Tensor:
    """Compute the probability of each lattice state in each frame, given the labels.

    Computed on the CPU; logits that are elsewhere are copied there.

    Parameters
    ----------
    logits, targets, input_lengths, target_lengths, blank, packed
        As for `speechctc.ctc.ctc_loss`.

    Returns
    -------
    Tensor
        float32, or float64 for float64 logits, shape (N, longest input, 2 * longest target + 1), on the CPU. State
        ``2i+1`` is label i: ``posteriors[..., 1::2]`` are those of the labels, ``[..., 0::2]`` of the blanks. Each
        frame adds up to 1. Zero behind the end of a sample and its labels, and where no path fits.

    Raises
    ------
    ValueError
        As `speechctc.ctc.ctc_loss` does.
    """
    from speechctc.ctc import cpu

    problem = make_problem(logits.detach().cpu(), targets, input_lengths, target_lengths, blank, packed)
    return cpu.state_posteriors(problem.on_host())[1]


def viterbi(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    *,
    packed: bool = False,
) -> ViterbiPath:
    """Find the most probable path through the lattice of each sample (forced alignment; Viterbi's algorithm).

    Computed on the CPU in float64; logits that are elsewhere are copied there. Of paths that are equally probable,
    the one that stays longest in the later states is returned.

    Parameters
    ----------
    logits, targets, input_lengths, target_lengths, blank, packed
        As for `speechctc.ctc.ctc_loss`.

    Raises
    ------
    ValueError
        As `speechctc.ctc.ctc_loss` does.
    """
    problem = make_problem(logits.detach().cpu(), targets, input_lengths, target_lengths, blank, packed).on_host()
    states = torch.full((problem.samples, problem.longest_input), -1, device="cpu")
    scores = torch.zeros(problem.samples, dtype=torch.float64, device="cpu")
    spans = torch.full((problem.samples, problem.longest_target, 2), -1, device="cpu")
    for sample in range(problem.samples):
        frames, labels = sample_of(problem, sample)
        if not len(frames) and not len(labels):
            continue
        path = _best_path(frames.log_softmax(-1).numpy(), labels, blank)
        scores[sample] = path.score
        if path.score > -np.inf:
            found, places = path.states - 1, 2 * np.arange(len(labels)) + 1
            edges = [np.searchsorted(found, places, side) for side in ("left", "right")]
            states[sample, : len(found)] = torch.from_numpy(found)
            spans[sample, : len(labels)] = torch.from_numpy(np.stack(edges, axis=1))
    return ViterbiPath(states, scores, spans)


def _best_path(log_p: NDArray[np.float64], labels: Labels, blank: int) -> GraphPath:
    """Return the best path through a sample's lattice as a graph, in which a node is before and after the states."""
    column = np.full(2 * len(labels) + 3, blank, np.int32)
    column[2:-1:2], column[[0, -1]] = labels, NODE
    arcs = [[(state - 1, 0.0)] if state else [] for state in range(len(column))]
    for state in range(2, len(column) - 1, 2):  # labels
        if state == 2 or column[state] != column[state - 2]:
            arcs[state].append((state - 2, 0.0))
    if len(labels):
        arcs[-1].append((len(column) - 3, 0.0))
    return graph_viterbi(StateGraph.build(column.tolist(), arcs), lambda start, stop: log_p[start:stop], len(log_p))
