"""What a CTC loss is given: checked on the host, and in the internal form that is common to all backends.

What lies on an accelerator is never looked at: that would make the host wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Lengths = Tensor | Sequence[int] | int

FLOAT_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_UNSIGNED = (torch.uint64, torch.uint32, torch.uint16, torch.uint8)
INTEGER_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, *_UNSIGNED)

# A likelihood below 2 to this power, exp(-1.86e8), counts as zero: its loss is inf.
MIN_EXPONENT = -(2**28)


class Arguments(NamedTuple):
    """What a loss is given beside the logits, with lengths as tensors; the operators take it in this order."""

    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor
    blank: int
    packed: bool
    reduction: str = "none"
    zero_infinity: bool = False
    backend: str = "auto"
    scale: float = 1.0

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Targets and lengths."""
        return self[:3]

    @property
    def settings(self) -> tuple[Any, ...]:
        """What is no tensor."""
        return self[3:]


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
    target_offsets : Tensor or None
        int64, shape (N,), on the device of `target_lengths`: the first label of each sample. None where targets
        are padded: labels of sample n begin at ``n * target_stride``.
    target_stride : int
        Labels and padding of a sample, where targets are padded; else 0.
    target_lengths : Tensor
        int64, shape (N,), on the host or on an accelerator, not always that of `targets`.
    blank : int
        The class that stands for "no label", in 0..C-1.
    longest_input : int
        No sample has more frames: exact when `input_lengths` is on the host, else a bound from the shapes.
    longest_target : int
        No sample has more labels: exact when `target_lengths` is on the host, else a bound from the shapes.
    mean : bool
        Whether a backend multiplies the gradient of each sample by its share in the mean loss.
    grad_output : Tensor or None
        float32, or float64 for float64 logits, shape () or (N,), on the device of `logits`: by this derivative a
        backend multiplies the gradient of each sample as well. None stands for 1. Losses are never multiplied by it.
    scale : float
        By this a backend multiplies the gradients too; losses are multiplied by it when they are reduced.
    """

    logits: Tensor
    frame_offsets: Tensor | None
    input_lengths: Tensor
    targets: Tensor
    target_offsets: Tensor | None
    target_stride: int
    target_lengths: Tensor
    blank: int
    longest_input: int
    longest_target: int
    mean: bool = False
    grad_output: Tensor | None = None
    scale: float = 1.0

    def on_host(self) -> Problem:
        """Return the same problem with lengths and labels on the host, checked.

        Raises
        ------
        ValueError
            If lengths or labels that were on an accelerator are invalid; the message names the sample.
        """
        tensors = (self.input_lengths, self.target_lengths, self.targets)
        if all(is_on_cpu(tensor) for tensor in tensors):
            return self
        frames, labels, targets = (tensor.cpu() for tensor in tensors)
        offsets = None if self.target_offsets is None else self.target_offsets.cpu()
        longest_input = check_lengths(frames, self.logits.shape[0], "input length", "frames of the logits")
        longest_target = check_lengths(labels, self.longest_target, "target length", "labels there are")
        if self.packed:
            check_sum(frames, self.logits.shape[0], "frames in the packed logits", "input_lengths")
        moved = replace(
            self,
            frame_offsets=None if self.frame_offsets is None else self.frame_offsets.cpu(),
            input_lengths=frames,
            targets=targets,
            target_offsets=offsets,
            target_lengths=labels,
            longest_input=longest_input,
            longest_target=longest_target,
        )
        check_labels(targets, moved.target_starts, labels, self.blank, self.classes)
        return moved

    @property
    def samples(self) -> int:
        """N, the number of samples."""
        return self.input_lengths.shape[0]

    @property
    def classes(self) -> int:
        """C, the number of classes, blank included."""
        return self.logits.shape[2]

    @property
    def target_starts(self) -> Tensor:
        """The first label of each sample, whether targets are padded or not; for problems on the host."""
        return multiples(self.samples, self.target_stride) if self.target_offsets is None else self.target_offsets

    @property
    def weights(self) -> Tensor | None:
        """What a backend multiplies the gradient of each sample by, shape (N,), on the device of the logits; or ones.

        The CUDA kernels calculate it for themselves.
        """
        weights, given = self.shares, self.grad_output
        if given is not None:
            weights = given.expand(self.samples).contiguous() if weights is None else weights * given
        if self.scale == 1:
            return weights
        if weights is None:
            return torch.full((self.samples,), self.scale, dtype=loss_type(self.logits), device=self.logits.device)
        return weights * self.scale

    @cached_property
    def shares(self) -> Tensor | None:
        """The share of each sample in the mean, as torch has it: 1 / (N * its labels), at least one label; or ones."""
        if not self.mean:
            return None
        samples, labels = self.samples, self.target_lengths.tolist()  # quicker than arrays, for few samples
        shares = [1.0 / (max(each, 1) * samples) for each in labels]
        return torch.tensor(shares, dtype=loss_type(self.logits), device=self.logits.device)

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

    Raises
    ------
    ValueError
        If shapes, types, lengths or labels are invalid; the message names the sample of a length or label.
    """
    check_shapes(logits, targets, blank, packed)
    lengths = as_lengths(input_lengths, "input_lengths"), as_lengths(target_lengths, "target_lengths")
    return problem_of(logits, Arguments(targets, *lengths, blank, packed))


