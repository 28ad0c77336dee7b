"""Reads a corpus from tables: one or several for each split, with the columns audio, and phones or words.

``phones`` are labels separated by spaces, or a JSON list. ``words`` are a text, which is read where a row has no phones
(see `speechctc.corpora.word_phones`). Optional are ``speaker``, ``channel``, ``track``, ``start`` and ``end`` (of a row
that is a piece of its recording), and traits of the speaker, such as ``sex``; other columns are ignored. Audio paths
are relative to the folder of the table, or to ``corpus.root`` if it is set.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.audio.recordings import chosen_outside
from speechctc.audio.tracks import Channel
from speechctc.core.errors import InputError, counted, first_few, plural
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.manifests import PERTURBED
from speechctc.corpora.table_rows import Row, in_seconds, read_table, spelling_of
from speechctc.corpora.tiers import MIN_EDGE, TAIL
from speechctc.corpora.word_phones import MISSING, WordPhones

if TYPE_CHECKING:
    from speechctc.config.schema import CorpusConfig

NO_RECORDING = "no such recording"  # what the reason begins with
OVERSHOOT = 0.5  # seconds that other programs say too much of the duration of a whole recording
MAX_DIFFERENCE = 0.5  # seconds that a recording may be longer than its row says
# Words in names that mean a split, alone or with *set* after them. Of two the first counts: train_dev is dev.
SPLIT_WORDS = {
    split: {each + end for each in names.split() for end in ("", "set", "data")}
    for split, names in {
        "dev": "dev development valid validation val",
        "train": "train training trn",
        "test": "test testing tst eval evaluation",
    }.items()
}


def read_tables(config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read the tables that the config names.

    Parameters
    ----------
    config : CorpusConfig
    needed : str
        The split that must have a table. If it is not training, tables of others that do not exist are passed over.

    Raises
    ------
    InputError
        There is no training table, a table cannot be read or has no usable row, or two tables have the same id.
    """
    if not config.tables.of("train") and not config.tables.of(needed):
        fix = f"name one, corpus.tables.{needed}=FILE, or another corpus: corpus.kind=textgrid corpus.root=FOLDER"
        raise InputError(f"corpus.tables.{needed} is not set, and corpus.kind is table", fix)
    reader = _TableReader(config)
    for split in SPLITS:
        for path in config.tables.of(split):
            if split != needed != "train" and not path.exists():
                reader.builder.notes.append(f"{split}: {path} does not exist, and is not needed")
            else:
                reader.read(path, split)
    if not config.tables.of("test"):
        reader.builder.notes.append("test: none, because corpus.tables.test is not set")
    corpus = reader.builder.to_corpus(config.dev_share, not config.tables.of("dev"), reader.words)
    return dataclasses.replace(corpus, notes=(*corpus.notes, *reader.summary(corpus), *_shared_audio(corpus)))


