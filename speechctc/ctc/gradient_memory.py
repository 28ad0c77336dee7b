"""Memory for large gradients, kept from one call to the next.

PyTorch gets large tensors from the system and returns them at once, and the system hands out memory page by page,
zeroed, as it is first touched. With thousands of classes this takes longer than the loss. So, on Linux, a large
gradient lies in large pages if they are to be had, and its memory is kept when nobody needs the gradient any more. It
is marked as free then: a system short of memory takes it back.
"""

from __future__ import annotations

import mmap
import sys
import weakref

import numpy as np
import torch
from torch import Tensor

LARGE = 2**23
"""Bytes from which on this is worth it."""
_BLOCKS = 2  # kept at most, each of
_LARGEST = 2**30  # bytes at most
_PAGE = 2**21

_kept: list[mmap.mmap] = []  # changed by single operations only, so that a finaliser may come in between


def empty_like(tensor: Tensor) -> Tensor:
    """Make a tensor on the CPU in the shape and type of another, and as far as it goes in its strides."""
    size = tensor.numel() * tensor.element_size()
    if size < LARGE or sys.platform != "linux":
        return torch.empty_like(tensor)
    block = _take(size)
    memory = np.frombuffer(block, np.uint8, size)
    # The tensor's storage holds `memory`, which goes when the last tensor that shares the storage does.
    weakref.finalize(memory, _keep, block).atexit = False
    layout = torch.empty_like(tensor, device="meta")
    storage = torch.from_numpy(memory).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype).set_(storage, 0, layout.shape, layout.stride())


def _take(size: int) -> mmap.mmap:
    """A block of memory of about this size: one that was kept, or else a new one, with some room for longer batches."""
    for block in list(_kept):
        if size <= len(block) <= 2 * size + _PAGE:
            try:
                _kept.remove(block)
            except ValueError:  # another thread was faster
                continue
            return block
    rounded = -(-(size + size // 8) // _PAGE) * _PAGE
    block = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Not the last part: a large page is had whole, and would be more than was asked for.
    _advise(block, "MADV_HUGEPAGE", size // _PAGE * _PAGE)
    return block


def _keep(block: mmap.mmap) -> None:
    """Take back a block that nobody uses any more."""
    if len(block) <= _LARGEST:
        _advise(block, "MADV_FREE", len(block))
        _kept.append(block)
        del _kept[:-_BLOCKS]


def _advise(block: mmap.mmap, name: str, size: int) -> None:
    """Tell the system something about the first bytes of a block, which it may heed or not, or not know."""
    try:
        block.madvise(getattr(mmap, name), 0, size)
    except (AttributeError, OSError):
        pass
