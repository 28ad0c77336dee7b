"""The plan of an epoch, batches of similar length in chunks for each rank; and how far a run is in it.

A plan is numbers on the host and depends only on the seed, so that every rank knows what the others do, and a resumed
run continues with the same plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.training.sentinel import SPEAKS

Indices = NDArray[np.int64]
MAX_PADDING = 0.05  # as a fraction of a chunk's frames; batches are smaller where lengths differ more
LENGTH_JITTER = 0.02  # relative noise on lengths before sorting, so that batches differ between epochs
BLANK = 0.95  # share of blank frames of dev in the phase in which nets with CTC say nothing yet
FALL = 0.01  # share by which the dev loss falls in an epoch that taught something
MAX_RANKS = 1 << 16  # more than any run has; a damaged state can name any number
_PLAN = ("batch_size", "batch_frames", "chunk_frames", "ranks")


@dataclass(frozen=True)
class Limits:
    """Largest batch, in utterances and padded frames, and largest chunk, in frames."""

    batch_size: int
    batch_frames: int
    chunk_frames: int


@dataclass(frozen=True)
class ChunkPlan:
    """The utterances of a chunk, and its batches as indices of utterances."""

    utterances: Indices
    batches: list[Indices]


class EpochPlan:
    """The batches of all ranks in an epoch, step by step.

    Parameters
    ----------
    frames : ndarray, shape = (n_utterances,)
        Frames of every utterance of the split.
    members : ndarray
        The utterances to use; each appears in exactly one batch of one rank.
    limits : Limits
    seed : int or None
        Seed of the random order; None keeps the order of the split.
    ranks : int
        Number of processes that train together.

    Attributes
    ----------
    shares : list of list of ChunkPlan
        The chunks of each rank.
    steps : int
        Number of batches of the rank that has most; other ranks have none in the last steps.
    """

    def __init__(self, frames: Indices, members: Indices, limits: Limits, seed: int | None, ranks: int = 1) -> None:
        self.shares = [plan_epoch(frames, share, limits, seed) for share in _deal(frames, members, seed, ranks)]
        self.steps = max(sum(len(plan.batches) for plan in share) for share in self.shares)

    def batches(self, rank: int) -> list[Indices]:
        """Return a rank's batches, in order."""
        return [batch for plan in self.shares[rank] for batch in plan.batches]

    def done(self, steps: int) -> Indices:
        """Return the utterances that all ranks together have seen after `steps` steps."""
        seen = [batch for rank in range(len(self.shares)) for batch in self.batches(rank)[:steps]]
        return np.concatenate([np.zeros(0, dtype=np.int64), *seen])

    def totals(self, counts: Indices) -> Indices:
        """Return, for each step, the sum of `counts` (labels, for example) over the batches of all ranks."""
        sums = np.zeros(self.steps, dtype=np.int64)
        for rank in range(len(self.shares)):
            for step, batch in enumerate(self.batches(rank)):
                sums[step] += counts[batch].sum()
        return sums


def plan_epoch(frames: Indices, members: Indices, limits: Limits, seed: int | None) -> list[ChunkPlan]:
    """Cut one rank's epoch into chunks, and each chunk into batches of similar length.

    Parameters
    ----------
    frames : ndarray, shape = (n_utterances,)
        Frames of every utterance of the split.
    members : ndarray
        The utterances to use; each appears in exactly one batch.
    limits : Limits
        An utterance longer than a limit forms a batch, or a chunk, alone.
    seed : int or None
        Seed of the random order; None keeps the order of the split, sorted by length inside a chunk.
    """
    rng = None if seed is None else np.random.default_rng(seed)
    order = members if rng is None else rng.permutation(members)
    plans = []
    for chunk in _cut(order, frames, limits.chunk_frames, len(members), padded=False):
        lengths = frames[chunk].astype(np.float64)
        if rng is not None:
            lengths *= rng.uniform(1 - LENGTH_JITTER, 1 + LENGTH_JITTER, len(chunk))
        by_length = chunk[np.argsort(lengths, kind="stable")]
        batches = _batches(by_length, frames, limits)
        if rng is not None:
            rng.shuffle(batches)
        plans.append(ChunkPlan(chunk, batches))
    if rng is not None:
        rng.shuffle(plans)  # type: ignore[arg-type]  # a list is a mutable sequence to it
    return plans


