"""Features of many utterances: made here, in worker processes, or by the workers of a Dask cluster.

Plan the shards of a corpus: which utterances go into each, and the recipe it is made from. A split is cut by the
lengths in the files' headers, so that the same corpus always gives the same shards.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.config.schema import Config, FeatureConfig
from speechctc.core.errors import InputError
from speechctc.core.workers import WorkerEnded, in_processes, on_cluster, shared_recording, versions
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.features.extractor import extractor
from speechctc.features.filterbank import Moments, static_features
from speechctc.features.shards import Recipe, read_shard, shard_path
from speechctc.inference.streaming import ActivityDetector
from speechctc.phones.inventory import Inventory

FEW = 64  # utterances; fewer than this take less time than the start of a worker process
AHEAD = 1 << 20  # frames that may wait in memory behind a recording that takes long
Result = tuple[NDArray[np.float32], Moments, float] | str


@dataclass(frozen=True)
class Job:
    """An utterance to extract.

    Attributes
    ----------
    utterance : Utterance
    labels : tuple of int
        Its phones as numbers.
    frames : int
        Its number of frames, by the header of its file.
    problem : str or None
        Why it cannot be extracted.
    """

    utterance: Utterance
    labels: tuple[int, ...]
    frames: int
    problem: str | None = None


@dataclass(frozen=True)
class ShardPlan:
    """A shard to write: its file, its utterances, and its recipe."""

    path: Path
    jobs: tuple[Job, ...]
    recipe: Recipe


def plan_split(corpus: Corpus, split: str, phones: Inventory, config: Config) -> list[ShardPlan]:
    """Cut a split into shards of at most ``data.shard_mib``, at least one."""
    jobs = [_job(utterance, phones, config.features) for utterance in corpus.splits[split]]
    width = 2 if config.data.dtype == "float16" else 4
    limit = config.data.shard_mib * 2**20 // (config.features.static_dims * width)
    groups: list[list[Job]] = [[]]
    frames = 0
    for job in jobs:
        if groups[-1] and frames + job.frames > limit:
            groups.append([])
            frames = 0
        groups[-1].append(job)
        frames += job.frames
    folder, total, features = config.data.dir / split, len(groups), config.features.model_dump(mode="json")
    return [
        ShardPlan(
            shard_path(folder, number, total),
            tuple(group),
            Recipe(features, phones.name, phones.phones, source_digest(group, config)),
        )
        for number, group in enumerate(groups)
    ]


def _job(utterance: Utterance, phones: Inventory, config: FeatureConfig) -> Job:
    try:
        labels = tuple(phones.encode(utterance.phones))
        samples, rate, _ = sound_file.info(utterance.audio)
    except InputError as error:
        return Job(utterance, (), 0, error.what)
    if utterance.stretch is not None:
        start, end = utterance.stretch
        samples = max(min(round(end * rate), samples) - round(start * rate), 0)
    return Job(utterance, labels, extractor(config).frames(samples * config.sample_rate // rate))


def source_digest(jobs: Sequence[Job], config: Config) -> str:
    """Hash what a shard is made from, so that a changed recording or label is noticed."""
    # all shards have the 0: without it, they would be made again
    digest = hashlib.sha256(f"{config.data.dtype} 0".encode())
    for job in jobs:
        try:
            status = job.utterance.audio.stat()
            stamp = [status.st_size, status.st_mtime_ns]
        except OSError:
            stamp = []
        channel = [] if job.utterance.channel is None else [job.utterance.channel]
        stretch = job.utterance.stretch or ()
        digest.update(json.dumps([job.utterance.id, *job.utterance.phones, stamp, *channel, *stretch]).encode())
    return digest.hexdigest()


def extract_one(job: Job, config: FeatureConfig) -> Result:
    """Return one utterance's static features, moments and seconds; or why it is skipped, in words."""
    if job.problem is not None:
        return job.problem
    try:
        wanted = job.utterance
        samples, seconds = sound_file.read(wanted.audio, config.sample_rate, wanted.channel, wanted.stretch)
    except InputError as error:
        return error.what
    try:
        static = static_features(torch.from_numpy(samples), config)
    except InputError as error:
        if config.code:  # of the user's own code: the recording may tell why
            raise InputError(f"{job.utterance.id}: {error.what}", error.fix) from None
        raise
    if len(static) == 0:
        return f"{job.utterance.audio}: {seconds * 1000:.0f} ms is shorter than one frame"
    return static.numpy(), Moments.of(static, config), seconds


@contextmanager
def extracted(jobs: Sequence[Job], config: Config) -> Iterator[Iterator[Result]]:
    """Offer `extract_one` of each job, in order; in processes if there is enough to do, or on a cluster.

    Raises
    ------
    InputError
        The cluster cannot be used, or workers were ended from outside.
    """
    try:
        with _workers(jobs, config) as results:
            yield results
    except WorkerEnded:
        fix = "run it again; data.workers=1 takes less memory"
        if config.data.cluster:
            fix = "run it again, when its scheduler and workers are up: what was made is kept"
        raise InputError("an extraction process was ended from outside", fix) from None


@contextmanager
def _workers(jobs: Sequence[Job], config: Config) -> Iterator[Iterator[Result]]:
    several = 1 if extractor(config.features).alone else os.cpu_count() or 1
    count = min(config.data.workers or several, max(len(jobs) // FEW, 1))
    if config.data.cluster and jobs:
        work = partial(_extract_shared, Path.cwd(), config.features)
        with on_cluster(config.data.cluster, work, jobs, versions, lambda job: job.frames, AHEAD) as results:
            yield results
    elif count == 1:
        yield (extract_one(job, config.features) for job in jobs)
    else:
        work_alone, preload = partial(_extract_alone, config=config.features), ["speechctc.stages.extract_work"]
        with in_processes(work_alone, jobs, count, lambda job: job.frames, AHEAD, preload) as results:
            yield results


def _extract_alone(job: Job, config: FeatureConfig) -> Result:
    """Extract in a worker process, with one thread."""
    torch.set_num_threads(1)
    return extract_one(job, config)


def _extract_shared(folder: Path, config: FeatureConfig, job: Job) -> Result:
    """Extract on another machine, which has the recordings under the same path; relative ones from `folder`.

    Raises
    ------
    InputError
        The recording is not on this machine.
    """
    given = job.utterance.audio
    if job.problem is not None:
        return job.problem
    audio = shared_recording(folder, given, "corpus")
    result = _extract_alone(replace(job, utterance=replace(job.utterance, audio=audio)), config)
    return result.replace(str(audio), str(given)) if isinstance(result, str) else result


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

    def problem(self, job: Job, static: NDArray[np.float32]) -> str:
        """Return why a recording is refused, or ``""``."""
        levels, kind = static, self._config.features
        if not extractor(kind).bands:  # they tell no level; those of log mel do
            kind = FeatureConfig(sample_rate=kind.sample_rate)
            if isinstance(again := extract_one(job, kind), str):
                return again
            levels = again[0]
        detector = ActivityDetector(kind, self._config.decode.min_modulation_db)
        if not np.concatenate([detector.push(levels), detector.finish()]).any():
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
