"""Shards to batches on the device, one bounded chunk of features at a time.

An epoch is a sequence of chunks, each at most ``data.chunk_mib`` of static features. A chunk is read from the
memory-mapped shards by a thread while the net works on the one before, copied to the device whole, and its batches are
gathered there. A split smaller than one chunk stays on the device for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.shards import Shard, frames_needed

Indices = NDArray[np.int64]
LENGTH_JITTER = 0.02  # share by which lengths are blurred before sorting, so that batches differ between epochs


@dataclass(frozen=True)
class Batch:
    """Some utterances of like length, on the device.

    Attributes
    ----------
    indices : ndarray
        Which of the split's utterances these are.
    static : Tensor, shape = (n_batch, max_frames, static_dims)
        An utterance's last frame is repeated past its end.
    frames : Tensor, shape = (n_batch,)
    labels : Tensor, shape = (total_labels,)
        Phone numbers, utterance after utterance.
    label_counts : Tensor, shape = (n_batch,)
    """

    indices: Indices
    static: Tensor
    frames: Tensor
    labels: Tensor
    label_counts: Tensor


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
        self._frame_start = np.concatenate([_starts(shard.frames) for shard in shards])
        self._label_start = np.concatenate([_starts(shard.label_counts) for shard in shards])

    def __len__(self) -> int:
        """Return the number of utterances."""
        return len(self.ids)

    def static(self, index: int) -> Tensor:
        """Return (n_frames, static_dims) of one utterance: a view of the memory-mapped shard."""
        start = int(self._frame_start[index])
        static: Tensor = self.shards[self._shard[index]].static
        return static[start : start + int(self.frames[index])]

    def labels(self, index: int) -> Tensor:
        """Return (n_labels,) of one utterance."""
        start = int(self._label_start[index])
        labels: Tensor = self.shards[self._shard[index]].labels
        return labels[start : start + int(self.label_counts[index])]

    def infeasible(self, stride: int) -> list[int]:
        """Return the utterances whose phones do not fit into their frames at this time stride."""
        return [
            index
            for index in range(len(self))
            if -(-int(self.frames[index]) // stride) < frames_needed(self.labels(index).tolist())
        ]


@dataclass(frozen=True)
class Limits:
    """How large a batch and a chunk may be: utterances, padded frames, and frames in a chunk."""

    batch_size: int
    batch_frames: int
    chunk_frames: int


@dataclass(frozen=True)
class ChunkPlan:
    """The utterances of one chunk, and its batches as utterance numbers."""

    utterances: Indices
    batches: list[Indices]


def plan_epoch(frames: Indices, members: Indices, limits: Limits, seed: int | None) -> list[ChunkPlan]:
    """Cut an epoch into chunks and batches of utterances of like length.

    Parameters
    ----------
    frames : ndarray, shape = (n_utterances,)
        Frames of every utterance of the split.
    members : ndarray
        The utterances to use; each appears in exactly one batch.
    limits : Limits
        An utterance longer than a limit has a batch, or a chunk, of its own.
    seed : int or None
        Of the order; without one utterances keep theirs, sorted by length inside a chunk.
    """
    rng = None if seed is None else np.random.default_rng(seed)
    order = members if rng is None else rng.permutation(members)
    plans = []
    for chunk in _cut(order, frames, limits.chunk_frames, len(members), padded=False):
        lengths = frames[chunk].astype(np.float64)
        if rng is not None:
            lengths *= rng.uniform(1 - LENGTH_JITTER, 1 + LENGTH_JITTER, len(chunk))
        by_length = chunk[np.argsort(lengths, kind="stable")]
        batches = _cut(by_length, frames, limits.batch_frames, limits.batch_size, padded=True)
        if rng is not None:
            rng.shuffle(batches)  # type: ignore[arg-type]  # a list is a mutable sequence to it
        plans.append(ChunkPlan(chunk, batches))
    if rng is not None:
        rng.shuffle(plans)  # type: ignore[arg-type]
    return plans


class Loader:
    """Batches of a split on a device.

    Parameters
    ----------
    split : Split
    limits : Limits
    device : torch.device
    members : ndarray, optional
        The utterances to use; all of them by default.
    """

    def __init__(self, split: Split, limits: Limits, device: torch.device, members: Indices | None = None) -> None:
        self.split, self.limits, self.device = split, limits, device
        self.members = np.arange(len(split)) if members is None else members
        self._resident: _Chunk | None = None
        self._fits = int(split.frames[self.members].sum()) <= limits.chunk_frames

    def plan(self, seed: int | None) -> list[ChunkPlan]:
        """Return the epoch's chunks and batches for this seed."""
        return plan_epoch(self.split.frames, self.members, self.limits, seed)

    def batches(self, seed: int | None, skip: int = 0) -> Iterator[Batch]:
        """Yield the epoch's batches for this seed, from number `skip` on (an epoch taken up again)."""
        plans = self.plan(seed)
        while plans and skip >= len(plans[0].batches):
            skip -= len(plans.pop(0).batches)
        for plan, chunk in self._chunks(plans):
            for batch in plan.batches[skip:]:
                yield chunk.gather(batch)
            skip = 0

    def _chunks(self, plans: list[ChunkPlan]) -> Iterator[tuple[ChunkPlan, _Chunk]]:
        if self._fits:
            self._resident = self._resident or _Chunk(self.split, self.members, self.device)
            yield from ((plan, self._resident) for plan in plans)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="chunk") as reader:
            ahead: Future[_Chunk] | None = None
            for number, plan in enumerate(plans):
                ready = ahead or reader.submit(_Chunk, self.split, plan.utterances, self.device)
                chunk = ready.result()
                if number + 1 < len(plans):
                    ahead = reader.submit(_Chunk, self.split, plans[number + 1].utterances, self.device)
                yield plan, chunk


