"""Extract the features of a corpus into shards.

A shard that exists and was made from the same recordings, labels and config is kept, so that an interrupted extraction
continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.dereverberation import When, as_decoded
from speechctc.audio.sound_file import channels_differ
from speechctc.config.schema import KINDS, Config, FeatureConfig
from speechctc.core import files, written
from speechctc.core.cluster import on_cluster, shared_recording
from speechctc.core.dispatch import ClusterRun, LostItem
from speechctc.core.errors import InputError, counted, counted_alike, first_few, plural, printable
from speechctc.core.parallel import WorkerEnded, attempt, in_processes
from speechctc.core.progress import Reporter
from speechctc.core.text_files import tsv
from speechctc.corpora.corpus import LANGUAGES_FILE, PHONES_FILE, SPLITS, Corpus, Utterance, write_languages
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.tiers import without_drafts
from speechctc.features.extractor import extractor
from speechctc.features.filterbank import Moments, static_features
from speechctc.features.shards import (
    OTHER_FOLDER,
    Extracted,
    Recipe,
    Shard,
    check_features,
    count_phones,
    read_shard,
    shard_path,
    write_shard,
)
from speechctc.phones.inventory import Inventory
from speechctc.phones.pronouncer import word_key
from speechctc.stages.doctor import check_counts, listed

LISTED = 40  # phones printed with their counts; all are in the file
COMPARED = 10  # recordings whose channels are compared: those of one corpus are usually alike
UTTERANCES = "utterances.tsv"
WORDS_FILE = "pronunciations.dict"
MIN_PARALLEL_UTTERANCES = 64  # utterances; fewer than this take less time than the start of a worker process
MAX_AHEAD = 1 << 20  # frames that may wait in memory behind a recording that takes long
Result = tuple[NDArray[np.float32], Moments, float] | str


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
        counts = f"{plural(self.utterances, 'utterance')}, {self.frames:,} frames, {self.hours:.2f} h"
        lines = [f"{self.split}: {counts}; {len(self.skipped)} skipped"]
        lines += [printable(f"  skipped {id}: {reason}") for id, reason in self.skipped[:most]]
        if len(self.skipped) > most:
            lines.append(f"  and {len(self.skipped) - most} more, listed in skipped.tsv")
        return "\n".join(lines)


def extract(config: Config, reporter: Reporter) -> list[SplitSummary]:
    """Extract every split of the config's corpus into ``data.dir``.

    Parameters
    ----------
    config : Config
    reporter : Reporter

    Raises
    ------
    InputError
        There is no corpus, nothing in its training split can be used, or ``data.dir`` holds features made with
        another config, or a link in the place of a split.
    """
    began = time.monotonic()
    extractor(config.features).check(config)  # as training will, which comes hours later
    corpus = read_corpus(config.corpus)
    reporter.note(*corpus.notes)
    reporter.warn(*corpus.warnings)
    report_recordings(corpus, reporter)
    phones = corpus.inventory()
    plans = _plans(corpus, phones, config)
    done, seconds = _make([plan for split in SPLITS for plan in plans[split]], config, reporter)
    _drop_stale({plan.path for split in plans.values() for plan in split})
    summaries = [_summarise(split, plans[split], corpus) for split in plans]
    skipped = [(summary.split, *entry) for summary in summaries for entry in summary.skipped]
    _write_table(config.data.dir / "skipped.tsv", ("split", "id", "reason"), skipped)
    write_utterances(config.data.dir, corpus)
    _write_languages(config.data.dir, corpus)
    counts = {split: count_phones(_shards(plans[split]), phones.phones) for split in SPLITS}
    report_phones(config.data.dir, phones, counts, reporter)
    if corpus.words:
        reporter.note(write_pronunciations(config.data.dir, corpus, not isinstance(config.corpus.language, str)))
    elapsed = time.monotonic() - began
    kept = sum(len(plan.jobs) for split in plans.values() for plan in split) - done
    speed = f"{seconds / elapsed:,.0f} times real time" if seconds else "nothing to do"
    reporter.note(f"{plural(done, 'utterance')} extracted, {kept} there already; {elapsed:.1f} s, {speed}")
    if not summaries[0].utterances:
        first = summaries[0].skipped[0]
        raise InputError(
            f"no utterance of the training split can be used; the first, {first[0]}: {first[1]}", "mend it"
        )
    return summaries


def _plans(corpus: Corpus, phones: Inventory, config: Config) -> dict[str, list[ShardPlan]]:
    """Return the shards of each split; what is in their place already must be theirs."""
    for split in corpus.splits:
        written.refuse_linked_folder(config.data.dir / split)
    plans = {split: plan_split(corpus, split, phones, config) for split in corpus.splits}
    for first, *_ in plans.values():
        _check_folder(first)
    return plans


def _check_folder(plan: ShardPlan) -> None:
    """Raise an `InputError` if the folder has features of another config: they may have taken hours to extract."""
    folder = plan.path.parent
    for path in sorted(folder.glob("*.safetensors"))[:1]:
        shard = attempt(partial(read_shard, checked=True), path)
        if isinstance(shard, InputError):
            continue  # damaged: it is extracted again
        check_features(shard, plan.recipe.features)
        if shard.recipe.phones != plan.recipe.phones:
            raise InputError(f"{path}: made with another phone set", OTHER_FOLDER)


def _make(plans: Sequence[ShardPlan], config: Config, reporter: Reporter) -> tuple[int, float]:
    """Write the missing shards; return the number of utterances, and seconds of speech."""
    todo = [plan for plan in plans if not _is_made(plan)]
    jobs = [job for plan in todo for job in plan.jobs]
    seconds = 0.0
    with extracted(jobs, config, reporter) as results, reporter.progress("extracting", len(jobs)) as advance:
        for plan in todo:
            made: list[Extracted] = []
            skipped: list[tuple[str, str]] = []
            is_whole = True
            for job in plan.jobs:
                result = next(results)
                advance(1)
                if isinstance(result, str | LostItem):
                    is_whole &= isinstance(result, str)
                    skipped.append((job.utterance.id, str(result)))
                    continue
                static, moments, duration = result
                seconds += duration
                _refuse_too_large(job, static, config)
                made.append(Extracted(job.utterance.id, torch.from_numpy(static), job.labels, moments, duration))
            is_same = is_whole and plan.recipe.sources == source_digest(plan.jobs, config)
            # of a recording that no machine could read, vanished or changed: the next run makes the shard again
            recipe = plan.recipe if is_same else replace(plan.recipe, sources="changed while it was made")
            write_shard(plan.path, made, skipped, recipe, getattr(torch, config.data.dtype))
    return len(jobs), seconds


def _refuse_too_large(job: Job, static: NDArray[np.float32], config: Config) -> None:
    """Raise an `InputError` for values that ``data.dtype`` cannot hold, as features of a user's own may have."""
    if not (most := np.abs(static).max()) <= np.finfo(config.data.dtype).max:
        what = f"{job.utterance.id}: a feature of {most:.3g}, which data.dtype={config.data.dtype} cannot hold"
        raise InputError(what, "set data.dtype=float32, or give smaller values, as their logarithm")


