"""Features of many utterances: made here, in worker processes, or by the workers of a Dask cluster.

Plan the shards of a corpus: which utterances go into each, and the recipe it is made from. A split is cut by the
lengths in the files' headers, so that the same corpus always gives the same shards.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.config.schema import KINDS, Config, FeatureConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.workers import WorkerEnded, in_processes, on_cluster, shared_recording, versions
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.features.extractor import extractor
from speechctc.features.filterbank import Moments, static_features
from speechctc.features.shards import Recipe, shard_path
from speechctc.phones.inventory import Inventory

BY_CONTENT = "content "  # before the hash of a shard's sources; without it, it is of the files' sizes and times
MIN_PARALLEL_UTTERANCES = 64  # utterances; fewer than this take less time than the start of a worker process
MAX_AHEAD = 1 << 20  # frames that may wait in memory behind a recording that takes long
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
    """Hash what a shard is made from: the labels, and the bytes of the recordings, whatever their place and time."""
    digest = hashlib.sha256(config.data.dtype.encode())
    for job in jobs:
        wanted = job.utterance
        try:
            content = job.problem or _content(wanted.audio, _stamp(wanted.audio))
        except OSError as error:
            content = str(error)
        parts = [wanted.id, wanted.phones, content, wanted.channel, wanted.stretch]
        digest.update(json.dumps(parts).encode())
    return BY_CONTENT + digest.hexdigest()


@cache
def _content(path: Path, stamp: tuple[int, ...]) -> str:
    """Hash a file, once while its stamp stays: several utterances may be in it."""
    digest = hashlib.sha256()
    with open(files.readable(path), "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what differs after a file was changed or replaced on this machine."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


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
        if config.kind not in KINDS:  # of the user's own code: the recording may tell why
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
    count = min(config.data.workers or several, max(len(jobs) // MIN_PARALLEL_UTTERANCES, 1))
    if config.data.cluster and jobs:
        work = partial(_extract_shared, Path.cwd(), config.features)
        with on_cluster(config.data.cluster, work, jobs, versions, lambda job: job.frames, MAX_AHEAD) as results:
            yield results
    elif count == 1:
        yield (extract_one(job, config.features) for job in jobs)
    else:
        work_alone, preload = partial(_extract_alone, config=config.features), ["speechctc.stages.extract_work"]
        with in_processes(work_alone, jobs, count, lambda job: job.frames, MAX_AHEAD, preload) as results:
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
