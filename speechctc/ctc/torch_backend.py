"""PyTorch's own CTC loss as a backend, for comparison."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from speechctc.ctc.problem import Problem
from speechctc.ctc.reference import rows_of


def loss_and_gradient(problem: Problem, want_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample and its gradient by the logits.

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
        losses = functional.ctc_loss(
            _padded(problem, leaf).log_softmax(-1, torch.promote_types(logits.dtype, torch.float32)),
            _concatenated(problem),
            problem.input_lengths,
            problem.target_lengths,
            problem.blank,
            reduction="none",
        )
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
    pieces = [
        problem.targets[start : start + length]
        for start, length in zip(problem.target_starts.tolist(), problem.target_lengths.tolist(), strict=True)
    ]
    return torch.cat(pieces).to(problem.logits.device)
