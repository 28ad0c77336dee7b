"""Tensors whose last byte is the last one that may be touched."""

import ctypes
import mmap

import torch
from torch import Tensor

_LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory for tensors; each ends at a page that cannot be touched, and is full of NaN (or of -1) at first."""

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A contiguous tensor."""
        count = 1
        for length in shape:
            count *= length
        size = -(-count * dtype.itemsize // 16) * 16 or 16
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        room = mmap.mmap(-1, pages + mmap.PAGESIZE)
        whole = torch.frombuffer(room, dtype=torch.uint8)
        guard = ctypes.c_void_p(whole.data_ptr() + pages)
        assert _LIBC.mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        bytes_ = whole[pages - size : pages].fill_(255)
        return bytes_[: count * dtype.itemsize].view(dtype).view(shape)

    def empty_like(self, tensor: Tensor) -> Tensor:
        """A tensor with the shape and the strides that ``torch.empty_like`` would give it."""
        order = torch.empty_like(tensor).stride()
        axes = sorted(range(tensor.dim()), key=lambda axis: -order[axis])
        dense = self.empty(tuple(tensor.shape[axis] for axis in axes), tensor.dtype)
        return dense.permute([axes.index(axis) for axis in range(tensor.dim())])

    def like(self, tensor: Tensor) -> Tensor:
        """A copy; a tensor with holes in it or overlaps keeps its strides, and its own memory."""
        copy = self.empty_like(tensor)
        if copy.stride() != tensor.stride():
            return tensor
        return copy.copy_(tensor)
