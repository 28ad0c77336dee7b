"""What is not taken up among recordings without labels: no speech, and what dev and test are scored on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import Config
from speechctc.features.shards import read_shard
from speechctc.inference.streaming import ActivityDetector
from speechctc.stages.extract_work import ShardPlan

SAME = 0.5  # share of frames that make a recording one of dev or test
SILENT = "no speech: the level of no band changes as that of speech does"
HELD_OUT = "a recording of dev or test, by its content"

Keys = NDArray[np.uint64]


class Screen:
    """Refuses recordings without labels by their static features.

    Parameters
    ----------
    config : Config
    held : iterable of ShardPlan
        Shards of dev and test, which are made. They are compared frame by frame: static features do not depend on
        what is around a frame, so that a part of a recording, or a copy in another lossless format, is found too.
    """

    def __init__(self, config: Config, held: Iterable[ShardPlan]) -> None:
        self._config = config
        self._dtype = np.dtype(config.data.dtype)
        keys = [_keys(read_shard(plan.path, checked=True).static.numpy()) for plan in held]
        self._held = np.unique(np.concatenate([np.zeros(0, np.uint64), *keys]))

    def problem(self, static: NDArray[np.float32]) -> str:
        """Return why a recording is refused, or ``""``."""
        detector = ActivityDetector(self._config.features, self._config.decode.min_modulation_db)
        if not np.concatenate([detector.push(static), detector.finish()]).any():
            return SILENT
        own = np.unique(_keys(static.astype(self._dtype)))
        return HELD_OUT if np.isin(own, self._held).mean() > SAME else ""


def _keys(static: NDArray[np.float16] | NDArray[np.float32]) -> Keys:
    """Return a hash of each frame, by its bits."""
    bits = np.ascontiguousarray(static).view(f"u{static.dtype.itemsize}").astype(np.uint64)
    factors = np.random.default_rng(0).integers(1, 2**63, static.shape[1], dtype=np.uint64)
    mixed = bits * factors
    keys: Keys = (mixed ^ (mixed >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
    return keys


def beside(plan: ShardPlan, held: Iterable[ShardPlan]) -> ShardPlan:
    """Return the plan of a shard that is made again where the shards change that its recordings are compared with."""
    digest = hashlib.sha256("".join(each.recipe.sources for each in held).encode()).hexdigest()
    return replace(plan, recipe=replace(plan.recipe, sources=f"{plan.recipe.sources} {digest}"))


def nothing_left(source: Path | None, skipped: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return what is wrong, and what to do, where no recording is left."""
    reasons = {reason for _, reason in skipped}
    id, why = skipped[0]
    fix = "dev and test must stay apart: name others" if reasons == {HELD_OUT} else "name recordings of speech"
    return f"data.unlabelled={source}: no recording in it can be used; the first, {id}: {why}", fix
