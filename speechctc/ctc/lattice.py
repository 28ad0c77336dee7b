"""The forward-backward recursion over one sample, with an exponent per lattice state.

The lattice of L labels has 2L+1 states in each frame: the blanks b_0..b_L around the labels l_0..l_{L-1}. Blanks and
labels are stored in two separate planes, so that neighbours are at fixed distances::

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
from typing import Any

from speechctc.ctc.extended import FLOOR, exponent, power, significand
from speechctc.ctc.problem import LEAST_EXPONENT
from speechctc.ctc.softmax import AHEAD, correct, emit, fill_gradient, normalise, request_labels, write_posteriors
from speechctc.ctc.workspace import Sample, Workspace, band, clear, prepare
from speechctc.jit.pointers import load, store
from speechctc.jit.simd import after, before, maximum, minimum, njit_inline, total


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
    return math.log(p) + top * math.log(2.0) if top > LEAST_EXPONENT else -math.inf


@njit_inline
def backward(s: Sample, w: Workspace, likelihood: float) -> None:
    """Compute beta of all frames, from it and alpha the posteriors, and complete the gradient."""
    clear(s, w)
    w.b_e[s.labels] = 0  # the end of all paths is after the last blank
    shift = -round(likelihood / math.log(2.0))
    for t in range(s.frames - 1, -1, -1):
        request_labels(s, t - AHEAD)
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
