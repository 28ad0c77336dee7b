"""The public CTC loss: a function and a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from speechctc.ctc.arguments import Lengths, as_lengths, check_shapes
from speechctc.ctc.autograd import Loss, defers_gradient, evaluate

BACKENDS = ("auto", "cpu", "cuda", "torch", "reference")
REDUCTIONS = ("none", "mean", "sum")


def ctc_loss(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    backend: str = "auto",
    *,
    packed: bool = False,
    scale: float = 1.0,
) -> Tensor:
    """Compute the connectionist temporal classification loss, from logits or log-probabilities.

    It takes what `torch.nn.functional.ctc_loss` takes and means the same; the differences are below. The gradient is
    computed together with the loss when `logits` require one.

    Parameters
    ----------
    logits : Tensor
        Scores of the classes, in any strides: shape (T, N, C); (T, C) for a single sample; (F, C) when `packed`.
        float32, float64, bfloat16 or float16; the last two are calculated with in float32. They need no log-softmax,
        but may have had it: it leaves log-probabilities as they are.
    targets : Tensor
        Labels, integers: shape (N, S), padded with anything, or (sum of `target_lengths`,), one sample after the
        other.
    input_lengths, target_lengths : Tensor or sequence of int or int
        N integers each, int32 or int64, on any device; a single one may be a plain number.
    blank : int
        The class that stands for "no label".
    reduction : {"mean", "none", "sum"}
        ``"mean"`` divides each loss by its number of labels (by 1 if it has none) and takes the mean over the batch.
    zero_infinity : bool
        Count an infinite loss as zero. In the mean, such a sample still counts as one of the N.
    backend : {"auto", "cpu", "cuda", "torch", "reference"}
        Who computes: ``"auto"`` goes by the device of the logits, and nothing is replaced in silence. ``"torch"`` is
        PyTorch's own loss, ``"reference"`` a slow one in float64; both are there to compare with.
    packed : bool
        The frames of all samples lie one after the other, with no padding; F is the sum of `input_lengths`.
    scale : float
        Multiplies loss and gradient. To multiply the loss afterwards gives the same, but costs a pass over the
        gradient.

    Returns
    -------
    Tensor
        float32, or float64 for float64 logits: a number, or shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        When shapes, types, lengths or labels do not fit. Lengths and labels are named by sample. Those on a GPU are
        checked by the kernel there: the loss of such a sample is inf, with `zero_infinity` too, its gradient is 0,
        and the error is raised by a later call on that GPU, or by `check`. Replays of a CUDA graph make no call:
        call `check` after them.
    MemoryError
        When there is not enough for the lattice or the gradient, on the CPU; it says how much they take.
    RuntimeError
        When the CUDA backend cannot start; it says why, and what to do. When asked for a second derivative, or for one
        in forward mode.

    Notes
    -----
    ============================================ ======================== ==================================
    Where it differs                             PyTorch                  here
    ============================================ ======================== ==================================
    input                                        log-probabilities        logits, or log-probabilities
    gradient, float32 against float64            off by 5e-5 to 1e-1      off by less than 5e-6
    no path fits: loss                           inf                      inf
    no path fits: gradient                       NaN, or softmax          zero
    a -inf logit on a class that is not used     NaN in the gradient      harmless
    NaN in padded frames                         NaN in the gradient      never read, gradient zero
    a loss beyond 2.3e7                          a large number           may be inf, with gradient zero
    a label that is the blank                    a number                 ValueError
    labels outside the classes, on the CPU       reads what is there      ValueError
    half precision on the CPU                    RuntimeError             computed in float32
    packed frames                                not taken                ``packed=True``
    lengths on a GPU                             copied to the host       stay there, the host does not wait
    same input twice, on a GPU                   other bits               the same bits
    target length                                one limit on GPUs        any
    memory is short, on the CPU                  RuntimeError             MemoryError, with the sizes
    name of the first argument                   ``log_probs``            ``logits``
    ``torch.jit.script``                         taken                    not taken; ``torch.compile`` is
    ============================================ ======================== ==================================
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; it must be one of {', '.join(REDUCTIONS)}")
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; it must be one of {', '.join(BACKENDS)}")
    check_shapes(logits, targets, blank, packed)
    arguments = (
        logits,
        targets,
        as_lengths(input_lengths, "input_lengths"),
        as_lengths(target_lengths, "target_lengths"),
        blank,
        packed,
        reduction,
        zero_infinity,
        backend,
        float(scale),
    )
    loss: Tensor
    want_gradient = logits.requires_grad and torch.is_grad_enabled()
    if torch.compiler.is_compiling() or type(logits) not in (Tensor, nn.Parameter):
        loss, _ = torch.ops.speechctc.ctc_loss(*arguments, want_gradient and not defers_gradient(logits))
    elif torch._C._are_functorch_transforms_active():
        loss, _ = TransformedLoss.apply(*arguments)  # type: ignore[no-untyped-call]
    elif forward_ad.unpack_dual(logits).tangent is not None:
        raise RuntimeError("ctc_loss has no forward-mode derivative: take torch.autograd.grad or torch.func.jacrev")
    elif want_gradient:  # past the operator, which takes longer to call than the loss of a short utterance
        loss = Loss.apply(logits, arguments[1:])  # type: ignore[no-untyped-call]
    else:
        loss, _ = evaluate(*arguments, False)
    return loss.squeeze(0) if reduction == "none" and logits.dim() == 2 and not packed else loss


class CTCLoss(nn.Module):
    """The CTC loss as a module, in the place of `torch.nn.CTCLoss`.

    Parameters
    ----------
    blank, reduction, zero_infinity, backend, packed
        As for `ctc_loss`.
    """

    def __init__(
        self,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
        backend: str = "auto",
        *,
        packed: bool = False,
    ) -> None:
        super().__init__()
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity
        self.backend = backend
        self.packed = packed

    def forward(self, logits: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor:
        """Compute the loss; see `ctc_loss`."""
        return ctc_loss(
            logits,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
            self.backend,
            packed=self.packed,
        )

    def extra_repr(self) -> str:
        """Say how it was made."""
        names = ("blank", "reduction", "zero_infinity", "backend", "packed")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


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
    def backward(ctx: Any, grad_output: Tensor | None, by_gradient: Tensor | None) -> Any:
        """Return the gradient by the logits."""
        if by_gradient is not None:
            raise RuntimeError("ctc_loss has a first derivative only")
        gradient, sample_of_frame = ctx.saved_tensors
        if grad_output is not None:
            scale = grad_output.to(gradient.dtype)
            if sample_of_frame is not None and scale.dim():
                scale = scale[sample_of_frame.to(scale.device)]
            gradient = gradient * (scale[:, None] if scale.dim() else scale)
        return None if grad_output is None else gradient, *(9 * (None,))

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
