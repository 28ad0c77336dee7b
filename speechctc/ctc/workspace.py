"""One sample of a batch, and the memory to process it in, as compiled code sees them."""

from __future__ import annotations

from typing import Any, NamedTuple

from speechctc.ctc.extended import FLOOR
from speechctc.jit.pointers import load, store
from speechctc.jit.simd import njit_inline

OPEN = 2**31 - 1
"""Larger than any exponent: as a cap, it has no effect."""


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
