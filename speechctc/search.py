"""From emissions to phones: the best path, collapsed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from torch import Tensor


def collapse(path: Sequence[int], blank: int = 0) -> list[int]:
    """Merge repeats, then drop blanks (Graves et al. 2006, eq. 1's map B): ``a a - a`` is ``a a``."""
    return [label for label, _ in groupby(path) if label != blank]


def best_path(logits: Tensor, frames: Tensor) -> list[list[int]]:
    """Return the labels of each utterance by its best class frame by frame, collapsed.

    Parameters
    ----------
    logits : Tensor, shape = (n_batch, max_frames, classes)
    frames : Tensor, shape = (n_batch,)
    """
    paths = logits.argmax(dim=2).tolist()
    return [collapse(path[:length]) for path, length in zip(paths, frames.tolist(), strict=True)]
