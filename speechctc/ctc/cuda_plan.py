"""How a CTC problem is put on a GPU: which variant of the kernels, where their buffers lie, how much memory.

Nothing here needs a GPU. `kernels/sweep.cu` says what the kernels do; what tells their variants apart are the macros.

The choices in the CUDA kernels that only measurements can make. `benchmarks/bench_ctc --device cuda --tuning "..."`
measures one, and SPEECHCTC_CUDA_TUNING sets one for a process, so that the tests can be run with it too.

Where the buffers of the CUDA kernels lie: in a block's shared memory, or in a workspace from torch's allocator.
`kernels/lattice.cuh` says what each buffer holds, in `Block`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from speechctc.ctc.problem import Problem

# Buffers in the order of `Args` in samples.cuh; lattice.cuh says what they hold.
PLACES = tuple("emissions checkpoints alpha_edges beta_edges posteriors sorted table first history".split())

# Bytes at the beginning of shared memory, for the factor on the sample's gradient (gradient.cuh).
_WEIGHT = 32

LOGIT_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}  # logits.cuh
# Pairs of states per lane and warps per direction: for 32, 64, 128 and 256 pairs.
_GEOMETRIES = ((1, 1), (2, 1), (2, 2), (2, 4))

# The same for lattices that are wider, or too wide for shared memory: each warp takes several panels in turns.
_IN_TURNS = (2, 2)

_ARGUMENTS = struct.Struct(f"=13Q 6q 4q {len(PLACES)}q 6i d")
ARGUMENT_BYTES = _ARGUMENTS.size


@dataclass(frozen=True)
class Plan:
    """One way to run a problem.

    Attributes
    ----------
    sweep, rows : tuple of (str, int)
        The macros that each kernel is compiled with; none for `rows` where the sweep does it all in one launch.
    threads, row_threads : int
        Of a block of the sweep, of a block of the rows.
    shared_bytes, workspace_bytes : int
        Shared memory of a block of the sweep, and bytes to take from torch's allocator.
    places : tuple of int
        Where each buffer begins, as `Args` in `kernels/samples.cuh` has it.
    longest : int
        Labels that there is room for.
    """

    sweep: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, int], ...]
    threads: int
    row_threads: int
    shared_bytes: int
    workspace_bytes: int
    places: tuple[int, ...]
    longest: int


def workspace_bytes(size: Size, device: Device) -> int:
    """Return the bytes of device memory that a call takes beside logits, losses and gradient.

    With P = L + 1 pairs of states, D bytes to a number (8; 16 for float64 logits) and L the least of the longest
    target and the longest input:

    - emissions, only where C > 128 or L > 255 or shared memory is short: (rows + 8 N) * (min(C, L + 1) + 1) * D;
    - boundaries of chunks, unless shared memory holds them: (rows / 8 + 3 N) * P * 2 D;
    - borders of panels of 64 pairs, likewise, and only where there is more than one: (rows + 8 N) * borders * 3 D;
    - where the lattice is cut in more panels than there are warps: the labels and their order, 16 N P, and the
      posteriors of the chunks in flight, 8 N (panels + 1) (P + 32 panels) D.

    Parameters
    ----------
    size : Size
        The shape of the problem.
    device : Device
        The GPU.
    """
    return plan(size, device).workspace_bytes


def plan(size: Size, device: Device, tuning: Tuning | None = None) -> Plan:
    """Choose the variant of the kernels for a problem on a device.

    The quickest that fits is taken: states of all frames in shared memory, else of the boundaries of chunks; all in
    one kernel, else rows first; all states in registers, else in turns.

    Raises
    ------
    ValueError
        If there are 2**31 frames or more.
    """
    return _plan(size, device, tuning or TUNING)


@lru_cache(maxsize=4096)
def _plan(size: Size, device: Device, tuning: Tuning) -> Plan:
    if max(size.all_rows, size.samples) >= 2**31:
        raise ValueError(f"{size.all_rows} frames in one call are too many; the kernels count to {2**31 - 1}")
    for variant in _variants(size, tuning):
        if (found := _laid_out(size, device, tuning, *variant)) is not None:
            return _finish(size, *found, tuning)
    raise AssertionError("the last variant fits any device")


def _variants(size: Size, tuning: Tuning) -> Iterator[tuple[bool, int, int, bool]]:
    geometry = next(((p, w) for p, w in _GEOMETRIES if size.longest < 32 * p * w), None)
    if geometry is not None:
        if size.classes <= tuning.fused_classes:
            yield (True, *geometry, False)
        yield (False, *geometry, False)
    yield (False, *_IN_TURNS, True)


def _laid_out(
    size: Size, device: Device, tuning: Tuning, fused: bool, pairs: int, warps: int, spacious: bool
) -> tuple[Layout, int] | None:
    """Lay out a variant; return it, and how many blocks are to share a multiprocessor. None if it does not fit.

    Two share one where there are more samples than multiprocessors, and half of the shared memory holds the states of
    all frames: a warp that replays chunks would spill with half of the registers. Four warps a direction want all.
    """
    variant = (size, tuning.chunk, fused, pairs, warps, spacious)
    if warps <= 2 and (tuning.blocks or (1 if size.samples <= device.multiprocessors else 2)) == 2:
        layout = Layout(*variant, _reach(size, _helpers(size, fused, warps, 2, tuning), tuning))
        half = device.shared_per_multiprocessor // 2 - 1024
        if layout.least_shared <= half:
            layout.place_states(half)
            if layout.history or not size.gradient or tuning.blocks == 2:
                return layout, 2
    layout = Layout(*variant, _reach(size, _helpers(size, fused, warps, 1, tuning), tuning))
    if layout.least_shared > device.shared_per_block:
        return None
    layout.place_states(min(device.shared_per_block, device.shared_per_multiprocessor - 1024))
    return layout, 1


def _helpers(size: Size, fused: bool, warps: int, blocks: int, tuning: Tuning) -> int:
    """Helper warps: eight leave too few registers to two blocks, to four warps a direction, and to float64."""
    if not fused or blocks > 1 or warps > 2:
        return 4
    return tuning.helpers or (4 if size.dtype == torch.float64 else 8)


def _row_lanes(helpers: int, tuning: Tuning) -> int:
    """Lanes of the helpers to a frame: all together they hold a chunk of either direction."""
    return 16 * helpers // tuning.chunk


def _reach(size: Size, helpers: int, tuning: Tuning) -> int:
    """Classes that the lanes of a frame have room for, each as many as the others: at least those there are."""
    lanes = _row_lanes(helpers, tuning)
    return next((lanes * n for n in (1, 2, 4, 8, 16) if size.classes <= lanes * n), 0)


def _finish(size: Size, layout: Layout, blocks: int, tuning: Tuning) -> Plan:
    helpers = _helpers(size, layout.fused, layout.warps, blocks, tuning)
    reach, lanes = _reach(size, helpers, tuning), _row_lanes(helpers, tuning)
    rows = _rows_macros(size, tuning)
    common = {
        "LOGIT_TYPE": LOGIT_TYPES[size.dtype],
        "GRADIENT": int(size.gradient),
        "BY_CLASS": int(layout.by_class),
        "CHUNK": tuning.chunk,
        "ARGS_BYTES": ARGUMENT_BYTES,
    }
    sweep = {
        "PAIRS": layout.pairs,
        "WARPS": layout.warps,
        "FUSED": int(layout.fused),
        "SPACIOUS": int(layout.spacious),
        "HISTORY": int(layout.history),
        "WHOLE": int(layout.whole),
        "CLASSES_PER_LANE": reach // lanes if layout.fused else 1,
        "HELPERS": helpers,
        "BLOCKS": blocks,
    }
    return Plan(
        sweep=tuple((common | sweep).items()),
        rows=() if layout.fused else tuple((common | rows).items()),
        threads=32 * (2 * layout.warps + helpers + (2 if layout.warps == 1 else 0)),
        row_threads=rows["ROW_THREADS"],
        shared_bytes=layout.shared,
        workspace_bytes=layout.workspace,
        places=tuple(layout.places.values()),
        longest=size.longest,
    )


def _rows_macros(size: Size, tuning: Tuning) -> dict[str, int]:
    """Threads to a row, and vectors of 16 bytes to a thread, so that registers hold the row if they can."""
    elements = 16 // size.dtype.itemsize if size.contiguous else 1
    vectors = -(-size.classes // elements) + 1
    most = min(8, 32 // elements)
    threads = next((n for n in (32, 128, 256) if vectors <= n * min(most, n // 16)), 512)
    if threads > 128:
        threads = tuning.row_threads or threads
    each = min(most, -(-vectors // threads))
    return {
        "ROW_THREADS": threads,
        "ROW_VECTORS": each,
        "CONTIGUOUS": int(size.contiguous),
        "ONCE": int(vectors <= threads * each),
    }


def pack(
    problem: Problem,
    chosen: Plan,
    gradient: Tensor | None,
    losses: Tensor,
    loss: Tensor | None,
    workspace: Tensor,
    fault: int,
    ticket: int,
    zero_infinity: bool = False,
) -> bytes:
    """Lay out the arguments of the kernels.

    Parameters
    ----------
    problem : Problem
        All its tensors on one device.
    chosen : Plan
        What `plan` said.
    gradient : Tensor or None
        In the shape of the logits.
    losses : Tensor
        Shape (N,): of the samples.
    loss : Tensor or None
        One element: their sum or, by `Problem.mean`, their mean, if it is wanted.
    workspace : Tensor
        `chosen.workspace_bytes` bytes.
    fault : int
        The address of two words, 0 at first, that the kernels write to when a length or a label is bad.
    ticket : int
        The address of an int32 on the device, 0 before a launch and after it, of no other launch at the same time.
    zero_infinity : bool
        Whether infinite losses count as 0.
    """
    logits, grad_output = problem.logits, problem.grad_output
    into = logits if gradient is None else gradient
    given = (problem.input_lengths, problem.frame_offsets, problem.targets, problem.target_offsets)
    tensors = (logits, gradient, losses, loss, grad_output, *given, problem.target_lengths)
    return _ARGUMENTS.pack(
        *(0 if tensor is None else tensor.data_ptr() for tensor in tensors),
        fault,
        ticket,
        workspace.data_ptr(),
        *logits.stride(),
        *into.stride(),
        logits.shape[0],
        problem.targets.shape[0],
        problem.target_stride,
        grad_output.stride(0) if grad_output is not None and grad_output.dim() == 1 else 0,
        *chosen.places,
        problem.samples,
        problem.classes,
        problem.blank,
        chosen.longest,
        int(problem.mean),
        int(zero_infinity),
        problem.scale,
    )


@dataclass(frozen=True)
class Tuning:
    """What measurements on a GPU decide, and nothing else: every choice gives the same results.

    Attributes
    ----------
    chunk : int
        Frames between two barriers: 4 or 8.
    fused_classes : int
        Up to so many classes the lattice's own block reads the logits; above, a kernel of its own does.
    helpers : int
        Helper warps where logits are read: 4 or 8. 0: 8, of float64 4.
    blocks : int
        Blocks of the sweep on a multiprocessor: 1 or 2. 0: 2 where there are more samples than multiprocessors.
    row_threads : int
        Threads to a row of many classes: 256, 512 or 1024. 0: as few as can hold it.
    """

    chunk: int = 8
    fused_classes: int = 128
    helpers: int = 0
    blocks: int = 0
    row_threads: int = 0

    @classmethod
    def parse(cls, text: str) -> Tuning:
        """Read a tuning such as ``"helpers=4 chunk=4"``.

        Raises
        ------
        ValueError
            If a name or a value is none of those above.
        """
        allowed = {"chunk": (4, 8), "helpers": (0, 4, 8), "blocks": (0, 1, 2), "row_threads": (0, 256, 512, 1024)}
        chosen = {}
        for setting in text.split():
            name, _, value = setting.partition("=")
            if name not in cls.__dataclass_fields__ or not value.isdecimal():
                raise ValueError(f"{setting!r} is no tuning of the CTC kernels; take {cls()}")
            if int(value) not in allowed.get(name, range(129)):
                raise ValueError(f"{setting!r} cannot be; {name} is one of {allowed.get(name, '0..128')}")
            chosen[name] = int(value)
        return cls(**chosen)


# What `plan` goes by where nothing else is said.
TUNING = Tuning.parse(os.environ.get("SPEECHCTC_CUDA_TUNING", ""))


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
