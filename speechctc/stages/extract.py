"""Extract the features of a corpus: those that the store has not, and a table of the utterances of each split.

What is made from the same bytes with the same settings is there already, whatever its id, labels and split are now. So
an interrupted extraction continues where it stopped, and a corpus that has grown costs what is new in it.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.dereverberation import When, as_decoded
from speechctc.config.schema import KINDS, Config, FeatureConfig
from speechctc.core import files, links, written
from speechctc.core.cluster import on_cluster, shared_recording
from speechctc.core.dispatch import ClusterRun, LostItem
from speechctc.core.errors import InputError, counted, first_few, plural, printable
from speechctc.core.parallel import WorkerEnded, check_time, time_limit
from speechctc.core.processes import in_processes
from speechctc.core.progress import Reporter
from speechctc.core.text_files import tsv
from speechctc.corpora.corpus import PHONES_FILE, SPLITS, Corpus, Utterance
from speechctc.corpora.findings import check_counts
from speechctc.corpora.heard import report_recordings
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.tiers import without_drafts
from speechctc.features.extractor import VALUES, extractor
from speechctc.features.padded import Moments, static_features
from speechctc.features.shards import Entry
from speechctc.features.splits import (
    STORE,
    Place,
    Recipe,
    Row,
    SplitFeatures,
    comparable,
    read_split,
    refuse_earlier,
    write_table,
)
from speechctc.features.store import Digests, Old, Store, entry_key, settings_of, sound_of
from speechctc.phones.inventory import Inventory
from speechctc.phones.pronouncer import word_key
from speechctc.stages.kept_dev import compare_dev, keep_dev, last_run

LISTED = 40  # phones printed with their counts; all are in the file
UTTERANCES = "utterances.tsv"
WORDS_FILE = "pronunciations.dict"
MIN_PARALLEL_UTTERANCES = 64  # utterances; fewer than this take less time than the start of a worker process
MAX_AHEAD = 1 << 20  # frames that may wait in memory behind a recording that takes long
LOCK = "lock"
PRUNE = "speechctc extract --prune, or prune=True in Python,"
CHANGED = "it changed while it was extracted; run speechctc extract again"


class Made(NamedTuple):
    """Features of an utterance; `is_plain`: there was nothing to take off, or nothing was to be."""

    static: NDArray[np.float32]
    moments: Moments
    seconds: float
    is_plain: bool


# None: nothing was to be taken off, and the store has the features without.
Result = Made | str | None


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


def extract(config: Config, reporter: Reporter, prune: bool = False) -> list[SplitSummary]:
    """Extract every split of the config's corpus into ``data.dir``.

    Parameters
    ----------
    config : Config
    reporter : Reporter
    prune : bool
        Remove the features there that neither this corpus nor these settings use.

    Raises
    ------
    InputError
        There is no corpus, nothing in its training split can be used, or ``data.dir`` holds features of an earlier
        layout, or a link in the place of the store.
    """
    began = time.monotonic()
    extractor(config.features).check(config)  # as training will, which comes hours later
    folder, corpus, last = config.data.dir, read_corpus(config.corpus), last_run(config)
    links.refuse_linked_folder(folder / STORE)
    for split in SPLITS:
        refuse_earlier(folder / split)
    if last:
        corpus = keep_dev(corpus, last, config.corpus.dev_share)
    reporter.note(*corpus.notes)
    reporter.warn(*corpus.warnings)
    report_recordings(corpus.utterances(), reporter)
    phones = corpus.inventory()
    with _alone(folder, reporter):
        work = Extraction(corpus, phones, config, reporter)
        work.make()
        skipped = [(split, *entry) for split in corpus.splits for entry in work.skipped(split)]
        _write_table(folder / "skipped.tsv", ("split", "id", "reason"), skipped)
        work.write_tables(prune)
    splits = {split: read_split(folder / split, comparable(_section(config)), checked=True) for split in corpus.splits}
    write_utterances(folder, corpus)
    counts = {split: splits[split].table.count_phones() for split in SPLITS}
    report_phones(folder, phones, counts, reporter)
    if corpus.words:
        reporter.note(write_pronunciations(folder, corpus, not isinstance(config.corpus.language, str)))
    if last:
        reporter.warn(*compare_dev({split: each.marks() for split, each in splits.items()}, last))
    kept, elapsed = sum(len(each.frames) for each in splits.values()) - work.done, time.monotonic() - began
    speed = f"{work.seconds / elapsed:,.0f} times real time" if work.seconds else "nothing to do"
    reporter.note(f"{plural(work.done, 'utterance')} extracted, {kept} there already; {elapsed:.1f} s, {speed}")
    return [_summarise(split, splits[split], work) for split in splits]


def _section(config: Config) -> dict[str, Any]:
    return config.features.model_dump(mode="json")


@contextmanager
def _alone(folder: Path, reporter: Reporter) -> Iterator[None]:
    """Wait until no other process extracts into a folder: what it makes need not be made again."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = links.open_plain(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if files.try_lock(handle) is False:
            reporter.note(f"{folder}: another extraction is under way; this one goes on when it has ended")
        with files.locked(handle):
            yield
    finally:
        os.close(handle)


