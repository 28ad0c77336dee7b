"""Vectors of 16 numbers, a SIMD type for numba; functions for use inside compiled ones. Importing this loads numba.

numba leaves vectorisation to LLVM, which succeeds or fails for reasons that change between releases (possible aliasing,
trip counts that are no multiple of the width). The functions here state it explicitly. A value of type `Vec16` is an
LLVM vector of 16 float32, float64, int32 or int64; LLVM maps it to the machine's registers (one of AVX-512, two of
AVX2, four of SSE or NEON). The operators ``+ - * & | << >>`` work elementwise, between vectors and between a vector and
a number.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite import ir

from speechctc.ctc.compiler import (
    AbstractTemplate,
    cgutils,
    infer_global,
    intrinsic,
    lower_builtin,
    models,
    numba,
    register_model,
    signature,
    types,
)

WIDTH = 16
I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
LLVM: dict[Any, Any] = {types.float32: F32, types.float64: F64, types.int32: I32, types.int64: I64}
NOTHING = ir.Constant(I8.as_pointer(), None)  # numba's representation of None
_TWIN: dict[Any, Any] = {types.float32: types.int32, types.float64: types.int64}
_TWIN |= {integer: real for real, integer in _TWIN.items()}
# Allow fused multiply-add, but no other rearrangement.
_CONTRACT = ("contract",)

Function = TypeVar("Function", bound=Callable[..., Any])


class Vec16(types.Type):  # type: ignore[misc, unused-ignore]
    """The numba type of a vector of 16 numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.real = dtype in (types.float32, types.float64)
        super().__init__(name=f"Vec16({dtype})")  # type: ignore[no-untyped-call, unused-ignore]


@register_model(Vec16)
class _Vec16Model(models.PrimitiveModel):  # type: ignore[misc, unused-ignore]
    """Data model: a `Vec16` value is one LLVM vector."""

    def __init__(self, manager: Any, kind: Vec16) -> None:
        super().__init__(manager, kind, vector(LLVM[kind.dtype]))  # type: ignore[no-untyped-call, unused-ignore]


def vector(element: Any) -> Any:
    """Return LLVM's type of 16 elements."""
    return ir.VectorType(element, WIDTH)


_SHAPES: dict[int, Callable[[Any], Any]] = {
    1: lambda typed: lambda typing, a: typed(a),
    2: lambda typed: lambda typing, a, b: typed(a, b),
    3: lambda typed: lambda typing, a, b, c: typed(a, b, c),
}


