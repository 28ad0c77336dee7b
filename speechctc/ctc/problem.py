"""The internal form of a CTC problem, common to all backends, and the checks of the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

Lengths = Tensor | Sequence[int] | int

LEAST_EXPONENT = -(2**28)
"""A likelihood below 2 to this power, exp(-1.86e8), counts as zero: its loss is inf."""

FLOAT_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGER_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class Problem:
    """A batch of N samples: the logits of each one's frames and the labels to find in them.

    Values on the host have been checked. For lengths and labels on an accelerator only shapes and types have been
    checked, because reading the values would make the host wait; the kernels check those.

    Attributes
    ----------
    logits : Tensor
        Unnormalised scores, float32, float64, bfloat16 or float16, in any strides. Padded: shape (T, N, C),
        frame t of sample n is ``logits[t, n]``. Packed: shape (F, 1, C), frame t of sample n is
        ``logits[frame_offsets[n] + t, 0]``.
    frame_offsets : Tensor or None
        Packed: int64, shape (N,), the first row of each sample, on the device of `input_lengths`. Padded:
        None.
    input_lengths : Tensor
        int64, shape (N,), frames of each sample; on the host or on an accelerator.
    targets : Tensor
        int64, shape (anything,), contiguous: the labels of all samples, on the host or on an accelerator.
        Labels of sample n are ``targets[target_offsets[n]:][:target_lengths[n]]``. What lies between samples
        is padding, and may hold anything.
    target_offsets : Tensor
        int64, shape (N,), on the device of `target_lengths`.
    target_lengths : Tensor
        int64, shape (N,), on the host or on an accelerator, not always that of `targets`.
    blank : int
        The class that stands for "no label", in 0..C-1.
    longest_input : int
        No sample has more frames: exact when `input_lengths` is on the host, else a bound from the shapes.
    longest_target : int
        No sample has more labels: exact when `target_lengths` is on the host, else a bound from the shapes.
    weights : Tensor or None
        float32, or float64 for float64 logits, shape (N,), on the device of `logits`: the factor by which a
        backend multiplies the gradient of each sample (its share in the reduced loss). None stands for ones.
        The losses are never multiplied.
    """

    logits: Tensor
    frame_offsets: Tensor | None
    input_lengths: Tensor
    targets: Tensor
    target_offsets: Tensor
    target_lengths: Tensor
    blank: int
    longest_input: int
    longest_target: int
    weights: Tensor | None = None

    def on_host(self) -> Problem:
        """Return the same problem with lengths and labels on the host, checked.

        Raises
        ------
        ValueError
            If lengths or labels that were on an accelerator are invalid; the message names the sample.
        """
        tensors = (self.input_lengths, self.target_lengths, self.targets)
        if all(tensor.device.type == "cpu" for tensor in tensors):
            return self
        frames, labels, targets = (tensor.cpu() for tensor in tensors)
        offsets = self.target_offsets.cpu()
        longest_input = _check_lengths(frames, self.logits.shape[0], "input length", "frames of the logits")
        longest_target = _check_lengths(labels, self.longest_target, "target length", "labels there are")
        if self.packed:
            _check_sum(frames, self.logits.shape[0], "frames in the packed logits", "input_lengths")
        _check_labels(targets, offsets, labels, self.blank, self.classes)
        return replace(
            self,
            frame_offsets=None if self.frame_offsets is None else self.frame_offsets.cpu(),
            input_lengths=frames,
            targets=targets,
            target_offsets=offsets,
            target_lengths=labels,
            longest_input=longest_input,
            longest_target=longest_target,
        )

    @property
    def samples(self) -> int:
        """N, the number of samples."""
        return self.input_lengths.shape[0]

    @property
    def classes(self) -> int:
        """C, the number of classes, blank included."""
        return self.logits.shape[2]

    @property
    def packed(self) -> bool:
        """Whether the frames of all samples are concatenated without padding."""
        return self.frame_offsets is not None


def make_problem(
    logits: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    packed: bool = False,
    mean: bool = False,
) -> Problem:
    """Check the arguments of a CTC loss and convert them to a `Problem`.

    Parameters
    ----------
    logits : Tensor
        Shape (T, N, C); (T, C) for a single sample; (F, C) when `packed`.
    targets : Tensor
        Integers: shape (N, S), padded, or (sum of target_lengths,), one sample after the other.
    input_lengths, target_lengths : Tensor or sequence of int or int
        N integers each.
    blank : int
        The class of the blank.
    packed : bool
        The frames of all samples lie one after the other: F is the sum of input_lengths.
    mean : bool
        Whether the gradient to find is that of the mean loss, and not of the sum.

    Raises
    ------
    ValueError
        If shapes, types, lengths or labels are invalid; the message names the sample of a length or label.
    """
    check_shapes(logits, targets, blank, packed)
    frames = as_lengths(input_lengths, "input_lengths")
    labels = as_lengths(target_lengths, "target_lengths")
    samples = frames.shape[0] if packed else 1 if logits.dim() == 2 else logits.shape[1]
    if frames.shape[0] != samples or labels.shape[0] != samples:
        raise ValueError(
            f"there are {samples} samples, but {frames.shape[0]} input_lengths and {labels.shape[0]} target_lengths"
        )
    if samples == 0:
        raise ValueError("the batch is empty: a CTC loss needs at least one sample")
    rows = logits.shape[0]
    longest_input = _check_lengths(frames, rows, "input length", "frames of the logits")
    frame_offsets = _starts(frames) if packed else None
    if packed:
        _check_sum(frames, rows, "frames in the packed logits", "input_lengths")
    flat, offsets, longest_target = _flatten(targets, labels, samples)
    _check_labels(flat, offsets, labels, blank, logits.shape[-1])
    return Problem(
        logits=logits.unsqueeze(1) if logits.dim() == 2 else logits,
        frame_offsets=frame_offsets,
        input_lengths=frames,
        targets=flat,
        target_offsets=offsets,
        target_lengths=labels,
        blank=blank,
        longest_input=longest_input,
        longest_target=longest_target,
        weights=_shares(labels, logits) if mean else None,
    )


def loss_type(logits: Tensor) -> torch.dtype:
    """Return the type of the loss: float64 for float64 logits, else float32."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def check_shapes(logits: Tensor, targets: Tensor, blank: int, packed: bool) -> None:
    """Check everything that does not depend on values.

    Raises
    ------
    ValueError
        If a shape, a type or the blank is invalid.
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
    """Return lengths as an int64 tensor of shape (N,), on the same device.

    Raises
    ------
    ValueError
        If they are not integers, or have more than one dimension.
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


