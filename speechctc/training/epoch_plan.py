"""Plan an epoch: deal utterances to ranks, cut them into chunks, group them into batches of similar length.

A plan is numbers on the host and depends only on the seed, so that every rank knows what the others do, and a resumed
run continues with the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
MAX_PADDING = 0.05  # as a fraction of a chunk's frames; batches are smaller where lengths differ more
LENGTH_JITTER = 0.02  # relative noise on lengths before sorting, so that batches differ between epochs


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
