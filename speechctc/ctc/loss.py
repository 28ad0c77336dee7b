"""The public CTC loss: a function, a module, and the torch operator behind both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from speechctc.ctc.problem import Lengths, Problem, as_lengths, check_shapes, loss_type, make_problem

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

    Returns
    -------
    Tensor
        float32, or float64 for float64 logits: a number, or shape (N,) with ``reduction="none"``.

    Raises
    ------
    ValueError
        When shapes, types, lengths or labels do not fit. Lengths and labels are named by sample; those on a GPU are
        checked by the kernel there, and reported by a later call.
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
    )
    loss: Tensor
    want_gradient = logits.requires_grad and torch.is_grad_enabled()
    if torch.compiler.is_compiling() or type(logits) not in (Tensor, nn.Parameter):
        loss, _ = torch.ops.speechctc.ctc_loss(*arguments, want_gradient)
    elif torch._C._are_functorch_transforms_active():
        from speechctc.ctc.transforms import TransformedLoss

        loss, _ = TransformedLoss.apply(*arguments)  # type: ignore[no-untyped-call]
    elif forward_ad.unpack_dual(logits).tangent is not None:
        raise RuntimeError("ctc_loss has no forward-mode derivative: take torch.autograd.grad or torch.func.jacrev")
    elif want_gradient:  # past the operator, which takes longer to call than the loss of a short utterance
        loss = _Loss.apply(*arguments)  # type: ignore[no-untyped-call]
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


def loss_and_gradient(problem: Problem, want_gradient: bool, backend: str = "auto") -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample, and its gradient by the logits, with one of the backends."""
    if backend == "auto":
        backend = problem.logits.device.type
    if backend == "cpu":
        from speechctc.ctc import cpu

        return cpu.loss_and_gradient(problem.on_host(), want_gradient)
    if backend == "cuda":
        from speechctc.ctc import cuda

        return cuda.loss_and_gradient(problem, want_gradient)
    if backend == "torch":
        from speechctc.ctc import torch_backend

        return torch_backend.loss_and_gradient(problem, want_gradient)
    if backend == "reference":
        from speechctc.ctc import reference

        return reference.loss_and_gradient(problem, want_gradient)
    raise ValueError(f"there is no CTC loss for logits on {problem.logits.device}: move them to the CPU or a GPU")


def evaluate(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    packed: bool,
    reduction: str,
    zero_infinity: bool,
    backend: str,
    want_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """Compute the reduced loss, and its gradient by the logits: an empty tensor where that is not wanted."""
    problem = make_problem(logits.detach(), targets, input_lengths, target_lengths, blank, packed, reduction == "mean")
    losses, gradient = loss_and_gradient(problem, want_gradient, backend)
    if losses.device != logits.device or losses.dtype != loss_type(logits):
        losses = losses.to(logits.device, loss_type(logits))
    if zero_infinity:
        losses = losses.masked_fill(losses.isinf(), 0.0)
    if problem.weights is not None:
        losses = losses.dot(problem.weights)
    elif reduction == "sum":
        losses = losses.sum()
    if gradient is None:
        return losses, logits.new_empty(0)
    return losses, gradient if logits.dim() == 3 else gradient.view(logits.shape)


class _Loss(torch.autograd.Function):
    """The loss for autograd: the gradient is there before it is asked for."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, *others: Any) -> Tensor:
        arguments = (logits, *others, True)
        loss, ctx.gradient = evaluate(*arguments)
        ctx.save_for_backward(logits)
        ctx.others = others
        return loss

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor) -> Any:
        # The first to ask gets the gradient itself, with no copy; for whoever asks again, it is computed again.
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            arguments = (*ctx.saved_tensors, *ctx.others, True)
            _, gradient = evaluate(*arguments)
        _, input_lengths, _, _, packed, *_ = ctx.others
        if torch._C._functorch.is_legacy_batchedtensor(by_loss):
            raise RuntimeError(
                "ctc_loss has no batched gradients (is_grads_batched, vectorize): take torch.func.jacrev"
            )
        _scale_(gradient, by_loss.detach(), input_lengths if packed else None)
        if torch.is_grad_enabled():  # a second derivative may follow
            gradient = _Last.apply(gradient, *ctx.saved_tensors, by_loss)  # type: ignore[no-untyped-call]
        return gradient, None, None, None, None, None, None, None, None


class _Last(torch.autograd.Function):
    """A gradient of which there is no further derivative."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *depends_on: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(_NO_SECOND)


_NO_SECOND = "ctc_loss has a first derivative only"


def _scale_(gradient: Tensor, by_loss: Tensor, packed_lengths: Tensor | None) -> None:
    """Multiply a gradient, in place, by what the loss was multiplied by further on: most often by 1."""
    if gradient.device.type == "cpu" and (by_loss.item() == 1 if by_loss.dim() == 0 else bool((by_loss == 1).all())):
        return
    if gradient.device.type == "cuda" and by_loss.dim() == 0:
        from speechctc.ctc import cuda

        cuda.scale_(gradient, by_loss)
    else:
        gradient.mul_(_by_frame(gradient, by_loss, packed_lengths))


def _by_frame(gradient: Tensor, by_loss: Tensor, packed_lengths: Tensor | None) -> Tensor:
    """Derivatives by the loss, shape () or (N,), in the type of a gradient and a shape to multiply it with."""
    by_loss = by_loss.to(gradient.dtype)
    if by_loss.dim() == 0 or by_loss.shape[0] == 1:
        return by_loss
    if packed_lengths is not None:
        frames = packed_lengths.to(by_loss.device)
        return by_loss.repeat_interleave(frames, output_size=gradient.shape[0])[:, None]
    return by_loss[:, None]


# The same as an operator of torch, which torch.compile can put into a graph.
_operator = torch.library.custom_op("speechctc::ctc_loss", evaluate, mutates_args=())


@_operator.register_fake
def _(logits: Tensor, targets: Tensor, input_lengths: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    _, _, _, reduction, _, _, want_gradient = others
    losses = logits.new_empty(input_lengths.shape if reduction == "none" else (), dtype=loss_type(logits))
    return losses, torch.empty_like(logits) if want_gradient else logits.new_empty(0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, _, input_lengths, _, _, packed, *_ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], *([input_lengths] if packed else []))


def _backward(ctx: Any, by_loss: Tensor | None, by_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    if by_gradient is not None:
        raise RuntimeError(_NO_SECOND)
    gradient, *packed_lengths = ctx.saved_tensors
    by_logits = None
    if by_loss is not None:
        by_logits = gradient * _by_frame(gradient, by_loss, packed_lengths[0] if packed_lengths else None)
    return by_logits, *(9 * (None,))


_operator.register_autograd(_backward, setup_context=_save)
