"""The data of a run: checked features, phones, languages; batches on the device, in chunks of bounded size.

At most ``data.chunk_mib`` of static features are on the device (on a GPU, the host holds as much again in pinned
memory). If the data fit, they stay there. If not, an epoch is a sequence of chunks of half that size: while the net
trains on one, a thread reads the next from the memory-mapped shards and a separate CUDA stream copies it. Batches are
gathered on the device, so that getting one neither copies from the host nor waits for the device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from speechctc.config.schema import Config
from speechctc.core.devices import give_back_memory
from speechctc.core.errors import InputError, first_few, plural
from speechctc.core.parallel import ordered
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import count_repeats
from speechctc.ctc.problem import frames_needed
from speechctc.features.shards import REMAKE
from speechctc.features.splits import Recipe, SplitFeatures, read_split
from speechctc.lm.model import PhoneLM
from speechctc.model.layers import longest_frames
from speechctc.phones.folding import choose_folding
from speechctc.phones.inventory import Inventory
from speechctc.training.epoch_plan import ChunkPlan, EpochPlan, Indices, Limits

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
        return [self.rows(slice(a, b)) for a, b in zip(edges, edges[1:], strict=False)]

    def rows(self, rows: slice | Indices) -> Batch:
        """Return some of the utterances, at least one, padded to the longest of them."""
        lengths, counts = self.lengths[rows], self.counts[rows]
        static, labels = self.static[rows, : int(lengths.max())], self.labels[rows, : int(counts.max())]
        tensors = (static, self.frames[rows], labels, self.label_counts[rows])
        return Batch(self.indices[rows], lengths, counts, *tensors)


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
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
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
        static = self.static[self.starts[rows, None] + torch.minimum(steps, frames[:, None] - 1)]
        labels = self.labels[(self.label_starts[rows, None] + places).clamp(max=len(self.labels) - 1)]
        return Batch(self.batches[number], lengths, counts, static, frames, labels, self.label_counts[rows])


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device asynchronously."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


class Split:
    """The utterances of a split, numbered from 0.

    Attributes
    ----------
    ids : list of str
    frames, label_counts : ndarray, shape = (n_utterances,)
    labels_of_all : Tensor, shape = (total_labels,)
        Memory-mapped, in their order.
    """

    def __init__(self, features: SplitFeatures) -> None:
        table = features.table
        self.shards = features.shards
        self.ids = list(table.ids)
        self.frames: Indices = features.frames
        self.label_counts: Indices = table.label_counts.numpy()
        self.labels_of_all, self._shard, self._frame_start = table.labels, table.shard, features.starts
        self._label_start = starts_of(self.label_counts)

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
        return self.labels_of_all[start : start + int(self.label_counts[index])]

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
        needed = frames_needed(self.labels_of_all, torch.from_numpy(self.label_counts)).numpy()
        return list(np.flatnonzero(-(-self.frames // stride) < needed).tolist())


def starts_of(counts: Indices) -> Indices:
    """Return the start of each piece when pieces of these lengths are concatenated."""
    return np.asarray(np.cumsum(counts) - counts)


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

        def fill(slot: Slot, plan: ChunkPlan) -> Slot:
            slot.fill(plan.utterances)
            return slot

        with ThreadPoolExecutor(1, thread_name_prefix="chunk") as reader:
            began = time.perf_counter()
            for slot in ordered(lambda job: reader.submit(fill, *job), zip(cycle(slots), plans, strict=False), 2):
                self.waited += time.perf_counter() - began
                slot.wait_ready()
                yield slot
                slot.mark_free()
                if self.device.type == "cpu":
                    give_back_memory()
                began = time.perf_counter()

    def _refuse_small_chunks(self, corpus: int) -> None:
        longest = int(self.split.frames[self.members].max(initial=0))
        if longest <= self.limits.chunk_frames:
            return
        name = self.split.ids[self.members[self.split.frames[self.members].argmax()]]
        need = -(-min(2 * longest, corpus) * self.split.dims * self.split.dtype.itemsize // 2**20)
        what = f"data.chunk_mib: half of it holds {self.limits.chunk_frames} frames, but {name} has {longest}"
        raise InputError(what, f"give data.chunk_mib={need} or more")


@dataclass(frozen=True)
class Languages:
    """The languages of a split.

    Attributes
    ----------
    names : tuple of str
        In alphabetical order; none where the corpus does not say them, or has one.
    numbers : ndarray, shape = (n_utterances,)
        The place in `names` of each utterance's language.
    """

    names: tuple[str, ...]
    numbers: Indices

    @classmethod
    def of(cls, of_each: Sequence[str]) -> Languages:
        """Return the languages of utterances, given that of each; ``""``: not known."""
        names = sorted(set(of_each))
        places = {name: k for k, name in enumerate(names)}
        numbers = np.array([places[each] for each in of_each], dtype=np.int64)
        return cls(tuple(names) if len(names) > 1 else (), numbers)

    def quotas(self, members: Indices, temperature: float) -> Indices:
        """Return how many of `members` of each language an epoch has.

        Of n utterances of a language it has a share of (n / m) ** (1 / temperature - 1), where m is the median of the
        languages; of languages with fewer than that, all. (Languages are often drawn by their share of the data to the
        power of 1 / temperature; here none is repeated.)
        """
        counts = np.bincount(self.numbers[members], minlength=len(self.names))
        there = counts[counts > 0]
        ratio = np.maximum(counts / np.median(there), 1.0)
        return np.ceil(counts * ratio ** (1 / temperature - 1) - 1e-9).astype(np.int64)

    def draw(self, members: Indices, temperature: float, seed: int) -> Indices:
        """Return the utterances of an epoch, drawn anew for each seed; all where there is one language."""
        if not self.names or temperature == 1:
            return members
        quotas, shuffled = self.quotas(members, temperature), np.random.default_rng(seed).permutation(members)
        numbers = self.numbers[shuffled]
        drawn = [shuffled[numbers == k][:quota] for k, quota in enumerate(quotas.tolist())]
        return np.sort(np.concatenate(drawn))

    def describe(self, members: Indices, temperature: float) -> str:
        """Return what an epoch has of the larger languages, in words; ``""`` where there is one language."""
        if not self.names:
            return ""
        counts = np.bincount(self.numbers[members], minlength=len(self.names)).tolist()
        pairs = zip(self.names, self.quotas(members, temperature).tolist(), counts, strict=True)
        fewer = [
            f"{quota:,} of {count:,} utterances of {name or 'no language'}"
            for name, quota, count in pairs
            if quota < count
        ]
        has = "all utterances of each"
        if fewer:
            has = first_few(fewer, 10) + ", and all of the other languages" * (len(fewer) < len(self.names))
        return f"{len(self.names)} languages; an epoch has {has} (train.balance={temperature:g})"


class TrainingData:
    """The train and dev splits of the config's features, with loaders for a device.

    Parameters
    ----------
    config : Config
    device : torch.device
    reporter : Reporter

    Attributes
    ----------
    features : dict of str to SplitFeatures
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
        If a file is missing, damaged or of another config, if a split is empty, or if a chunk is too small.
    """

    def __init__(self, config: Config, device: torch.device, reporter: Reporter) -> None:
        features = config.features.model_dump(mode="json")
        self.features = {split: read_split(config.data.dir / split, features) for split in ("train", "dev")}
        recipe = self._recipe(config, reporter)
        self.inventory = Inventory(recipe.phone_set, recipe.phones)
        self.folding = choose_folding(config.score.fold, self.inventory)
        self.mean, self.std = (each.to(device) for each in self.features["train"].moments().normalisation())
        train, dev = Split(self.features["train"]), Split(self.features["dev"])
        if not len(dev):
            raise InputError(f"{config.data.dir}/dev: no utterance in it", "give a dev split with usable recordings")
        self._held = config.data.chunk_mib * 2**20 // (train.dims * train.dtype.itemsize)
        limits = Limits(config.train.batch_size, config.train.batch_frames, self._held)
        most = longest_frames(config)
        short = np.arange(len(dev)) if most is None else _taken(dev, most, "dev", reporter)
        members = _trainable(train, config.model.time_stride, reporter)
        if most is not None:
            slowest, _ = config.augment.rates
            allowed = most if slowest == 1 else int((most - 1.5) * slowest)  # see `Augmenter.most_frames`
            members = np.intersect1d(members, _taken(train, allowed, "train", reporter))
        self.languages, self.dev_languages = (Languages.of(each.table.languages) for each in self.features.values())
        self._balance = config.train.balance
        # Each loader counts the other split's frames: either both splits stay on the device or neither.
        self.dev = Loader(dev, limits, device, short, other_frames=int(train.frames[members].sum()))
        self.train = Loader(train, limits, device, members, other_frames=self.dev.frames)

    def _recipe(self, config: Config, reporter: Reporter) -> Recipe:
        """Return what both splits are made with; warn where dev is heard otherwise than the config says."""
        recipes = [each.table.recipe for each in self.features.values()]
        if recipes[0] != recipes[1]:
            raise InputError(f"{config.data.dir}: train and dev are of two extractions", REMAKE)
        if (made := recipes[1].dereverb) != (now := config.decode.dereverb):
            said = f"dev was extracted with decode.dereverb={made}, now it is {now}"
            reporter.warn(f"{said}: run speechctc extract first, or dev PER is not what evaluate gives")
        return recipes[0]

    def members(self, seed: int) -> Indices:
        """Return the training utterances of the epoch with this seed."""
        return self.languages.draw(self.train.members, self._balance, seed)

    @cached_property
    def repeated(self) -> tuple[int, int]:
        """The number of utterances of dev whose labels are also trained on, and of all utterances of dev."""
        dev, train = (self.features[split].table.label_strings() for split in ("dev", "train"))
        return count_repeats(dev, train)

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

    def frequencies(self) -> list[int]:
        """Return how often each phone is among the training labels."""
        labels = [self.train.split.labels(index).numpy() for index in self.train.members.tolist()]
        return list(np.bincount(np.concatenate(labels), minlength=len(self.inventory.phones) + 1)[1:].tolist())

    @property
    def bytes_held(self) -> int:
        """Bytes of features on the device during training."""
        split = self.train.split
        return min(self._held, self.train.frames + self.dev.frames) * split.dims * split.dtype.itemsize


def _taken(split: Split, most: int, name: str, reporter: Reporter) -> Indices:
    """Return the utterances that a net of one's own takes: those of at most so many frames."""
    members = np.flatnonzero(split.frames <= most)
    if longer := [split.ids[index] for index in np.flatnonzero(split.frames > most)]:
        why = "longer than the net takes, model.longest, or would be when augment.speed slows them down"
        reporter.warn(f"{plural(len(longer), 'utterance')} of {name} left out, {why}: {first_few(longer, 3)}")
    if not len(members):
        raise InputError(f"every utterance of {name} is longer than the net takes", "raise longest of its OwnNet")
    return members


def _trainable(split: Split, stride: int, reporter: Reporter) -> Indices:
    """Return the utterances to train on: those with enough frames for their phones at the model's time stride."""
    if infeasible := split.infeasible(stride):
        named = ", ".join(split.ids[index] for index in infeasible[:3])
        why = f"too short for their phones at model.time_stride={stride}"
        reporter.warn(f"{plural(len(infeasible), 'utterance')} left out, {why}: {named}")
    members = np.setdiff1d(np.arange(len(split)), infeasible)
    if not len(members):
        what = f"no training utterance is long enough for its phones at a stride of {stride}"
        fix = "lower model.time_stride, or that of your OwnNet" if stride > 1 else "the labels are of other recordings"
        raise InputError(what, fix)
    return members
