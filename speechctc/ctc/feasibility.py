"""The fewest frames that can hold a sequence of labels: one each, and a blank between equal ones."""

from __future__ import annotations

import torch
from torch import Tensor


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
