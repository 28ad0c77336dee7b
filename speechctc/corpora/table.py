"""Reads a corpus from tables: one or several for each split, with the columns audio, and phones or words.

``phones`` are labels separated by spaces, or a JSON list. ``words`` are a text, which is read where a row has no phones
(see `speechctc.corpora.word_phones`). Optional are ``speaker``, ``channel``, ``start`` and ``end`` (of a row that is a
piece of its recording), and traits of the speaker, such as ``sex``; other columns are ignored. Audio paths are relative
to the folder of the table, or to ``corpus.root`` if it is set.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.audio.recordings import chosen_outside
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.table_rows import Row, read_table
from speechctc.corpora.tier_utterances import MIN_EDGE, TAIL
from speechctc.corpora.word_phones import MISSING, WordPhones

if TYPE_CHECKING:
    from speechctc.config.schema import CorpusConfig


class BadRow(Exception):
    """A row that cannot be used; the message says why."""


class NoRecording(BadRow):
    """A row whose recording does not exist."""


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
        raise InputError("corpus.tables.train is not set, and corpus.kind is table", "set it to the training table")
    builder = CorpusBuilder.for_config(config)
    lines: dict[Path, dict[str, int]] = {}
    listings = FolderListings()
    words = WordPhones(config)
    for split in SPLITS:
        for path in config.tables.of(split):
            if split != needed != "train" and not path.exists():
                builder.notes.append(f"{split}: {path} does not exist, and is not needed")
                continue
            used, rejected = len(builder.utterances[split]), len(builder.rejected[split])
            read = _read(path, split, builder, config, listings, words)
            _check_unique(read, path, lines)
            lines[path] = read
            if len(builder.utterances[split]) == used:
                bad = builder.rejected[split][rejected:]
                fix = "correct the table"
                if all("no such recording: " in each.reason for each in bad):
                    fix = "correct the paths in its column audio, or set corpus.root to the folder that they begin in"
                raise InputError(f"{path}: none of {len(bad)} rows can be used; the first, {bad[0].reason}", fix)
    if not config.tables.of("test"):
        builder.notes.append("test: none, because corpus.tables.test is not set")
    corpus = builder.to_corpus(config.dev_share, not config.tables.of("dev"), words)
    return dataclasses.replace(corpus, notes=corpus.notes + tuple(_shared_audio(corpus, listings)))


def _read(
    path: Path, split: str, builder: CorpusBuilder, config: CorpusConfig, listings: FolderListings, words: WordPhones
) -> dict[str, int]:
    """Add the rows of a table to a split, or to its rejected utterances; return the line of each id in the split."""
    base = config.root or (path if path.is_dir() else path.parent)
    lines: dict[str, int] = {}
    missing, used = [], len(builder.utterances[split])
    table = read_table(path)
    own = f"{split}-" if path.stem == "metadata" else ""  # Hugging Face's audiofolder: each split has a 1.wav
    is_named = cache(lambda: any(_language(row) for row in read_table(path).rows))
    if split == "train" or not builder.utterances["train"]:
        unread = (row for row in read_table(path).rows if row.phones is None and row.words)
        languages = ((words.language_of(*_language(row)), row.words) for row in unread)
        words.learn((language, text) for language, text in languages if words.can_read(language))
    for row in table.rows:
        try:
            row = checked(row, lines)
            builder.utterances[split].append(
                _utterance(row._replace(id=own + row.id), base, builder, listings, words, is_named)
            )
            lines[row.id] = row.line
        except (BadRow, InputError) as error:
            if isinstance(error, NoRecording):
                missing.append(Path(row.audio))
            builder.rejected[split].append(Rejected(row.id or f"line {row.line}", f"{path}, line {row.line}: {error}"))
    if table.note:
        builder.warnings.append(table.note)
    builder.warn_of(missing, f"{path}: rows left out, because their recordings do not exist")
    builder.notes += chosen_outside(path, base, (each.audio for each in builder.utterances[split][used:]))
    builder.warn_of_formats(utterance.audio for utterance in builder.utterances[split])
    return {own + id: line for id, line in lines.items()}


def checked(row: Row, lines: dict[str, int]) -> Row:
    """Return a row whose id no line has; of pieces named as their recording, all but the first are named by time.

    Raises
    ------
    BadRow, InputError
        It is no row, has no id or names no recording, or its id is taken.
    """
    if problem := row.problem or ("" if row.id else "the id is empty"):
        raise BadRow(problem)
    if row.id in lines and (row.start or row.end) and row.id == PurePath(row.audio.replace("\\", "/")).stem:
        row = row._replace(id=f"{row.id}-{round(1000 * row.times()[0]):07d}")
    place = PurePath(row.audio.replace("\\", "/"))
    if row.id in lines and row.id == place.stem and place.parent.name:
        row = row._replace(id=f"{place.parent.name}-{row.id}")
    if row.id in lines:
        raise BadRow(f"the id {row.id!r} is already used in line {lines[row.id]}")
    if not row.audio:
        raise BadRow("the audio path is empty")
    return row


def _utterance(
    row: Row,
    base: Path,
    builder: CorpusBuilder,
    listings: FolderListings,
    words: WordPhones,
    is_named: Callable[[], bool],
) -> Utterance:
    """Return the utterance of a row; `is_named` tells whether other rows name their language."""
    if row.phones is None and not row.words:
        raise BadRow(
            "no phones: its cell of phones or words is empty; for a recording without speech, write [] as phones"
        )
    language = words.language_of(*_language(row))
    if row.phones is None and not words.can_read(language):
        raise BadRow(f"words and no phones; {'fill its column language' if is_named() else MISSING}")
    audio = find_audio(base, row.audio)
    stretch = stretch_of(row, audio, listings)
    seconds = stretch and stretch[1] - stretch[0]
    phones = words.read(row.id, row.words, audio, seconds, language) if row.phones is None else row.phones
    labels, _ = builder.labels(phones)
    speaker = sys.intern(row.speaker)
    return Utterance(row.id, audio, tuple(labels), speaker, channel=row.channel, stretch=stretch, traits=row.traits)


def stretch_of(row: Row, audio: Path, listings: FolderListings) -> tuple[float, float] | None:
    """Return from when to when a row lies in its recording, s; None: it is the whole.

    Raises
    ------
    InputError
        Its times are none, or not in the recording.
    """
    if not (row.start or row.end):
        return None
    (start, end), seconds = row.times(), listings.seconds(audio)
    if start > seconds - MIN_EDGE or end > seconds + TAIL:
        raise InputError(f"{start:g} to {end:g} s of a recording of {seconds:.2f} s", "correct the times")
    whole = start <= MIN_EDGE and end >= seconds - MIN_EDGE
    return None if whole else (round(start, 4), round(min(end, seconds), 4))


def _language(row: Row) -> tuple[str, ...]:
    """Return the language that a row names, if it names one."""
    return tuple(value for name, value in row.traits if name == "language")


def find_audio(base: Path, name: str) -> Path:
    """Return the path of a recording in `spelling_of`."""
    if (spelling := spelling_of(base, name)) is None:
        raise NoRecording(f"no such recording: {base / name}")
    return base / spelling


def spelling_of(base: Path, name: str) -> str | None:
    """Return a recording's name as the disk has it: a table may have backslashes or, from macOS, another Unicode form.

    Tables of Common Voice name recordings in their folder ``clips``. None: there is none.
    """
    if os.path.isfile(os.path.join(base, name)):  # False of a path that is too long, too
        return name
    plain = name.replace("\\", "/")
    forms = (plain, unicodedata.normalize("NFC", plain), unicodedata.normalize("NFD", plain), f"clips/{plain}")
    return next((form for form in forms if os.path.isfile(os.path.join(base, form))), None)


def _check_unique(ids: Iterable[str], path: Path, earlier: dict[Path, dict[str, int]]) -> None:
    for before, known in earlier.items():
        if before != path and (twice := next((id for id in ids if id in known), None)) is not None:
            raise InputError(f"the id {twice!r} is both in {before} and in {path}", "give each its own id")


def _shared_audio(corpus: Corpus, listings: FolderListings) -> list[str]:
    """Return notes on recordings that are in training and in another split, whose scores are too good."""

    def places(split: str) -> Iterator[tuple[tuple[str, int | None], tuple[float, float]]]:
        for each in corpus.splits[split]:
            yield (listings.real(each.audio), each.channel), each.stretch or (0.0, math.inf)

    held = {recording for split in ("dev", "test") for recording, _ in places(split)}
    trained: defaultdict[tuple[str, int | None], list[tuple[float, float]]] = defaultdict(list)
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


class FolderListings:
    """What is known of the files of a table, each looked up once."""

    def __init__(self) -> None:
        self.seconds = cache(lambda path: sound_file.info(path).seconds)
        """Returns the duration of a recording."""
        self._real = cache(os.path.realpath)

    def real(self, path: Path) -> str:
        """Return the path without symbolic links, as `os.path.realpath`."""
        return os.path.realpath(path) if os.path.islink(path) else os.path.join(self._real(path.parent), path.name)