class Extraction:
    """The utterances of a corpus, and their features in the store.

    Parameters
    ----------
    corpus : Corpus
    phones : Inventory
    config : Config
    reporter : Reporter

    Attributes
    ----------
    seconds : float
        Seconds of speech in the entries that were made.
    """

    def __init__(self, corpus: Corpus, phones: Inventory, config: Config, reporter: Reporter) -> None:
        self.config, self.reporter, self.phones, self.corpus = config, reporter, phones, corpus
        self.seconds = 0.0
        self.store, self.digests = Store(config.data.dir), Digests(config.data.dir)
        version = VALUES if config.features.kind in KINDS else None  # one's own is in the section
        self.settings = settings_of(comparable(_section(config)), config.data.dtype, version)
        self.jobs = {split: plan_split(corpus, split, phones, config) for split in corpus.splits}
        wanted = {job.utterance.audio: None for jobs in self.jobs.values() for job in jobs if job.problem is None}
        self.digests.take(list(wanted))
        self.jobs = {split: [self._keyed(job) for job in jobs] for split, jobs in self.jobs.items()}
        keys = {key for job in self._all() for key in (self.store.same.get(job.key, job.key), job.plain)}
        self.places = self.store.find(keys - {""})
        self._there = {*self.places.values()}
        self._reasons: dict[str, str] = {}
        if damaged := [str(self.store.path(name)) for name in self.store.damaged]:
            said = f"damaged, what is used of it is extracted again: {first_few(damaged)}"
            reporter.warn(f"{said}; {PRUNE} removes it")

    def _all(self) -> Iterator[Job]:
        return (job for jobs in self.jobs.values() for job in jobs)

    def _keyed(self, job: Job) -> Job:
        """Return a job with the keys of its features."""
        if job.problem is not None:
            return job
        wanted = job.utterance
        if (content := self.digests.of(wanted.audio)) is None:
            return replace(job, problem=f"{wanted.audio}: {CHANGED}")
        cut = [wanted.channel, wanted.stretch]
        key, plain = (entry_key(content, [*cut, when], self.settings) for when in (job.dereverb, "never"))
        return replace(job, key=key, plain=plain, sound=sound_of(content, cut))

    def _place(self, job: Job) -> Place | None:
        """Return where the features of a job are."""
        return self.places.get(self.store.same.get(job.key, job.key))

    def make(self) -> None:
        """Make the features that the store lacks."""
        missing = {job.key: job for job in self._all() if job.problem is None and self._place(job) is None}
        todo = [replace(job, has_plain=job.plain in self.places) for job in missing.values()]
        made = NewShard(self.store, self.settings, self.config, self.places)
        with (
            extracted(todo, self.config, self.reporter) as results,
            self.reporter.progress("extracting", len(todo)) as advance,
        ):
            for job in todo:
                result = next(results)
                advance(1)
                self._take(job, result, made)
        made.write()
        self.store.save_same()

    def _take(self, job: Job, result: Result | LostItem, made: NewShard) -> None:
        """Put what was made for a job into the store; what no machine could do is done again by the next run."""
        if isinstance(result, LostItem):
            result = str(result)
        if not isinstance(result, str) and not self.digests.is_unchanged(job.utterance.audio):
            result = f"{job.utterance.audio}: {CHANGED}"
        if isinstance(result, str):
            self._reasons[job.key] = result
            return
        if job.key != job.plain and (result is None or result.is_plain):
            self.store.same[job.key] = job.plain
        if result is None:
            return
        key = job.plain if result.is_plain else job.key
        if key not in self.places and key not in made:  # the same bytes may be in dev and in another split
            _refuse_too_large(job, result.static, self.config)
            made.add(Entry(key, torch.from_numpy(result.static), result.moments, result.seconds))
            self.seconds += result.seconds

    @property
    def done(self) -> int:
        """The number of utterances whose features were not there before."""
        return sum(place not in self._there for job in self._all() if (place := self._place(job)))

    def skipped(self, split: str) -> list[tuple[str, str]]:
        """Return the utterances of a split that cannot be used, and why."""
        rejected = [(entry.id, entry.reason) for entry in without_drafts(self.corpus.rejected.get(split, ()))]
        failed = [job for job in self.jobs[split] if job.problem is not None or self._place(job) is None]
        return rejected + [(job.utterance.id, job.problem or self._reasons[job.key]) for job in failed]

    def write_tables(self, prune: bool) -> None:
        """Write the table of each split; with `prune`, remove what none of them uses."""
        placed = {split: [(job, self._place(job)) for job in jobs] for split, jobs in self.jobs.items()}
        used = {place for each in placed.values() for _, place in each if place}
        if not any(place for _, place in placed["train"]):
            id, reason = self.skipped("train")[0]
            raise InputError(f"no utterance of the training split can be used; the first, {id}: {reason}", "mend it")
        old = self.store.old(used, self.settings)
        moved, left = self.store.without_old(used) if prune else ({}, [])
        rows = {
            split: [job.row(moved.get(place, place)) for job, place in each if place] for split, each in placed.items()
        }
        name = f"{zlib.crc32(repr(rows).encode()):08x}"
        recipe = Recipe(_section(self.config), self.phones.name, self.phones.phones, self.config.decode.dereverb, name)
        for split, each in rows.items():
            write_table(self.config.data.dir / split, each, recipe)
        for path in left:
            path.unlink(missing_ok=True)
        if old.entries:
            self.reporter.note(self._say_old(old, prune))

    def _say_old(self, old: Old, prune: bool) -> str:
        what = f"{old.entries:,} old {'entry' if old.entries == 1 else 'entries'} ({old.size / 2**20:.1f} MiB)"
        others = old.entries - old.same_settings
        why = f"{old.same_settings} of recordings, stretches or a dev of before, {others} of other settings"
        if prune:
            return f"{what} removed from {self.store.folder}: {why}"
        return f"{what} in {self.store.folder} that this config does not use: {why}; {PRUNE} removes them"


