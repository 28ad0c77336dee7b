"""The CTC loss under the transforms of torch.func: vmap, grad, vjp, jacrev. Forward mode is refused."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from speechctc.ctc.autograd import evaluate


class TransformedLoss(torch.autograd.Function):
    """The loss and its gradient, as a function that transforms of torch.func can look into."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        """Compute both: whether an outer transform wants the gradient cannot be seen from here."""
        every = (*arguments, True)
        return evaluate(*every)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep the gradient; of packed samples also which sample each frame is of."""
        _, _, input_lengths, _, _, packed, *_ = inputs
        ctx.set_materialize_grads(False)
        samples = torch.arange(len(input_lengths), device=input_lengths.device)
        ctx.save_for_backward(output[1], samples.repeat_interleave(input_lengths) if packed else None)

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor | None, by_gradient: Tensor | None) -> Any:
        """Return the gradient by the logits."""
        if by_gradient is not None:
            raise RuntimeError("ctc_loss has a first derivative only")
        gradient, sample_of_frame = ctx.saved_tensors
        if by_loss is not None:
            scale = by_loss.to(gradient.dtype)
            if sample_of_frame is not None and scale.dim():
                scale = scale[sample_of_frame.to(scale.device)]
            gradient = gradient * (scale[:, None] if scale.dim() else scale)
        return None if by_loss is None else gradient, *(9 * (None,))

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Refuse forward mode."""
        raise RuntimeError("ctc_loss has no forward-mode derivative: take torch.func.jacrev in place of jacfwd")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Compute the loss of one slice after the other."""
        slices = (
            [each if dim is None else each.select(dim, k) for each, dim in zip(arguments, in_dims, strict=True)]
            for k in range(info.batch_size)
        )
        results = [TransformedLoss.apply(*each) for each in slices]  # type: ignore[no-untyped-call]
        return tuple(map(torch.stack, zip(*results, strict=True))), (0, 0)
