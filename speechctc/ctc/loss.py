"""The public CTC loss: a function and a module; its derivative, and operators for torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, TypeAlias, get_args, overload

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function_variadic

from speechctc.ctc.problem import (
    Arguments,
    Lengths,
    Problem,
    as_lengths,
    check_shapes,
    in_memory,
    is_on_cpu,
    loss_type,
    problem_of,
)

BACKENDS = ("auto", "cpu", "cuda", "torch", "reference")
PLAIN = frozenset((Tensor, nn.Parameter))
Reduction: TypeAlias = Literal["none", "mean", "sum"]
REDUCTIONS = get_args(Reduction)
_NO_SECOND = "ctc_loss has a first derivative only"


def _also_log_probs(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a loss take `logits` by PyTorch's keyword, too."""

    @wraps(loss)
    def with_either(*arguments: Any, **named: Any) -> Tensor:
        if "log_probs" in named:
            if "logits" in named:
                raise TypeError("ctc_loss got both 'logits' and 'log_probs'; they are one argument")
            named["logits"] = named.pop("log_probs")
        return loss(*arguments, **named)

    return with_either


@overload
def ctc_loss(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
    backend: str = "auto",
    *,
    packed: bool = False,
    scale: float = 1.0,
) -> Tensor: ...


@overload
def ctc_loss(
    *,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
    backend: str = "auto",
    packed: bool = False,
    scale: float = 1.0,
) -> Tensor: ...


