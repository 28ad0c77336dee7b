"""Recordings of one's own: a table per split, as TSV, CSV or JSON lines, with the columns id, audio and phones.

``phones`` are labels separated by spaces, or a JSON list; ``speaker`` and ``channel`` are read where there are such
columns; other columns are not. Audio paths are relative to the table's folder, or to ``corpus.root`` if that is given.
"""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.gathered import Gathered
from speechctc.corpora.table_rows import Row, read_table
from speechctc.errors import InputError
from speechctc.phones.inventory import FOUND, named_inventory

if TYPE_CHECKING:
    from speechctc.config.schema import CorpusConfig


class BadRow(Exception):
    """A row that cannot be used; the message says why."""


class NoRecording(BadRow):
    """A row whose recording is not there."""


def read_tables(config: CorpusConfig) -> Corpus:
    """Read the tables that the config names.

    Raises
    ------
    InputError
        No training table, a table that cannot be read or has no usable row where it must, or an id in two tables.
    """
    if config.tables.train is None:
        raise InputError("corpus.tables.train is not set, and corpus.kind is table", "set it to the training table")
    gathered = Gathered(None if config.phones in ("auto", FOUND) else named_inventory(config.phones), config.ignore)
    owner: dict[str, str] = {}
    for split in SPLITS:
        path: Path | None = getattr(config.tables, split)
        if path is None:
            continue
        _read(path, split, gathered, config)
        _check_unique(gathered.utterances[split], path, owner)
        if not gathered.utterances[split]:
            rejected = gathered.rejected[split]
            raise InputError(
                f"{path}: none of {len(rejected)} rows can be used; the first, {rejected[0].reason}",
                "correct the table",
            )
    if config.tables.test is None:
        gathered.notes.append("test: none, corpus.tables.test is not set")
    corpus = gathered.to_corpus(config.dev_share, hold_out_dev=config.tables.dev is None)
    return dataclasses.replace(corpus, notes=corpus.notes + tuple(_shared_audio(corpus)))


def _read(path: Path, split: str, gathered: Gathered, config: CorpusConfig) -> None:
    """Read one table: the rows that can be used, and those that cannot."""
    base = config.root or path.parent
    lines: dict[str, int] = {}
    missing, recordings = [], []
    table = read_table(path)
    for row in table.rows:
        try:
            if row.problem:
                raise BadRow(row.problem)
            if row.id in lines:
                raise BadRow(f"the id {row.id!r} is already that of line {lines[row.id]}")
            utterance = _utterance(row, base, gathered)
            gathered.utterances[split].append(utterance)
            recordings.append(utterance.audio)
            lines[row.id] = row.line
        except BadRow as error:
            if isinstance(error, NoRecording):
                missing.append(Path(row.audio))
            gathered.rejected[split].append(Rejected(row.id or f"line {row.line}", f"{path}, line {row.line}: {error}"))
    if table.note:
        gathered.warnings.append(table.note)
    gathered.warn_of(missing, f"{path}: rows left out, because their recordings are not there")
    gathered.warn_of_formats(recordings)


def _utterance(row: Row, base: Path, gathered: Gathered) -> Utterance:
    if not row.id:
        raise BadRow("the id is empty")
    if not row.audio:
        raise BadRow("the audio path is empty")
    if row.phones is None:
        raise BadRow("no phones; a recording without speech is written as []")
    audio = _find(base, row.audio)
    try:
        labels, _ = gathered.labels(row.phones)
    except InputError as error:
        raise BadRow(str(error)) from None
    return Utterance(row.id, audio, tuple(labels), row.speaker, channel=row.channel)


def _find(base: Path, name: str) -> Path:
    """Return a recording; its name may have backslashes, or another Unicode form than the file's (macOS's)."""
    plain = name if "\\" not in name or os.path.isfile(base / name) else name.replace("\\", "/")
    for form in (plain, unicodedata.normalize("NFC", plain), unicodedata.normalize("NFD", plain)):
        if os.path.isfile(base / form):  # False where the name is too long for a file, too
            return base / form
    raise NoRecording(f"no such recording: {base / name}")


def _check_unique(utterances: Iterable[Utterance], path: Path, owner: dict[str, str]) -> None:
    for utterance in utterances:
        before = owner.setdefault(utterance.id, str(path))
        if before != str(path):
            raise InputError(f"the id {utterance.id!r} is both in {before} and in {path}", "give each its own id")


def _shared_audio(corpus: Corpus) -> list[str]:
    """Tell of recordings that are in training and in another split: scores on those mean little."""
    trained = {(utterance.audio.resolve(), utterance.channel) for utterance in corpus.splits["train"]}
    notes = []
    for split in ("dev", "test"):
        shared = [(utterance.audio.resolve(), utterance.channel) in trained for utterance in corpus.splits[split]]
        if count := sum(shared):
            notes.append(f"{count} recordings of {split} are in the training split too: its scores will flatter")
    return notes