@dataclass
class NewShard:
    """Collects entries, and writes them as shards of at most ``data.shard_mib``."""

    store: Store
    settings: dict[str, Any]
    config: Config
    places: dict[str, Place]
    entries: dict[str, Entry] = field(default_factory=dict)
    size: int = 0

    def add(self, entry: Entry) -> None:
        """Add an entry; the others are written before if it makes the shard too large."""
        width = np.dtype(self.config.data.dtype).itemsize
        size = width * entry.static.numel() + 2 * entry.moments.total.nbytes
        if self.size + size > self.config.data.shard_mib * 2**20:
            self.write()
        self.entries[entry.key] = entry
        self.size += size

    def __contains__(self, key: str) -> bool:
        """Return whether an entry with this key waits to be written."""
        return key in self.entries

    def write(self) -> None:
        """Write what there is."""
        entries, self.entries, self.size = [*self.entries.values()], {}, 0
        if entries:
            self.places |= self.store.add(entries, self.settings)
            self.store.save_same()


def _refuse_too_large(job: Job, static: NDArray[np.float32], config: Config) -> None:
    """Raise an `InputError` for values that ``data.dtype`` cannot hold, as features of a user's own may have."""
    if not (most := np.abs(static).max()) <= np.finfo(config.data.dtype).max:
        what = f"{job.utterance.id}: a feature of {most:.3g}, which data.dtype={config.data.dtype} cannot hold"
        raise InputError(what, "set data.dtype=float32, or give smaller values, as their logarithm")


