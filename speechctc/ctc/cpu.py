"""The CTC loss on CPUs: the compiled lattice, run over a batch's samples in parallel; memory for gradients, reused.

Memory for large gradients, reused between calls. PyTorch gets large tensors from the system and returns them at once,
and the system zeroes each page when it is first touched. With thousands of classes this takes longer than the loss
(benchmarks/ctc-gradient-memory.csv). On Linux, large gradients therefore use large pages if available, and their memory
is kept when the gradient is freed. Kept memory is marked as free, so that a system short of memory can reclaim it.
"""

from __future__ import annotations

import math
import mmap
import platform
import sys
import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speechctc.ctc import entry
from speechctc.ctc.problem import Arguments, Problem, loss_type
from speechctc.ctc.threads import run_alone, run_in_threads

# Rough cost in nanoseconds of a frame, and of each class and each label in it; used for planning only.
_FRAME, _CLASS, _LABEL = 50.0, 0.5, 3.0
_WORTH_THREADS = 200_000.0  # nanoseconds of work from which several threads are faster
_BEYOND_CACHES = 2**24  # bytes of a gradient that fits into no cache

# What `solve_one` takes: numbers of logits, and bytes of its workspace.
_SMALL, _ROOM = 2**17, 2**20
_ZERO = np.zeros(1, np.int64)
_ONE = {
    "unchecked": 1,
    "samples": 1,
    "order": _ZERO.ctypes.data,
    "target_offsets": _ZERO.ctypes.data,
    "workspace_size": _ROOM,
}
_UNCHECKED = entry.Batch._fields.index("unchecked")

