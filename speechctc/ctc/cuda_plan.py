"""How a CTC problem is put on a GPU: which variant of the kernels, how much memory, what they are told.

Nothing here needs a GPU. `kernels/sweep.cu` says what the kernels do; what tells their variants apart are the macros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from speechctc.ctc.cuda_layout import PLACES, Device, Layout, Size
from speechctc.ctc.cuda_tuning import TUNING, Tuning
from speechctc.ctc.problem import Problem

LOGIT_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}  # logits.cuh
_GEOMETRIES = ((1, 1), (2, 1), (2, 2), (2, 4))
"""Pairs of states per lane and warps per direction: for 32, 64, 128 and 256 pairs."""

_IN_TURNS = (2, 2)
"""The same for lattices that are wider, or too wide for shared memory: each warp takes several panels in turns."""

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
        found = _laid_out(size, device, tuning, *variant)
        if found is not None:
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
    """Helper warps: eight would leave too few registers to the threads of two blocks, or of four warps a direction."""
    if not fused or blocks > 1 or warps > 2:
        return 4
    return tuning.helpers or (4 if size.classes <= 32 else 8)


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
    logits, by_loss = problem.logits, problem.by_loss
    into = logits if gradient is None else gradient
    return _ARGUMENTS.pack(
        logits.data_ptr(),
        _address(gradient),
        losses.data_ptr(),
        _address(loss),
        _address(by_loss),
        problem.input_lengths.data_ptr(),
        _address(problem.frame_offsets),
        problem.targets.data_ptr(),
        _address(problem.target_offsets),
        problem.target_lengths.data_ptr(),
        fault,
        ticket,
        workspace.data_ptr(),
        *logits.stride(),
        *into.stride(),
        logits.shape[0],
        problem.targets.shape[0],
        problem.target_stride,
        by_loss.stride(0) if by_loss is not None and by_loss.dim() == 1 else 0,
        *chosen.places,
        problem.samples,
        problem.classes,
        problem.blank,
        chosen.longest,
        int(problem.mean),
        int(zero_infinity),
        problem.scale,
    )


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
