"""One sample: softmax of its logits frame by frame, the forward-backward recursion, and the gradient.

Each lattice state has an exponent of its own. The lattice of L labels has 2L+1 states in each frame: the blanks
b_0..b_L around the labels l_0..l_{L-1}. Blanks and labels are stored in two separate planes, so that neighbours are at
fixed distances::

    b_i  is reached from  b_i, l_{i-1}
    l_i  is reached from  l_i, b_i, and l_{i-1} unless that is the same label

Probabilities are extended-range numbers, ``m * 2**e``: a float m in [1, 2) and an integer e of the same width, in
separate arrays. A product multiplies the m and adds the e. A sum first scales all terms to the largest e, with `power`.
Both normalise m to [1, 2) again, with `significand` and `exponent`. There is no zero: a number whose exponent is near
`FLOOR` vanishes in any sum.

In each frame only the band of states is computed that is reachable from the first frame and leads to the last one, in
blocks of 16. States inside the band never read the values of a block outside it; those only need to be finite.

A processor forwards a recent write to a read of the same 16 numbers, but a read that overlaps two such writes waits for
both. Neighbours are therefore made with `before` and `after`, and not read at an offset of one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from speechctc.ctc.compiler import overload, types
from speechctc.ctc.pointers import gather, is_half, load, prefetch, store, stream, to_line
from speechctc.ctc.problem import MIN_EXPONENT
from speechctc.ctc.simd import (
    after,
    before,
    largest,
    maximum,
    minimum,
    nearest,
    njit_inline,
    polynomial,
    reinterpret,
    splat,
    to_integer,
    total,
)

# No exponent is smaller, so that sums and differences of two fit 32 bits.
FLOOR = -(2**30)
# The exponent of the smallest emission: a path with one is below `LEAST_EXPONENT`, and counts as impossible.
ZERO = -(2**29)
_FRACTION: dict[Any, int] = {types.float32: 23, types.float64: 52}
_BIAS: dict[Any, int] = {types.float32: 127, types.float64: 1023}
_TWIN: dict[Any, Any] = {types.int32: types.float32, types.int64: types.float64}
_LOG2E = 1 / math.log(2)
# ln 2 in two parts; the first has few bits, so that its product with an integer is exact.
_LN2: dict[Any, tuple[float, float]] = {
    types.float32: (355 / 512, math.log(2) - 355 / 512),
    types.float64: (0x162E42FEE / 2**33, 1.9082149292705877e-10),
}
# The remainder of the Taylor series of exp on [-ln(2)/2, ln(2)/2] is below 2**-27 and 2**-57.
_TERMS = {types.float32: 8, types.float64: 14}
_series = polynomial({kind: [1 / math.factorial(k) for k in range(count)] for kind, count in _TERMS.items()})
# Larger than any exponent: as a cap, it has no effect.
OPEN = 2**31 - 1
# Frames from prefetching a row to reading it. Hardware does not prefetch them: they are far apart.
PREFETCH = 4
# Rows of up to this many classes are prefetched as a whole.
SHORT_ROW = 256


# Compiled by the overloads below; these have only the names and the texts.
def significand(x: Any) -> Any:
    """Return the m of positive floats."""


def exponent(x: Any) -> Any:
    """Return the e of positive floats."""


def power(e: Any) -> Any:
    """Return 2**e; 0 where that underflows. e must not overflow."""


def exponential(d: Any) -> Any:
    """Return exp(d) for d <= 0; 0 where that underflows, NaN for NaN."""


def softened(x: Any, top: Any, scale: Any) -> Any:
    """Return ``scale * exp(x - top)`` as (m, e), for x <= top; -inf and NaN give e <= `ZERO`."""


@overload(significand, strict=False)
def _significand(x: Any) -> Any:
    mask, one = (1 << _FRACTION[x.dtype]) - 1, _BIAS[x.dtype] << _FRACTION[x.dtype]
    return lambda x: reinterpret((reinterpret(x) & mask) | one)


@overload(exponent, strict=False)
def _exponent(x: Any) -> Any:
    fraction, bias = _FRACTION[x.dtype], _BIAS[x.dtype]
    return lambda x: (reinterpret(x) >> fraction) - bias


@overload(power, strict=False)
def _power(e: Any) -> Any:
    fraction, bias = _FRACTION[_TWIN[e.dtype]], _BIAS[_TWIN[e.dtype]]
    return lambda e: reinterpret(maximum(e + bias, 0) << fraction)


@overload(exponential, strict=False)
def _exponential(d: Any) -> Any:
    high, low = _LN2[d.dtype]
    fraction, bias = _FRACTION[d.dtype], _BIAS[d.dtype]
    least = -bias * math.log(2)  # here the exponent's bits are all zero, and so is the result
    # Adding this leaves the rounded value plus bias in the lowest bits, to be shifted into the exponent.
    magic = 1.5 * 2**fraction + bias

    def exponential(d: Any) -> Any:
        clipped = maximum(least, d)
        shifted = clipped * _LOG2E + magic
        n = shifted - magic
        r = (clipped - n * high) - n * low
        return _series(r) * reinterpret(reinterpret(shifted) << fraction)

    return exponential


@overload(softened, strict=False)
def _softened(x: Any, top: Any, scale: Any) -> Any:
    high, low = _LN2[x.dtype]

    def softened(x: Any, top: Any, scale: Any) -> Any:
        d = x - top
        shift = d - x
        lost = (x - (d - shift)) - (top + shift)  # the rounding error of x - top (Knuth's two-sum)
        n = nearest(maximum(d * _LOG2E, ZERO))
        r = ((d - n * high) + lost) - n * low
        m = _series(r) * scale
        return significand(m), exponent(m) + to_integer(n)

    return softened


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
        blank = emit(s, w, t, begin // 16 * 16, end)
        blanks, labels = retreat(s, w, t, begin // 16 * 16, end, blank, shift)
        # The posteriors sum to 1 up to the accumulated rounding of alpha, beta and the likelihood: divide by the sum.
        if s.wants_gradient:
            correct(s, w, t, begin, end, blanks, s.weight / (blanks + labels))
        if s.wants_posteriors:
            write_posteriors(s, w, t, begin, end, blanks + labels)


@njit_inline
def retreat(s: Sample, w: Workspace, t: int, begin: int, end: int, blank: Any, shift: int) -> Any:
    """Compute beta of the previous frame, first block first; return the sums of the posteriors by plane.

    Beta includes the probability of its own frame, before and after; `blank` is that of the blank in this frame.
    """
    (blank_m, blank_e), row = blank, t * (2 * s.labels + 1)
    alpha_m, alpha_e = w.alpha_m + row, w.alpha_e + row
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