class _TableReader:
    """Reads tables one after another into `builder`, and their words by `words`."""

    def __init__(self, config: CorpusConfig) -> None:
        self.builder, self.words, self._root = CorpusBuilder.for_config(config), WordPhones(config), config.root
        self._tables, self._rows = config.tables, Counter[str]()
        self._divided: dict[Path, list[str]] = {}
        self._lines: dict[Path, dict[str, int]] = {}  # of each id in the tables so far
        self._table = lru_cache(maxsize=1)(read_table)  # its text is in memory while its rows are read
        self._seconds = cache(lambda path, channel: sound_file.info(path, channel).seconds)

    def read(self, path: Path, split: str) -> None:
        """Add the rows of a table to a split, or to its rejected utterances.

        Of a table that is named for several splits, those rows are added that are of this one.
        """
        base = self._root or (path if path.is_dir() else path.parent)
        table, told = self._table(path), _Told(path)
        own = f"{split}-" if path.stem == "metadata" else ""  # Hugging Face's audiofolder: each split has a 1.wav
        if split == "train" or not self.builder.utterances["train"]:
            self._learn(path, split)
        utterances, lines, before = list[Utterance](), dict[str, int](), self._lines.get(path, {})
        is_divided = bool(self._splits_of(path))
        known = ChainMap(lines, before) if is_divided else lines
        for row in self._own(path, table.rows, split):
            told.count(row)
            try:
                row = checked(self._in_seconds(row, base), known)
                utterances.append(self._utterance(row._replace(id=own + row.id), base, told))
                lines[row.id] = row.line
            except InputError as error:
                told.reject(row, error)
        self._check_unique(path, before | {own + id: line for id, line in lines.items()})
        if not utterances:
            raise told.nothing(split if is_divided else "")
        builder = self.builder
        builder.utterances[split] += utterances
        builder.rejected[split] += told.rejected
        self._rows[split] += told.rows
        told.compare_labels(utterances)
        said = [*table.notes, *told.warnings(split, is_divided)]
        builder.warnings += [each for each in said if each not in builder.warnings]
        builder.warn_of(told.missing, f"{path}: rows left out, because their recordings do not exist")
        builder.notes += chosen_outside(path, base, (each.audio for each in utterances))
        builder.warn_of_formats(each.audio for each in utterances)

    def summary(self, corpus: Corpus) -> Iterator[str]:
        """Yield for each split of a corpus that was read how many rows there are, and how many of them are used."""
        for split, rows in self._rows.items():
            held_out = corpus.splits["dev"] if split == "train" and corpus.dev_from_train else ()
            used, tables = len(corpus.splits[split]) + len(held_out), len(self._tables.of(split))
            in_tables = f" in {tables} tables" if tables > 1 else ""
            yield f"rows of {split}: {rows:,}{in_tables}, {used:,} used, {len(corpus.rejected[split]):,} left out"

    def _splits_of(self, path: Path) -> list[str]:
        """Return the splits that a table is divided into; none if it is named for one, or its rows name one at most."""
        if path not in self._divided:
            named = [each for each in SPLITS if path in self._tables.of(each)]
            found = {split_of_row(row) for row in self._table(path).rows} - {""} if len(named) > 1 else set()
            self._divided[path] = named if len(found) > 1 else []
        return self._divided[path]

    def _own(self, path: Path, rows: Iterable[Row], split: str) -> Iterator[Row]:
        """Yield the rows of a split; the first split of a table has those that name none, or one without the table."""
        wanted = self._splits_of(path)
        for row in rows:
            of = split_of_row(row) or (wanted or [split])[0]
            if not wanted or of == split:
                yield row
            elif of not in wanted and split == wanted[0]:
                problem = row.problem or f"its split is {of}, for which the table is not named"
                yield row._replace(problem=problem, fix=f"name it: corpus.tables.{of}")

    def _learn(self, path: Path, split: str) -> None:
        """Learn the words of a table's split from which the phone set is taken."""
        rows = self._own(path, self._table(path).rows, split)
        unread = (row for row in rows if row.phones is None and row.words)
        texts = ((self.words.language_of(*_language(row)), row.words) for row in unread)
        self.words.learn((language, text) for language, text in texts if self.words.can_read(language))

    def _utterance(self, row: Row, base: Path, told: _Told) -> Utterance:
        if row.phones is None and not row.words:
            what = "no phones: its cell of phones or words is empty"
            raise InputError(what, "for a recording without speech, write [] as phones")
        language = self.words.language_of(*_language(row))
        if row.phones is None and not self.words.can_read(language):
            raise InputError("words and no phones", f"{MISSING}; or fill its column language")
        if (spelling := spelling_of(base, row.audio)) is None:
            raise InputError(f"{NO_RECORDING}: {base / row.audio}", "correct its path")
        audio = base / spelling
        stretch = self._stretch(row, audio)
        if row.duration and stretch is None:
            told.compare(row, self._seconds(audio, row.channel))
        seconds = stretch and stretch[1] - stretch[0]
        phones = row.phones
        if phones is None:
            phones = self.words.read(row.id, row.words, audio, seconds, language)
        labels, speaker = self.builder.labels(phones)[0], sys.intern(row.speaker)
        return Utterance(row.id, audio, tuple(labels), speaker, channel=row.channel, stretch=stretch, traits=row.traits)

    def _in_seconds(self, row: Row, base: Path) -> Row:
        """Return a row with times in seconds; one whose recording is not there without times, as it is refused."""
        if not row.samples:
            return row
        spelling = spelling_of(base, row.audio)
        if spelling is None:
            return row._replace(start="", end="", samples=False)
        return in_seconds(row, sound_file.info(base / spelling, row.channel))

    def _stretch(self, row: Row, audio: Path) -> tuple[float, float] | None:
        """Return from when to when a row lies in its recording, s; None: it is the whole."""
        if not (row.start or row.end):
            return None
        (start, end), seconds = row.times(), self._seconds(audio, row.channel)
        end = seconds if math.isinf(end) else end
        tail = OVERSHOOT if start <= MIN_EDGE else TAIL
        if start > seconds - MIN_EDGE or end > seconds + tail:
            raise InputError(f"{start:g} to {end:g} s of a recording of {seconds:.2f} s", "correct the times")
        whole = start <= MIN_EDGE and end >= seconds - MIN_EDGE
        return None if whole else (round(start, 4), round(min(end, seconds), 4))

    def _check_unique(self, path: Path, lines: dict[str, int]) -> None:
        for before, known in self._lines.items():
            if before != path and (twice := next((id for id in lines if id in known), None)) is not None:
                raise InputError(f"the id {twice!r} is both in {before} and in {path}", "give each its own id")
        self._lines[path] = lines


