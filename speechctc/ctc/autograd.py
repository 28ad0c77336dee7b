"""The CTC loss as a part of torch: the choice of a backend, the derivative, and operators for torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from speechctc.ctc.arguments import is_on_cpu, loss_type
from speechctc.ctc.problem import Problem, make_problem


def loss_and_gradient(problem: Problem, want_gradient: bool, backend: str) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample, and its gradient by the logits, with one of the backends but CUDA."""
    if backend == "cpu":
        from speechctc.ctc import cpu

        return cpu.loss_and_gradient(problem.on_host(), want_gradient)
    if backend in ("torch", "reference"):
        from speechctc.ctc import reference

        of = reference.torch_loss_and_gradient if backend == "torch" else reference.loss_and_gradient
        return of(problem, want_gradient)
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
    scale: float,
    want_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """Compute the reduced loss, and its gradient by the logits: an empty tensor where that is not wanted."""
    tensors = (logits, targets, input_lengths, target_lengths)
    arguments = (*tensors, blank, packed, reduction, zero_infinity, backend, scale)
    loss, gradient = _solve(arguments, want_gradient, None)
    return loss, logits.new_empty(0) if gradient is None else gradient


def gradient_by(
    grad_output: Tensor,
    logits: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    packed: bool,
    reduction: str,
    zero_infinity: bool,
    backend: str,
    scale: float,
) -> Tensor:
    """Compute the gradient by the logits, multiplied by the derivative by the loss before it is rounded."""
    tensors = (logits, targets, input_lengths, target_lengths)
    arguments = (*tensors, blank, packed, reduction, zero_infinity, backend, scale)
    _, gradient = _solve(arguments, True, grad_output.detach())
    assert gradient is not None
    return gradient


