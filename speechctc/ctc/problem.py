"""The internal form of a CTC problem, common to all backends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from speechctc.ctc.arguments import (
    Lengths,
    as_lengths,
    check_labels,
    check_lengths,
    check_shapes,
    check_sum,
    flatten,
    is_on_cpu,
    loss_type,
    multiples,
    starts_of,
)

LEAST_EXPONENT = -(2**28)
"""A likelihood below 2 to this power, exp(-1.86e8), counts as zero: its loss is inf."""


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
        weights = self.shares
        if self.grad_output is not None:
            weights = (
                self.grad_output.expand(self.samples).contiguous() if weights is None else weights * self.grad_output
            )
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
        shares = 1.0 / (np.maximum(self.target_lengths.numpy(force=True), 1) * self.samples)
        real = np.float64 if loss_type(self.logits) == torch.float64 else np.float32
        return torch.from_numpy(shares.astype(real, copy=False)).to(self.logits.device)

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
    grad_output: Tensor | None = None,
    scale: float = 1.0,
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
    grad_output : Tensor, optional
        By which the gradient is multiplied, shape () or (N,).
    scale : float
        By which loss and gradient are multiplied.

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
    longest_input = check_lengths(frames, rows, "input length", "frames of the logits")
    frame_offsets = starts_of(frames) if packed else None
    if packed:
        check_sum(frames, rows, "frames in the packed logits", "input_lengths")
    flat, offsets, stride, longest_target = flatten(targets, labels, samples)
    problem = Problem(
        logits=logits.unsqueeze(1) if logits.dim() == 2 else logits,
        frame_offsets=frame_offsets,
        input_lengths=frames,
        targets=flat,
        target_offsets=offsets,
        target_stride=stride,
        target_lengths=labels,
        blank=blank,
        longest_input=longest_input,
        longest_target=longest_target,
        mean=mean,
        grad_output=grad_output,
        scale=scale,
    )
    if is_on_cpu(flat) and is_on_cpu(labels):
        check_labels(flat, problem.target_starts, labels, blank, problem.classes)
    return problem
