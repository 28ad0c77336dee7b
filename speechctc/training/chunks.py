"""The utterances of a split, read from its memory-mapped shards in chunks, and the batches gathered from a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.ctc.problem import frames_needed
from speechctc.features.shards import Shard
from speechctc.training.epoch_plan import ChunkPlan, Indices

RELEASE_BYTES = 8 * 2**20  # bytes of a shard to read before its mapped pages are released


@dataclass(frozen=True)
class Batch:
    """Utterances of similar length, on the device.

    Attributes
    ----------
    indices, lengths, counts : ndarray, shape = (n_batch,)
        On the host: indices into the split, numbers of frames, numbers of labels.
    static : Tensor, shape = (n_batch, max_frames, static_dims)
        Padded by repeating each utterance's last frame.
    frames : Tensor, shape = (n_batch,)
    labels : Tensor, shape = (n_batch, max_labels)
        Phone numbers; the padding is arbitrary.
    label_counts : Tensor, shape = (n_batch,)
    unlabelled : ndarray of bool, shape = (n_batch,), optional
        On the host: recordings without labels; None: there are none.
    """

    indices: Indices
    lengths: Indices
    counts: Indices
    static: Tensor
    frames: Tensor
    labels: Tensor
    label_counts: Tensor
    unlabelled: NDArray[np.bool_] | None = None

    @property
    def padded_frames(self) -> int:
        """Frames of the batch, padding included."""
        return len(self.indices) * int(self.lengths.max())

    def split(self, parts: int) -> list[Batch]:
        """Split into up to `parts` batches; each is padded to its own longest utterance."""
        edges = np.linspace(0, len(self.indices), min(parts, len(self.indices)) + 1).astype(int).tolist()
        return [self.rows(slice(a, b)) for a, b in zip(edges, edges[1:], strict=False)]

    def rows(self, rows: slice | Indices) -> Batch:
        """Return some of the utterances, at least one, padded to the longest of them."""
        lengths, counts = self.lengths[rows], self.counts[rows]
        return Batch(
            self.indices[rows],
            lengths,
            counts,
            self.static[rows, : int(lengths.max())],
            self.frames[rows],
            self.labels[rows, : int(counts.max())],
            self.label_counts[rows],
            None if self.unlabelled is None else self.unlabelled[rows],
        )


class Slot:
    """Memory for one chunk on the device, and in pinned host memory for a GPU.

    On a GPU `fill` runs in the reader thread. It waits on the host for the previous copy out of the pinned memory, and
    on the copying stream for `mark_free`. The training thread calls `wait_ready` and `mark_free`.
    """

    def __init__(self, split: Split, frames: int, device: torch.device) -> None:
        self.split, self.device = split, device
        self.starts: Indices = np.zeros(0, dtype=np.int64)
        shape = (frames, split.dims)
        self._on_gpu = device.type == "cuda"
        with torch.inference_mode(False):  # the reader thread writes to it, which is in no mode of scoring
            self.static = torch.empty(shape, dtype=split.dtype, device=device)
            self._host = torch.empty(shape, dtype=split.dtype, pin_memory=True) if self._on_gpu else self.static
        if self._on_gpu:
            self._stream = torch.cuda.Stream(device)
            self._copied, self._free = torch.cuda.Event(), torch.cuda.Event()
            self._free.record(torch.cuda.current_stream(device))

    def fill(self, utterances: Indices) -> None:
        """Read a chunk and copy it to the device."""
        if not self._on_gpu:
            self.starts = self.split.read(utterances, self._host)
            return
        self._copied.synchronize()
        self.starts = self.split.read(utterances, self._host)
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(self._free)
            self.static.copy_(self._host, non_blocking=True)
            self._copied.record(self._stream)
            self.static.record_stream(self._stream)  # if nobody waits for the copy, the memory is not reused before it

    def wait_ready(self) -> None:
        """Make the current stream wait for the copy."""
        if self._on_gpu:
            torch.cuda.current_stream(self.device).wait_event(self._copied)

    def mark_free(self) -> None:
        """Allow the next `fill` to overwrite the chunk."""
        if self._on_gpu:
            self._free.record(torch.cuda.current_stream(self.device))


class BatchGatherer:
    """Gathers the batches of a chunk; all indices are copied to the device once per chunk."""

    def __init__(self, split: Split, plan: ChunkPlan, slot: Slot, device: torch.device) -> None:
        self.static = slot.static
        self.batches, self._labelled = plan.batches, split.labelled
        self.edges = np.concatenate([[0], np.cumsum([len(batch) for batch in plan.batches])]).tolist()
        order = np.concatenate(plan.batches)
        self.lengths, self.counts = split.frames[order], split.label_counts[order]
        labels = torch.cat([split.labels(index) for index in order.tolist()])
        self.labels = _send(torch.cat([labels, labels.new_zeros(1)]).long(), device)
        numbers = np.stack([slot.starts[order], self.lengths, starts_of(self.counts), self.counts])
        self.starts, self.frames, self.label_starts, self.label_counts = _send(torch.from_numpy(numbers), device)
        self._steps = torch.arange(int(max(self.lengths.max(), self.counts.max())), device=device)

    def gather(self, number: int) -> Batch:
        """Return a batch by its number in the chunk."""
        rows = slice(self.edges[number], self.edges[number + 1])
        lengths, counts = self.lengths[rows], self.counts[rows]
        steps, places = self._steps[: int(lengths.max())], self._steps[: int(counts.max())]
        frames = self.frames[rows]
        where = self.starts[rows, None] + torch.minimum(steps, frames[:, None] - 1)
        label_where = (self.label_starts[rows, None] + places).clamp(max=len(self.labels) - 1)
        return Batch(
            indices=self.batches[number],
            lengths=lengths,
            counts=counts,
            static=self.static[where],
            frames=frames,
            labels=self.labels[label_where],
            label_counts=self.label_counts[rows],
            unlabelled=without if (without := self.batches[number] >= self._labelled).any() else None,
        )


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device asynchronously."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


class Split:
    """The utterances of a split's shards, numbered from 0; those of shards without labels come last.

    Attributes
    ----------
    ids : list of str
    frames, label_counts : ndarray, shape = (n_utterances,)
    labelled : int
        Utterances that have labels: the first ones.
    """

    def __init__(self, shards: Sequence[Shard], unlabelled: Sequence[Shard] = ()) -> None:
        self.labelled = sum(len(shard.ids) for shard in shards)
        self.shards = shards = [*shards, *unlabelled]
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
