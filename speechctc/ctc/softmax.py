"""The logits of one frame after the other: their softmax, the probabilities of the labels, the gradient."""

from __future__ import annotations

import math
from typing import Any

from speechctc.compiled.inline import njit_inline
from speechctc.compiled.pointers import gather, is_half, load, prefetch, store, stream, to_line
from speechctc.compiled.simd import largest, maximum, splat, total
from speechctc.ctc.extended import exponential, softened
from speechctc.ctc.workspace import Sample, Workspace

AHEAD = 4
"""Frames between asking for a row and reading it. Rows of a batch lie far apart: the hardware does not foresee them."""
SHORT = 256
"""A row of no more classes is asked for as a whole."""


@njit_inline
def padded_row(s: Sample, w: Workspace, source: Any) -> int:
    """Copy the logits of a frame, in any stride, to `w.row`; return its length, 16 or more, for the -inf it ends in."""
    for c in range(s.classes):
        w.row[c] = source[c * s.class_stride]
    for c in range(s.classes, 16):
        w.row[c] = -math.inf
    return max(s.classes, 16)


@njit_inline
def top_of(row: Any, width: int) -> Any:
    """Find the largest logit of a row."""
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
    """Write exp(x - top) of a row to `w.soft`, and ask for the following row; return the sum.

    A last block of fewer than 16 is read together with the end of the one before it, and written behind that.
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
    """Write what `soften` made, times a factor, to the gradient of a frame."""
    whole = s.classes // 16 * 16
    if s.gradient_class_stride != 1 or s.classes < 16:
        write_some(s, w, target, factor, 0, s.classes)
        return
    if s.streams:
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
    shift = -s.classes % 16 if whole else 0  # what is behind the whole blocks stands at the end of one more
    for c in range(begin, end):
        target[c * s.gradient_class_stride] = w.soft[c + shift if c >= whole else c] * factor


@njit_inline
def request(s: Sample, t: int) -> None:
    """Ask for the rows of a frame, or at least their start."""
    for i in range(0, min(s.classes, SHORT), 16):
        prefetch(s.logits, t * s.frame_stride + i * s.class_stride)
        if s.wants_gradient and not s.streams:
            prefetch(s.gradient, t * s.gradient_frame_stride + i * s.gradient_class_stride)


@njit_inline
def request_labels(s: Sample, t: int) -> None:
    """Ask for what a frame has of the labels: all of it, or in a long row one by one."""
    if s.classes <= SHORT:
        request(s, t)
        return
    logits, gradient = s.logits + t * s.frame_stride, s.gradient + t * s.gradient_frame_stride
    prefetch(logits, s.blank * s.class_stride)
    prefetch(gradient, s.blank * s.gradient_class_stride)  # of no effect where there is none
    for i in range(s.labels):
        prefetch(logits, s.targets[i] * s.class_stride)
        prefetch(gradient, s.targets[i] * s.gradient_class_stride)


@njit_inline
def normalise(s: Sample, w: Workspace) -> bool:
    """Find what normalises each frame, and write softmax as the gradient so far; False where there is a NaN.

    Maximum, sum and quotient must wait for each other; a few frames at a time fill the waiting.
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
    """Compute the probabilities of the labels begin..end-1 in a frame; return that of the blank.

    The blank stands behind the last label, and so comes with a block that is mostly needed anyway.
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
    """Take the posteriors from the gradient of a frame, which was softmax so far."""
    for i in range(begin // 16 * 16, end, 16):
        store(w.l_gamma, i, load(w.l_gamma, i) * factor)
    target = s.gradient + t * s.gradient_frame_stride
    if is_half(target):  # begin again, or softmax would be rounded twice
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
    """Subtract posteriors from the classes they belong to, always in the same order."""
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
    """Write one number as the gradient of the frames begin..end-1."""
    for t in range(begin, end):
        row = s.gradient + t * s.gradient_frame_stride
        for c in range(s.classes):
            row[c * s.gradient_class_stride] = value
