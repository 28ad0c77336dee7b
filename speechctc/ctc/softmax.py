"""Frame by frame: softmax of the logits, probabilities of the labels, and the gradient."""

from __future__ import annotations

import math
from typing import Any

from speechctc.ctc.extended import exponential, softened
from speechctc.ctc.workspace import Sample, Workspace
from speechctc.jit.pointers import gather, is_half, load, prefetch, store, stream, to_line
from speechctc.jit.simd import largest, maximum, njit_inline, splat, total

AHEAD = 4
"""Frames from prefetching a row to reading it. Hardware does not prefetch them: they are far apart."""
SHORT = 256
"""Rows of up to this many classes are prefetched as a whole."""


@njit_inline
def padded_row(s: Sample, w: Workspace, source: Any) -> int:
    """Copy a frame's logits, of any stride, to `w.row`; pad with -inf to 16; return the length."""
    for c in range(s.classes):
        w.row[c] = source[c * s.class_stride]
    for c in range(s.classes, 16):
        w.row[c] = -math.inf
    return max(s.classes, 16)


@njit_inline
def top_of(row: Any, width: int) -> Any:
    """Return the largest logit of a row."""
    whole = width // 16 * 16
    a = b = c = d = load(row, width - 16)
    for i in range(0, whole - 48, 64):
        a, b = maximum(a, load(row, i)), maximum(b, load(row, i + 16))
        c, d = maximum(c, load(row, i + 32)), maximum(d, load(row, i + 48))
    for i in range(whole // 64 * 64, whole, 16):
        a = maximum(a, load(row, i))
    return largest(maximum(maximum(a, b), maximum(c, d)))


@njit_inline
def soften(row: Any, width: int, top: Any, following: Any, w: Workspace) -> Any:
    """Write exp(x - top) of a row to `w.soft`, and prefetch the following row; return the sum.

    An incomplete last block is read with the end of the block before it, 16 numbers in all, and written after it.
    """
    whole, rest = width // 16 * 16, width % 16
    sums = load(w.fresh, 0)
    for i in range(0, whole, 16):
        if width > SHORT:
            prefetch(following, i)
        y = exponential(load(row, i) - top)
        store(w.soft, i, y)
        sums = sums + y
    if rest:
        y = exponential(load(row, width - 16) - top)
        store(w.soft, whole, y)
        sums = sums + y * load(w.fresh, rest)
    return total(sums)


@njit_inline
def write_row(s: Sample, w: Workspace, target: Any, factor: Any) -> None:
    """Write `w.soft` times a factor to the gradient of a frame."""
    whole = s.classes // 16 * 16
    if s.gradient_class_stride != 1 or s.classes < 16:
        write_some(s, w, target, factor, 0, s.classes)
        return
    if s.non_temporal_stores:
        begin = to_line(target)
        end = whole - (whole - begin) % 16
        write_some(s, w, target, factor, 0, begin)
        for i in range(begin, end, 16):
            stream(target, i, load(w.soft, i) * factor)
        write_some(s, w, target, factor, end, whole)
    else:
        for i in range(0, whole, 16):
            store(target, i, load(w.soft, i) * factor)
    if s.classes > whole:
        store(target, s.classes - 16, load(w.soft, whole) * factor)


@njit_inline
def write_some(s: Sample, w: Workspace, target: Any, factor: Any, begin: int, end: int) -> None:
    """Write the classes begin..end-1 one by one."""
    whole = s.classes // 16 * 16
    shift = -s.classes % 16 if whole else 0  # the rest is at the end of an additional block
    for c in range(begin, end):
        target[c * s.gradient_class_stride] = w.soft[c + shift if c >= whole else c] * factor


@njit_inline
def request(s: Sample, t: int) -> None:
    """Prefetch the rows of a frame, or their first `SHORT` classes."""
    for i in range(0, min(s.classes, SHORT), 16):
        prefetch(s.logits, t * s.frame_stride + i * s.class_stride)
        if s.wants_gradient and not s.non_temporal_stores:
            prefetch(s.gradient, t * s.gradient_frame_stride + i * s.gradient_class_stride)


@njit_inline
def request_labels(s: Sample, t: int) -> None:
    """Prefetch a frame's values for the labels: the whole row if it is short, else one by one."""
    if s.classes <= SHORT:
        request(s, t)
        return
    logits, gradient = s.logits + t * s.frame_stride, s.gradient + t * s.gradient_frame_stride
    prefetch(logits, s.blank * s.class_stride)
    prefetch(gradient, s.blank * s.gradient_class_stride)  # no effect without a gradient
    for i in range(s.labels):
        prefetch(logits, s.targets[i] * s.class_stride)
        prefetch(gradient, s.targets[i] * s.gradient_class_stride)


@njit_inline
def normalise(s: Sample, w: Workspace) -> bool:
    """Compute each frame's maximum and scale, and write softmax as the gradient so far; return False for a NaN.

    Maximum, sum and quotient depend on each other; processing several frames at a time hides the latency.
    """
    direct = s.class_stride == 1 and s.classes >= 16
    group = 4 if s.classes <= 1024 else 1
    for begin in range(0, s.frames, group):
        end = min(begin + group, s.frames)
        for t in range(begin, end):
            request(s, t + AHEAD)
            row = s.logits + t * s.frame_stride
            w.top[t] = top_of(row, s.classes) if direct else top_of(w.row, padded_row(s, w, row))
        for t in range(begin, end):
            row = s.logits + t * s.frame_stride
            if direct:
                sums = soften(row, s.classes, w.top[t], row + s.frame_stride, w)
            else:
                sums = soften(w.row, padded_row(s, w, row), w.top[t], w.row, w)
            if not sums >= 1:
                return False
            w.scale[t] = 1 / sums
            if s.wants_gradient:
                write_row(s, w, s.gradient + t * s.gradient_frame_stride, s.weight * w.scale[t])
    return True


@njit_inline
def emit(s: Sample, w: Workspace, t: int, begin: int, end: int) -> Any:
    """Compute the probabilities of the labels begin..end-1 in a frame; return the blank's.

    The blank is stored after the last label, in a block that is mostly needed anyway.
    """
    row = s.logits + t * s.frame_stride
    last = s.labels // 16 * 16
    i = begin
    while i <= last:
        m, e = softened(gather(row, w.places, i), w.top[t], w.scale[t])
        store(w.p_m, i, m)
        store(w.p_e, i, e)
        i = i + 16 if i + 16 < end else max(i + 16, last)
    return splat(w.p_m[s.labels]), splat(w.p_e[s.labels])


@njit_inline
def correct(s: Sample, w: Workspace, t: int, begin: int, end: int, blanks: Any, factor: Any) -> None:
    """Subtract the posteriors from the gradient of a frame, which is softmax so far."""
    for i in range(begin // 16 * 16, end, 16):
        store(w.l_gamma, i, load(w.l_gamma, i) * factor)
    target = s.gradient + t * s.gradient_frame_stride
    if is_half(target):  # compute softmax again: it must not be rounded twice
        row = s.logits + t * s.frame_stride
        for c in range(s.classes):
            w.row[c] = row[c * s.class_stride]
        for c in range(0, s.classes, 16):
            store(w.row, c, exponential(load(w.row, c) - w.top[t]) * (s.weight * w.scale[t]))
        subtract(s, w, w.row, 1, begin, end, blanks * factor)
        for c in range(s.classes):
            target[c * s.gradient_class_stride] = w.row[c]
    else:
        subtract(s, w, target, s.gradient_class_stride, begin, end, blanks * factor)


@njit_inline
def subtract(s: Sample, w: Workspace, row: Any, stride: int, begin: int, end: int, blanks: Any) -> None:
    """Subtract the posteriors from their classes, always in the same order."""
    row[s.blank * stride] = row[s.blank * stride] - blanks
    for i in range(begin, min(end, s.labels)):
        place = s.targets[i] * stride
        row[place] = row[place] - w.l_gamma[i]


@njit_inline
def write_posteriors(s: Sample, w: Workspace, t: int, begin: int, end: int, whole: Any) -> None:
    """Write the posteriors of the states of a frame."""
    out = s.posteriors + t * s.posteriors_stride
    for i in range(begin, end):
        out[2 * i] = w.b_gamma[i] / whole
        if i < s.labels:
            out[2 * i + 1] = w.l_gamma[i] / whole


@njit_inline
def fill_gradient(s: Sample, begin: int, end: int, value: float) -> None:
    """Set the gradient of the frames begin..end-1 to a value."""
    for t in range(begin, end):
        row = s.gradient + t * s.gradient_frame_stride
        for c in range(s.classes):
            row[c * s.gradient_class_stride] = value