def instruction(sign: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a numba intrinsic from a function that emits LLVM instructions.

    Parameters
    ----------
    sign : function
        Maps the numba types of the arguments to the signature; None if they do not fit.
    """

    def decorate(write: Callable[..., Any]) -> Any:
        def typed(*kinds: Any) -> Any:
            return sign(*kinds) and (sign(*kinds), lambda _, builder, sig, args: write(builder, sig, *args))

        named = _SHAPES[len(inspect.signature(write).parameters) - 2](typed)
        named.__name__, named.__doc__ = write.__name__, write.__doc__
        return intrinsic(named)

    return decorate


def _splat(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(vector(value.type), ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(vector(I32), [0] * WIDTH))


def _common(*kinds: Any) -> Any:
    """Return the result type of an elementwise instruction on these operands, or None if they do not fit."""
    vec = [kind for kind in kinds if isinstance(kind, Vec16)]
    fits = vec and all(kind == vec[0] or isinstance(kind, types.Number) for kind in kinds)
    return vec[0] if fits else None


def _operands(context: Any, builder: Any, sig: Any, args: Any) -> list[Any]:
    """Return the operands of an elementwise instruction; numbers are broadcast to vectors."""
    kind = _common(*sig.args)
    return [
        value if isinstance(of, Vec16) else _splat(builder, context.cast(builder, value, of, kind.dtype))
        for value, of in zip(args, sig.args, strict=True)
    ]


def _define(op: Any, real: str, integer: str) -> None:
    """Define an operator on vectors: LLVM's instructions for floats and for integers."""

    class Template(AbstractTemplate):  # type: ignore[misc, unused-ignore]
        def generic(self, args: Any, kws: Any) -> Any:
            kind = _common(*args)
            return signature(kind, *args) if kind else None  # type: ignore[no-untyped-call, unused-ignore]

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        operands = _operands(context, builder, sig, args)
        if sig.return_type.real:
            return getattr(builder, real)(*operands, flags=_CONTRACT)
        return getattr(builder, integer)(*operands)

    infer_global(op)(Template)  # type: ignore[no-untyped-call, unused-ignore]
    for kinds in ((Vec16, Vec16), (Vec16, types.Number), (types.Number, Vec16)):
        lower_builtin(op, *kinds)(lower)  # type: ignore[no-untyped-call, unused-ignore]


for _op, _real, _integer in (
    (operator.add, "fadd", "add"),
    (operator.sub, "fsub", "sub"),
    (operator.mul, "fmul", "mul"),
    (operator.and_, "", "and_"),
    (operator.or_, "", "or_"),
    (operator.lshift, "", "shl"),
    (operator.rshift, "", "ashr"),
):
    _define(_op, _real, _integer)


def _chooser(comparison: str) -> Any:
    """Return a function that selects, elementwise, `a` where the comparison of a and b holds, else `b`."""

    def typed(typing: Any, a: Any, b: Any) -> Any:
        kind = _common(a, b)

        def write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            x, y = _operands(context, builder, sig, args)
            compare = builder.fcmp_ordered if kind.real else builder.icmp_signed
            return builder.select(compare(comparison, x, y), x, y)

        return (kind(a, b), write) if kind else None

    return intrinsic(typed)


maximum = _chooser(">")  # b where either is NaN
minimum = _chooser("<")  # b where either is NaN


@instruction(lambda number: Vec16(number)(number))
def splat(builder: Any, sig: Any, number: Any) -> Any:
    """Broadcast a number to a vector."""
    return _splat(builder, number)


@instruction(lambda vec: Vec16(_TWIN[vec.dtype])(vec))
def reinterpret(builder: Any, sig: Any, vec: Any) -> Any:
    """Reinterpret the bits of floats as integers of the same width, or the reverse."""
    return builder.bitcast(vec, vector(LLVM[sig.return_type.dtype]))


@instruction(lambda vec: Vec16(_TWIN[vec.dtype])(vec))
def to_integer(builder: Any, sig: Any, vec: Any) -> Any:
    """Convert floats to integers of the same width, truncating; the values must fit."""
    return builder.fptosi(vec, vector(LLVM[sig.return_type.dtype]))


@instruction(lambda vec: vec(vec))
def nearest(builder: Any, sig: Any, vec: Any) -> Any:
    """Round floats to the nearest integers; the result is float."""
    name = f"llvm.rint.v{WIDTH}f{sig.return_type.dtype.bitwidth}"
    kind = ir.FunctionType(vec.type, [vec.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [vec])  # type: ignore[no-untyped-call, unused-ignore]


@instruction(lambda low, high: low(low, high))
def before(builder: Any, sig: Any, low: Any, high: Any) -> Any:
    """Return, for each element of `high`, the element before it; `low` is the vector before `high` in memory."""
    return builder.shuffle_vector(low, high, ir.Constant(vector(I32), list(range(WIDTH - 1, 2 * WIDTH - 1))))


@instruction(lambda low, high: low(low, high))
def after(builder: Any, sig: Any, low: Any, high: Any) -> Any:
    """Return, for each element of `low`, the element after it; `high` is the vector after `low` in memory."""
    return builder.shuffle_vector(low, high, ir.Constant(vector(I32), list(range(1, WIDTH + 1))))


def _fold(builder: Any, vec: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Reduce a vector by combining its halves."""
    width = WIDTH
    while width > 1:
        width //= 2
        low, high = (
            builder.shuffle_vector(vec, vec, ir.Constant(ir.VectorType(I32, width), list(range(i, i + width))))
            for i in (0, width)
        )
        vec = combine(low, high)
    return builder.extract_element(vec, I32(0))


@instruction(lambda vec: vec.dtype(vec))
def total(builder: Any, sig: Any, vec: Any) -> Any:
    """Return the sum of the 16 elements, always added in the same order."""
    return _fold(builder, vec, builder.fadd)


@instruction(lambda vec: vec.dtype(vec))
def largest(builder: Any, sig: Any, vec: Any) -> Any:
    """Return the largest of the 16 elements."""
    return _fold(builder, vec, lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


def polynomial(coefficients: dict[Any, list[float]]) -> Any:
    """Return a function that evaluates a polynomial; coefficients are by element type, lowest order first."""

    @instruction(lambda vec: vec(vec))
    def evaluate(builder: Any, sig: Any, vec: Any) -> Any:
        constants = [ir.Constant(vec.type, [c] * WIDTH) for c in coefficients[sig.return_type.dtype]]
        value = constants[-1]
        for constant in reversed(constants[:-1]):
            value = builder.fadd(builder.fmul(value, vec, flags=_CONTRACT), constant, flags=_CONTRACT)
        return value

    return evaluate


def njit_inline(function: Function) -> Function:
    """Compile a function that only other compiled functions call; division by zero follows IEEE 754."""
    unwrapped: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # a fifth of the time to compile
    return numba.njit(function, error_model="numpy", **unwrapped)  # type: ignore[no-any-return, unused-ignore]