# Bytes of the smallest gradient that is handled here.
LARGE = 2**23
_BLOCKS = 2  # most blocks to keep
_MAX_KEPT_BYTES = 2**30  # bytes of the largest block to keep
_PAGE = 2**21
_PRIVATE: dict[str, Any] = {}  # of mmap
if sys.platform != "win32":
    _PRIVATE["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_kept: list[mmap.mmap] = []  # changed by atomic operations only: a finaliser may run at any time


def loss_and_gradient(problem: Problem, want_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Compute the loss of each sample and its gradient by the logits.

    Returns
    -------
    losses : Tensor
        float32, or float64 for float64 logits, shape (N,); inf where no path fits.
    gradient : Tensor or None
        Like the logits. Zero in padded frames and where the loss is inf.

    Raises
    ------
    MemoryError
        There is not enough for the gradient or for the lattice; it says how much that is.
    """
    try:
        gradient = empty_like(problem.logits) if want_gradient else None
    except (RuntimeError, OSError):  # torch's word for it, and that of a block from the system
        raise MemoryError(_short("the gradient of the CTC loss", problem.logits.nbytes, problem)) from None
    return _solve(problem, gradient, None), gradient


def solve_one(logits: Tensor, given: Arguments, want_gradient: bool) -> tuple[Tensor, Tensor | None] | None:
    """Check, solve and reduce the loss of a single sample in one call of compiled code; what is usual and not large.

    The lattice of a short sample takes less time than a few lines of Python.

    Returns
    -------
    loss : Tensor
        A number, or shape (1,) without a reduction.
    gradient : Tensor or None
        Like the logits.

    None in place of both for all else, and where a value is wrong or memory is short.
    """
    if given.scale != 1 or not _is_one(logits, given):
        return None
    reduce = given.reduction != "none"
    try:
        loss = torch.empty(() if reduce else 1, dtype=loss_type(logits), device="cpu")
        gradient = torch.empty_like(logits) if want_gradient else None
        room = _room_of_one.start
    except (MemoryError, RuntimeError):
        return None
    by_frame, *_, by_class = logits.stride()
    gradient_by_frame, *_, gradient_by_class = (logits if gradient is None else gradient).stride()
    batch = entry.Batch(
        **_ONE,
        frames=given.input_lengths.data_ptr(),
        labels=given.target_lengths.data_ptr(),
        weights=room,
        losses=loss.data_ptr(),
        logits=logits.data_ptr(),
        gradient=0 if gradient is None else gradient.data_ptr(),
        targets=given.targets.data_ptr(),
        frame_stride=by_frame,
        class_stride=by_class,
        gradient_frame_stride=gradient_by_frame,
        gradient_class_stride=gradient_by_class,
        length=logits.shape[0],
        classes=logits.shape[-1],
        blank=given.blank,
        workspaces=room + 64,
        all_labels=given.targets.numel(),
        whole=given.targets.dim() == 1,
        packed=given.packed,
        reduce=reduce,
        mean=given.reduction == "mean",
        zero_infinity=given.zero_infinity,
    )
    left = run_alone(entry.compiled_entry(logits.dtype), batch)
    return None if left[_UNCHECKED] else (loss, gradient)


def _is_one(logits: Tensor, given: Arguments) -> bool:
    """Whether this is a single sample of moderate size, whose values are in the memory of the host, as they are."""
    targets, frames, labels = given.tensors
    samples = 1 if logits.dim() == 2 else logits.shape[1]
    if samples != 1 or logits.numel() > _SMALL or frames.numel() != 1 or labels.numel() != 1:
        return False
    if targets.dtype != torch.int64 or not targets.is_contiguous() or (targets.dim() == 2 and targets.shape[0] != 1):
        return False
    for each in (logits, targets, frames, labels):  # noqa: SIM110  # a generator takes twice as long
        if not each.is_cpu or each.is_neg() or each._is_zerotensor():
            return False
    return True


def state_posteriors(problem: Problem) -> tuple[Tensor, Tensor]:
    """Compute the loss of each sample and the probability of each state in each frame.

    Returns
    -------
    losses : Tensor
        float32, or float64 for float64 logits, shape (N,).
    posteriors : Tensor
        Of the same type, shape (N, longest input, 2 * longest target + 1).

    Raises
    ------
    MemoryError
        As for `loss_and_gradient`.
    """
    shape, dtype = (problem.samples, problem.longest_input, 2 * problem.longest_target + 1), loss_type(problem.logits)
    try:
        posteriors = torch.zeros(shape, dtype=dtype, device="cpu")
    except RuntimeError:
        raise MemoryError(_short("posteriors", math.prod(shape) * dtype.itemsize, problem)) from None
    return _solve(problem, None, posteriors), posteriors


def _solve(problem: Problem, gradient: Tensor | None, posteriors: Tensor | None) -> Tensor:
    """Process all samples; write results into the tensors given."""
    logits = problem.logits
    if logits.device.type != "cpu":
        raise ValueError(f"the CPU backend takes logits on the CPU; these are on {logits.device}")
    weights = problem.weights
    if weights is None:
        weights = torch.ones(problem.samples, dtype=loss_type(logits), device="cpu")
    losses = torch.empty_like(weights)
    order, threads, rows = _plan(problem)
    target_offsets = problem.target_starts  # the batch holds its address
    alpha = 2 * problem.longest_target + 1 if gradient is None and posteriors is None else rows
    size = entry.workspace_size(problem, alpha)
    room = _room(threads * size, problem)
    batch = entry.Batch(
        samples=problem.samples,
        order=order.ctypes.data,
        frames=problem.input_lengths.data_ptr(),
        frame_offsets=0 if problem.frame_offsets is None else problem.frame_offsets.data_ptr(),
        labels=problem.target_lengths.data_ptr(),
        target_offsets=target_offsets.data_ptr(),
        weights=weights.data_ptr(),
        losses=losses.data_ptr(),
        logits=logits.data_ptr(),
        gradient=0 if gradient is None else gradient.data_ptr(),
        targets=problem.targets.data_ptr(),
        posteriors=0 if posteriors is None else posteriors.data_ptr(),
        **_strides(problem, logits if gradient is None else gradient),
        classes=logits.shape[2],
        blank=problem.blank,
        longest_input=problem.longest_input,
        longest_target=problem.longest_target,
        non_temporal_stores=gradient is not None and logits.shape[2] >= 256 and gradient.nbytes >= _BEYOND_CACHES,
        alpha=alpha,
        workspaces=(room.data_ptr() + 63) // 64 * 64,
        workspace_size=size,
    )
    run_in_threads(entry.compiled_entry(logits.dtype), batch, threads)
    return losses


class _RoomOfOne(threading.local):
    """Memory that each thread keeps for the lattice of a single sample, and, in a cache line before it, its weight."""

    def __init__(self) -> None:
        self.memory = np.empty(_ROOM + 128, np.uint8)
        self.start = (self.memory.ctypes.data + 63) // 64 * 64


_room_of_one = _RoomOfOne()


def _room(size: int, problem: Problem) -> Tensor:
    """Return memory for the workspaces of all threads, with room to begin at a cache line."""
    try:
        return torch.empty(size + 63, dtype=torch.uint8, device="cpu")
    except RuntimeError:
        raise MemoryError(_short("the lattice of the CTC loss", size, problem)) from None


def _short(what: str, size: int, problem: Problem) -> str:
    """Say for what memory is short: how much it is, and by which sizes."""
    frames, labels = f"{problem.samples} x {problem.longest_input} frames", f"{problem.longest_target} labels"
    return f"not enough memory for {what}: {size / 2**20:,.1f} MiB ({frames}, {labels}, {problem.classes} classes)"


def _strides(problem: Problem, gradient: Tensor) -> dict[str, int]:
    """Return how far apart the samples, frames and classes of the tensors lie, in numbers."""
    by_frame, by_sample, by_class = problem.logits.stride()
    gradient_by_frame, gradient_by_sample, gradient_by_class = gradient.stride()
    states = 2 * problem.longest_target + 1
    return {
        "sample_stride": 0 if problem.packed else by_sample,
        "frame_stride": by_frame,
        "class_stride": by_class,
        "gradient_sample_stride": 0 if problem.packed else gradient_by_sample,
        "gradient_frame_stride": gradient_by_frame,
        "gradient_class_stride": gradient_by_class,
        "posteriors_sample_stride": problem.longest_input * states,
        "posteriors_frame_stride": states,
        "length": 0 if problem.packed else problem.logits.shape[0],
    }


def _plan(problem: Problem) -> tuple[entry.Integers, int, int]:
    """Return the order of the samples (longest first), the number of threads, and the largest sample's alpha size."""
    if problem.samples == 1:
        return np.zeros(1, np.int64), 1, problem.longest_input * (2 * problem.longest_target + 1)
    frames, labels = problem.input_lengths.numpy(), problem.target_lengths.numpy()
    costs = frames * (_FRAME + _CLASS * problem.classes + _LABEL * labels)
    threads = min(torch.get_num_threads(), problem.samples) if costs.sum() > _WORTH_THREADS else 1
    return np.argsort(-costs, kind="stable"), threads, int((frames * (2 * labels + 1)).max())


def empty_like(tensor: Tensor) -> Tensor:
    """Return an uninitialised CPU tensor of the shape and type of another, and of its strides where possible."""
    size = tensor.numel() * tensor.element_size()
    if size < LARGE or platform.system() != "Linux":
        return torch.empty_like(tensor)
    block = _take(size)
    memory = np.frombuffer(block, np.uint8, size)
    # The storage holds a reference to `memory`, which is freed with the last tensor that shares the storage.
    weakref.finalize(memory, _keep, block).atexit = False
    layout = torch.empty_like(tensor, device="meta")
    storage = torch.from_numpy(memory).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype, device="cpu").set_(storage, 0, layout.shape, layout.stride())


def _take(size: int) -> mmap.mmap:
    """Return a block of about this size: a kept one, or a new one with some room for longer batches."""
    for block in list(_kept):
        if size <= len(block) <= 2 * size + _PAGE:
            try:
                _kept.remove(block)
            except ValueError:  # another thread took it
                continue
            return block
    rounded = -(-(size + size // 8) // _PAGE) * _PAGE
    block = mmap.mmap(-1, rounded, **_PRIVATE)
    # Without the last part: a large page there would use more memory than requested.
    _advise(block, "MADV_HUGEPAGE", size // _PAGE * _PAGE)
    return block


def _keep(block: mmap.mmap) -> None:
    """Keep a block that is no longer in use."""
    if len(block) <= _MAX_KEPT_BYTES:
        _advise(block, "MADV_FREE", len(block))
        _kept.append(block)
        del _kept[:-_BLOCKS]


def _advise(block: mmap.mmap, name: str, size: int) -> None:
    """Give the system a hint about the first bytes of a block; it may ignore or not know it."""
    with suppress(AttributeError, OSError):
        getattr(block, "madvise")(getattr(mmap, name), 0, size)  # noqa: B009  # Windows has none
