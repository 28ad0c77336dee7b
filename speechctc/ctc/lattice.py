"""One sample: softmax of its logits frame by frame, the forward-backward recursion, and the gradient.

Each lattice state has an exponent of its own. The lattice of L labels has 2L+1 states in each frame: the blanks
b_0..b_L around the labels l_0..l_{L-1}. Blanks and labels are stored in two separate planes, so that neighbours are at
fixed distances::

    b_i  is reached from  b_i, l_{i-1}
    l_i  is reached from  l_i, b_i, and l_{i-1} unless that is the same label

Probabilities are extended-range numbers (`speechctc.ctc.extended`), with significands and exponents in separate arrays.
In each frame only the band of states is computed that is reachable from the first frame and leads to the last one, in
blocks of 16. States inside the band never read the values of a block outside it; those only need to be finite.

A processor forwards a recent write to a read of the same 16 numbers, but a read that overlaps two such writes waits for
both. Neighbours are therefore made with `before` and `after`, and not read at an offset of one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from speechctc.ctc.extended import FLOOR, exponent, exponential, power, significand, softened
from speechctc.ctc.problem import MIN_EXPONENT
from speechctc.jit.pointers import gather, is_half, load, prefetch, store, stream, to_line
from speechctc.jit.simd import after, before, largest, maximum, minimum, njit_inline, splat, total

# Larger than any exponent: as a cap, it has no effect.
OPEN = 2**31 - 1
# Frames from prefetching a row to reading it. Hardware does not prefetch them: they are far apart.
PREFETCH = 4
# Rows of up to this many classes are prefetched as a whole.
SHORT_ROW = 256


class Sample(NamedTuple):
    """A sample. Strides are in numbers, not bytes."""

    logits: Any  # pointer to the first frame
    frame_stride: int
    class_stride: int
    gradient: Any
    gradient_frame_stride: int
    gradient_class_stride: int
    targets: Any
    posteriors: Any  # by state, in the order b_0 l_0 b_1 l_1 ... b_L
    posteriors_stride: int  # from frame to frame
    frames: int  # T
    labels: int  # L
    classes: int
    blank: int
    weight: Any  # factor on the gradient
    wants_gradient: bool
    wants_posteriors: bool
    non_temporal_stores: bool  # writes of the gradient bypass the caches


class Workspace(NamedTuple):
    """The memory of one thread; `speechctc.ctc.entry` computes the size of each part."""

    alpha_m: Any  # alpha of all frames, rows of 2L+1: the blanks, then the labels
    alpha_e: Any
    top: Any  # by frame, the largest logit
    scale: Any  # by frame, 1 / sum of exp(logit - top)
    row: Any  # the logits of a frame
    soft: Any  # their exp(logit - top)
    fresh: Any  # 16 zeros, then 16 ones
    places: Any  # by label, the offset of its logit in a frame; after the last label, the blank's
    skip: Any  # by label, a cap on the exponent of l_{i-1} in the transition to l_i: FLOOR forbids it
    p_m: Any  # by label, its probability in this frame
    p_e: Any
    b_m: Any  # by blank, alpha or beta in this frame
    b_e: Any
    l_m: Any  # by label, the same
    l_e: Any
    b_gamma: Any  # by blank, the posterior in this frame
    l_gamma: Any  # by label, the same


@njit_inline
def prepare(s: Sample, w: Workspace) -> int:
    """Preprocess the labels; return the fewest frames that hold them."""
    repeats = 0
    for i in range(s.labels):
        again = i > 0 and s.targets[i] == s.targets[i - 1]
        repeats += again
        w.places[i] = s.targets[i] * s.class_stride
        w.skip[i] = FLOOR if again else OPEN
    for i in range(s.labels, s.labels + 32):
        w.places[i] = s.blank * s.class_stride
        w.skip[i] = FLOOR
    return s.labels + repeats


@njit_inline
def band(s: Sample, t: int) -> tuple[int, int]:
    """Return the range of states to compute in a frame: b_i and l_i for begin <= i < end."""
    return max(0, s.labels - s.frames + t), min(s.labels, t) + 1


@njit_inline
def clear(s: Sample, w: Workspace) -> None:
    """Set the probability of each state to zero (see `FLOOR`)."""
    one, floor = load(w.fresh, 16), load(w.skip, 0) * 0 + FLOOR
    for i in range(0, s.labels + 32, 16):
        store(w.b_m, i, one)
        store(w.b_e, i, floor)
        store(w.l_m, i, one)
        store(w.l_e, i, floor)


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
        if width > SHORT_ROW:
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
    """Prefetch the rows of a frame, or their first `SHORT_ROW` classes."""
    for i in range(0, min(s.classes, SHORT_ROW), 16):
        prefetch(s.logits, t * s.frame_stride + i * s.class_stride)
        if s.wants_gradient and not s.non_temporal_stores:
            prefetch(s.gradient, t * s.gradient_frame_stride + i * s.gradient_class_stride)


@njit_inline
def request_labels(s: Sample, t: int) -> None:
    """Prefetch a frame's values for the labels: the whole row if it is short, else one by one."""
    if s.classes <= SHORT_ROW:
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
            request(s, t + PREFETCH)
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


