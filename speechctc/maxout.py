"""Maxout that keeps little for the backward pass.

torch.maximum keeps both its inputs, and its gradient takes three passes and a concatenation. Here one byte a unit is
kept, and the gradient is written once, in the layout the convolution wants.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Maxout(nn.Module):
    """The largest of each unit's linear pieces (Goodfellow et al. 2013): maps (pieces x n) to n."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces

    def forward(self, x: Tensor) -> Tensor:
        """Map (n_batch, pieces x n, ...) to (n_batch, n, ...)."""
        if torch.is_grad_enabled() and x.requires_grad:
            result: Tensor = _Maxout.apply(x, self.pieces)  # type: ignore[no-untyped-call]
            return result
        first, *others = x.chunk(self.pieces, dim=1)
        for other in others:
            first = torch.maximum(first, other)
        return first


class _Maxout(torch.autograd.Function):
    """The gradient goes to the piece that won; of equal ones, to the first."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pieces: int) -> Tensor:
        first, *others = x.chunk(pieces, dim=1)
        winner = torch.zeros_like(first, dtype=torch.uint8) if pieces > 2 else None
        for number, other in enumerate(others, start=1):
            if winner is not None:
                winner.masked_fill_(other > first, number)
            else:
                ctx.save_for_backward(other > first)
            first = torch.maximum(first, other)
        if winner is not None:
            ctx.save_for_backward(winner)
        ctx.pieces = pieces
        return first

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (winner,) = ctx.saved_tensors
        shape = (gradient.shape[0], ctx.pieces * gradient.shape[1], *gradient.shape[2:])
        layout = torch.channels_last if gradient.dim() == 4 else torch.contiguous_format
        whole = torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=layout)
        zero = gradient.new_zeros(())
        if ctx.pieces == 2:  # `winner` says whether the second won, and is not compared again
            first, second = whole.chunk(2, dim=1)
            torch.where(winner, zero, gradient, out=first)
            torch.where(winner, gradient, zero, out=second)
            return whole, None
        for number, part in enumerate(whole.chunk(ctx.pieces, dim=1)):
            torch.where(winner == number, gradient, zero, out=part)
        return whole, None
