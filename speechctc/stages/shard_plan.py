"""Plan the shards of a corpus: which utterances go into each, and the recipe it is made from.

A split is cut by the lengths in the files' headers, so that the same corpus always gives the same shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.config.schema import Config, FeatureConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.features.filterbank import frame_count
from speechctc.features.shards import Recipe, shard_path
from speechctc.phones.inventory import Inventory


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
    folder, total = config.data.dir / split, len(groups)
    return [
        ShardPlan(shard_path(folder, number, total), tuple(group), _recipe(group, phones, config))
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
    return Job(utterance, labels, frame_count(samples * config.sample_rate // rate, config))


def _recipe(jobs: Sequence[Job], phones: Inventory, config: Config) -> Recipe:
    return Recipe(config.features.model_dump(mode="json"), phones.name, phones.phones, source_digest(jobs, config))


def source_digest(jobs: Sequence[Job], config: Config) -> str:
    """Hash what a shard is made from, so that a changed recording or label is noticed."""
    digest = hashlib.sha256(
        f"{config.data.dtype} 0".encode()
    )  # as in all shards: without the 0, they would be made again
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