def _is_made(plan: ShardPlan) -> bool:
    shard = attempt(read_shard, plan.path)
    return isinstance(shard, Shard) and shard.recipe == plan.recipe


def _drop_stale(wanted: set[Path]) -> None:
    """Remove the shards of earlier extractions into the same folders that the new ones replace."""
    for split in {path.parent for path in wanted}:
        for path in split.glob("*.safetensors"):
            if path not in wanted:
                path.unlink()


def _shards(plans: Sequence[ShardPlan]) -> list[Shard]:
    """Return the shards of plans, which were just written, or checked by `_is_made`."""
    return [read_shard(plan.path, checked=True) for plan in plans]


def _summarise(split: str, plans: Sequence[ShardPlan], corpus: Corpus) -> SplitSummary:
    shards = _shards(plans)
    rejected = [(entry.id, entry.reason) for entry in without_drafts(corpus.rejected.get(split, ()))]
    return SplitSummary(
        split=split,
        utterances=sum(len(shard.ids) for shard in shards),
        frames=sum(int(shard.frames.sum()) for shard in shards),
        hours=sum(shard.seconds for shard in shards) / 3600,
        skipped=tuple(rejected + [entry for shard in shards for entry in shard.skipped]),
    )


def _write_table(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]], wanted: bool = True) -> None:
    """Write a table, or remove an earlier one if none is wanted."""
    if wanted:
        files.write_text(path, tsv([head, *rows]))
    else:
        path.unlink(missing_ok=True)


