"""Where the buffers of the CUDA kernels lie: in a block's shared memory, or in a workspace from torch's allocator.

`kernels/lattice.cuh` says what each buffer holds, in `Block`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from speechctc.ctc.problem import Problem

PLACES = (
    "emissions",
    "checkpoints",
    "alpha_edges",
    "beta_edges",
    "posteriors",
    "sorted",
    "table",
    "first",
    "history",
)
"""Buffers in the order of `Args` in samples.cuh; lattice.cuh says what they hold."""

_WEIGHT = 32
"""Bytes at the beginning of shared memory, for the factor on the sample's gradient (gradient.cuh)."""


@dataclass(frozen=True)
class Device:
    """What a plan must know of a GPU: multiprocessors, and bytes of shared memory of a block and of one of those."""

    multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int


@dataclass(frozen=True)
class Size:
    """The shape of a problem.

    Attributes
    ----------
    rows : int
        Frames of the logits: T padded, F packed.
    samples, classes : int
        N and C.
    longest_input, longest_target : int
        Bounds of the lengths.
    dtype : torch.dtype
        Of the logits.
    packed, gradient, contiguous : bool
        Whether frames are packed, whether the gradient is wanted beside the loss, and whether classes lie side by
        side, in logits and gradient.
    """

    rows: int
    samples: int
    classes: int
    longest_input: int
    longest_target: int
    dtype: torch.dtype
    packed: bool
    gradient: bool
    contiguous: bool = True

    @property
    def all_rows(self) -> int:
        """Frames of all samples, padding included."""
        return self.rows if self.packed else self.rows * self.samples

    @property
    def longest(self) -> int:
        """Labels that the lattice must have room for: a target longer than its input has no path."""
        return min(self.longest_target, self.longest_input)

    @property
    def number(self) -> int:
        """Bytes of an extended-range number."""
        return 16 if self.dtype == torch.float64 else 8

    @property
    def real(self) -> int:
        """Bytes of the float that the kernels calculate in."""
        return self.number // 2


def size_of(problem: Problem, gradient: Tensor | None) -> Size:
    """Return the shape of a problem, given the room for its gradient."""
    return Size(
        rows=problem.logits.shape[0],
        samples=problem.samples,
        classes=problem.classes,
        longest_input=problem.longest_input,
        longest_target=problem.longest_target,
        dtype=problem.logits.dtype,
        packed=problem.packed,
        gradient=gradient is not None,
        contiguous=problem.logits.stride(2) == 1 and (gradient is None or gradient.stride(2) == 1),
    )


class Layout:
    """Buffers put one after the other, in shared memory or in the workspace.

    Parameters
    ----------
    size : Size
        The shape of the problem.
    chunk : int
        Frames between two barriers.
    fused : bool
        Whether the sweep reads the logits itself.
    pairs, warps : int
        Pairs of states per lane, warps per direction.
    spacious : bool
        Whether warps take panels in turns, with everything in the workspace.
    columns : int
        Where `fused`, classes that the helpers have room for: not fewer than there are.

    Attributes
    ----------
    shared, workspace, least_shared : int
        Bytes taken so far of either; bytes of shared memory without which the variant cannot be.
    by_class, history, whole : bool
        Whether the table of emissions has all classes; whether shared memory holds the states of all frames, and
        their emissions.
    places : dict of str to int
        Where each buffer begins: bytes into the workspace, or -1 - bytes into shared memory.
    """

    def __init__(
        self, size: Size, chunk: int, fused: bool, pairs: int, warps: int, spacious: bool, columns: int = 0
    ) -> None:
        self.size, self.chunk, self.fused = size, chunk, fused
        self.pairs, self.warps, self.spacious = pairs, warps, spacious
        self.padded_frames = -(-size.longest_input // chunk) * chunk
        self.shared = _WEIGHT if size.gradient else 0
        self.workspace = 0
        self.history = self.whole = False
        self.places = dict.fromkeys(PLACES, -1)
        self.states = size.longest + 1
        self.panels = size.longest // (32 * pairs) + 1
        self.by_class = fused or size.classes <= size.longest
        row = ((columns if fused else size.classes if self.by_class else self.states) + 1) * size.number
        if not fused:
            self._in_workspace("emissions", (size.all_rows + self.chunk * size.samples) * row)
        self.ring, self.frames = 2 * (warps + 3) * self.chunk * row, self.padded_frames * row
        each = size.samples if spacious else 1  # what is in shared memory belongs to one sample
        place = self._in_workspace if spacious else self._in_shared
        if size.gradient:
            of_row = (self.states + 32 * self.panels) * size.real
            place("posteriors", each * 2 * (self.panels + 1) * self.chunk * of_row)
        place("sorted", each * 4 * self.states * 4)
        if fused:
            place("first", (size.classes + 1) * 4)
        self.least_shared = self.shared if spacious else self.shared + self.ring + self._states_of(2)

    def place_states(self, budget: int) -> None:
        """Find room for states and emissions: the more frames of them shared memory holds, the less is done twice."""
        size, history = self.size, self._states_of(self.padded_frames)
        free = budget - self.shared - self._states_of(2) - 64
        self.history = size.gradient and not self.spacious and history + self.ring <= free
        if self.history:
            self._in_shared("history", history)
            free -= history
        self.whole = size.gradient and not self.spacious and self.frames <= free
        if not self.spacious:
            self._in_shared("table", self.frames if self.whole else self.ring)
        if self.history or not (size.gradient or self.spacious):
            self._in_shared("checkpoints", self._states_of(2))
        else:
            rows, frames = size.all_rows // self.chunk + 3 * size.samples, self.padded_frames // self.chunk + 2
            self._in_either("checkpoints", self._states_of(frames), self._states_of(rows), budget)
        borders = self.panels - 1
        for name, number in (("alpha_edges", size.number), ("beta_edges", 2 * size.number)):
            rows, frames = size.all_rows + self.chunk * size.samples, self.padded_frames + 1
            self._in_either(name, frames * borders * number, rows * borders * number, budget)

    def _states_of(self, frames: int) -> int:
        return _rounded(frames * self.states * 2 * self.size.number, 32)

    def _in_shared(self, name: str, count: int) -> None:
        self.places[name] = -1 - self.shared
        self.shared += _rounded(count, 32)

    def _in_workspace(self, name: str, count: int) -> None:
        self.places[name] = self.workspace
        self.workspace += _rounded(count, 256)

    def _in_either(self, name: str, of_sample: int, of_all: int, budget: int) -> None:
        if not self.spacious and self.shared + _rounded(of_sample, 32) <= budget:
            self._in_shared(name, of_sample)
        else:
            self._in_workspace(name, of_all)


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit
