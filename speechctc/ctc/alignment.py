"""Which frames belong to which label: state posteriors, and the Viterbi path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.ctc.arguments import Lengths
from speechctc.ctc.problem import Problem, make_problem
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
    frames, counts = problem.input_lengths.numpy(), problem.target_lengths.numpy()
    log_p, may_skip = _lattice(problem)
    scores, came_from = _best_scores(log_p, may_skip, frames)
    samples = np.arange(problem.samples)
    last = 2 * counts
    # A path ends in the last blank or, if there is one and it is better, in the last label.
    last = last - ((counts > 0) & (scores[samples, last - 1] > scores[samples, last]))
    score = scores[samples, last]
    states = _trace(came_from, np.where(score > -np.inf, last, -1), frames)
    return ViterbiPath(
        torch.from_numpy(states), torch.from_numpy(score), torch.from_numpy(_spans(states, problem.longest_target))
    )


def _lattice(problem: Problem) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each state's log-probability per frame, (T, N, S), and which states may be skipped to, (N, S)."""
    width = 2 * problem.longest_target + 1
    log_p = np.full((problem.longest_input, problem.samples, width), -np.inf)
    may_skip = np.zeros((problem.samples, width), bool)
    for sample in range(problem.samples):
        logits, labels = sample_of(problem, sample)
        path = np.full(2 * len(labels) + 1, problem.blank)
        path[1::2] = labels
        log_p[: len(logits), sample, : len(path)] = logits.log_softmax(-1).numpy()[:, path]
        may_skip[sample, 3 : len(path) : 2] = labels[1:] != labels[:-1]
    return log_p, may_skip


def _best_scores(
    log_p: NDArray[np.float64], may_skip: NDArray[np.bool_], frames: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return each state's best score in the last frame of its sample, and the step back of its path, per frame."""
    length, samples, states = log_p.shape
    came_from = np.zeros((length, samples, states), np.int8)
    scores: NDArray[np.float64] = np.full((samples, states), -np.inf)
    scores[:, 0] = 0.0  # before the first frame: all paths come from before the first blank
    for t in range(length):
        step = np.full_like(scores, -np.inf)
        step[:, 1:] = scores[:, :-1]
        skip = np.full_like(scores, -np.inf)
        skip[:, 2:] = np.where(may_skip[:, 2:], scores[:, :-2], -np.inf)
        best = np.maximum(np.maximum(scores, step), skip)
        came_from[t] = np.where(best == scores, 0, np.where(best == step, 1, 2))
        scores = np.where((t < frames)[:, None], best + log_p[t], scores)
    return scores, came_from


def _trace(came_from: NDArray[np.int8], last: NDArray[np.int64], frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Follow the paths back from their last states; -1 marks frames without a path."""
    length, samples, _ = came_from.shape
    states: NDArray[np.int64] = np.full((samples, length), -1)
    state: NDArray[np.int64] = last.copy()
    rows = np.arange(samples)
    for t in range(length - 1, -1, -1):
        here = (t < frames) & (last >= 0)
        states[here, t] = state[here]
        state = np.where(here, state - came_from[t, rows, state], state)
    return states


def _spans(states: NDArray[np.int64], longest_target: int) -> NDArray[np.int64]:
    """Return the first frame of each label, and the frame after its last."""
    spans = np.full((len(states), longest_target, 2), -1)
    for sample, row in enumerate(states):
        labels = np.flatnonzero(row % 2 == 1)  # -1 is odd too
        labels = labels[row[labels] >= 0]
        which, first, count = np.unique(row[labels] // 2, return_index=True, return_counts=True)
        spans[sample, which, 0] = labels[first]
        spans[sample, which, 1] = labels[first] + count
    return spans
