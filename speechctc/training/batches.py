"""The data of a run: checked shards, phones, normalisation; batches on the device, in chunks of bounded size.

At most ``data.chunk_mib`` of static features are on the device (on a GPU, the host holds as much again in pinned
memory). If the data fit, they stay there. If not, an epoch is a sequence of chunks of half that size: while the net
trains on one, a thread reads the next from the memory-mapped shards and a separate CUDA stream copies it. Batches are
gathered on the device, so that getting one neither copies from the host nor waits for the device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from speechctc.config.schema import Config
from speechctc.core.devices import give_back_memory
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import UNLABELLED
from speechctc.features.filterbank import Moments
from speechctc.features.shards import read_split
from speechctc.ngram.automaton import PhoneLM
from speechctc.phones.folding import choose_folding
from speechctc.phones.inventory import Inventory
from speechctc.training.chunks import Batch, BatchGatherer, Slot, Split
from speechctc.training.epoch_plan import BESIDE, ChunkPlan, EpochPlan, Indices, Limits
from speechctc.training.languages import Languages


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


class TrainingData:
    """The train and dev splits of the config's features, with loaders for a device.

    Parameters
    ----------
    config : Config
    device : torch.device
    reporter : Reporter

    Attributes
    ----------
    shards : dict of str to list of Shard
    inventory : Inventory
    folding : Folding
    mean, std : Tensor, shape = (channels, static_dims)
        Normalisation of the training split, on the device.
    train, dev : Loader
        That of train has the recordings without labels too, after the others.
    unlabelled : ndarray
        These, as numbers of utterances.
    languages, dev_languages : Languages
        Those of the two splits.

    Raises
    ------
    InputError
        If a shard is missing, damaged or of another config, if a split is empty, or if a chunk is too small.
    """

    def __init__(self, config: Config, device: torch.device, reporter: Reporter) -> None:
        splits = ("train", "dev", *([UNLABELLED] if config.data.unlabelled else []))
        features = config.features.model_dump(mode="json")
        self.shards = {split: read_split(config.data.dir / split, features) for split in splits}
        recipe = self.shards["train"][0].recipe
        self.inventory = Inventory(recipe.phone_set, recipe.phones)
        self.folding = choose_folding(config.score.fold, self.inventory)
        moments = sum((shard.moments for shard in self.shards["train"]), start=Moments.none(config.features))
        self.mean, self.std = (each.to(device) for each in moments.normalisation())
        train, dev = Split(self.shards["train"], self.shards.get(UNLABELLED, ())), Split(self.shards["dev"])
        if not len(dev):
            raise InputError(f"{config.data.dir}/dev: no utterance in it", "give a dev split with usable recordings")
        self._held = config.data.chunk_mib * 2**20 // (train.dims * train.dtype.itemsize)
        limits = Limits(config.train.batch_size, config.train.batch_frames, self._held)
        members = _trainable(train, config.model.time_stride, reporter)
        self.languages = Languages.read(config.data.dir, "train", train.ids[: train.labelled])
        self.dev_languages = Languages.read(config.data.dir, "dev", dev.ids)
        self._balance = config.train.balance
        self._labelled, self.unlabelled = np.split(members, [np.searchsorted(members, train.labelled)])
        # Each loader counts the other split's frames: either both splits stay on the device or neither.
        self.dev = Loader(dev, limits, device, other_frames=int(train.frames[members].sum()))
        self.train = Loader(train, limits, device, members, other_frames=self.dev.frames)

    def members(self, seed: int, unlabelled: bool = True) -> Indices:
        """Return the training utterances of the epoch with this seed.

        Of those without labels it has up to `BESIDE` times as much speech as of the others, drawn anew.
        """
        labelled, frames = self.languages.draw(self._labelled, self._balance, seed), self.train.split.frames
        if not unlabelled or not len(self.unlabelled):
            return labelled
        drawn = np.random.default_rng([seed, len(self.unlabelled)]).permutation(self.unlabelled)
        room = np.cumsum(frames[drawn]) <= BESIDE * frames[labelled].sum()
        return np.concatenate([labelled, np.sort(drawn[room])])

    @cached_property
    def phones(self) -> Indices:
        """The phones of each training utterance; of those without labels, as many as the others have in that time."""
        split, labelled = self.train.split, self._labelled
        rate = split.label_counts[labelled].sum() / max(split.frames[labelled].sum(), 1)
        expected = np.rint(split.frames * rate).astype(np.int64)
        return np.where(np.arange(len(split)) < split.labelled, split.label_counts, expected)

    def largest_batch(self, plan: EpochPlan, rank: int) -> tuple[int, int]:
        """Return the number of utterances and frames of an epoch's largest batch, padding included."""
        frames = self.train.split.frames
        batches = plan.batches(rank) or [self.train.members[:1]]
        return max(((len(batch), int(frames[batch].max())) for batch in batches), key=math.prod)

    def phone_lm(self, order: int, cutoff: int) -> PhoneLM | None:
        """Learn an n-gram of this order from the training labels (see `PhoneLM.learn`); None for order 0."""
        if order == 0:
            return None
        labels = [self.train.split.labels(index).tolist() for index in self._labelled.tolist()]
        return PhoneLM.learn(labels, len(self.inventory.phones) + 1, order, cutoff)

    @property
    def bytes_held(self) -> int:
        """Bytes of features on the device during training."""
        split = self.train.split
        return min(self._held, self.train.frames + self.dev.frames) * split.dims * split.dtype.itemsize


def _trainable(split: Split, stride: int, reporter: Reporter) -> Indices:
    """Return the utterances to train on: those with enough frames for their phones at the model's time stride."""
    infeasible = split.infeasible(stride)
    if infeasible:
        named = ", ".join(split.ids[index] for index in infeasible[:3])
        reporter.warn(
            f"{len(infeasible)} utterances left out, too short for their phones at model.time_stride={stride}: {named}"
        )
    members = np.setdiff1d(np.arange(len(split)), infeasible)
    if not len(members):
        raise InputError("no training utterance is long enough for its phones", "lower model.time_stride")
    return members
