"""Load batches from shards to the device, in chunks of bounded size.

At most ``data.chunk_mib`` of static features are on the device (on a GPU, the host holds as much again in pinned
memory). If the data fit, they stay there. If not, an epoch is a sequence of chunks of half that size: while the net
trains on one, a thread reads the next from the memory-mapped shards and a separate CUDA stream copies it. Batches are
gathered on the device, so that getting one neither copies from the host nor waits for the device.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import torch

from speechctc.core.devices import give_back_memory
from speechctc.core.errors import InputError
from speechctc.training.chunks import Batch, BatchGatherer, Slot
from speechctc.training.epoch_plan import ChunkPlan, EpochPlan, Indices, Limits
from speechctc.training.splits import Split


class Loader:
    """Batches of a split, on a device.

    Parameters
    ----------
    split : Split
    limits : Limits
        Its `chunk_frames` is the room on the device: for all features, or for two chunks of half of it.
    device : torch.device
    members : ndarray, optional
        The utterances to use; all by default.
    other_frames : int
        Frames of other splits that share the device; this split stays there only if they fit too.

    Attributes
    ----------
    limits : Limits
        Limits of the epoch plans; `chunk_frames` is for one chunk.
    frames : int
        Frames of all members.
    waited : float
        Seconds spent waiting for chunks so far.

    Raises
    ------
    InputError
        If an utterance is longer than a chunk.
    """

    def __init__(
        self, split: Split, limits: Limits, device: torch.device, members: Indices | None = None, other_frames: int = 0
    ) -> None:
        self.split, self.device = split, device
        self.members = np.arange(len(split)) if members is None else members
        self.frames = int(split.frames[self.members].sum())
        self.waited = 0.0
        self._stays = self.frames + other_frames <= limits.chunk_frames
        self.limits = limits if self._stays else replace(limits, chunk_frames=limits.chunk_frames // 2)
        self._resident: Slot | None = None
        self._refuse_small_chunks(self.frames + other_frames)

    def plan(self, seed: int | None, ranks: int = 1, members: Indices | None = None) -> EpochPlan:
        """Return the plan of an epoch; `members` restricts it to these utterances."""
        chosen = self.members if members is None else members
        return EpochPlan(self.split.frames, chosen, self.limits, seed, ranks)

    def batches(self, plan: EpochPlan, rank: int = 0, skip: int = 0) -> Iterator[Batch | None]:
        """Yield a rank's batches from number `skip` on; None for steps in which only other ranks have one."""
        plans = list(plan.shares[rank])
        steps = skip
        while plans and skip >= len(plans[0].batches):
            skip -= len(plans.pop(0).batches)
        for number, slot in enumerate(self._chunks(plans)):
            order = BatchGatherer(self.split, plans[number], slot, self.device)
            for batch in range(skip if number == 0 else 0, len(plans[number].batches)):
                yield order.gather(batch)
                steps += 1
        yield from (None for _ in range(plan.steps - steps))

    def _chunks(self, plans: list[ChunkPlan]) -> Iterator[Slot]:
        if self._stays:
            if self._resident is None and plans:
                began = time.perf_counter()
                self._resident = Slot(self.split, self.frames, self.device)
                self._resident.fill(self.members)
                self._resident.wait_ready()
                self.waited += time.perf_counter() - began
            yield from (self._resident for _ in plans if self._resident)
            return
        longest = max((int(self.split.frames[plan.utterances].sum()) for plan in plans), default=0)
        slots = [Slot(self.split, longest, self.device) for _ in plans[:2]]
        with ThreadPoolExecutor(1, thread_name_prefix="chunk") as reader:
            ahead: list[Future[None]] = []
            for number, plan in enumerate(plans):
                slot = slots[number % 2]
                if not ahead:
                    ahead.append(reader.submit(slot.fill, plan.utterances))
                began = time.perf_counter()
                ahead.pop(0).result()
                self.waited += time.perf_counter() - began
                slot.wait_ready()
                if number + 1 < len(plans):
                    ahead.append(reader.submit(slots[(number + 1) % 2].fill, plans[number + 1].utterances))
                yield slot
                slot.mark_free()
                if self.device.type == "cpu":
                    give_back_memory()

    def _refuse_small_chunks(self, corpus: int) -> None:
        longest = int(self.split.frames[self.members].max(initial=0))
        if longest <= self.limits.chunk_frames:
            return
        name = self.split.ids[self.members[self.split.frames[self.members].argmax()]]
        need = -(-min(2 * longest, corpus) * self.split.dims * self.split.dtype.itemsize // 2**20)
        raise InputError(
            f"data.chunk_mib: half of it holds {self.limits.chunk_frames} frames, but {name} has {longest}",
            f"give data.chunk_mib={need} or more",
        )