@_also_log_probs
def ctc_loss(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: Reduction = "mean",
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
        but may have had it: it leaves log-probabilities as they are. PyTorch's keyword `log_probs` is taken, too.
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
        Count an infinite loss as zero. In the mean, such a sample still counts as one of the N. NaN stays NaN.
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
    TypeError
        When logits or targets are no tensors.
    RuntimeError
        When the CUDA backend cannot start; it says why, and what to do. When asked for a second derivative, or for one
        in forward mode. When targets or lengths were changed in place before a backward pass that needs them.

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
    a frame of -inf alone                        inf, NaN in the gradient NaN, as its softmax is
    no frames at all (T = 0)                     RuntimeError             0 without labels, else inf
    NaN in padded frames                         NaN in the gradient      never read, gradient zero
    a loss beyond 2.3e7                          a large number           may be inf, with gradient zero
    a label that is the blank                    a number                 ValueError
    labels outside the classes, on the CPU       reads what is there      ValueError
    targets of floats or booleans                rounded                  ValueError
    lengths of two dimensions                    taken                    ValueError
    targets changed before ``backward``          RuntimeError             that, where the gradient needs them
    half precision on the CPU                    RuntimeError             computed in float32
    packed frames                                not taken                ``packed=True``
    lengths on a GPU                             copied to the host       stay there, the host does not wait
    same input twice, on a GPU                   other bits               the same bits
    target length                                one limit on GPUs        any
    memory is short, on the CPU                  RuntimeError             MemoryError, with the sizes
    name of the first argument                   ``log_probs``            ``logits``, or ``log_probs``
    ``torch.jit.script``                         taken                    ``torch.compile``, ``torch.jit.trace``
    ``is_grads_batched``                         taken                    ``torch.func.jacrev``
    ============================================ ======================== ==================================
    """
    is_compiling = torch.compiler.is_compiling()
    if not is_compiling and has_torch_function_variadic(logits, targets, input_lengths, target_lengths):
        tensors = logits, targets, input_lengths, target_lengths
        others = blank, reduction, zero_infinity, backend
        overridden: Tensor = handle_torch_function(ctc_loss, tensors, *tensors, *others, packed=packed, scale=scale)
        return overridden
    _check_choices(reduction, zero_infinity, backend)
    if is_compiling or not torch._C._is_tracing():  # which would take what is compared for constants
        check_shapes(logits, targets, blank, packed)
    lengths = as_lengths(input_lengths, "input_lengths"), as_lengths(target_lengths, "target_lengths")
    given = Arguments(targets, *lengths, blank, packed, reduction, bool(zero_infinity), backend, float(scale))
    loss: Tensor
    want_gradient = logits.requires_grad and torch.is_grad_enabled()
    if not is_compiling and forward_ad.unpack_dual(logits).tangent is not None:
        raise RuntimeError("ctc_loss has no forward-mode derivative: take torch.autograd.grad or torch.func.jacrev")
    if not is_compiling and _is_transformed():
        loss, _ = TransformedLoss.apply(logits, *given)  # type: ignore[no-untyped-call]
    elif is_seen(logits, *given.tensors):
        loss, _ = torch.ops.speechctc.ctc_loss(logits, *given, want_gradient and not defers_gradient(logits))
    elif want_gradient:  # past the operator, which takes longer to call than the loss of a short utterance
        loss = Loss.apply(logits, given)  # type: ignore[no-untyped-call]
    else:
        loss, _ = _solve(logits, given, False)
    return loss.squeeze(0) if reduction == "none" and logits.dim() == 2 and not packed else loss


def _check_choices(reduction: str, zero_infinity: bool, backend: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; it must be one of {', '.join(REDUCTIONS)}")
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; it must be one of {', '.join(BACKENDS)}")
    if zero_infinity not in (True, False):
        raise ValueError(f"zero_infinity is {zero_infinity!r}; it must be True or False")


def is_seen(*tensors: Tensor) -> bool:
    """Whether torch must see the loss as one operator: it compiles, traces or simulates, or the tensors are not plain.

    What is behind their addresses is not what such tensors stand for.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing() or torch._C._len_torch_dispatch_stack():
        return True
    return torch._C._are_functorch_transforms_active() or not PLAIN.issuperset(map(type, tensors))


def _is_transformed() -> bool:
    """Whether a transform of torch.func is at work that looks into functions; `functionalize` takes operators only."""
    if not torch._C._are_functorch_transforms_active():
        return False
    innermost = torch._C._functorch.peek_interpreter_stack()
    return innermost is not None and innermost.key() != torch._C._functorch.TransformType.Functionalize


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
        reduction: Reduction = "mean",
        zero_infinity: bool = False,
        backend: str = "auto",
        *,
        packed: bool = False,
    ) -> None:
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity
        self.backend, self.packed = backend, packed

    @overload
    def forward(self, logits: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor: ...

    @overload
    def forward(
        self, *, log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths
    ) -> Tensor: ...

    @_also_log_probs
    def forward(self, logits: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths) -> Tensor:
        """Compute the loss; see `ctc_loss`."""
        settings = self.blank, self.reduction, self.zero_infinity, self.backend
        return ctc_loss(logits, targets, input_lengths, target_lengths, *settings, packed=self.packed)

    def extra_repr(self) -> str:
        """Say how it was made."""
        names = ("blank", "reduction", "zero_infinity", "backend", "packed")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


class TransformedLoss(torch.autograd.Function):
    """The loss and its gradient, as a function that transforms of torch.func can look into."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        """Compute both: whether an outer transform wants the gradient cannot be seen from here."""
        logits, given = arguments[0], Arguments(*arguments[1:])
        if is_seen(logits, *given.tensors):
            seen: tuple[Tensor, Tensor] = torch.ops.speechctc.ctc_loss(logits, *given, True)
            return seen
        return evaluate(logits, given, True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep the gradient; of packed samples also which sample each frame is of."""
        given = Arguments(*inputs[1:])
        ctx.set_materialize_grads(False)
        samples = torch.arange(len(given.input_lengths), device=given.input_lengths.device)
        ctx.save_for_backward(output[1], samples.repeat_interleave(given.input_lengths) if given.packed else None)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor | None, by_gradient: Tensor | None) -> Any:
        """Return the gradient by the logits."""
        if by_gradient is not None:
            raise RuntimeError(_NO_SECOND)
        gradient, sample_of_frame = ctx.saved_tensors
        if grad_output is not None:
            scale = grad_output.to(gradient.dtype)
            if sample_of_frame is not None and scale.dim():
                scale = scale[sample_of_frame.to(scale.device)]
            gradient = gradient * (scale[:, None] if scale.dim() else scale)
        return None if grad_output is None else gradient, *(len(Arguments._fields) * (None,))

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


