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
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.audio.recordings import chosen_outside
from speechctc.audio.tracks import Channel
from speechctc.core.errors import InputError, plural
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.table_rows import Row, read_table
from speechctc.corpora.tiers import MIN_EDGE, TAIL
from speechctc.corpora.word_phones import MISSING, WordPhones

if TYPE_CHECKING:
    from speechctc.config.schema import CorpusConfig

NO_RECORDING = "no such recording"  # what the reason begins with


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
    return dataclasses.replace(corpus, notes=corpus.notes + tuple(_shared_audio(corpus)))


class _TableReader:
    """Reads tables one after another into `builder`, and their words by `words`."""

    def __init__(self, config: CorpusConfig) -> None:
        self.builder, self.words, self._root = CorpusBuilder.for_config(config), WordPhones(config), config.root
        self._lines: dict[Path, dict[str, int]] = {}  # of each id in the tables so far
        self._seconds = cache(lambda path, channel: sound_file.info(path, channel).seconds)

    def read(self, path: Path, split: str) -> None:
        """Add the rows of a table to a split, or to its rejected utterances."""
        base = self._root or (path if path.is_dir() else path.parent)
        utterances, rejected = list[Utterance](), list[Rejected]()
        lines, missing = dict[str, int](), list[Path]()
        table = read_table(path)
        own = f"{split}-" if path.stem == "metadata" else ""  # Hugging Face's audiofolder: each split has a 1.wav
        if split == "train" or not self.builder.utterances["train"]:
            self._learn(path)
        for row in table.rows:
            try:
                row = checked(row, lines)
                utterances.append(self._utterance(row._replace(id=own + row.id), base))
                lines[row.id] = row.line
            except InputError as error:
                if NO_RECORDING in error.what:
                    missing.append(Path(row.audio))
                rejected.append(Rejected(row.id or f"line {row.line}", f"{path}, line {row.line}: {error}"))
        self._check_unique(path, {own + id: line for id, line in lines.items()})
        if not utterances:
            fix = "correct the table"
            if len(missing) == len(rejected):
                fix = "correct the paths in its column audio, or set corpus.root to the folder that they begin in"
            what = f"{path}: none of {plural(len(rejected), 'row')} can be used; the first, {rejected[0].reason}"
            raise InputError(what, fix)
        builder = self.builder
        builder.utterances[split] += utterances
        builder.rejected[split] += rejected
        builder.warnings += [table.note] * bool(table.note)
        builder.warn_of(missing, f"{path}: rows left out, because their recordings do not exist")
        builder.notes += chosen_outside(path, base, (each.audio for each in utterances))
        builder.warn_of_formats(each.audio for each in utterances)

    def _learn(self, path: Path) -> None:
        """Learn the words of a table from which the phone set is taken."""
        unread = (row for row in read_table(path).rows if row.phones is None and row.words)
        texts = ((self.words.language_of(*_language(row)), row.words) for row in unread)
        self.words.learn((language, text) for language, text in texts if self.words.can_read(language))

    def _utterance(self, row: Row, base: Path) -> Utterance:
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
        seconds = stretch and stretch[1] - stretch[0]
        phones = row.phones
        if phones is None:
            phones = self.words.read(row.id, row.words, audio, seconds, language)
        labels, speaker = self.builder.labels(phones)[0], sys.intern(row.speaker)
        return Utterance(row.id, audio, tuple(labels), speaker, channel=row.channel, stretch=stretch, traits=row.traits)

    def _stretch(self, row: Row, audio: Path) -> tuple[float, float] | None:
        """Return from when to when a row lies in its recording, s; None: it is the whole."""
        if not (row.start or row.end):
            return None
        (start, end), seconds = row.times(), self._seconds(audio, row.channel)
        if start > seconds - MIN_EDGE or end > seconds + TAIL:
            raise InputError(f"{start:g} to {end:g} s of a recording of {seconds:.2f} s", "correct the times")
        whole = start <= MIN_EDGE and end >= seconds - MIN_EDGE
        return None if whole else (round(start, 4), round(min(end, seconds), 4))

    def _check_unique(self, path: Path, lines: dict[str, int]) -> None:
        for before, known in self._lines.items():
            if before != path and (twice := next((id for id in lines if id in known), None)) is not None:
                raise InputError(f"the id {twice!r} is both in {before} and in {path}", "give each its own id")
        self._lines[path] = lines


def checked(row: Row, lines: dict[str, int]) -> Row:
    """Return a row whose id no line has; of pieces named as their recording, all but the first are named by time.

    Raises
    ------
    InputError
        It is no row, has no id or names no recording, or its id is taken.
    """
    if problem := row.problem or ("" if row.id else "the id is empty"):
        raise InputError(problem, "correct the line")
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


def spelling_of(base: Path, name: str) -> str | None:
    """Return a recording's name as the disk has it: a table may have backslashes or, from macOS, another Unicode form.

    Tables of Common Voice name recordings in their folder ``clips``. None: there is none.
    """
    if os.path.isfile(os.path.join(base, name)):  # False of a path that is too long, too
        return name
    plain = name.replace("\\", "/")
    forms = (plain, unicodedata.normalize("NFC", plain), unicodedata.normalize("NFD", plain), f"clips/{plain}")
    return next((form for form in forms if os.path.isfile(os.path.join(base, form))), None)


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
