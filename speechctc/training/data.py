"""The data of a run: checked shards, phones, normalisation, loaders."""

from __future__ import annotations

import math

import numpy as np
import torch

from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.features.filterbank import Moments
from speechctc.features.shards import read_split
from speechctc.ngram.automaton import PhoneLM
from speechctc.phones.folding import choose_folding
from speechctc.phones.inventory import Inventory
from speechctc.training.batches import Loader
from speechctc.training.epoch_plan import EpochPlan, Indices, Limits
from speechctc.training.languages import Languages
from speechctc.training.splits import Split


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
    languages, dev_languages : Languages
        Those of the two splits.

    Raises
    ------
    InputError
        If a shard is missing, damaged or of another config, if a split is empty, or if a chunk is too small.
    """

    def __init__(self, config: Config, device: torch.device, reporter: Reporter) -> None:
        self.shards = {
            split: read_split(config.data.dir / split, config.features.model_dump(mode="json"))
            for split in ("train", "dev")
        }
        recipe = self.shards["train"][0].recipe
        self.inventory = Inventory(recipe.phone_set, recipe.phones)
        self.folding = choose_folding(config.score.fold, self.inventory)
        moments = sum((shard.moments for shard in self.shards["train"]), start=Moments.none(config.features))
        self.mean, self.std = (each.to(device) for each in moments.normalisation())
        train, dev = (Split(shards) for shards in self.shards.values())
        if not len(dev):
            raise InputError(f"{config.data.dir}/dev: no utterance in it", "give a dev split with usable recordings")
        self._held = config.data.chunk_mib * 2**20 // (train.dims * train.dtype.itemsize)
        limits = Limits(config.train.batch_size, config.train.batch_frames, self._held)
        members = _trainable(train, config.model.time_stride, reporter)
        self.languages = Languages.read(config.data.dir, "train", train.ids)
        self.dev_languages = Languages.read(config.data.dir, "dev", dev.ids)
        self._balance = config.train.balance
        # Each loader counts the other split's frames: either both splits stay on the device or neither.
        self.dev = Loader(dev, limits, device, other_frames=int(train.frames[members].sum()))
        self.train = Loader(train, limits, device, members, other_frames=self.dev.frames)

    def members(self, seed: int) -> Indices:
        """Return the training utterances of the epoch with this seed."""
        return self.languages.draw(self.train.members, self._balance, seed)

    def largest_batch(self, plan: EpochPlan, rank: int) -> tuple[int, int]:
        """Return the number of utterances and frames of an epoch's largest batch, padding included."""
        frames = self.train.split.frames
        batches = plan.batches(rank) or [self.train.members[:1]]
        return max(((len(batch), int(frames[batch].max())) for batch in batches), key=math.prod)

    def phone_lm(self, order: int, cutoff: int) -> PhoneLM | None:
        """Learn an n-gram of this order from the training labels (see `PhoneLM.learn`); None for order 0."""
        if order == 0:
            return None
        labels = [self.train.split.labels(index).tolist() for index in self.train.members.tolist()]
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
