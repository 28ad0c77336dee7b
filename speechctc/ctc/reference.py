"""Losses to compare with: CTC from its definition, in float64, slow and simple; and PyTorch's own.

Graves, Fernández, Gomez and Schmidhuber, "Connectionist temporal classification", ICML 2006, section 4.1. The
recursions use logarithms.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from speechctc.ctc.alternatives import Array, Labels, fits, prefixes
from speechctc.ctc.problem import MIN_EXPONENT, Problem


def loss_and_gradient(problem: Problem, want_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample and its gradient by the logits.

    Returns
    -------
    losses : Tensor
        float64, shape (N,), on the CPU; inf where no path fits.
    gradient : Tensor or None
        Like the logits. Zero in padded frames and where the loss is inf.
    """
    problem = problem.on_host()
    losses = torch.zeros(problem.samples, dtype=torch.float64, device="cpu")
    gradient = torch.zeros_like(problem.logits) if want_gradient else None
    weights = problem.weights
    for sample in range(problem.samples):
        frames, labels = sample_of(problem, sample)
        loss, by_logits, _ = forward_backward(frames.numpy(force=True), labels, problem.blank)
        losses[sample] = loss
        if gradient is not None:
            weight = 1.0 if weights is None else float(weights[sample])
            rows_of(problem, gradient, sample).copy_(torch.from_numpy(by_logits * weight))
    return losses, gradient


def rows_of(problem: Problem, tensor: Tensor, sample: int) -> Tensor:
    """Return the rows of one sample in a tensor laid out like the logits: a view, shape (frames, C)."""
    frames = int(problem.input_lengths[sample])
    if problem.frame_offsets is None:
        return tensor[:frames, sample]
    start = int(problem.frame_offsets[sample])
    return tensor[start : start + frames, 0]


def sample_of(problem: Problem, sample: int) -> tuple[Tensor, Labels]:
    """Return one sample of a problem on the host: its logits, float64, shape (frames, C), and its labels."""
    start, count = int(problem.target_starts[sample]), int(problem.target_lengths[sample])
    labels = problem.targets[start : start + count].numpy()
    return rows_of(problem, problem.logits.detach(), sample).double(), labels


def forward_backward(logits: Array, labels: Labels, blank: int) -> tuple[float, Array, Array]:
    """Sum over all paths of one sample.

    Parameters
    ----------
    logits : ndarray
        float64, shape (T, C).
    labels : ndarray
        Shape (L,).
    blank : int
        The class of the blank.

    Returns
    -------
    loss : float
        ``-log p(labels | logits)``; inf where no path fits.
    gradient : ndarray
        Its derivative by the logits, shape (T, C): softmax less the posterior of each class (equation 16).
    posteriors : ndarray
        Of the states blank, label, blank, ..., blank; shape (T, 2L+1).
    """
    frames, states = len(logits), 2 * len(labels) + 1
    nothing = np.zeros_like(logits), np.zeros((frames, states))
    if frames == 0 or not fits(labels, frames):
        return (0.0 if frames == len(labels) == 0 else np.inf), *nothing
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        if np.isnan(log_p).any():
            return np.nan, np.full_like(logits, np.nan), np.full((frames, states), np.nan)
        path = np.full(states, blank)
        path[1::2] = labels
        alpha = prefixes(log_p[:, path], labels)
        likelihood = np.logaddexp.reduce(alpha[-1, -2:])
        if likelihood < MIN_EXPONENT * np.log(2):
            return np.inf, *nothing
        beta = prefixes(log_p[::-1, path[::-1]], labels[::-1])[::-1, ::-1]
        # Alpha and beta both hold the probability of their own frame (equation 14).
        log_gamma = alpha + beta - np.where(np.isinf(log_p[:, path]), 0.0, log_p[:, path]) - likelihood
    posteriors = np.exp(log_gamma)
    gradient = np.exp(log_p)
    for state, label in enumerate(path):
        gradient[:, label] -= posteriors[:, state]
    return -float(likelihood), gradient, posteriors


def torch_loss_and_gradient(problem: Problem, want_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample and its gradient by the logits, with PyTorch's own CTC loss.

    Unlike PyTorch's, the gradient is zero for infeasible samples and in padded frames. The accuracy is PyTorch's, and
    so is a NaN where a logit of an unused class is -inf.

    Returns
    -------
    losses : Tensor
        float32, or float64 for float64 logits, shape (N,).
    gradient : Tensor or None
        Like the logits.
    """
    problem = problem.on_host()
    logits = problem.logits.detach()
    with torch.enable_grad():
        leaf = logits.clone().requires_grad_(want_gradient)
        log_p = _padded(problem, leaf).log_softmax(-1, torch.promote_types(logits.dtype, torch.float32))
        sizes = problem.input_lengths, problem.target_lengths
        losses = functional.ctc_loss(log_p, _concatenated(problem), *sizes, problem.blank, reduction="none")
    if not want_gradient:
        return losses, None
    weights = problem.weights
    (gradient,) = torch.autograd.grad(losses, leaf, torch.ones_like(losses) if weights is None else weights)
    for sample, loss in enumerate(losses.tolist()):
        if loss == float("inf"):
            rows_of(problem, gradient, sample).zero_()
        if not problem.packed:
            gradient[int(problem.input_lengths[sample]) :, sample] = 0
    return losses.detach(), gradient


def _padded(problem: Problem, logits: Tensor) -> Tensor:
    """Return the logits in the padded layout, the only one that PyTorch accepts."""
    if not problem.packed:
        return logits
    pieces = torch.split(logits[:, 0], problem.input_lengths.tolist())
    return torch.nn.utils.rnn.pad_sequence(list(pieces))


def _concatenated(problem: Problem) -> Tensor:
    """Return the labels of all samples, concatenated without padding."""
    spans = zip(problem.target_starts.tolist(), problem.target_lengths.tolist(), strict=True)
    pieces = [problem.targets[start : start + length] for start, length in spans]
    return torch.cat(pieces).to(problem.logits.device)
