"""A chunk of features on the device, and the batches gathered from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from speechctc.training.epoch_plan import ChunkPlan, Indices
from speechctc.training.splits import Split, starts_of


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
    """

    indices: Indices
    lengths: Indices
    counts: Indices
    static: Tensor
    frames: Tensor
    labels: Tensor
    label_counts: Tensor

    @property
    def padded_frames(self) -> int:
        """Frames of the batch, padding included."""
        return len(self.indices) * int(self.lengths.max())

    def split(self, parts: int) -> list[Batch]:
        """Split into up to `parts` batches; each is padded to its own longest utterance."""
        edges = np.linspace(0, len(self.indices), min(parts, len(self.indices)) + 1).astype(int).tolist()
        return [self._rows(slice(a, b)) for a, b in zip(edges, edges[1:], strict=False)]

    def _rows(self, rows: slice) -> Batch:
        lengths, counts = self.lengths[rows], self.counts[rows]
        return Batch(
            self.indices[rows],
            lengths,
            counts,
            self.static[rows, : int(lengths.max())],
            self.frames[rows],
            self.labels[rows, : int(counts.max())],
            self.label_counts[rows],
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
        self.batches = plan.batches
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
        )


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device asynchronously."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
