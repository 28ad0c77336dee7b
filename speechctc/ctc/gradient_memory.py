"""Memory for large gradients, reused between calls.

PyTorch gets large tensors from the system and returns them at once, and the system zeroes each page when it is first
touched. With thousands of classes this takes longer than the loss (benchmarks/ctc-gradient-memory.csv). On Linux, large
gradients therefore use large pages if available, and their memory is kept when the gradient is freed. Kept memory is
marked as free, so that a system short of memory can reclaim it.
"""

from __future__ import annotations

import mmap
import platform
import sys
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGE = 2**23
"""Bytes of the smallest gradient that is handled here."""
_BLOCKS = 2  # most blocks to keep
_LARGEST = 2**30  # bytes of the largest block to keep
_PAGE = 2**21
_PRIVATE: dict[str, Any] = {}  # of mmap
if sys.platform != "win32":
    _PRIVATE["flags"] = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_kept: list[mmap.mmap] = []  # changed by atomic operations only: a finaliser may run at any time


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
    return torch.empty(0, dtype=tensor.dtype).set_(storage, 0, layout.shape, layout.stride())


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
    if len(block) <= _LARGEST:
        _advise(block, "MADV_FREE", len(block))
        _kept.append(block)
        del _kept[:-_BLOCKS]


def _advise(block: mmap.mmap, name: str, size: int) -> None:
    """Give the system a hint about the first bytes of a block; it may ignore or not know it."""
    try:
        getattr(block, "madvise")(getattr(mmap, name), 0, size)  # noqa: B009  # Windows has none
    except (AttributeError, OSError):
        pass