class _Told:
    """What is to be said of the rows of a table: how many they are, which are left out, what may be a mistake."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._others: list[Rejected] = []
        self._copies: list[Rejected] = []
        self.missing: list[Path] = []
        self.rows = 0
        self._changes: Counter[str] = Counter()
        self._splits: Counter[str] = Counter()
        self._longer: list[str] = []
        self._others_of: list[str] = []

    def count(self, row: Row) -> None:
        """Count a row that is read."""
        self.rows += 1
        self._splits[split_of_row(row)] += 1

    def reject(self, row: Row, error: InputError) -> None:
        """Add a row that is left out."""
        entry = Rejected(row.id or f"line {row.line}", f"{self.path / row.file}, line {row.line}: {error}")
        if NO_RECORDING in error.what:
            self.missing.append(Path(row.audio))
        if row.problem.startswith(PERTURBED):
            self._changes[row.problem.removeprefix(PERTURBED).strip(" ()")] += 1
            self._copies.append(entry)
        else:
            self._others.append(entry)

    @property
    def rejected(self) -> list[Rejected]:
        """Return the rows that are left out; perturbed copies, of which there may be many, come last."""
        return self._others + self._copies

    def compare(self, row: Row, seconds: float) -> None:
        """Note a row that names a shorter duration than its recording has, which is read whole."""
        try:
            is_longer = seconds - float(row.duration) > MAX_DIFFERENCE
        except ValueError:
            return
        self._longer += [row.id] * is_longer

    def compare_labels(self, utterances: Iterable[Utterance]) -> None:
        """Note those that have other labels than an earlier one of the same piece: perhaps they are parts of it.

        Two speakers may say something from the same instant to the same instant.
        """
        known: dict[tuple[object, ...], tuple[str, ...]] = {}
        for each in utterances:
            place = (each.audio, each.channel, each.stretch, each.speaker if each.stretch else "")
            if known.setdefault(place, each.phones) != each.phones:
                self._others_of.append(each.id)

    def nothing(self, split: str) -> InputError:
        """Return the error of a table of which no row can be used, or none of a split."""
        of, fix = f" of {split}" if split else "", "correct the table"
        if sum(self._changes.values()) == len(self.rejected) > 0:
            fix = "name the table of the recordings themselves"
        if self.missing and len(self.missing) == len(self.rejected):
            fix = "correct the paths in its column audio, or set corpus.root to the folder that they begin in"
        first = f"; the first, {self.rejected[0].reason}" if self.rejected else ""
        return InputError(f"{self.path}: none of {plural(self.rows, 'row')}{of} can be used{first}", fix)

    def warnings(self, split: str, is_divided: bool) -> Iterator[str]:
        """Yield what may be a mistake."""
        if self._changes:
            count, kinds = sum(self._changes.values()), counted(self._changes)
            yield note_text("perturbed", path=self.path, count=count, kinds=kinds)
        if self._longer:
            names = first_few(self._longer, 5)
            yield note_text("shorter", path=self.path, count=len(self._longer), names=names)
        if self._others_of:
            names = first_few(self._others_of, 5)
            yield note_text("contradicting", path=self.path, count=len(self._others_of), names=names)
        others = Counter({name: count for name, count in self._splits.items() if name not in ("", split)})
        if others and len(self._splits) > 1 and not is_divided:
            yield note_text("other splits", path=self.path, split=split, counts=counted(others))


def split_of_row(row: Row) -> str:
    """Return the split of a row by its column split, or the last folder of its recording that names one, or ``""``."""
    if row.split:
        return split_named(row.split)
    return _split_of_folder(row.audio.replace("\\", "/").rpartition("/")[0])


@cache
def _split_of_folder(path: str) -> str:
    return next(filter(None, map(split_named, reversed(path.split("/")))), "")


@cache
def split_named(name: str) -> str:
    """Return the split that a name of a table, folder or split means by one of `SPLIT_WORDS`, or ``""``."""
    words = set(re.split(r"[\W\d_]+", name.lower()))
    return next((split for split, names in SPLIT_WORDS.items() if words & names), "")


def checked(row: Row, lines: Mapping[str, int]) -> Row:
    """Return a row whose id no line has; of pieces named as their recording, all but the first are named by time.

    Raises
    ------
    InputError
        It is no row, has no id or names no recording, or its id is taken.
    """
    if problem := row.problem or ("" if row.id else "the id is empty"):
        raise InputError(problem, row.fix)
    place = PurePath(row.audio.replace("\\", "/"))
    if row.id in lines and (row.start or row.end) and row.id == place.stem:
        row = row._replace(id=f"{row.id}-{round(1000 * row.times()[0]):07d}")
    if row.id in lines and row.id == place.stem and place.parent.name:
        row = row._replace(id=f"{place.parent.name}-{row.id}")
    if row.id in lines:
        raise InputError(f"the id {row.id!r} is already used in line {lines[row.id]}", "give each its own id")
    if not row.audio:
        raise InputError("the audio path is empty", "name its recording")
    return row


def _language(row: Row) -> tuple[str, ...]:
    """Return the language that a row names, if it names one."""
    return tuple(value for name, value in row.traits if name == "language")


def _shared_audio(corpus: Corpus) -> list[str]:
    """Return notes on recordings that are in training and in another split, whose scores are too good."""
    real = cache(os.path.realpath)

    def places(split: str) -> Iterator[tuple[tuple[str, Channel | None], tuple[float, float]]]:
        for each in corpus.splits[split]:
            inside = os.path.join(real(each.audio.parent), each.audio.name)
            path = real(each.audio) if each.audio.is_symlink() else inside
            yield (path, each.channel), each.stretch or (0.0, math.inf)

    held = {recording for split in ("dev", "test") for recording, _ in places(split)}
    trained: defaultdict[tuple[str, Channel | None], list[tuple[float, float]]] = defaultdict(list)
    for recording, stretch in places("train") if held else ():  # only what is held: the training split is large
        if recording in held:
            trained[recording].append(stretch)
    notes = []
    for split in ("dev", "test"):
        if count := sum(
            any(start < until and since < end for since, until in trained.get(recording, ()))
            for recording, (start, end) in places(split)
        ):
            notes.append(note_text("shared", split=split, count=count))
    return notes