def report_phones(folder: Path, phones: Inventory, counts: Mapping[str, Counter[str]], reporter: Reporter) -> None:
    """Write how often each phone occurs in each split; print a summary and what the doctor finds.

    Parameters
    ----------
    folder : Path
        The folder of ``phones.tsv``, which gets a line for each phone with its count in each split.
    phones : Inventory
    counts : mapping of str to Counter of str
        By split, the count of each phone.
    reporter : Reporter
    """
    table = folder / PHONES_FILE
    rows = ((phone, *(each[phone] for each in counts.values())) for phone in phones.phones)
    _write_table(table, ("phone", *counts), rows)
    reporter.note(f"phones and their counts in train: {counted(counts['train'], LISTED)}; all in {table}")
    reporter.warn(*(finding.to_line() for finding in check_counts(counts)))
    if unused := [phone for phone in phones.phones if not any(each[phone] for each in counts.values())]:
        reporter.note(f"phones of {phones.name} that do not occur: {first_few(unused, LISTED)}")


def write_utterances(folder: Path, corpus: Corpus) -> None:
    """Write ``utterances.tsv``, where each utterance lies in its recording, if some are cut from one or have words."""
    rows = []
    for split, each in ((split, each) for split, part in corpus.splits.items() for each in part):
        start, end = ("", "") if each.stretch is None else map("{:.4f}".format, each.stretch)
        fields = (split, each.id, each.audio, start, end, each.speaker, " ".join(each.phones), " ".join(each.words))
        rows.append(fields)
    wanted = any(utterance.stretch or utterance.words for utterance in corpus.utterances())
    _write_table(folder / UTTERANCES, "split id audio start end speaker phones words".split(), rows, wanted)


def _write_languages(folder: Path, corpus: Corpus) -> None:
    """Write the language of each utterance, if there are several: training balances epochs by it, and scores by it."""
    rows = [(split, each.id, each.trait("language")) for split, part in corpus.splits.items() for each in part]
    if len({language for *_, language in rows}) > 1:
        write_languages(folder / LANGUAGES_FILE, rows)
    else:
        (folder / LANGUAGES_FILE).unlink(missing_ok=True)


def write_pronunciations(folder: Path, corpus: Corpus, by_language: bool) -> str:
    """Write the words of a corpus with the pronunciations that its labels have, as a dictionary.

    A file that a person changed is kept. One that an earlier extraction wrote, and that is of no use now, is removed.

    Parameters
    ----------
    folder : Path
    corpus : Corpus
    by_language : bool
        Words were read in the language of their row: each language gets a dictionary, as words may be in several.

    Returns
    -------
    str
        What was written, for the user.
    """
    counts: dict[str, Counter[tuple[str, tuple[str, ...]]]] = defaultdict(Counter)
    languages = {each.id: each.trait("language") for each in corpus.utterances()} if by_language else {}
    several = len(set(languages.values())) > 1
    for id, words in (corpus.words or {}).items():
        of_language = counts[languages.get(id, "") if several else ""]
        of_language.update((word_key(word.text), word.pronunciations[0]) for word in words)
    texts = {folder / _words_file(language): _dictionary(each) for language, each in counts.items()}
    there = [path for path in folder.glob(WORDS_FILE.replace(".", "*.")) if path not in texts]
    for path in set(there) - set(written.changed(there)):
        path.unlink()
    kept = written.changed(texts)
    for path in texts.keys() - set(kept):
        written.write_text(path, texts[path])
    count = len({word for each in counts.values() for word, _ in each})
    text = f"{count:,} different words with their pronunciations in {first_few(sorted(map(str, texts)), LISTED)}"
    return (
        text
        + "; kept as changed by hand (corpus.dictionary takes them): " * bool(kept)
        + first_few(sorted(map(str, kept)))
    )


def _words_file(language: str) -> str:
    """Return the name of a language's dictionary."""
    safe = re.sub(r"[^\w-]", lambda found: quote(found[0], safe=""), language)
    return WORDS_FILE.replace(".", f"-{safe}.") if safe else WORDS_FILE


def _dictionary(counts: Counter[tuple[str, tuple[str, ...]]]) -> str:
    """Return words and pronunciations as the text of a dictionary, the more frequent pronunciation first."""
    ranked = sorted(counts, key=lambda each: (each[0], -counts[each], each[1]))
    return "".join(f"{word}\t{' '.join(phones)}\n" for word, phones in ranked)


