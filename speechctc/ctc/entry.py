"""The compiled entry point to the lattice, cached on disk by numba."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.ctc.compiler import (
    PRIMITIVES,
    FunctionCache,
    cache_chosen,
    cpu_target,
    numba,
    sources,
    types,
    with_cache,
)
from speechctc.ctc.lattice import Sample, Workspace, solve
from speechctc.ctc.pointers import fetch_and_add, memory, size_of
from speechctc.ctc.problem import Problem
from speechctc.ctc.simd import njit_inline

Integers = NDArray[np.int64]

# By type of the logits: its numba type in memory (see `speechctc.ctc.pointers`), and the types to compute with.
KINDS: dict[torch.dtype, tuple[Any, Any, Any]] = {
    torch.float32: (np.float32(0), np.float32(0), np.int32(0)),
    torch.float64: (np.float64(0), np.float64(0), np.int64(0)),
    torch.float16: (np.int16(0), np.float32(0), np.int32(0)),
    torch.bfloat16: (np.uint16(0), np.float32(0), np.int32(0)),
}

# The files whose functions and constants end up in the compiled code.
MADE_OF = (*PRIMITIVES, *(Path(__file__).with_name(f"{name}.py") for name in "entry lattice problem".split()))

_SIGNATURE = types.none(types.voidptr)


class Batch(NamedTuple):
    """A batch as compiled code sees it: addresses (0 for absent arrays), and strides in numbers, not bytes."""

    taken: int = 0  # samples that a thread has taken
    started: int = 0  # threads that have taken a workspace
    unchecked: int = 0  # whether this is one sample, whose values nobody has looked at: see `admit`
    samples: int = 0
    order: int = 0  # address: the samples in the order of processing
    frames: int = 0  # address: per sample, as all down to `losses`
    frame_offsets: int = 0
    labels: int = 0
    target_offsets: int = 0
    weights: int = 0
    losses: int = 0
    logits: int = 0
    gradient: int = 0
    targets: int = 0
    posteriors: int = 0
    sample_stride: int = 0  # of the logits; 0 when packed
    frame_stride: int = 0
    class_stride: int = 0
    gradient_sample_stride: int = 0
    gradient_frame_stride: int = 0
    gradient_class_stride: int = 0
    posteriors_sample_stride: int = 0
    posteriors_frame_stride: int = 0
    length: int = 0  # frames of the gradient, padded ones included; 0 when packed
    classes: int = 0
    blank: int = 0
    longest_input: int = 0
    longest_target: int = 0
    non_temporal_stores: int = 0  # whether writes of the gradient bypass the caches
    alpha: int = 0  # size of alpha, in numbers
    workspaces: int = 0  # address: the workspaces of all threads, one after the other
    workspace_size: int = 0  # bytes of one
    # Of a sample that is unchecked:
    all_labels: int = 0  # labels and padding there are
    whole: int = 0  # whether all of those labels are the sample's
    packed: int = 0  # whether all of the frames are
    reduce: int = 0  # whether its loss is multiplied by its weight
    mean: int = 0  # whether that is 1 / labels
    zero_infinity: int = 0  # whether an infinite loss becomes zero


_BATCH = np.dtype([(name, np.int64) for name in Batch._fields])


@njit_inline
def workspace_layout(alpha: int, frames: int, classes: int, labels: int, width: int) -> tuple[int, ...]:
    """Return the offset of each part of a thread's `Workspace`, and the total size, in bytes.

    Alpha takes ``2 * width * alpha`` bytes; the rest is a few rows of logits and of states. `width` is the size of a
    number, 4 or 8 bytes. Each part begins at a cache line.
    """
    line = 64 // width
    a = (alpha + 64 + line - 1) // line * 64
    t = (frames + line - 1) // line * 64
    r = (classes + 32 + line - 1) // line * 64
    s = (labels + 64 + line - 1) // line * 64
    places = 2 * (a + t + r) + 32 * width
    skip = places + (labels + 64 + 7) // 8 * 64  # places are indices of 8 bytes
    before = (0, a, 2 * a, 2 * a + t, 2 * (a + t), 2 * (a + t) + r, 2 * (a + t + r), places)
    after = (skip, skip + s, skip + 2 * s, skip + 3 * s, skip + 4 * s, skip + 5 * s, skip + 6 * s, skip + 7 * s)
    return (*before, *after, skip + 8 * s, skip + 9 * s)


def workspace_size(problem: Problem, alpha: int) -> int:
    """Return the bytes that a thread needs for the samples of a problem."""
    width = 8 if problem.logits.dtype == torch.float64 else 4
    plain: Any = workspace_layout
    return int(plain.py_func(alpha, problem.longest_input, problem.classes, problem.longest_target, width)[-1])


@njit_inline
def bind_workspace(start: int, offsets: Any, real: Any, integer: Any) -> Workspace:
    """Make the pointers of a workspace that begins at an address."""
    w = Workspace(
        alpha_m=memory(start + offsets[0], real),
        alpha_e=memory(start + offsets[1], integer),
        top=memory(start + offsets[2], real),
        scale=memory(start + offsets[3], real),
        row=memory(start + offsets[4], real),
        soft=memory(start + offsets[5], real),
        fresh=memory(start + offsets[6], real),
        places=memory(start + offsets[7], 0),
        skip=memory(start + offsets[8], integer),
        p_m=memory(start + offsets[9], real),
        p_e=memory(start + offsets[10], integer),
        b_m=memory(start + offsets[11], real),
        b_e=memory(start + offsets[12], integer),
        l_m=memory(start + offsets[13], real),
        l_e=memory(start + offsets[14], integer),
        b_gamma=memory(start + offsets[15], real),
        l_gamma=memory(start + offsets[16], real),
    )
    for i in range(16):
        w.fresh[i] = 0
        w.fresh[16 + i] = 1
    return w


@njit_inline
def sample_of(b: Batch, n: int, like: Any, real: Any) -> Sample:
    """Return one sample of a batch."""
    offset = memory(b.frame_offsets, 0)[n] if b.frame_offsets else 0
    logits = n * b.sample_stride + offset * b.frame_stride
    gradient = n * b.gradient_sample_stride + offset * b.gradient_frame_stride
    return Sample(
        logits=memory(b.logits, like) + logits,
        frame_stride=b.frame_stride,
        class_stride=b.class_stride,
        gradient=memory(b.gradient, like) + gradient,
        gradient_frame_stride=b.gradient_frame_stride,
        gradient_class_stride=b.gradient_class_stride,
        targets=memory(b.targets, 0) + memory(b.target_offsets, 0)[n],
        posteriors=memory(b.posteriors, real) + n * b.posteriors_sample_stride,
        posteriors_stride=b.posteriors_frame_stride,
        frames=memory(b.frames, 0)[n],
        labels=memory(b.labels, 0)[n],
        classes=b.classes,
        blank=b.blank,
        weight=memory(b.weights, real)[n],
        wants_gradient=b.gradient != 0,
        wants_posteriors=b.posteriors != 0,
        non_temporal_stores=b.non_temporal_stores != 0,
    )


@njit_inline
def admit(b: Any, real: Any) -> bool:
    """Check a sample's lengths and labels, and complete the batch of it alone; return False where one is wrong.

    Its workspace may take `Batch.workspace_size` bytes, and is too large otherwise.
    """
    frames, labels, targets = memory(b.frames, 0)[0], memory(b.labels, 0)[0], memory(b.targets, 0)
    if frames < 0 or frames > b.length or labels < 0 or labels > b.all_labels:
        return False
    if b.whole and labels < b.all_labels or b.packed and frames < b.length:
        return False
    for i in range(labels):
        if targets[i] < 0 or targets[i] >= b.classes or targets[i] == b.blank:
            return False
    memory(b.weights, real)[0] = 1 / max(labels, 1) if b.mean else 1.0
    states = 2 * labels + 1
    b.alpha, b.longest_input, b.longest_target = frames * states if b.gradient else states, frames, labels
    layout = workspace_layout(b.alpha, frames, b.classes, labels, size_of(real))
    return bool(layout[-1] <= b.workspace_size)


@njit_inline
def reduce_one(b: Any, real: Any) -> None:
    """Complete the loss of a sample that `admit` took."""
    losses = memory(b.losses, real)
    if b.zero_infinity and math.isinf(losses[0]):
        losses[0] = 0
    if b.reduce:
        losses[0] = 0 + losses[0] * memory(b.weights, real)[0]


def _source(dtype: torch.dtype) -> Callable[[int], None]:
    """Return the entry point for logits of one type, uncompiled."""
    like, real, integer = KINDS[dtype]
    made_of = sources(MADE_OF)

    def entry(address: Any) -> None:
        """Solve samples of the batch at an address until none is left; any number of threads may do so at once."""
        made_of  # noqa: B018 - captured: part of the key in numba's cache
        shared = numba.carray(address, 1, _BATCH)  # type: ignore[attr-defined, unused-ignore]
        batch, counters = shared[0], memory(shared.ctypes.data, 0)  # of samples and of threads: the first two fields
        if batch.unchecked and not admit(batch, real):
            return
        # Nothing is allocated here: from a callback, numba cannot say that memory is short.
        layout = workspace_layout(batch.alpha, batch.longest_input, batch.classes, batch.longest_target, size_of(real))
        start = batch.workspaces + fetch_and_add(counters + 1, 1) * batch.workspace_size
        w = bind_workspace(start, layout, real, integer)
        k = fetch_and_add(counters, 1)
        while k < batch.samples:
            n = memory(batch.order, 0)[k]
            memory(batch.losses, real)[n] = solve(sample_of(batch, n, like, real), w, batch.length)
            k = fetch_and_add(counters, 1)
        if batch.unchecked:
            reduce_one(batch, real)
            batch.unchecked = 0

    return entry


@cache
def compiled_entry(dtype: torch.dtype) -> Any:
    """Compile the entry point for logits of one type, or load it from the cache.

    Returns
    -------
    function
        Takes the address of a `Batch` as an array of int64; releases the GIL while it works.
    """
    return with_cache(numba.cfunc, _source(dtype), _SIGNATURE, error_model="numpy").ctypes


def is_compiled(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether the CPU kernel for a type of logits is compiled, in this process or in the cache on disk.

    Compiling takes some seconds, once per machine, version and type: when it is about to happen, say so.
    """
    with cache_chosen() as is_kept, suppress(RuntimeError):
        stored: Any = FunctionCache(_source(dtype)) if is_kept else None  # type: ignore[no-untyped-call, unused-ignore]
        return is_kept and stored.load_overload(_SIGNATURE, cpu_target.target_context) is not None
    return False


def warm_up(dtype: torch.dtype = torch.float32) -> None:
    """Compile the CPU kernel for logits of a type, or load it from disk; the loss then starts at once."""
    compiled_entry(dtype)
