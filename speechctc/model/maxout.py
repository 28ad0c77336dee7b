"""Maxout with fused dropout; keeps one byte per unit for the backward pass.

torch.maximum saves both its inputs, and its gradient takes three passes and a concatenation. Here one byte per unit is
saved, the number of the winning piece or a mark for a dropped unit, and the gradient is written once, in the memory
layout of the convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

LOOKED = 4  # utterances of a batch that are looked at; more take memory, and say little more


class Maxout(nn.Module):
    """The maximum of each unit's linear pieces (Goodfellow et al. 2013): maps (pieces x n) to n.

    Parameters
    ----------
    pieces : int
    dropout : float
        Probability that a unit is set to 0 in training (Srivastava et al. 2014).
    """

    def __init__(self, pieces: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.pieces, self.dropout = pieces, dropout

    def forward(self, x: Tensor) -> Tensor:
        """Map (n_batch, pieces x n, ...) to (n_batch, n, ...)."""
        rate = self.dropout if self.training else 0.0
        if not (torch.is_grad_enabled() and x.requires_grad):
            first, *others = x.chunk(self.pieces, dim=1)
            for other in others:
                first = torch.maximum(first, other)
            return functional.dropout(first, rate)
        result: Tensor
        if x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16):
            result = _OnCpu.apply(x, self.pieces, rate)  # type: ignore[no-untyped-call]
            return result
        result = _Anywhere.apply(x, self.pieces)  # type: ignore[no-untyped-call]
        return functional.dropout(result, rate)

    def extra_repr(self) -> str:
        """Return the arguments, for printing."""
        return f"pieces={self.pieces}, dropout={self.dropout:g}"


class _OnCpu(torch.autograd.Function):
    """Maxout by compiled code, in one pass each way; of equal pieces, the first gets the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pieces: int, rate: float) -> Tensor:
        from speechctc.model import maxout_cpu  # loads numba, which only training needs

        layout = _layout(x)
        x = x.contiguous(memory_format=layout)
        ctx.pieces, ctx.rate, ctx.layout = pieces, rate, layout
        ctx.shape = (x.shape[0], x.shape[1] // pieces, *x.shape[2:])
        seed = int(torch.randint(2**32, ())) if rate else 0
        result, winner = maxout_cpu.forward(_rows(x, pieces, layout), rate, seed)
        ctx.save_for_backward(winner)
        return _unrows(result, ctx.shape, layout)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        from speechctc.model import maxout_cpu

        (winner,) = ctx.saved_tensors
        rows = _rows(gradient.contiguous(memory_format=ctx.layout), 1, ctx.layout).squeeze(1)
        whole = maxout_cpu.backward(rows, winner, ctx.pieces, ctx.rate)
        shape = (ctx.shape[0], ctx.pieces * ctx.shape[1], *ctx.shape[2:])
        return _unrows(whole, shape, ctx.layout), None, None


def _layout(x: Tensor) -> torch.memory_format:
    last = x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _rows(x: Tensor, pieces: int, layout: torch.memory_format) -> Tensor:
    """View maps as (rows, pieces, units), in memory order."""
    if layout is torch.channels_last:
        return x.permute(0, 2, 3, 1).reshape(-1, pieces, x.shape[1] // pieces)
    return x.reshape(len(x), pieces, math.prod(x.shape[1:]) // pieces)


def _unrows(rows: Tensor, shape: tuple[int, ...], layout: torch.memory_format) -> Tensor:
    """Undo `_rows`."""
    if layout is torch.channels_last:
        batch, maps, *inner = shape
        return rows.view(batch, *inner, maps).permute(0, 3, 1, 2)
    return rows.view(shape)


class _Anywhere(torch.autograd.Function):
    """Maxout by torch operators; of equal pieces, the first gets the gradient."""

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
        if ctx.pieces == 2:  # `winner` is boolean: whether the second piece won
            first, second = whole.chunk(2, dim=1)
            torch.where(winner, zero, gradient, out=first)
            torch.where(winner, gradient, zero, out=second)
            return whole, None
        for number, part in enumerate(whole.chunk(ctx.pieces, dim=1)):
            torch.where(winner == number, gradient, zero, out=part)
        return whole, None


class PieceWins:
    """Counts of the wins of each piece, layer by layer.

    Attributes
    ----------
    layers : dict of str to Tensor
        By the name of the layer in the net, counts of shape (pieces, units), int64, on the net's device.
    """

    def __init__(self) -> None:
        self.layers: dict[str, Tensor] = {}

    def add(self, name: str, x: Tensor, pieces: int, mask: Tensor) -> None:
        """Count the winners of a layer's input, (n_batch, pieces x units, ..., frames), where `mask` is true."""
        winner = x[:LOOKED].unflatten(1, (pieces, -1)).argmax(1)
        inside = mask[:LOOKED].view(len(winner), *[1] * (winner.dim() - 2), -1)
        dims = [0, *range(2, winner.dim())]
        counts = torch.stack([((winner == piece) & inside).sum(dims) for piece in range(pieces)])
        self.layers[name] = self.layers[name] + counts if name in self.layers else counts

    def dead_share(self) -> Tensor:
        """Return the share of the pieces of all layers that never won, on the net's device."""
        return torch.cat([(counts == 0).flatten() for counts in self.layers.values()]).double().mean()


@contextmanager
def counted_wins(net: nn.Module, mask: Tensor) -> Iterator[PieceWins]:
    """Count the wins of all maxout layers of a net while it is used; it computes the same.

    Parameters
    ----------
    net : Module
    mask : Tensor, shape = (n_batch, n_output_frames)
        True where a frame is inside its utterance.
    """
    wins, hooks = PieceWins(), []
    for name, module in net.named_modules():
        if isinstance(module, Maxout):

            def see(module: Maxout, args: tuple[Any, ...], name: str = name) -> None:
                wins.add(name, args[0].detach(), module.pieces, mask)

            hooks.append(module.register_forward_pre_hook(see))
    try:
        yield wins
    finally:
        for hook in hooks:
            hook.remove()