def report_recordings(corpus: Corpus, reporter: Reporter) -> None:
    """Warn of recordings that are cut short, and of recordings with different channels that are averaged."""
    everything = corpus.utterances()
    paths = sorted({utterance.audio for utterance in everything})
    said = ((path, attempt(sound_file.cut_short, path)) for path in paths)  # extraction itself tells of errors
    reporter.warn(*counted_alike([(path, damage) for path, damage in said if damage and isinstance(damage, str)], True))
    averaged = {utterance.audio for utterance in everything if utterance.channel is None}
    infos = ((path, attempt(sound_file.info, path)) for path in paths if path in averaged)
    several = [path for path, info in infos if not isinstance(info, InputError) and info.channels > 1][:COMPARED]
    mixed = listed("channels-differ", [path.name for path in several if channels_differ(path)])
    reporter.warn(*(finding.to_line() for finding in mixed))


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
    dereverb : str
        When reverberation is taken off: of dev as decoding does, since it is scored; never of what is trained on.
    """

    utterance: Utterance
    labels: tuple[int, ...]
    frames: int
    problem: str | None = None
    dereverb: When = "never"


@dataclass(frozen=True)
class ShardPlan:
    """A shard to write: its file, its utterances, and its recipe."""

    path: Path
    jobs: tuple[Job, ...]
    recipe: Recipe


def plan_split(corpus: Corpus, split: str, phones: Inventory, config: Config) -> list[ShardPlan]:
    """Cut a split into shards of at most ``data.shard_mib``, at least one."""
    dereverb = config.decode.dereverb if split == "dev" else "never"
    jobs = [replace(_job(each, phones, config.features), dereverb=dereverb) for each in corpus.splits[split]]
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
            content = job.problem or files.content(wanted.audio)
        except OSError as error:
            content = str(error)
        parts = [wanted.id, wanted.phones, content, wanted.channel, wanted.stretch]
        parts += [job.dereverb] if job.dereverb != "never" else []
        digest.update(json.dumps(parts).encode())
    return f"content {digest.hexdigest()}"


def extract_one(job: Job, config: FeatureConfig) -> Result:
    """Return one utterance's static features, moments and seconds; or why it is skipped, in words."""
    if job.problem is not None:
        return job.problem
    try:
        wanted = job.utterance
        samples, seconds = sound_file.read(wanted.audio, config.sample_rate, wanted.channel, wanted.stretch)
        samples = as_decoded(samples, config.sample_rate, job.dereverb)
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
def extracted(
    jobs: Sequence[Job],
    config: Config,
    reporter: Reporter = Reporter(quiet=True),  # noqa: B008
) -> Iterator[Iterator[Result | LostItem]]:
    """Offer `extract_one` of each job, in order; in processes if there is enough to do, or on a cluster.

    Raises
    ------
    InputError
        The cluster cannot be used, its scheduler is gone, or processes were ended from outside.
    """
    try:
        with _workers(jobs, config, reporter) as results:
            yield results
    except WorkerEnded:
        if config.data.cluster:
            fix = "run it again when the cluster is up: the shards that were made are kept"
            raise InputError(f"{config.data.cluster}: the scheduler is gone", fix) from None
        fix = "run it again; data.workers=1 takes less memory"
        raise InputError("an extraction process was ended from outside", fix) from None


@contextmanager
def _workers(jobs: Sequence[Job], config: Config, reporter: Reporter) -> Iterator[Iterator[Result | LostItem]]:
    several = 1 if extractor(config.features).alone else os.cpu_count() or 1
    count = min(config.data.workers or several, max(len(jobs) // MIN_PARALLEL_UTTERANCES, 1))
    if config.data.cluster and jobs:
        work = partial(_extract_shared, Path.cwd(), config.features)
        run = ClusterRun("extract", lambda job: str(job.utterance.audio), config.data.cluster_wait, None, reporter.warn)
        with on_cluster(config.data.cluster, work, jobs, lambda job: job.frames, MAX_AHEAD, run=run) as results:
            yield results
    elif count == 1:
        yield (extract_one(job, config.features) for job in jobs)
    else:
        work_alone, preload = partial(_extract_alone, config=config.features), ["speechctc.stages.extract"]
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
