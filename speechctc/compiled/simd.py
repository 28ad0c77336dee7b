"""Sixteen numbers at a time: a vector type for numba.

numba leaves it to LLVM to turn loops over numbers into vector instructions, which it does or does not, for reasons that
change from release to release: arrays that might overlap, a trip count that is no multiple of the width. The functions
here say it outright. A value of type `Vec16` is an LLVM vector of 16 float32, float64, int32 or int64; LLVM maps it to
whatever the machine has (one AVX-512 register, two of AVX2, four of SSE or NEON). The operators ``+ - * & | << >>``
work lane by lane, between vectors and between a vector and a number.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, register_model

WIDTH = 16
I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
LLVM: dict[Any, Any] = {types.float32: F32, types.float64: F64, types.int32: I32, types.int64: I64}
NOTHING = ir.Constant(I8.as_pointer(), None)  # what numba has for None
_TWIN: dict[Any, Any] = {types.float32: types.int32, types.float64: types.int64}
_TWIN |= {integer: real for real, integer in _TWIN.items()}
# A product and a sum may become one fused instruction; nothing else may be rearranged.
_CONTRACT = ("contract",)


class Vec16(types.Type):  # type: ignore[misc, unused-ignore]
    """The numba type of a vector of 16 numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.real = dtype in (types.float32, types.float64)
        super().__init__(name=f"Vec16({dtype})")  # type: ignore[no-untyped-call, unused-ignore]


@register_model(Vec16)
class _Vec16Model(models.PrimitiveModel):  # type: ignore[misc, unused-ignore]
    """A `Vec16` value is held as one LLVM vector."""

    def __init__(self, manager: Any, kind: Vec16) -> None:
        super().__init__(manager, kind, vector(LLVM[kind.dtype]))  # type: ignore[no-untyped-call, unused-ignore]


def vector(element: Any) -> Any:
    """LLVM's type of 16 elements."""
    return ir.VectorType(element, WIDTH)


_SHAPES: dict[int, Callable[[Any], Any]] = {
    1: lambda typed: lambda typing, a: typed(a),
    2: lambda typed: lambda typing, a, b: typed(a, b),
    3: lambda typed: lambda typing, a, b, c: typed(a, b, c),
}


def instruction(sign: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of compiled code from one that writes LLVM's instructions.

    Parameters
    ----------
    sign : function
        From the numba types of the arguments to the signature; None where they do not fit.
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
    """The type of what comes of an instruction on these operands, if they fit together."""
    lanes = [kind for kind in kinds if isinstance(kind, Vec16)]
    fits = lanes and all(kind == lanes[0] or isinstance(kind, types.Number) for kind in kinds)
    return lanes[0] if fits else None


def _operands(context: Any, builder: Any, sig: Any, args: Any) -> list[Any]:
    """The operands of an instruction on lanes, of which those that are numbers become vectors."""
    kind = _common(*sig.args)
    return [
        value if isinstance(of, Vec16) else _splat(builder, context.cast(builder, value, of, kind.dtype))
        for value, of in zip(args, sig.args, strict=True)
    ]


def _define(op: Any, real: str, integer: str) -> None:
    """Give an operator its meaning on lanes: LLVM's instruction for floats and the one for integers."""

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
    """A function that takes, lane by lane, `a` where the comparison of a and b holds, else `b`."""

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
    """Sixteen times the same number."""
    return _splat(builder, number)


@instruction(lambda lanes: Vec16(_TWIN[lanes.dtype])(lanes))
def reinterpret(builder: Any, sig: Any, lanes: Any) -> Any:
    """The bits of floats as integers, or of integers as floats."""
    return builder.bitcast(lanes, vector(LLVM[sig.return_type.dtype]))


@instruction(lambda lanes: Vec16(_TWIN[lanes.dtype])(lanes))
def to_integer(builder: Any, sig: Any, lanes: Any) -> Any:
    """Floats as integers of the same width, towards zero; they must fit."""
    return builder.fptosi(lanes, vector(LLVM[sig.return_type.dtype]))


@instruction(lambda lanes: lanes(lanes))
def nearest(builder: Any, sig: Any, lanes: Any) -> Any:
    """Floats rounded to whole numbers, as floats."""
    name = f"llvm.rint.v{WIDTH}f{sig.return_type.dtype.bitwidth}"
    kind = ir.FunctionType(lanes.type, [lanes.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [lanes])  # type: ignore[no-untyped-call, unused-ignore]


@instruction(lambda low, high: low(low, high))
def before(builder: Any, sig: Any, low: Any, high: Any) -> Any:
    """What stands one place before each number of `high`, if `low` stands before `high`."""
    return builder.shuffle_vector(low, high, ir.Constant(vector(I32), list(range(WIDTH - 1, 2 * WIDTH - 1))))


@instruction(lambda low, high: low(low, high))
def after(builder: Any, sig: Any, low: Any, high: Any) -> Any:
    """What stands one place after each number of `low`, if `high` stands after `low`."""
    return builder.shuffle_vector(low, high, ir.Constant(vector(I32), list(range(1, WIDTH + 1))))


def _fold(builder: Any, lanes: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine halves until one number is left."""
    width = WIDTH
    while width > 1:
        width //= 2
        low, high = (
            builder.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(I32, width), list(range(i, i + width))))
            for i in (0, width)
        )
        lanes = combine(low, high)
    return builder.extract_element(lanes, I32(0))


@instruction(lambda lanes: lanes.dtype(lanes))
def total(builder: Any, sig: Any, lanes: Any) -> Any:
    """The sum of the 16 numbers, always in the same order."""
    return _fold(builder, lanes, builder.fadd)


@instruction(lambda lanes: lanes.dtype(lanes))
def largest(builder: Any, sig: Any, lanes: Any) -> Any:
    """The largest of the 16 numbers."""
    return _fold(builder, lanes, lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


def polynomial(coefficients: dict[Any, list[float]]) -> Any:
    """A function that evaluates a polynomial; its coefficients, lowest first, go by the type of the lanes."""

    @instruction(lambda lanes: lanes(lanes))
    def evaluate(builder: Any, sig: Any, lanes: Any) -> Any:
        constants = [ir.Constant(lanes.type, [c] * WIDTH) for c in coefficients[sig.return_type.dtype]]
        value = constants[-1]
        for constant in reversed(constants[:-1]):
            value = builder.fadd(builder.fmul(value, lanes, flags=_CONTRACT), constant, flags=_CONTRACT)
        return value

    return evaluate