def _solve(arguments: Any, want_gradient: bool, grad_output: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Compute the reduced loss and the gradient, times `grad_output` if that is given, with the backend asked for."""
    logits, targets, input_lengths, target_lengths, blank, packed, reduction, zero_infinity, backend, scale = arguments
    given = (logits.detach(), targets, input_lengths, target_lengths, blank, packed)
    problem = make_problem(*given, mean=reduction == "mean", grad_output=grad_output, scale=scale)
    if backend == "auto":
        backend = logits.device.type
    if backend == "cuda":
        from speechctc.ctc import cuda

        loss, gradient = cuda.loss_and_gradient(problem, want_gradient, reduction != "none", zero_infinity)
    else:
        losses, gradient = loss_and_gradient(problem, want_gradient, backend)
        loss = _reduced(losses, problem, reduction, zero_infinity)
    return loss, None if gradient is None else gradient.view(logits.shape) if logits.dim() == 2 else gradient


def _reduced(losses: Tensor, problem: Problem, reduction: str, zero_infinity: bool) -> Tensor:
    """Reduce the losses of the samples, on the device of the logits."""
    if losses.device != problem.logits.device or losses.dtype != loss_type(problem.logits):
        losses = losses.to(problem.logits.device, loss_type(problem.logits))
    if zero_infinity:
        losses = losses.masked_fill(losses.isinf(), 0.0)
    shares = problem.shares
    loss = losses.dot(shares) if shares is not None else losses.sum() if reduction == "sum" else losses
    return loss if problem.scale == 1 else loss * problem.scale


def defers_gradient(logits: Tensor) -> bool:
    """Whether the gradient waits for the backward pass.

    A share in the mean loss, of 1 / (N * labels), pushes entries of a float16 gradient below 6e-8, where they are lost,
    before a `torch.amp.GradScaler` can lift them. So it is calculated when the derivative by the loss is known, and
    rounded once.
    """
    return logits.dtype == torch.float16


class Loss(torch.autograd.Function):
    """The loss for autograd: the gradient is there before it is asked for, but in float16."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, others: tuple[Any, ...]) -> Tensor:
        """Compute the loss, and most often the gradient. The other arguments come as one: each costs time here."""
        loss, ctx.gradient = _solve((logits, *others), not defers_gradient(logits), None)
        ctx.save_for_backward(logits)
        ctx.others = others
        return loss

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        """Return the gradient by the logits."""
        if torch._C._functorch.is_legacy_batchedtensor(grad_output):
            raise RuntimeError(
                "ctc_loss has no batched gradients (is_grads_batched, vectorize): take torch.func.jacrev"
            )
        (logits,) = ctx.saved_tensors
        gradient: Tensor | None
        if defers_gradient(logits):
            gradient = gradient_by(grad_output, logits, *ctx.others)
        else:
            # The first to ask gets the gradient itself, with no copy; for whoever asks again, it is computed again.
            gradient, ctx.gradient = ctx.gradient, None
            if gradient is None:
                _, gradient = _solve((logits, *ctx.others), True, None)
            assert gradient is not None
            _, input_lengths, _, _, packed, *_ = ctx.others
            _scale_(gradient, grad_output.detach(), input_lengths if packed else None)
        if torch.is_grad_enabled():  # a second derivative may follow
            gradient = _Last.apply(gradient, logits, grad_output)  # type: ignore[no-untyped-call]
        return gradient, None


class _Last(torch.autograd.Function):
    """A gradient of which there is no further derivative."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *depends_on: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(_NO_SECOND)


_NO_SECOND = "ctc_loss has a first derivative only"


def _scale_(gradient: Tensor, grad_output: Tensor, packed_lengths: Tensor | None) -> None:
    """Multiply a gradient, in place, by what the loss was multiplied by further on: most often by 1."""
    if is_on_cpu(gradient) and (grad_output.item() == 1 if grad_output.dim() == 0 else bool((grad_output == 1).all())):
        return
    if _is_scaled_on_gpu(gradient, grad_output):
        from speechctc.ctc import cuda

        cuda.scale_(gradient, grad_output)
    else:
        gradient.mul_(_by_frame(gradient, grad_output, packed_lengths))


def _is_scaled_on_gpu(gradient: Tensor, grad_output: Tensor) -> bool:
    """Whether a kernel looks at the factor, and finds nothing to do where it is 1."""
    return gradient.device.type == "cuda" and grad_output.dim() == 0


def _by_frame(gradient: Tensor, grad_output: Tensor, packed_lengths: Tensor | None) -> Tensor:
    """Derivatives by the loss, shape () or (N,), in the type of a gradient and a shape to multiply it with."""
    grad_output = grad_output.to(gradient.dtype)
    if grad_output.dim() == 0 or grad_output.shape[0] == 1:
        return grad_output
    if packed_lengths is not None:
        if grad_output.device.type == "cuda" and is_on_cpu(packed_lengths):
            packed_lengths = packed_lengths.pin_memory()  # else the copy makes the host wait
        frames = packed_lengths.to(grad_output.device, non_blocking=True)
        return grad_output.repeat_interleave(frames, output_size=gradient.shape[0])[:, None]
    return grad_output[:, None]


# The same as operators of torch, which torch.compile can put into a graph.
_operator = torch.library.custom_op("speechctc::ctc_loss", evaluate, mutates_args=())
_late_operator = torch.library.custom_op("speechctc::ctc_loss_gradient", gradient_by, mutates_args=())


@_operator.register_fake
def _(logits: Tensor, targets: Tensor, input_lengths: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    _, _, _, reduction, _, _, _, want_gradient = others
    losses = logits.new_empty(input_lengths.shape if reduction == "none" else (), dtype=loss_type(logits))
    return losses, torch.empty_like(logits) if want_gradient else logits.new_empty(0)


@_late_operator.register_fake
def _(grad_output: Tensor, logits: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(logits)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, blank, packed, reduction, zero_infinity, backend, scale, want_gradient = inputs
    ctx.set_materialize_grads(False)
    ctx.others = (blank, packed, reduction, zero_infinity, backend, scale)
    if want_gradient:
        ctx.save_for_backward(output[1], *([tensors[2]] if packed else []))
    else:
        ctx.save_for_backward(None, *tensors)


def _backward(ctx: Any, grad_output: Tensor | None, by_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    if by_gradient is not None:
        raise RuntimeError(_NO_SECOND)
    gradient, *tensors = ctx.saved_tensors
    by_logits = None
    if grad_output is not None and gradient is None:
        by_logits = _late_operator(grad_output, *tensors, *ctx.others)
    elif grad_output is not None:  # a pass over the gradient: an operator may not change what was saved
        by_logits = gradient * _by_frame(gradient, grad_output, tensors[0] if tensors else None)
    return by_logits, *(10 * (None,))


def _no_second(ctx: Any, *_: Tensor) -> Any:
    raise RuntimeError(_NO_SECOND)


_operator.register_autograd(_backward, setup_context=_save)
_late_operator.register_autograd(_no_second)