@njit_inline
def forward(s: Sample, w: Workspace) -> float:
    """Compute alpha of all frames; keep it if a backward pass follows. Return log p(labels)."""
    clear(s, w)
    w.b_e[0] = 0  # the start of all paths is before the first blank
    keep = s.wants_gradient or s.wants_posteriors
    for t in range(s.frames):
        begin, end = band(s, t)
        begin = begin // 16 * 16
        blank_m, blank_e = emit(s, w, t, begin, end)
        row = t * (2 * s.labels + 1) if keep else 0
        advance(s, w, begin, end, blank_m, blank_e, w.alpha_m + row, w.alpha_e + row)
    return log_likelihood(s, w)


@njit_inline
def advance(s: Sample, w: Workspace, begin: int, end: int, blank_m: Any, blank_e: Any, out_m: Any, out_e: Any) -> None:
    """Compute alpha of the next frame, last block first, and keep a copy."""
    i = (end - 1) // 16 * 16
    l_m, l_e = load(w.l_m, i), load(w.l_e, i)
    while i >= begin:
        if i:
            low_m, low_e = load(w.l_m, i - 16), load(w.l_e, i - 16)
        else:
            low_m, low_e = l_m, l_e * 0 + FLOOR
        b_m, b_e = load(w.b_m, i), load(w.b_e, i)
        k_m, k_e = before(low_m, l_m), before(low_e, l_e)  # l_{i-1}
        top = maximum(b_e, k_e)
        p = (b_m * power(b_e - top) + k_m * power(k_e - top)) * blank_m
        m, e = significand(p), maximum(exponent(p) + top + blank_e, FLOOR)
        store(w.b_m, i, m)
        store(w.b_e, i, e)
        store(out_m, i, m)
        store(out_e, i, e)
        k_e = minimum(k_e, load(w.skip, i))
        top = maximum(maximum(b_e, k_e), l_e)
        p = b_m * power(b_e - top) + k_m * power(k_e - top) + l_m * power(l_e - top)
        p = p * load(w.p_m, i)
        m, e = significand(p), maximum(exponent(p) + top + load(w.p_e, i), FLOOR)
        store(w.l_m, i, m)
        store(w.l_e, i, e)
        store(out_m, s.labels + 1 + i, m)
        store(out_e, s.labels + 1 + i, e)
        l_m, l_e = low_m, low_e
        i -= 16


@njit_inline
def log_likelihood(s: Sample, w: Workspace) -> float:
    """Return the log of the sum over the two final states; -inf where that counts as zero."""
    top = w.b_e[s.labels]
    p = float(w.b_m[s.labels])
    if s.labels:
        last = w.l_e[s.labels - 1]
        most = max(top, last)
        p = math.ldexp(p, max(top - most, -2000))
        p += math.ldexp(float(w.l_m[s.labels - 1]), max(last - most, -2000))
        top = most
    return math.log(p) + top * math.log(2.0) if top > MIN_EXPONENT else -math.inf


