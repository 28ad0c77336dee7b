"""The first stage: a corpus's recordings to features in shards.

Each split is cut into shards of bounded size by the lengths in the files' headers, so that the cut is the same from
run to run: a shard that is there already and was made from the same recordings, labels and config is kept, and an
extraction that was interrupted goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.config.schema import Config, FeatureConfig
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.report import report_phones, report_recordings
from speechctc.errors import InputError
from speechctc.features.filterbank import Moments, frame_count, static_features
from speechctc.features.shards import (
    OTHER_FOLDER,
    Extracted,
    Recipe,
    check_features,
    frames_needed,
    read_shard,
    shard_path,
    write_shard,
)
from speechctc.phones.inventory import Inventory
from speechctc.progress import Reporter
from speechctc.storage import files
from speechctc.workers import WorkerEnded, in_processes

FEW = 64  # fewer utterances than this are done faster than worker processes start
AHEAD = 1 << 20  # frames that may wait in memory behind a recording that takes long


@dataclass(frozen=True)
class Job:
    """One utterance on its way through a worker: what to read, and its labels as numbers (or why it cannot be)."""

    utterance: Utterance
    labels: tuple[int, ...]
    frames: int
    problem: str | None = None


@dataclass(frozen=True)
class Plan:
    """One shard to be: its file, its jobs, and the recipe it must have been made with."""

    path: Path
    jobs: tuple[Job, ...]
    recipe: Recipe


@dataclass(frozen=True)
class SplitSummary:
    """What a split came to: counts, hours of speech, and each utterance left out with the reason."""

    split: str
    utterances: int
    frames: int
    hours: float
    skipped: tuple[tuple[str, str], ...]

    def to_text(self, most: int = 10) -> str:
        """Return the report for people, naming at most so many of those left out."""
        lines = [
            f"{self.split}: {self.utterances} utterances, {self.frames:,} frames, {self.hours:.2f} h"
            f"; {len(self.skipped)} skipped"
        ]
        lines += [f"  skipped {id}: {reason}" for id, reason in self.skipped[:most]]
        if len(self.skipped) > most:
            lines.append(f"  and {len(self.skipped) - most} more, listed in skipped.tsv")
        return "\n".join(lines)


def extract(config: Config, reporter: Reporter) -> list[SplitSummary]:
    """Extract every split of the config's corpus into ``data.dir``.

    Raises
    ------
    InputError
        There is no corpus, nothing in its training split can be used, or ``data.dir`` holds features made with
        another config.
    """
    began = time.monotonic()
    corpus = read_corpus(config.corpus)
    for note in corpus.notes:
        reporter.note(note)
    for warning in corpus.warnings:
        reporter.warn(warning)
    report_recordings(corpus, reporter)
    phones = corpus.inventory()
    plans = {split: plan_split(corpus, split, phones, config) for split in corpus.splits}
    for plan in (plan for split in plans.values() for plan in split):
        _refuse_other_config(plan)
    done, seconds = _make([plan for split in plans.values() for plan in split], config, reporter)
    _drop_stale(config.data.dir, {plan.path for split in plans.values() for plan in split})
    summaries = [_summarise(split, plans[split], corpus) for split in plans]
    _write_skipped(config.data.dir, summaries)
    report_phones(config.data.dir, phones, {split: _count(plans[split], phones) for split in plans}, reporter)
    elapsed = time.monotonic() - began
    kept = sum(len(plan.jobs) for split in plans.values() for plan in split) - done
    reporter.note(f"{done} utterances extracted, {kept} there already; {elapsed:.1f} s, " + _speed(seconds, elapsed))
    if not summaries[0].utterances:
        first = summaries[0].skipped[0]
        raise InputError(
            f"no utterance of the training split can be used; the first, {first[0]}: {first[1]}", "mend it"
        )
    return summaries


def plan_split(corpus: Corpus, split: str, phones: Inventory, config: Config) -> list[Plan]:
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
    stride = config.model.time_stride if split == "train" else 0
    return [
        Plan(shard_path(folder, k, total), tuple(group), _recipe(group, phones, config, stride))
        for k, group in enumerate(groups)
    ]


def extract_one(job: Job, config: FeatureConfig, stride: int) -> tuple[NDArray[np.float32], Moments, float] | str:
    """Return one utterance's static features, moments and seconds; or why it is skipped, in words.

    A `stride` above 0 (frames of input per frame of the net's output) asks that its phones fit into its frames.
    """
    if job.problem is not None:
        return job.problem
    try:
        samples, seconds = sound_file.read(job.utterance.audio, config.sample_rate, job.utterance.channel)
    except InputError as error:
        return error.what
    static = static_features(torch.from_numpy(samples), config)
    frames, needed = static.shape[0], frames_needed(job.labels)
    if frames == 0:
        return f"{job.utterance.audio}: {seconds * 1000:.0f} ms is shorter than one frame"
    if stride and -(-frames // stride) < needed:
        return f"too short for its phones: {len(job.labels)} phones need {needed * stride} frames, it has {frames}"
    return static.numpy(), Moments.of(static, config), seconds


def _job(utterance: Utterance, phones: Inventory, config: FeatureConfig) -> Job:
    try:
        labels = tuple(phones.encode(utterance.phones))
        samples, rate, _ = sound_file.info(utterance.audio)
    except InputError as error:
        return Job(utterance, (), 0, error.what)
    return Job(utterance, labels, frame_count(samples * config.sample_rate // rate, config))


def _recipe(jobs: Sequence[Job], phones: Inventory, config: Config, stride: int) -> Recipe:
    sources = _sources(jobs, config, stride)
    return Recipe(config.features.model_dump(mode="json"), phones.name, phones.phones, sources)


def _sources(jobs: Sequence[Job], config: Config, stride: int) -> str:
    """Digest what the shard is made from, so that a changed recording, label or rule is noticed."""
    digest = hashlib.sha256(f"{config.data.dtype} {stride}".encode())
    for job in jobs:
        try:
            status = job.utterance.audio.stat()
            stamp = [status.st_size, status.st_mtime_ns]
        except OSError:
            stamp = []
        channel = [] if job.utterance.channel is None else [job.utterance.channel]
        digest.update(json.dumps([job.utterance.id, *job.utterance.phones, stamp, *channel]).encode())
    return digest.hexdigest()


def _refuse_other_config(plan: Plan) -> None:
    """Features of another config are not overwritten: they may have cost hours."""
    folder = plan.path.parent
    for path in sorted(folder.glob("*.safetensors"))[:1]:
        try:
            shard = read_shard(path, checked=True)
        except InputError:
            continue  # damaged: it will be made again
        check_features(shard, plan.recipe.features)
        if shard.recipe.phones != plan.recipe.phones:
            raise InputError(f"{path}: made with another phone set", OTHER_FOLDER)


def _make(plans: Sequence[Plan], config: Config, reporter: Reporter) -> tuple[int, float]:
    """Make the shards that are missing; return how many utterances that took, and their seconds of speech."""
    todo = [plan for plan in plans if not _is_made(plan)]
    jobs = [job for plan in todo for job in plan.jobs]
    seconds = 0.0
    with _extracted(jobs, todo, config) as results, reporter.progress("extracting", len(jobs)) as advance:
        for plan in todo:
            made: list[Extracted] = []
            skipped: list[tuple[str, str]] = []
            for job in plan.jobs:
                result = next(results)
                advance(1)
                if isinstance(result, str):
                    skipped.append((job.utterance.id, result))
                    continue
                static, moments, duration = result
                seconds += duration
                made.append(Extracted(job.utterance.id, torch.from_numpy(static), job.labels, moments, duration))
            write_shard(plan.path, made, skipped, _recipe_of_made(plan, config), getattr(torch, config.data.dtype))
    return len(jobs), seconds


def _recipe_of_made(plan: Plan, config: Config) -> Recipe:
    """Return the plan's recipe, or, if a recording vanished or changed meanwhile, one that the next run makes again."""
    is_same = _sources(plan.jobs, config, _stride(plan, config)) == plan.recipe.sources
    return plan.recipe if is_same else replace(plan.recipe, sources="changed while it was made")


def _stride(plan: Plan, config: Config) -> int:
    return config.model.time_stride if plan.path.parent.name == "train" else 0


Result = tuple[NDArray[np.float32], Moments, float] | str


@contextmanager
def _extracted(jobs: Sequence[Job], plans: Sequence[Plan], config: Config) -> Iterator[Iterator[Result]]:
    """Run `extract_one` over the jobs, in order; in worker processes where there is enough to do."""
    strides = [_stride(plan, config) for plan in plans for _ in plan.jobs]
    tasks = [_Task(job, config.features, stride) for job, stride in zip(jobs, strides, strict=True)]
    workers = min(config.data.workers or os.cpu_count() or 1, max(len(jobs) // FEW, 1))
    if workers == 1:
        yield map(_extract_task, tasks)
        return
    preload = ["speechctc.stages.extract"]
    try:
        with in_processes(_extract_alone, tasks, workers, lambda task: task.job.frames, AHEAD, preload) as results:
            yield results
    except WorkerEnded:
        raise InputError(
            "an extraction process was ended from outside", "run it again; data.workers=1 takes less memory"
        ) from None


class _Task(NamedTuple):
    job: Job
    features: FeatureConfig
    stride: int


def _extract_task(task: _Task) -> Result:
    return extract_one(*task)


def _extract_alone(task: _Task) -> Result:
    """Extract in a worker process: one thread each."""
    torch.set_num_threads(1)
    return extract_one(*task)


def _is_made(plan: Plan) -> bool:
    try:
        return read_shard(plan.path).recipe == plan.recipe
    except InputError:
        return False


def _drop_stale(folder: Path, wanted: set[Path]) -> None:
    """Remove shards of an earlier cut of the same splits, now that the new ones stand."""
    for split in {path.parent for path in wanted}:
        for path in split.glob("*.safetensors"):
            if path not in wanted:
                path.unlink()


def _summarise(split: str, plans: Sequence[Plan], corpus: Corpus) -> SplitSummary:
    shards = [read_shard(plan.path, checked=True) for plan in plans]  # written now, or checked by _is_made
    rejected = [(entry.id, entry.reason) for entry in corpus.rejected.get(split, ())]
    return SplitSummary(
        split=split,
        utterances=sum(len(shard.ids) for shard in shards),
        frames=sum(int(shard.frames.sum()) for shard in shards),
        hours=sum(shard.seconds for shard in shards) / 3600,
        skipped=tuple(rejected + [entry for shard in shards for entry in shard.skipped]),
    )


def _count(plans: Sequence[Plan], phones: Inventory) -> list[int]:
    """Return how often each phone of the set occurs in a split's shards."""
    counts = torch.zeros(1 + len(phones.phones), dtype=torch.int64)
    for plan in plans:
        counts += torch.bincount(read_shard(plan.path, checked=True).labels, minlength=len(counts))
    return [int(count) for count in counts[1:]]


def _write_skipped(folder: Path, summaries: Sequence[SplitSummary]) -> None:
    rows = [f"{s.split}\t{id}\t{reason}\n" for s in summaries for id, reason in s.skipped]
    text = "split\tid\treason\n" + "".join(rows)
    files.write_text(folder / "skipped.tsv", text)


def _speed(seconds: float, elapsed: float) -> str:
    return f"{seconds / elapsed:,.0f} times real time" if seconds else "nothing to do"