def _summarise(split: str, features: SplitFeatures, work: Extraction) -> SplitSummary:
    return SplitSummary(
        split=split,
        utterances=len(features.frames),
        frames=int(features.frames.sum()),
        hours=features.seconds / 3600,
        skipped=tuple(work.skipped(split)),
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
    key, plain : str
        The keys of its features in the store, and of those with nothing taken off.
    has_plain : bool
        The store has the latter.
    sound : str
        A hash of what is heard.
    """

    utterance: Utterance
    labels: tuple[int, ...]
    frames: int
    problem: str | None = None
    dereverb: When = "never"
    key: str = ""
    plain: str = ""
    has_plain: bool = False
    sound: str = ""

    def row(self, place: Place) -> Row:
        """Return its row in the table of its split; its features are in `place`."""
        return Row(self.utterance.id, self.labels, place, self.utterance.trait("language"), self.sound)


def plan_split(corpus: Corpus, split: str, phones: Inventory, config: Config) -> list[Job]:
    """Return the utterances of a split to extract."""
    dereverb = config.decode.dereverb if split == "dev" else "never"
    return [replace(_job(each, phones, config.features), dereverb=dereverb) for each in corpus.splits[split]]


def _job(utterance: Utterance, phones: Inventory, config: FeatureConfig) -> Job:
    try:
        labels = tuple(phones.encode(utterance.phones))
        samples, rate, _ = sound_file.info(utterance.audio, utterance.channel)
    except InputError as error:
        return Job(utterance, (), 0, error.what)
    if utterance.stretch is not None:
        start, end = utterance.stretch
        samples = max(min(round(end * rate), samples) - round(start * rate), 0)
    return Job(utterance, labels, extractor(config).frames(samples * config.sample_rate // rate))


def extract_one(job: Job, config: FeatureConfig) -> Result:
    """Return one utterance's features; or why it is skipped, in words. None: see `Result`."""
    if job.problem is not None:
        return job.problem
    try:
        wanted = job.utterance
        samples, seconds = sound_file.read(wanted.audio, config.sample_rate, wanted.channel, wanted.stretch)
        heard = as_decoded(samples, config.sample_rate, job.dereverb)
        check_time(wanted.audio)
    except InputError as error:
        return error.what
    is_plain = job.dereverb == "never" or np.array_equal(heard, samples)
    if is_plain and job.has_plain:
        return None
    try:
        static = static_features(torch.from_numpy(heard), config)
    except InputError as error:
        if config.kind not in KINDS:  # of the user's own code: the recording may tell why
            raise InputError(f"{job.utterance.id}: {error.what}", error.fix) from None
        raise
    if len(static) == 0:
        return f"{job.utterance.audio}: {seconds * 1000:.0f} ms is shorter than one frame"
    return Made(static.numpy(), Moments.of(static, config), seconds, is_plain)


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
            fix = "run it again when the cluster is up: what was made is kept"
            raise InputError(f"{config.data.cluster}: the scheduler is gone", fix) from None
        fix = "run it again; data.workers=1 takes less memory"
        raise InputError("an extraction process was ended from outside", fix) from None


@contextmanager
def _workers(jobs: Sequence[Job], config: Config, reporter: Reporter) -> Iterator[Iterator[Result | LostItem]]:
    several = 1 if extractor(config.features).alone else os.cpu_count() or 1
    limit = config.data.time_limit
    count = min(config.data.workers or several, max(len(jobs) // MIN_PARALLEL_UTTERANCES, 1))
    if config.data.cluster and jobs:
        work = partial(_extract_shared, Path.cwd(), config.features)
        run = ClusterRun(
            "extract", lambda job: str(job.utterance.audio), config.data.cluster_wait, limit, reporter.warn
        )
        with on_cluster(config.data.cluster, work, jobs, lambda job: job.frames, MAX_AHEAD, run=run) as results:
            yield results
    elif count == 1:
        yield (_within(limit, job, config.features) for job in jobs)
    else:
        work_alone, preload = partial(_extract_alone, limit, config=config.features), ["speechctc.stages.extract"]
        with in_processes(work_alone, jobs, count, lambda job: job.frames, MAX_AHEAD, preload) as results:
            yield results


def _within(limit: float | None, job: Job, config: FeatureConfig) -> Result:
    """Extract a recording, which may take so many seconds."""
    with time_limit(limit):
        return extract_one(job, config)


def _extract_alone(limit: float | None, job: Job, config: FeatureConfig) -> Result:
    """Extract in a worker process, with one thread."""
    torch.set_num_threads(1)
    return _within(limit, job, config)


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
    result = _extract_alone(None, replace(job, utterance=replace(job.utterance, audio=audio)), config)
    return result.replace(str(audio), str(given)) if isinstance(result, str) else result