@njit_inline
def backward(s: Sample, w: Workspace, likelihood: float) -> None:
    """Compute beta of all frames, from it and alpha the posteriors, and complete the gradient."""
    clear(s, w)
    w.b_e[s.labels] = 0  # the end of all paths is after the last blank
    shift = -round(likelihood / math.log(2.0))
    for t in range(s.frames - 1, -1, -1):
        request_labels(s, t - PREFETCH)
        begin, end = band(s, t)
        blank_m, blank_e = emit(s, w, t, begin // 16 * 16, end)
        row = t * (2 * s.labels + 1)
        blanks, labels = retreat(s, w, begin // 16 * 16, end, blank_m, blank_e, w.alpha_m + row, w.alpha_e + row, shift)
        # The posteriors sum to 1 up to the accumulated rounding of alpha, beta and the likelihood: divide by the sum.
        if s.wants_gradient:
            correct(s, w, t, begin, end, blanks, s.weight / (blanks + labels))
        if s.wants_posteriors:
            write_posteriors(s, w, t, begin, end, blanks + labels)


@njit_inline
def retreat(
    s: Sample, w: Workspace, begin: int, end: int, blank_m: Any, blank_e: Any, alpha_m: Any, alpha_e: Any, shift: int
) -> Any:
    """Compute beta of the previous frame, first block first; return the sums of the posteriors by plane.

    Beta includes the probability of its own frame, before and after.
    """
    on_blanks = on_labels = load(w.fresh, 0)
    b_m, b_e, l_m, l_e = load(w.b_m, begin), load(w.b_e, begin), load(w.l_m, begin), load(w.l_e, begin)
    for i in range(begin, end, 16):
        top = maximum(b_e, l_e)
        p = b_m * power(b_e - top) + l_m * power(l_e - top)
        gamma = load(alpha_m, i) * p * power(load(alpha_e, i) + top + shift)
        store(w.b_gamma, i, gamma)
        on_blanks = on_blanks + gamma
        p = p * blank_m
        store(w.b_m, i, significand(p))
        store(w.b_e, i, maximum(exponent(p) + top + blank_e, FLOOR))
        high_m, high_e = load(w.b_m, i + 16), load(w.b_e, i + 16)
        n_m, n_e = after(b_m, high_m), after(b_e, high_e)  # b_{i+1}
        b_m, b_e = high_m, high_e
        high_m, high_e = load(w.l_m, i + 16), load(w.l_e, i + 16)
        k_m, k_e = after(l_m, high_m), minimum(after(l_e, high_e), load(w.skip, i + 1))  # l_{i+1}
        top = maximum(maximum(n_e, k_e), l_e)
        p = n_m * power(n_e - top) + k_m * power(k_e - top) + l_m * power(l_e - top)
        gamma = load(alpha_m, s.labels + 1 + i) * p * power(load(alpha_e, s.labels + 1 + i) + top + shift)
        store(w.l_gamma, i, gamma)
        on_labels = on_labels + gamma
        p = p * load(w.p_m, i)
        store(w.l_m, i, significand(p))
        store(w.l_e, i, maximum(exponent(p) + top + load(w.p_e, i), FLOOR))
        l_m, l_e = high_m, high_e
    return total(on_blanks), total(on_labels)


@njit_inline
def solve(s: Sample, w: Workspace, length: int) -> float:
    """Compute the loss of a sample, and its gradient or posteriors; zero the gradient in padding up to `length`."""
    if s.wants_gradient:
        fill_gradient(s, s.frames, length, 0.0)
    if s.frames == 0 and s.labels == 0:
        return 0.0
    if prepare(s, w) > s.frames:
        if s.wants_gradient:
            fill_gradient(s, 0, s.frames, 0.0)
        return math.inf
    likelihood = forward(s, w) if normalise(s, w) else math.nan
    if likelihood > -math.inf:
        if s.wants_gradient or s.wants_posteriors:
            backward(s, w, likelihood)
    elif s.wants_gradient:
        fill_gradient(s, 0, s.frames, 0.0 if likelihood == -math.inf else math.nan)
    return -likelihood
