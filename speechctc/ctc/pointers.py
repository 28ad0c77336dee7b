"""Raw pointers in numba, as in C, with float16 and bfloat16.

`memory` makes a pointer from an address, ``p + i`` moves it, ``p[i]`` is one number, `load` and `store` access 16.
numba has neither float16 nor bfloat16: a pointer to int16 is read and written as float16, a pointer to uint16 as
bfloat16, converted from and to float32. That is integer arithmetic: for LLVM's own conversion of float16, a processor
without an instruction for it (F16C) needs functions that are not there, and the process is aborted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from speechctc.ctc.compiler import (
    AbstractTemplate,
    infer_global,
    lower_builtin,
    models,
    register_model,
    signature,
    types,
)
from speechctc.ctc.simd import F32, I8, I32, I64, LLVM, NOTHING, WIDTH, Vec16, instruction, vector

_FLOAT16, _BFLOAT16 = types.int16, types.uint16
I16 = ir.IntType(16)
_STORED = {**LLVM, types.uint8: I8, _FLOAT16: I16, _BFLOAT16: I16}
_BIAS, _LEAST = 112 << 23, 113 << 23  # how far float32's exponent is above float16's; 2^-14, float16's least normal one


class Memory(types.Type):  # type: ignore[misc, unused-ignore]
    """The numba type of a pointer to numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.half = dtype in (_FLOAT16, _BFLOAT16)
        self.value = types.float32 if self.half else dtype
        super().__init__(name=f"Memory({dtype})")  # type: ignore[no-untyped-call, unused-ignore]


@register_model(Memory)
class _MemoryModel(models.PrimitiveModel):  # type: ignore[misc, unused-ignore]
    """Data model: a `Memory` value is an LLVM pointer."""

    def __init__(self, manager: Any, kind: Memory) -> None:
        super().__init__(manager, kind, _STORED[kind.dtype].as_pointer())  # type: ignore[no-untyped-call, unused-ignore]


# ------------------------------------------------------------------------------------ numbers of 16 bits


def _widen(builder: Any, kind: Memory, raw: Any) -> Any:
    """Convert a value as read, one number or 16, for computing: halves become float32."""
    if not kind.half:
        return raw
    real, whole, number = _forms(raw)
    bits = builder.zext(raw, whole)
    if kind.dtype == _BFLOAT16:
        return builder.bitcast(builder.shl(bits, number(16)), real)
    sign = builder.shl(builder.and_(bits, number(0x8000)), number(16))
    size = builder.shl(builder.and_(bits, number(0x7FFF)), number(13))
    usual = builder.add(size, number(_BIAS))
    special = builder.icmp_unsigned(">=", size, number(0x1F << 23))  # infinity and NaN
    usual = builder.select(special, builder.add(usual, number(_BIAS)), usual)
    # A subnormal half has no leading 1: 2^-14 in front of it is taken away again.
    led = builder.bitcast(builder.add(size, number(_LEAST)), real)
    small = builder.bitcast(builder.fsub(led, builder.bitcast(number(_LEAST), real)), whole)
    subnormal = builder.icmp_unsigned("<", size, number(1 << 23))
    return builder.bitcast(builder.or_(sign, builder.select(subnormal, small, usual)), real)


def _narrow(builder: Any, kind: Memory, value: Any) -> Any:
    """Convert a value for writing: float32 is rounded to the nearest half, ties to even."""
    if not kind.half:
        return value
    real, whole, number = _forms(value)
    bits = builder.bitcast(value, whole)
    stored = I16 if whole is I32 else vector(I16)
    if kind.dtype == _BFLOAT16:
        quiet = builder.or_(builder.lshr(bits, number(16)), number(0x40))  # rounding could turn a NaN into infinity
        chosen = builder.select(builder.fcmp_unordered("uno", value, value), quiet, _rounded(builder, bits, 16))
        return builder.trunc(chosen, stored)
    sign = builder.lshr(builder.and_(bits, number(0x80000000)), number(16))
    size = builder.and_(bits, number(0x7FFFFFFF))
    usual = _rounded(builder, builder.sub(size, number(_BIAS)), 13)
    # Below 2^-14, the last bit of a half is that of 0.5 in float32: adding this rounds.
    small = builder.bitcast(builder.fadd(builder.bitcast(size, real), builder.bitcast(number(126 << 23), real)), whole)
    subnormal = builder.icmp_unsigned("<", size, number(_LEAST))
    finite = builder.select(subnormal, builder.sub(small, number(126 << 23)), usual)
    nan = builder.icmp_unsigned(">", size, number(0xFF << 23))
    special = builder.select(nan, number(0x7E00), number(0x7C00))
    large = builder.icmp_unsigned(">=", size, number(143 << 23))  # 2^16; what is rounded to it becomes infinity, too
    return builder.trunc(builder.or_(sign, builder.select(large, special, finite)), stored)


def _rounded(builder: Any, bits: Any, fewer: int) -> Any:
    """Return numbers without their last bits, rounded to the nearest, ties to even."""
    *_, number = _forms(bits)
    odd = builder.and_(builder.lshr(bits, number(fewer)), number(1))
    up = builder.add(bits, builder.add(odd, number((1 << fewer - 1) - 1)))
    return builder.lshr(up, number(fewer))


def _forms(value: Any) -> tuple[Any, Any, Callable[[int], Any]]:
    """Return the types of float32 and of int32, and a function for constants of the latter, for one number or 16."""
    if isinstance(value.type, ir.VectorType):
        return vector(F32), vector(I32), lambda number: ir.Constant(vector(I32), [number] * WIDTH)
    return F32, I32, I32


# ------------------------------------------------------------------------------------------- operators


