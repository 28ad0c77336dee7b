"""The CTC loss on CPUs: the compiled lattice, over the samples of a batch in parallel."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from speechctc.compiled.threads import share_out
from speechctc.ctc import native, pages
from speechctc.ctc.arguments import loss_type
from speechctc.ctc.problem import Problem

# About how many nanoseconds a frame takes, and each class and label in it; only for planning.
_FRAME, _CLASS, _LABEL = 50.0, 0.5, 3.0
_WORTH_THREADS = 200_000.0  # nanoseconds of work from which on it pays to share it
_BEYOND_CACHES = 2**24  # bytes of a gradient that no cache can be expected to hold


def loss_and_gradient(problem: Problem, want_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample and its gradient by the logits.

    Returns
    -------
    losses : Tensor
        float32, or float64 for float64 logits, shape (N,); inf where no path fits.
    gradient : Tensor or None
        Like the logits. Zero in padded frames and where the loss is inf.
    """
    gradient = pages.empty_like(problem.logits) if want_gradient else None
    return _solve(problem, gradient, None), gradient


def state_posteriors(problem: Problem) -> tuple[Tensor, Tensor]:
    """Compute the loss of each sample and the probability of each state in each frame.

    Returns
    -------
    losses : Tensor
        float32, or float64 for float64 logits, shape (N,).
    posteriors : Tensor
        Of the same type, shape (N, longest input, 2 * longest target + 1).
    """
    shape = (problem.samples, problem.longest_input, 2 * problem.longest_target + 1)
    posteriors = torch.zeros(shape, dtype=loss_type(problem.logits))
    return _solve(problem, None, posteriors), posteriors


def _solve(problem: Problem, gradient: Tensor | None, posteriors: Tensor | None) -> Tensor:
    """Run all samples; results go into the tensors that are given."""
    logits = problem.logits
    if logits.device.type != "cpu":
        raise ValueError(f"the CPU backend takes logits on the CPU; these are on {logits.device}")
    results = logits if gradient is None else gradient
    by_frame, by_sample, by_class = logits.stride()
    results_by_frame, results_by_sample, results_by_class = results.stride()
    packed = problem.frame_offsets is not None
    states = 2 * problem.longest_target + 1
    weights = problem.weights
    if weights is None:
        weights = torch.ones(problem.samples, dtype=loss_type(logits))
    losses = torch.empty_like(weights)
    order, threads, rows = _plan(problem)
    batch = native.Batch(
        taken=0,
        samples=problem.samples,
        order=order.ctypes.data,
        frames=problem.input_lengths.data_ptr(),
        frame_offsets=0 if problem.frame_offsets is None else problem.frame_offsets.data_ptr(),
        labels=problem.target_lengths.data_ptr(),
        target_offsets=problem.target_starts.data_ptr(),
        weights=weights.data_ptr(),
        losses=losses.data_ptr(),
        logits=logits.data_ptr(),
        gradient=0 if gradient is None else gradient.data_ptr(),
        targets=problem.targets.data_ptr(),
        posteriors=0 if posteriors is None else posteriors.data_ptr(),
        sample_stride=0 if packed else by_sample,
        frame_stride=by_frame,
        class_stride=by_class,
        gradient_sample_stride=0 if packed else results_by_sample,
        gradient_frame_stride=results_by_frame,
        gradient_class_stride=results_by_class,
        posteriors_sample_stride=problem.longest_input * states,
        posteriors_frame_stride=states,
        length=0 if packed else logits.shape[0],
        classes=logits.shape[2],
        blank=problem.blank,
        longest_input=problem.longest_input,
        longest_target=problem.longest_target,
        streams=gradient is not None and logits.shape[2] >= 256 and gradient.nbytes >= _BEYOND_CACHES,
        alpha=states if gradient is None and posteriors is None else rows,
    )
    share_out(native.entry(logits.dtype), np.array(batch, np.int64), threads)
    return losses


def _plan(problem: Problem) -> tuple[native.Integers, int, int]:
    """Plan the order of samples, longest first, and how many threads; find the numbers of alpha of the largest."""
    if problem.samples == 1:
        return np.zeros(1, np.int64), 1, problem.longest_input * (2 * problem.longest_target + 1)
    frames, labels = problem.input_lengths.numpy(), problem.target_lengths.numpy()
    costs = frames * (_FRAME + _CLASS * problem.classes + _LABEL * labels)
    threads = torch.get_num_threads() if costs.sum() > _WORTH_THREADS else 1
    return np.argsort(-costs, kind="stable"), threads, int((frames * (2 * labels + 1)).max())
