"""Extract the features of a corpus into shards.

A shard that exists and was made from the same recordings, labels and config is kept, so that an interrupted extraction
continues where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from speechctc.config.schema import Config
from speechctc.core import files, written
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.extraction_report import (
    report_phones,
    report_recordings,
    write_languages,
    write_pronunciations,
    write_utterances,
)
from speechctc.corpora.registry import read_corpus
from speechctc.features.shards import OTHER_FOLDER, Extracted, Recipe, check_features, read_shard, write_shard
from speechctc.phones.inventory import Inventory
from speechctc.stages.extract_work import extracted
from speechctc.stages.realign import realign
from speechctc.stages.shard_plan import ShardPlan, plan_split, source_digest


@dataclass(frozen=True)
class SplitSummary:
    """What was extracted from a split: counts, hours of speech, and each utterance skipped with the reason."""

    split: str
    utterances: int
    frames: int
    hours: float
    skipped: tuple[tuple[str, str], ...]

    def to_text(self, most: int = 10) -> str:
        """Return the report for people, naming at most `most` skipped utterances."""
        lines = [
            f"{self.split}: {self.utterances} utterances, {self.frames:,} frames, {self.hours:.2f} h"
            f"; {len(self.skipped)} skipped"
        ]
        lines += [f"  skipped {id}: {reason}" for id, reason in self.skipped[:most]]
        if len(self.skipped) > most:
            lines.append(f"  and {len(self.skipped) - most} more, listed in skipped.tsv")
        return "\n".join(lines)


def extract(config: Config, reporter: Reporter, model: Path | None = None) -> list[SplitSummary]:
    """Extract every split of the config's corpus into ``data.dir``.

    Parameters
    ----------
    config : Config
    reporter : Reporter
    model : Path, optional
        A model that chooses among the pronunciations of words; see `speechctc.stages.realign.realign`.

    Raises
    ------
    InputError
        There is no corpus, nothing in its training split can be used, or ``data.dir`` holds features made with
        another config, or a link in the place of a split.
    """
    began = time.monotonic()
    corpus = read_corpus(config.corpus)
    for note in corpus.notes:
        reporter.note(note)
    for warning in corpus.warnings:
        reporter.warn(warning)
    report_recordings(corpus, reporter)
    phones = corpus.inventory()
    if model is not None:
        corpus = realign(corpus, config, model, reporter)
    for split in corpus.splits:
        written.refuse_linked_folder(config.data.dir / split)
    plans = {split: plan_split(corpus, split, phones, config) for split in corpus.splits}
    for plan in (plan for split in plans.values() for plan in split):
        _refuse_other_config(plan)
    done, seconds = _make([plan for split in plans.values() for plan in split], config, reporter)
    _drop_stale(config.data.dir, {plan.path for split in plans.values() for plan in split})
    summaries = [_summarise(split, plans[split], corpus) for split in plans]
    _write_skipped(config.data.dir, summaries)
    write_utterances(config.data.dir, corpus)
    write_languages(config.data.dir, corpus)
    report_phones(config.data.dir, phones, {split: _count(plans[split], phones) for split in plans}, reporter)
    if corpus.words:
        reporter.note(write_pronunciations(config.data.dir, corpus))
    elapsed = time.monotonic() - began
    kept = sum(len(plan.jobs) for split in plans.values() for plan in split) - done
    reporter.note(f"{done} utterances extracted, {kept} there already; {elapsed:.1f} s, " + _speed(seconds, elapsed))
    if not summaries[0].utterances:
        first = summaries[0].skipped[0]
        raise InputError(
            f"no utterance of the training split can be used; the first, {first[0]}: {first[1]}", "mend it"
        )
    return summaries


def _refuse_other_config(plan: ShardPlan) -> None:
    """Raise an `InputError` if the folder has features of another config: they may have taken hours to extract."""
    folder = plan.path.parent
    for path in sorted(folder.glob("*.safetensors"))[:1]:
        try:
            shard = read_shard(path, checked=True)
        except InputError:
            continue  # damaged: it is extracted again
        check_features(shard, plan.recipe.features)
        if shard.recipe.phones != plan.recipe.phones:
            raise InputError(f"{path}: made with another phone set", OTHER_FOLDER)


def _make(plans: Sequence[ShardPlan], config: Config, reporter: Reporter) -> tuple[int, float]:
    """Write the shards that are missing; return the number of their utterances, and seconds of speech."""
    todo = [plan for plan in plans if not _is_made(plan)]
    jobs = [job for plan in todo for job in plan.jobs]
    seconds = 0.0
    with extracted(jobs, config) as results, reporter.progress("extracting", len(jobs)) as advance:
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


def _recipe_of_made(plan: ShardPlan, config: Config) -> Recipe:
    """Return the plan's recipe; if a recording vanished or changed meanwhile, one that the next run replaces."""
    is_same = source_digest(plan.jobs, config) == plan.recipe.sources
    return plan.recipe if is_same else replace(plan.recipe, sources="changed while it was made")


def _is_made(plan: ShardPlan) -> bool:
    try:
        return read_shard(plan.path).recipe == plan.recipe
    except InputError:
        return False


def _drop_stale(folder: Path, wanted: set[Path]) -> None:
    """Remove the shards of earlier extractions into this folder that the new ones replace."""
    for split in {path.parent for path in wanted}:
        for path in split.glob("*.safetensors"):
            if path not in wanted:
                path.unlink()


def _summarise(split: str, plans: Sequence[ShardPlan], corpus: Corpus) -> SplitSummary:
    shards = [read_shard(plan.path, checked=True) for plan in plans]  # just written, or checked by _is_made
    rejected = [(entry.id, entry.reason) for entry in corpus.rejected.get(split, ())]
    return SplitSummary(
        split=split,
        utterances=sum(len(shard.ids) for shard in shards),
        frames=sum(int(shard.frames.sum()) for shard in shards),
        hours=sum(shard.seconds for shard in shards) / 3600,
        skipped=tuple(rejected + [entry for shard in shards for entry in shard.skipped]),
    )


def _count(plans: Sequence[ShardPlan], phones: Inventory) -> list[int]:
    """Return the number of times that each phone of the set occurs in a split."""
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