def _template(op: Any, result: Any) -> None:
    """Declare an operator to numba for a pointer, an integer, and optionally a value."""

    class Template(AbstractTemplate):  # type: ignore[misc, unused-ignore]
        def generic(self, args: Any, kws: Any) -> Any:
            pointer, index, *value = args
            if not isinstance(pointer, Memory) or not isinstance(index, types.Integer):
                return None
            written = [pointer.value] if value else []
            return signature(result(pointer), pointer, types.intp, *written)  # type: ignore[no-untyped-call, unused-ignore]

    infer_global(op)(Template)  # type: ignore[no-untyped-call, unused-ignore]


_template(operator.add, lambda pointer: pointer)
_template(operator.getitem, lambda pointer: pointer.value)
_template(operator.setitem, lambda pointer: types.none)


@lower_builtin(operator.add, Memory, types.Integer)  # type: ignore[untyped-decorator, no-untyped-call, unused-ignore]
def _move(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.gep(args[0], [args[1]])


@lower_builtin(operator.getitem, Memory, types.Integer)  # type: ignore[untyped-decorator, no-untyped-call, unused-ignore]
def _read(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _widen(builder, sig.args[0], builder.load(builder.gep(args[0], [args[1]])))


@lower_builtin(operator.setitem, Memory, types.Integer, types.Number)  # type: ignore[untyped-decorator, no-untyped-call, unused-ignore]
def _write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(_narrow(builder, sig.args[0], args[2]), builder.gep(args[0], [args[1]]))
    return NOTHING


# ------------------------------------------------------------------------------------------- functions


@instruction(lambda address, like: Memory(like)(types.intp, like))
def memory(builder: Any, sig: Any, address: Any, like: Any) -> Any:
    """Return a pointer to numbers of the type of `like`."""
    return builder.inttoptr(address, _STORED[sig.return_type.dtype].as_pointer())


@instruction(lambda like: types.intp(like))
def size_of(builder: Any, sig: Any, like: Any) -> Any:
    """Return the size of a number in bytes."""
    return I64(sig.args[0].bitwidth // 8)


@instruction(lambda pointer: types.boolean(pointer))
def is_half(builder: Any, sig: Any, pointer: Any) -> Any:
    """Return whether the numbers in memory have 16 bits."""
    return ir.IntType(1)(sig.args[0].half)


def _block(builder: Any, pointer: Any, index: Any) -> Any:
    """Return a pointer to the vector that begins at ``pointer[index]``."""
    return builder.bitcast(builder.gep(pointer, [index]), vector(pointer.type.pointee).as_pointer())


@instruction(lambda pointer, index: Vec16(pointer.value)(pointer, types.intp))
def load(builder: Any, sig: Any, pointer: Any, index: Any) -> Any:
    """Read 16 numbers from ``pointer[index]`` on, at any alignment."""
    kind = sig.args[0]
    return _widen(builder, kind, builder.load(_block(builder, pointer, index), align=kind.dtype.bitwidth // 8))


@instruction(lambda pointer, index, vec: types.none(pointer, types.intp, Vec16(pointer.value)))
def store(builder: Any, sig: Any, pointer: Any, index: Any, vec: Any) -> Any:
    """Write 16 numbers from ``pointer[index]`` on, at any alignment."""
    kind = sig.args[0]
    builder.store(_narrow(builder, kind, vec), _block(builder, pointer, index), align=kind.dtype.bitwidth // 8)
    return NOTHING


@instruction(lambda pointer: types.intp(pointer))
def to_line(builder: Any, sig: Any, pointer: Any) -> Any:
    """Return how many numbers lie between a pointer and the next cache line."""
    width = sig.args[0].dtype.bitwidth // 8
    past = builder.and_(builder.ptrtoint(pointer, I64), I64(63))
    return builder.udiv(builder.and_(builder.sub(I64(64), past), I64(63)), I64(width))


@instruction(lambda pointer, index, vec: types.none(pointer, types.intp, Vec16(pointer.value)))
def stream(builder: Any, sig: Any, pointer: Any, index: Any, vec: Any) -> Any:
    """Write 16 numbers from ``pointer[index]`` on, aligned to a cache line, bypassing the caches."""
    kind = sig.args[0]
    narrow = _narrow(builder, kind, vec)
    made = builder.store(narrow, _block(builder, pointer, index), align=WIDTH * kind.dtype.bitwidth // 8)
    made.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
    return NOTHING


@instruction(lambda pointer, places, index: Vec16(pointer.value)(pointer, places, types.intp))
def gather(builder: Any, sig: Any, pointer: Any, places: Any, index: Any) -> Any:
    """Read ``pointer[p]`` for the 16 indices p stored from ``places[index]`` on."""
    raw = ir.Constant(vector(pointer.type.pointee), ir.Undefined)
    for lane in range(WIDTH):
        place = builder.load(builder.gep(places, [builder.add(index, I64(lane))]))
        raw = builder.insert_element(raw, builder.load(builder.gep(pointer, [place])), I32(lane))
    return _widen(builder, sig.args[0], raw)


@instruction(lambda pointer, index: types.none(pointer, types.intp))
def prefetch(builder: Any, sig: Any, pointer: Any, index: Any) -> Any:
    """Prefetch the cache line of ``pointer[index]``; any address is allowed."""
    line = builder.bitcast(builder.gep(pointer, [index]), I8.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [line.type, I32, I32, I32])
    called = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
    builder.call(called, [line, I32(0), I32(2), I32(1)])  # to read, into the second cache, data
    return NOTHING


@instruction(lambda counter, amount: types.int64(counter, types.int64))
def fetch_and_add(builder: Any, sig: Any, counter: Any, amount: Any) -> Any:
    """Add to ``counter[0]`` atomically; return its value before."""
    return builder.atomic_rmw("add", counter, amount, "monotonic")