def evaluate(logits: Tensor, given: Arguments, want_gradient: bool) -> tuple[Tensor, Tensor]:
    """Compute the reduced loss, and its gradient by the logits: an empty tensor where that is not wanted."""
    loss, gradient = _solve(logits, given, want_gradient)
    return loss, logits.new_empty(0) if gradient is None else gradient


def gradient_by(grad_output: Tensor, logits: Tensor, given: Arguments) -> Tensor:
    """Compute the gradient by the logits, multiplied by the derivative by the loss before it is rounded."""
    _, gradient = _solve(logits, given, True, in_memory(grad_output.detach()))
    assert gradient is not None
    return gradient


def _solve(
    logits: Tensor, given: Arguments, want_gradient: bool, grad_output: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Compute the reduced loss and the gradient, times `grad_output` if that is given, with the backend asked for."""
    backend = logits.device.type if given.backend == "auto" else given.backend
    if backend == "cpu" and grad_output is None:
        from speechctc.ctc import cpu

        solved = cpu.solve_one(logits, given, want_gradient)
        if solved is not None:
            return solved
    problem = problem_of(logits.detach(), given, grad_output)
    if backend == "cuda":
        from speechctc.ctc import cuda

        loss, gradient = cuda.loss_and_gradient(problem, want_gradient, given.reduction != "none", given.zero_infinity)
    else:
        losses, gradient = _by_sample(problem, want_gradient, backend)
        loss = _reduced(losses, problem, given.reduction, given.zero_infinity)
    return loss, None if gradient is None else gradient.view(logits.shape) if logits.dim() == 2 else gradient


def _by_sample(problem: Problem, want_gradient: bool, backend: str) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample, and its gradient by the logits, with one of the backends but CUDA."""
    if backend == "cpu":
        from speechctc.ctc import cpu

        return cpu.loss_and_gradient(problem.on_host(), want_gradient)
    if backend in ("torch", "reference"):
        from speechctc.ctc import reference

        of = reference.torch_loss_and_gradient if backend == "torch" else reference.loss_and_gradient
        return of(problem, want_gradient)
    raise ValueError(f"there is no CTC loss for logits on {problem.logits.device}: move them to the CPU or a GPU")


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
    """The loss for autograd: `forward` computes the gradient too, and `backward` scales it; float16: see above."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, given: Arguments) -> Tensor:
        """Compute the loss, and most often the gradient. The other arguments come as one: each costs time here."""
        loss, ctx.gradient = _solve(logits, given, not defers_gradient(logits))
        ctx.save_for_backward(logits)
        targets, frames, labels = given.tensors
        if targets.is_inference() or frames.is_inference() or labels.is_inference():
            # An inference tensor has no version, by which changes are noticed.
            targets, frames, labels = (each.clone() for each in given.tensors)
            given = Arguments(targets, frames, labels, *given.settings)
        ctx.given, ctx.versions = given, (targets._version, frames._version, labels._version)
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
            _check_unchanged(ctx)
            gradient = gradient_by(grad_output, logits, ctx.given)
        else:
            # The first to ask gets the gradient itself, with no copy; for whoever asks again, it is computed again.
            gradient, ctx.gradient = ctx.gradient, None
            if gradient is None:
                _check_unchanged(ctx)
                _, gradient = _solve(logits, ctx.given, True)
            assert gradient is not None
            _scale_(gradient, grad_output, ctx.given.input_lengths if ctx.given.packed else None)
        if torch.is_grad_enabled():  # a second derivative may follow
            gradient = _Last.apply(gradient, logits, grad_output)  # type: ignore[no-untyped-call]
        return gradient, None


def _check_unchanged(ctx: Any) -> None:
    """Refuse to compute a gradient with other targets or lengths than the loss was computed with."""
    for name, tensor, version in zip(Arguments._fields, ctx.given.tensors, ctx.versions, strict=False):
        if tensor._version != version:
            what = f"{name} were changed in place after the loss was computed, and its gradient needs them"
            raise RuntimeError(f"{what}: change them after backward, or give the loss a copy")


class _Last(torch.autograd.Function):
    """A gradient of which there is no further derivative."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *depends_on: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(_NO_SECOND)


def _scale_(gradient: Tensor, grad_output: Tensor, packed_lengths: Tensor | None) -> None:
    """Multiply a gradient, in place, by what the loss was multiplied by further on: most often by 1."""
    if is_on_cpu(gradient) and (grad_output.item() == 1 if grad_output.dim() == 0 else bool((grad_output == 1).all())):
        return
    grad_output = in_memory(grad_output.detach())
    if is_scaled_on_gpu(gradient, grad_output):
        from speechctc.ctc import cuda

        cuda.scale_(gradient, grad_output)
    else:
        gradient.mul_(_by_frame(gradient, grad_output, packed_lengths))


def is_scaled_on_gpu(gradient: Tensor, grad_output: Tensor) -> bool:
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
_ARGUMENTS = (
    "Tensor logits, Tensor targets, Tensor input_lengths, Tensor target_lengths, SymInt blank, bool packed,"
    " str reduction, bool zero_infinity, str backend, float scale"
)


def _operate(logits: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    *arguments, want_gradient = others
    given = Arguments(*arguments)
    check_shapes(logits, given.targets, given.blank, given.packed)  # of other tensors than when a graph was made
    return evaluate(logits, given, want_gradient)


def _operate_late(grad_output: Tensor, logits: Tensor, *others: Any) -> Tensor:
    return gradient_by(grad_output, logits, Arguments(*others))


_operator = torch.library.custom_op(
    "speechctc::ctc_loss", _operate, mutates_args=(), schema=f"({_ARGUMENTS}, bool want_gradient) -> (Tensor, Tensor)"
)
_late_operator = torch.library.custom_op(
    "speechctc::ctc_loss_gradient",
    _operate_late,
    mutates_args=(),
    schema=f"(Tensor grad_output, {_ARGUMENTS}) -> Tensor",
)


@_operator.register_fake
def _(logits: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    *arguments, want_gradient = others
    given = Arguments(*arguments)
    shape = given.input_lengths.shape if given.reduction == "none" else ()
    losses = logits.new_empty(shape, dtype=loss_type(logits))
    return losses, torch.empty_like(logits) if want_gradient else logits.new_empty(0)


@_late_operator.register_fake
def _(grad_output: Tensor, logits: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(logits)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, *arguments, want_gradient = inputs
    given = Arguments(*arguments)
    ctx.set_materialize_grads(False)
    ctx.settings = given.settings
    if want_gradient:
        ctx.save_for_backward(output[1], *([given.input_lengths] if given.packed else []))
    else:
        ctx.save_for_backward(None, logits, *given.tensors)


def _backward(ctx: Any, grad_output: Tensor | None, by_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    if by_gradient is not None:
        raise RuntimeError(_NO_SECOND)
    gradient, *tensors = ctx.saved_tensors
    by_logits = None
    if grad_output is not None and gradient is None:
        by_logits = _late_operator(grad_output, *tensors, *ctx.settings)
    elif grad_output is not None:  # a pass over the gradient: an operator may not change what was saved
        by_logits = gradient * _by_frame(gradient, grad_output, tensors[0] if tensors else None)
    return by_logits, *((len(Arguments._fields) + 1) * (None,))


_operator.register_autograd(_backward, setup_context=_save)
_late_operator.register_autograd(_Last.backward)