def problem_of(logits: Tensor, given: Arguments, grad_output: Tensor | None = None) -> Problem:
    """Check values and convert them to a `Problem`, as `make_problem` does; shapes have been checked."""
    targets, packed = given.targets, given.packed
    frames, labels = in_memory(given.input_lengths), in_memory(given.target_lengths)
    samples = frames.shape[0] if packed else 1 if logits.dim() == 2 else logits.shape[1]
    if frames.shape[0] != samples or labels.shape[0] != samples:
        found = f"{frames.shape[0]} input_lengths and {labels.shape[0]} target_lengths"
        raise ValueError(f"there are {samples} samples, but {found}")
    if samples == 0:
        raise ValueError("the batch is empty: a CTC loss needs at least one sample")
    for each, name in ((targets, "targets"), (frames, "input_lengths"), (labels, "target_lengths")):
        if each.is_meta:
            raise ValueError(f"{name} are on the meta device, which holds no values: give them on the CPU")
    rows = logits.shape[0]
    longest_input = check_lengths(frames, rows, "input length", "frames of the logits")
    frame_offsets = starts_of(frames) if packed else None
    if packed:
        check_sum(frames, rows, "frames in the packed logits", "input_lengths")
    flat, offsets, stride, longest_target = flatten(targets, labels, samples)
    problem = Problem(
        logits=in_memory(logits.unsqueeze(1) if logits.dim() == 2 else logits),
        frame_offsets=frame_offsets,
        input_lengths=frames,
        targets=flat,
        target_offsets=offsets,
        target_stride=stride,
        target_lengths=labels,
        blank=given.blank,
        longest_input=longest_input,
        longest_target=longest_target,
        mean=given.reduction == "mean",
        grad_output=grad_output,
        scale=given.scale,
    )
    if is_on_cpu(flat) and is_on_cpu(labels):
        check_labels(flat, problem.target_starts, labels, given.blank, problem.classes)
    return problem


def in_memory(tensor: Tensor) -> Tensor:
    """Return a tensor whose memory holds its values: not their negatives, their conjugates, or nothing for zeros."""
    return tensor.clone() if tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor() else tensor


def is_on_cpu(tensor: Tensor) -> bool:
    """Whether the values of a tensor can be looked at without waiting for an accelerator."""
    return tensor.is_cpu


def loss_type(logits: Tensor) -> torch.dtype:
    """Return the type of the loss: float64 for float64 logits, else float32."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def check_shapes(logits: Tensor, targets: Tensor, blank: int, packed: bool) -> None:
    """Check what can be checked without looking at values.

    Raises
    ------
    TypeError
        When one of the two is no tensor.
    ValueError
        When a shape, a type, a layout or the blank does not fit.
    """
    _check_kind(logits, "logits")
    _check_kind(targets, "targets")
    if logits.dtype not in FLOAT_TYPES:
        raise ValueError(f"logits are {logits.dtype}; they must be float32, float64, bfloat16 or float16")
    if logits.dim() not in ((2,) if packed else (2, 3)):
        wanted = "(frames, classes) when packed" if packed else "(T, N, C), or (T, C) for a single sample"
        raise ValueError(f"logits have shape {tuple(logits.shape)}; it must be {wanted}")
    if targets.dtype not in INTEGER_TYPES:
        raise ValueError(f"targets are {targets.dtype}; they must be integers")
    if targets.dim() not in (1, 2):
        raise ValueError(f"targets have shape {tuple(targets.shape)}; it must be (N, S), or (sum of lengths,)")
    if logits.shape[-1] == 0:
        raise ValueError(f"logits have shape {tuple(logits.shape)}: there are no classes")
    if not 0 <= blank < logits.shape[-1]:
        raise ValueError(f"blank {blank} is outside 0..{logits.shape[-1] - 1}")


def _check_kind(tensor: Tensor, name: str) -> None:
    """Check that an argument is a tensor with a number for each place."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} are of type {type(tensor).__name__}; they must be a tensor: torch.as_tensor makes one")
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout)
        raise ValueError(f"{name} are {layout}; they must be strided: to_dense() or to_padded_tensor() makes them so")


def as_lengths(lengths: Lengths, name: str) -> Tensor:
    """Lengths as an int64 tensor of shape (N,), on the device they came on.

    Raises
    ------
    ValueError
        When they are not integers, or have more than one dimension.
    """
    tensor = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths, device="cpu")
    _check_kind(tensor, name)
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
    return torch.arange(samples, device="cpu") * width


def flatten(targets: Tensor, lengths: Tensor, samples: int) -> tuple[Tensor, Tensor | None, int, int]:
    """Targets of either layout as one row of labels; the offsets of samples or the stride; the longest target."""
    whole = in_memory(targets)
    flat = (whole if whole.dtype == torch.int64 else whole.to(torch.int64)).reshape(-1).contiguous()
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


def frames_needed(labels: Tensor, counts: Tensor) -> Tensor:
    """Return the fewest output frames of each sample for which its loss is finite.

    Parameters
    ----------
    labels : Tensor, shape = (N, longest) or (sum of counts,)
        Padded, or the labels of all samples one after the other.
    counts : Tensor, shape = (N,)
        Numbers of labels, on the same device.

    Returns
    -------
    Tensor, shape = (N,), int64
        The number of labels, plus one for each label that equals the one before it: a path must pass through a blank
        between them (Graves et al. 2006, eq. 1).
    """
    if labels.ndim == 2:
        inside = torch.arange(1, max(labels.shape[1], 1), device=labels.device) < counts[:, None]
        repeats = ((labels[:, 1:] == labels[:, :-1]) & inside).sum(1)
    else:
        sample = torch.repeat_interleave(counts)
        same = (labels[1:] == labels[:-1]) & (sample[1:] == sample[:-1])
        repeats = torch.bincount(sample[1:][same], minlength=len(counts))
    return counts + repeats
