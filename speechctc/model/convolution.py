"""Conv2d that works around a bug of oneDNN in bfloat16.

On CPUs with AMX, oneDNN's weight gradient of a 2-D convolution reads uninitialised memory when several threads share an
utterance, that is, when the batch size is not a multiple of the number of threads; only at some lengths (3 x 5 over 14
bands: 154 frames, 185 frames). The values read are multiplied by 0, which does no harm unless they are NaN or infinite
(seen in torch 2.11). Here, the utterances beyond the largest such multiple are computed in float32.
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
        if not _threads_share_utterances(x) or self.kernel_size[0] == 1:
            return super().forward(x)
        assert self.bias is not None and not isinstance(self.padding, str)
        weight, bias = self.weight.bfloat16(), self.bias.bfloat16()
        result: Tensor = _InParts.apply(x.bfloat16(), weight, bias, self.stride, self.padding)  # type: ignore[no-untyped-call]
        return result


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
            found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
                gradient, x, weight, (len(weight),), *geometry, wanted
            )
            return found

        by_x, _, by_bias = gradients(gradient, x, weight, ctx.needs_input_grad[0], False, True)
        even = len(x) - len(x) % torch.get_num_threads()
        _, by_weight, _ = gradients(gradient[even:].float(), x[even:].float(), weight.float(), False, True, False)
        if even:
            by_weight += gradients(gradient[:even], x[:even], weight, False, True, False)[1]
        return by_x, by_weight.to(weight.dtype), by_bias, None, None
