"""The utterances of a split, read from its memory-mapped shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from speechctc.ctc.feasibility import frames_needed
from speechctc.features.shards import Shard
from speechctc.training.epoch_plan import Indices

RELEASE_BYTES = 8 * 2**20  # bytes of a shard to read before its mapped pages are released


class Split:
    """The utterances of a split's shards, numbered from 0.

    Attributes
    ----------
    ids : list of str
    frames, label_counts : ndarray, shape = (n_utterances,)
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = shards
        self.ids = [id for shard in shards for id in shard.ids]
        self.frames: Indices = np.concatenate([shard.frames.numpy() for shard in shards])
        self.label_counts: Indices = np.concatenate([shard.label_counts.numpy() for shard in shards])
        self._shard = np.repeat(np.arange(len(shards)), [len(shard.ids) for shard in shards])
        self._frame_start = np.concatenate([starts_of(shard.frames.numpy()) for shard in shards])
        self._label_start = np.concatenate([starts_of(shard.label_counts.numpy()) for shard in shards])

    def __len__(self) -> int:
        """Return the number of utterances."""
        return len(self.ids)

    @property
    def dims(self) -> int:
        """Values per frame."""
        return int(self.shards[0].static.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the stored features."""
        return self.shards[0].static.dtype

    def static(self, index: int) -> Tensor:
        """Return the features of one utterance, (n_frames, static_dims): a view of the memory-mapped shard."""
        start = int(self._frame_start[index])
        static: Tensor = self.shards[self._shard[index]].static
        return static[start : start + int(self.frames[index])]

    def labels(self, index: int) -> Tensor:
        """Return the labels of one utterance, (n_labels,)."""
        start = int(self._label_start[index])
        labels: Tensor = self.shards[self._shard[index]].labels
        return labels[start : start + int(self.label_counts[index])]

    def read(self, utterances: Indices, into: Tensor) -> Indices:
        """Copy the features of these utterances into `into`, concatenated; return where each begins.

        They are read in the order of the disk, and mapped pages are released on the way. Entries of the result for
        other utterances are -1.
        """
        order = utterances[np.lexsort((self._frame_start[utterances], self._shard[utterances]))]
        ends = np.cumsum(self.frames[order])
        starts = np.full(len(self), -1, dtype=np.int64)
        starts[order] = ends - self.frames[order]
        target, stretch = into.numpy(), RELEASE_BYTES // (self.dims * self.dtype.itemsize)
        parts = self._shard[order] * (self._frame_start.max() // stretch + 1) + self._frame_start[order] // stretch
        for part in np.split(np.arange(len(order)), np.flatnonzero(np.diff(parts)) + 1):
            for place in part.tolist():
                index = order[place]
                np.copyto(target[starts[index] : ends[place]], self.static(index).numpy())
            self.shards[self._shard[order[part[0]]]].release()
        return starts

    def infeasible(self, stride: int) -> list[int]:
        """Return the utterances that have too few frames for their phones at this time stride."""
        needed = []
        for shard in self.shards:
            needed.append(frames_needed(shard.labels, shard.label_counts).numpy())
            shard.release()
        found: list[int] = np.flatnonzero(-(-self.frames // stride) < np.concatenate(needed)).tolist()
        return found


def starts_of(counts: Indices) -> Indices:
    """Return the start of each piece when pieces of these lengths are concatenated."""
    starts: Indices = np.cumsum(counts) - counts
    return starts