def _shares(lengths: Tensor, logits: Tensor) -> Tensor:
    """Return each sample's weight in the mean, as in torch: 1 / (N * number of labels, at least 1)."""
    device, real = logits.device, loss_type(logits)
    if lengths.device.type == "cpu":  # the same, faster
        shares = 1.0 / (np.maximum(lengths.numpy(), 1) * lengths.shape[0])
        tensor = torch.from_numpy(shares.astype(np.float32 if real == torch.float32 else np.float64, copy=False))
        return tensor if device.type == "cpu" else tensor.to(device)
    return lengths.clamp(min=1).mul_(lengths.shape[0]).to(device, real).reciprocal_()


def _starts(lengths: Tensor) -> Tensor:
    """Return the start of each piece when pieces of these lengths are concatenated."""
    return lengths.cumsum(0) - lengths


def _check_lengths(lengths: Tensor, limit: int, what: str, of: str) -> int:
    """Check 0 <= length <= limit for lengths on the host; return the largest, or the limit for others."""
    if lengths.device.type != "cpu":
        return limit
    values = lengths.tolist()
    for sample, value in enumerate(values):
        if value < 0:
            raise ValueError(f"sample {sample}: {what} {value} is negative")
        if value > limit:
            raise ValueError(f"sample {sample}: {what} {value} exceeds the {limit} {of}")
    return int(max(values))


def _check_sum(lengths: Tensor, limit: int, what: str, name: str) -> None:
    """Check the sum of lengths that are on the host."""
    if lengths.device.type == "cpu" and int(lengths.sum()) != limit:
        raise ValueError(f"there are {limit} {what}, but {name} add up to {int(lengths.sum())}")


@lru_cache(256)
def _multiples(samples: int, width: int) -> Tensor:
    """Return the starts of the rows of padded targets. Read-only: the result is cached."""
    return torch.arange(samples) * width


def _flatten(targets: Tensor, lengths: Tensor, samples: int) -> tuple[Tensor, Tensor, int]:
    """Return targets of either layout as one row of labels, the start of each sample, and the longest target."""
    flat = (targets if targets.dtype == torch.int64 else targets.to(torch.int64)).reshape(-1).contiguous()
    if targets.dim() == 2:
        if targets.shape[0] != samples:
            raise ValueError(f"there are {samples} samples, but padded targets of shape {tuple(targets.shape)}")
        width = targets.shape[1]
        offsets = (
            _multiples(samples, width)
            if lengths.device.type == "cpu"
            else _multiples(samples, width).to(lengths.device)
        )
        return flat, offsets, _check_lengths(lengths, width, "target length", "columns of the padded targets")
    longest = _check_lengths(lengths, flat.shape[0], "target length", "labels there are in all")
    _check_sum(lengths, flat.shape[0], "labels", "target_lengths")
    return flat, _starts(lengths), longest


def _check_labels(flat: Tensor, offsets: Tensor, lengths: Tensor, blank: int, classes: int) -> None:
    """Check, for labels on the host, that each is a class and not the blank."""
    if flat.device.type != "cpu" or lengths.device.type != "cpu" or flat.numel() == 0:
        return
    labels = flat.numpy()
    # As unsigned numbers, negative ones are the largest.
    if blank == 0 and (labels - 1).view(np.uint64).max() < classes - 1:
        return
    # An invalid value may be padding: only those within the labels of a sample count.
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
