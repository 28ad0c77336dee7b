"""Batches of random logits, the losses to compare on them, and how far off they are: for bench_ctc."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from speechctc.ctc import cpu, ctc_loss
from speechctc.ctc.loss import Reduction

SCALES = (1, 10, 20)


class Shape(NamedTuple):
    """Frames, labels, classes, samples."""

    T: int
    L: int
    A: int
    N: int


class Batch(NamedTuple):
    """The arguments of a CTC loss."""

    logits: Tensor
    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor


def random_batch(shape: Shape, device: str, dtype: str = "float32") -> Batch:
    """Make logits of variance 1 and labels, always the same ones."""
    torch.manual_seed(0)
    logits = torch.randn(shape.T, shape.N, shape.A).to(device, getattr(torch, dtype)).requires_grad_()
    targets = torch.randint(1, shape.A, (shape.N, shape.L)).to(device)
    frames, labels = (torch.full((shape.N,), length, device=device) for length in (shape.T, shape.L))
    return Batch(logits, targets, frames, labels)


Loss = Callable[[Batch, Reduction], Tensor]


def ours(batch: Batch, reduction: Reduction) -> Tensor:
    """Compute the loss."""
    return ctc_loss(*batch, reduction=reduction)


def fresh(batch: Batch, reduction: Reduction) -> Tensor:
    """Compute the loss; its gradient lies in memory fresh from the system."""
    large, cpu.LARGE = cpu.LARGE, sys.maxsize
    try:
        return ctc_loss(*batch, reduction=reduction)
    finally:
        cpu.LARGE = large


def torchs(batch: Batch, reduction: Reduction) -> Tensor:
    """Compute the loss with PyTorch."""
    log_p = batch.logits.log_softmax(-1, torch.float32) if batch.logits.is_cuda else batch.logits.log_softmax(-1)
    return functional.ctc_loss(log_p, *batch[1:], reduction=reduction)


LOSSES: dict[str, Loss] = {"speechctc": ours, "torch": torchs}


def errors(batch: Batch) -> dict[str, list[tuple[float, float]]]:
    """Compute the largest errors, of the gradient and the loss, by scale of the logits."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in LOSSES}
    few = Batch(batch.logits.detach()[:, :8], *(tensor[:8] for tensor in batch[1:]))
    for scale in SCALES:
        exact = few._replace(logits=(few.logits.double() * scale).float().double().requires_grad_())
        wanted = ctc_loss(*exact, reduction="none", backend="reference")
        (slope,) = torch.autograd.grad(wanted.sum(), exact.logits)
        rounded = few._replace(logits=exact.logits.detach().float().requires_grad_())
        for name, loss in LOSSES.items():
            losses = loss(rounded, "none")
            (gradient,) = torch.autograd.grad(losses.sum(), rounded.logits)
            of_loss = ((losses.detach().double() - wanted.detach()) / wanted.detach()).abs().max()
            found[name].append((float((gradient.double() - slope).abs().max()), float(of_loss)))
    return found


def shape_of(text: str) -> Shape:
    """Read a shape, such as ``"150,40,28,64"``."""
    return Shape(*map(int, text.split(",")))
