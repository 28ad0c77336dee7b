"""Convolutions over bands and frames, with gradients where oneDNN's are wrong or slow.

Conv2d that works around a bug of oneDNN in bfloat16. On CPUs with AMX, oneDNN's weight gradient of a 2-D convolution
reads uninitialised memory when several threads share an utterance, that is, when the batch size is not a multiple of
the number of threads; only at some lengths (3 x 5 over 14 bands: 154 frames, 185 frames). The values read are
multiplied by 0, which does no harm unless they are NaN or infinite (seen in torch 2.11). Here, the utterances beyond
the largest such multiple are computed in float32.

In float32 without AVX-512, oneDNN's gradient by the weights of a convolution over frames alone, as of a dense layer,
has about half the speed of a matrix product for each frame of the kernel (`benchmarks/bench_passes`), and rounds more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

Pair = tuple[int, ...]


class Convolution(nn.Conv2d):
    """A convolution over bands and frames, of (n_batch, maps, bands, frames), without dilation or groups."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (n_batch, maps, bands, frames)."""
        assert self.bias is not None and not isinstance(self.padding, str)
        if self.stride == (1, 1) and _products_are_faster(x, self.weight):
            return torch.as_tensor(_ByProducts.apply(x, self.weight, self.bias, self.padding))  # type: ignore[no-untyped-call]
        if not _threads_share_utterances(x) or self.kernel_size[0] == 1:
            return super().forward(x)
        weight, bias = self.weight.bfloat16(), self.bias.bfloat16()
        return torch.as_tensor(_InParts.apply(x.bfloat16(), weight, bias, self.stride, self.padding))  # type: ignore[no-untyped-call]


def _threads_share_utterances(x: Tensor) -> bool:
    if x.device.type != "cpu" or not torch.is_grad_enabled() or not torch.is_autocast_enabled("cpu"):
        return False
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and len(x) % torch.get_num_threads() != 0


class _InParts(torch.autograd.Function):
    """A bfloat16 convolution that computes the weight gradient in two parts of the batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: Pair, padding: Pair) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return functional.conv2d(x, weight, bias, stride, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors

        def gradients(gradient: Tensor, x: Tensor, weight: Tensor, *wanted: bool) -> tuple[Tensor, Tensor, Tensor]:
            geometry = (ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1)
            found = torch.ops.aten.convolution_backward(gradient, x, weight, (len(weight),), *geometry, wanted)
            return found[0], found[1], found[2]

        by_x, _, by_bias = gradients(gradient, x, weight, ctx.needs_input_grad[0], False, True)
        even = len(x) - len(x) % torch.get_num_threads()
        _, by_weight, _ = gradients(gradient[even:].float(), x[even:].float(), weight.float(), False, True, False)
        if even:
            by_weight += gradients(gradient[:even], x[:even], weight, False, True, False)[1]
        return by_x, by_weight.to(weight.dtype), by_bias, None, None


def _products_are_faster(x: Tensor, weight: Tensor) -> bool:
    """Return whether the gradient by the weights is computed by matrix products; see `benchmarks/bench_passes`."""
    if x.device.type != "cpu" or not (torch.is_grad_enabled() and weight.requires_grad):
        return False
    is_plain = x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return is_plain and x.shape[2] == weight.shape[2] == 1 and torch.backends.cpu.get_cpu_capability() == "AVX2"


class _ByProducts(torch.autograd.Function):
    """A convolution over frames, of (n_batch, maps, 1, frames), whose weight gradient is a product for each of them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, padding: Pair) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.padding = padding
        return functional.conv2d(x, weight, bias, padding=padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        geometry, wanted = ((1, 1), ctx.padding, (1, 1), False, (0, 0), 1), (ctx.needs_input_grad[0], False, False)
        by_x = torch.ops.aten.convolution_backward(gradient, x, weight, None, *geometry, wanted)[0]
        return by_x, weight_gradient(gradient, x, weight, ctx.padding[1]), gradient.sum((0, 2, 3)), None


def weight_gradient(gradient: Tensor, x: Tensor, weight: Tensor, padding: int) -> Tensor:
    """Return the gradient by the weights of a convolution over frames.

    Parameters
    ----------
    gradient : Tensor, shape = (n_batch, n_out, 1, frames)
        That of the result, which has as many frames as `x`.
    x : Tensor, shape = (n_batch, n_in, 1, frames)
    weight : Tensor, shape = (n_out, n_in, 1, span)
    padding : int
        Zeros at either end, half of ``span - 1``.

    Returns
    -------
    Tensor, shape = (n_out, n_in, 1, span)
    """
    outputs, inputs = _padded_rows(gradient, padding), _padded_rows(x, padding)
    # A row of `outputs` meets the rows of `inputs` around it, also across utterances: there one of both is padding.
    count = len(inputs) - 2 * padding
    outputs = outputs[padding : padding + count].t()
    result = torch.empty_like(weight, memory_format=torch.channels_last)
    for place, part in enumerate(result.squeeze(2).unbind(2)):
        torch.mm(outputs, inputs[place : place + count], out=part)
    return result


def _padded_rows(x: Tensor, padding: int) -> Tensor:
    """Return (n_batch, maps, 1, frames) as (rows, maps), a row for each frame and each zero around an utterance."""
    rows = x.squeeze(2).transpose(1, 2)
    padded = functional.pad(rows, (0, 0, padding, padding)) if padding else rows
    return padded.reshape(-1, x.shape[1])