class _Chunk:
    """Static features and labels of some utterances, end to end on the device."""

    def __init__(self, split: Split, utterances: Indices, device: torch.device) -> None:
        self.place = {int(index): place for place, index in enumerate(utterances)}
        static = torch.cat([split.static(int(index)) for index in utterances])
        labels = [split.labels(int(index)) for index in utterances]
        if device.type == "cuda":
            static = static.pin_memory()
        self.static = static.to(device, non_blocking=True)
        self.labels = labels
        self.frames = torch.from_numpy(split.frames[utterances])
        self.starts = torch.cumsum(self.frames, 0) - self.frames
        self.device = device

    def gather(self, indices: Indices) -> Batch:
        """Return the batch of these utterances."""
        places = torch.tensor([self.place[int(index)] for index in indices])
        frames = self.frames[places]
        steps = torch.arange(int(frames.max()))
        rows = self.starts[places][:, None] + torch.minimum(steps, frames[:, None] - 1)
        labels = [self.labels[place] for place in places.tolist()]
        return Batch(
            indices=indices,
            static=self.static[rows.to(self.device)],
            frames=frames.to(self.device),
            labels=torch.cat(labels).long().to(self.device),
            label_counts=torch.tensor([len(each) for each in labels]).to(self.device),
        )


def _starts(counts: Tensor) -> Indices:
    starts: Indices = (torch.cumsum(counts, 0) - counts).numpy()
    return starts


def _cut(order: Indices, frames: Indices, limit: int, size: int, padded: bool) -> list[Indices]:
    """Cut `order` into runs of at most `size` utterances and `limit` frames (counted with padding, if `padded`)."""
    runs: list[list[int]] = []
    longest = total = 0
    for index in order:
        length = int(frames[index])
        longest, total = max(longest, length), total + length
        count = len(runs[-1]) + 1 if runs else 1
        if not runs or count > size or (longest * count if padded else total) > limit:
            runs.append([])
            longest = total = length
        runs[-1].append(int(index))
    return [np.array(run, dtype=np.int64) for run in runs]