def _deal(frames: Indices, members: Indices, seed: int | None, ranks: int) -> list[Indices]:
    """Assign the utterances to ranks at random, one of every `ranks` of similar length to each."""
    if ranks == 1:
        return [members]
    by_length = members[np.argsort(frames[members], kind="stable")]
    rounds = -(-len(members) // ranks)
    keys = np.random.default_rng(0 if seed is None else seed).random((rounds, ranks))
    turns = keys.argsort(axis=1).reshape(-1)[: len(members)]
    return [by_length[turns == rank] for rank in range(ranks)]


def _batches(by_length: Indices, frames: Indices, limits: Limits) -> list[Indices]:
    """Cut utterances, sorted by length, into batches; into smaller ones if the padding exceeds its limit."""
    batches = _cut(by_length, frames, limits.batch_frames, limits.batch_size, padded=True)
    padded = sum(int(frames[batch].max()) * len(batch) for batch in batches)
    if padded <= (1 + MAX_PADDING) * int(frames[by_length].sum()):
        return batches
    return _cut(by_length, frames, limits.batch_frames, limits.batch_size, padded=True, most_padding=MAX_PADDING)


def _cut(
    order: Indices, frames: Indices, limit: int, size: int, padded: bool, most_padding: float = np.inf
) -> list[Indices]:
    """Cut `order` into runs of at most `size` utterances and `limit` frames; `padded` counts padding as frames."""
    cuts = []
    longest = total = count = 0
    for position, length in enumerate(frames[order].tolist()):
        longest, total, count = max(longest, length), total + length, count + 1
        whole = longest * count if padded else total
        if position and (count > size or whole > limit or whole > (1 + most_padding) * total):
            cuts.append(position)
            longest, total, count = length, length, 1
    return [run for run in np.split(order, cuts) if len(run)]


@dataclass
class Progress:
    """How far a run is; equal on all ranks, except for the sums.

    Attributes
    ----------
    epoch, batch, step : int
        The epoch (from 0), the next batch in its plan, and the steps taken since the start of the run.
    stage_step : int
        Steps taken in the current stage.
    stale : int
        Epochs of this stage since the last new minimum of dev PER, without those in which a net that has said nothing
        yet still learns: its PER stays near 100 %, or it is chance.
    loss, phones : float
        Sums of losses and labels over the epoch so far.
    frames, seconds, waited : float
        Frames trained on in this epoch, the seconds it took, and the seconds of them spent waiting for data.
    elapsed : float
        Seconds of the whole run, over all its sessions.
    best_per, best_loss : float
        The lowest dev PER, and the lowest dev loss with it.
    lowest_loss : float
        The lowest dev loss.
    scored : int
        Value of `step` when dev was last scored.
    rate : float
        Learning rate of the last step; 0: there was none.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    stage_step: int = 0
    stale: int = 0
    loss: float = 0.0
    phones: float = 0.0
    frames: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0
    elapsed: float = 0.0
    best_per: float = math.inf
    best_loss: float = math.inf
    lowest_loss: float = math.inf
    scored: int = 0
    rate: float = 0.0

    def next_step(self, batches: int, phones: float, frames: float, rate: float) -> None:
        """Count one step with this many batches, labels and frames, at this learning rate."""
        self.rate = rate
        self.batch, self.step, self.stage_step = self.batch + batches, self.step + 1, self.stage_step + 1
        self.phones, self.frames = self.phones + phones, self.frames + frames

    def next_epoch(self) -> None:
        """Move to the start of the next epoch."""
        self.epoch, self.batch = self.epoch + 1, 0
        self.loss = self.phones = self.frames = self.seconds = self.waited = 0.0

    def score(self, per: float, loss: float, blank_share: float) -> bool:
        """Record an epoch's scores on dev; return whether it is the best so far, by PER, then by loss."""
        says_nothing = min(per, self.best_per) >= SPEAKS
        is_learning = blank_share > BLANK or loss < (1 - FALL) * self.lowest_loss
        if per < self.best_per:
            self.stale = 0
        elif not (says_nothing and is_learning):
            self.stale += 1
        better = (per, loss) < (self.best_per, self.best_loss)
        if better:
            self.best_per, self.best_loss = per, loss if math.isfinite(loss) else math.inf
        self.lowest_loss = min(self.lowest_loss, loss)
        self.scored = self.step
        return better

    def is_out_of_time(self, minutes: float) -> bool:
        """Return whether the run has taken this many minutes; 0 stands for no limit."""
        return bool(minutes) and self.elapsed >= 60 * minutes

    def to_tensors(self) -> dict[str, Tensor]:
        """Return each counter as a float64 scalar, ``progress.<name>``."""
        return {f"progress.{name}": torch.tensor(value, dtype=torch.float64) for name, value in vars(self).items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Progress:
        """Undo `to_tensors`."""
        return cls(**{name: type(default)(tensors[f"progress.{name}"].item()) for name, default in vars(cls()).items()})


@dataclass(frozen=True)
class ResumeState:
    """What resuming a run needs besides the state of the train step.

    Attributes
    ----------
    progress : Progress
    stage : int
    remaining : ndarray
        Utterances that the current epoch's plan covers: all, or, if the number of ranks or the size of chunks changed
        within the epoch, those that were not done then.
    limits : Limits
    ranks : int
        Number of ranks and batch limits that the plan was made with.
    ended : tuple of int
        Of each stage that ``train.patience`` ended, how many epochs it had; 0 of others.
    """

    progress: Progress
    stage: int
    remaining: Indices
    limits: Limits
    ranks: int
    ended: tuple[int, ...] = ()

    def not_done(self, frames: Indices, seed: int) -> Indices:
        """Return the utterances of the epoch that are still to be trained on."""
        plan = EpochPlan(frames, self.remaining, self.limits, seed, self.ranks)
        return np.setdiff1d(self.remaining, plan.done(self.progress.batch))

    def to_tensors(self, utterances: int) -> dict[str, Tensor]:
        """Return the state as tensors; `utterances` is the size of the split."""
        left = torch.zeros(utterances, dtype=torch.uint8)
        left[torch.from_numpy(self.remaining)] = 1
        numbers = vars(self.limits) | {"ranks": self.ranks}
        plan = {f"plan.{name}": torch.tensor(value) for name, value in numbers.items()}
        ended = torch.tensor(self.ended, dtype=torch.int64)
        return self.progress.to_tensors() | {"stage": torch.tensor(self.stage), "ended": ended, "left": left, **plan}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], utterances: int) -> ResumeState:
        """Undo `to_tensors`.

        Raises
        ------
        LookupError, ValueError, TypeError, RuntimeError, ArithmeticError
            The tensors are not the state of a run on a split with this many utterances.
        """
        plan = {name: int(tensors[f"plan.{name}"]) for name in _PLAN}
        ranks = plan.pop("ranks")
        left = np.flatnonzero(tensors["left"].numpy()).astype(np.int64)
        if tensors["left"].shape != (utterances,):
            raise ValueError(f"its plan has {len(tensors['left'].flatten())} utterances, the split {utterances}")
        progress, stage = Progress.of(tensors), int(tensors["stage"])
        counters = [value for name, value in vars(progress).items() if name != "loss"]
        are_counters = all(value >= 0 for value in [*counters, stage])  # false of NaN
        if not are_counters or min(plan.values()) < 1 or not 1 <= ranks <= MAX_RANKS:
            raise ValueError("its counters are out of range")
        return cls(progress, stage, left, Limits(**plan), ranks, tuple(tensors["ended"].tolist()))
