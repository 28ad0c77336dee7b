"""The checks of what a CTC loss is given, on the host; what lies on an accelerator is never looked at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

Lengths = Tensor | Sequence[int] | int

FLOAT_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGER_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def is_on_cpu(tensor: Tensor) -> bool:
    """Whether the values of a tensor can be looked at without waiting for an accelerator."""
    return tensor.device.type == "cpu"


def loss_type(logits: Tensor) -> torch.dtype:
    """Return the type of the loss: float64 for float64 logits, else float32."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def check_shapes(logits: Tensor, targets: Tensor, blank: int, packed: bool) -> None:
    """Check what can be checked without looking at values.

    Raises
    ------
    ValueError
        When a shape, a type or the blank does not fit.
    """
    if logits.dtype not in FLOAT_TYPES:
        raise ValueError(f"logits are {logits.dtype}; they must be float32, float64, bfloat16 or float16")
    if logits.dim() not in ((2,) if packed else (2, 3)):
        wanted = "(frames, classes) when packed" if packed else "(T, N, C), or (T, C) for a single sample"
        raise ValueError(f"logits have shape {tuple(logits.shape)}; it must be {wanted}")
    if targets.dtype not in INTEGER_TYPES:
        raise ValueError(f"targets are {targets.dtype}; they must be integers")
    if targets.dim() not in (1, 2):
        raise ValueError(f"targets have shape {tuple(targets.shape)}; it must be (N, S), or (sum of lengths,)")
    if not 0 <= blank < logits.shape[-1]:
        raise ValueError(f"blank {blank} is outside 0..{logits.shape[-1] - 1}")


def as_lengths(lengths: Lengths, name: str) -> Tensor:
    """Lengths as an int64 tensor of shape (N,), on the device they came on.

    Raises
    ------
    ValueError
        When they are not integers, or have more than one dimension.
    """
    tensor = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths)
    if tensor.dtype == torch.int64 and tensor.dim() == 1 and tensor.is_contiguous():
        return tensor
    if tensor.numel() == 0:
        tensor = tensor.to(torch.int64)  # an empty list becomes a float tensor
    if tensor.dtype not in INTEGER_TYPES:
        raise ValueError(f"{name} are {tensor.dtype}; they must be integers")
    if tensor.dim() > 1:
        raise ValueError(f"{name} have shape {tuple(tensor.shape)}; it must be (N,)")
    return tensor.to(torch.int64).reshape(-1).contiguous()


def starts_of(lengths: Tensor) -> Tensor:
    """Where each piece begins when pieces of these lengths lie one after the other."""
    return lengths.cumsum(0) - lengths


def check_lengths(lengths: Tensor, limit: int, what: str, of: str) -> int:
    """Check 0 <= length <= limit where the values are at hand; return the largest, or else the limit."""
    if not is_on_cpu(lengths):
        return limit
    values = lengths.tolist()
    for sample, value in enumerate(values):
        if value < 0:
            raise ValueError(f"sample {sample}: {what} {value} is negative")
        if value > limit:
            raise ValueError(f"sample {sample}: {what} {value} exceeds the {limit} {of}")
    return int(max(values))


def check_sum(lengths: Tensor, limit: int, what: str, name: str) -> None:
    """Check that lengths add up to what there is, where the values are at hand."""
    if is_on_cpu(lengths) and int(lengths.sum()) != limit:
        raise ValueError(f"there are {limit} {what}, but {name} add up to {int(lengths.sum())}")


@lru_cache(256)
def multiples(samples: int, width: int) -> Tensor:
    """Where the rows of padded targets begin. Nobody writes to it."""
    return torch.arange(samples) * width


def flatten(targets: Tensor, lengths: Tensor, samples: int) -> tuple[Tensor, Tensor | None, int, int]:
    """Targets of either layout as one row of labels; the offsets of samples or the stride; the longest target."""
    flat = (targets if targets.dtype == torch.int64 else targets.to(torch.int64)).reshape(-1).contiguous()
    if targets.dim() == 2:
        if targets.shape[0] != samples:
            raise ValueError(f"there are {samples} samples, but padded targets of shape {tuple(targets.shape)}")
        width = targets.shape[1]
        return flat, None, width, check_lengths(lengths, width, "target length", "columns of the padded targets")
    longest = check_lengths(lengths, flat.shape[0], "target length", "labels there are in all")
    check_sum(lengths, flat.shape[0], "labels", "target_lengths")
    return flat, starts_of(lengths), 0, longest


def check_labels(flat: Tensor, offsets: Tensor, lengths: Tensor, blank: int, classes: int) -> None:
    """Check that each label is a class and not the blank. All tensors are on the host."""
    if flat.numel() == 0:
        return
    labels = flat.numpy()
    # Of unsigned numbers the negative ones are the largest.
    if blank == 0 and (labels - 1).view(np.uint64).max() < classes - 1:
        return
    # What is wrong may still be padding: it counts only within the labels of a sample.
    wrong = np.flatnonzero((labels < 0) | (labels >= classes) | (labels == blank))
    starts = offsets.numpy()
    samples = np.searchsorted(starts, wrong, side="right") - 1
    positions = wrong - starts[samples]
    inside = np.flatnonzero(positions < lengths.numpy()[samples])
    if len(inside) == 0:
        return
    found = inside[0]
    label = labels[wrong[found]]
    fault = "is the blank" if label == blank else f"is outside 0..{classes - 1}"
    raise ValueError(f"sample {samples[found]}: label {label} at position {positions[found]} {fault}")
