"""Recordings of one's own: a table per split, as TSV, CSV or JSON lines, with the columns id, audio and phones.

``phones`` are labels separated by spaces, or a JSON list; ``speaker`` and ``channel`` are read where there are such
columns; other columns are not. Audio paths are relative to the table's folder, or to ``corpus.root`` if that is given.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.folder_listings import FolderListings
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
    lines: dict[Path, dict[str, int]] = {}
    listings = FolderListings()
    for split in SPLITS:
        path: Path | None = getattr(config.tables, split)
        if path is None:
            continue
        read = _read(path, split, gathered, config, listings)
        _check_unique(read, path, lines)
        lines[path] = read
        if not gathered.utterances[split]:
            rejected = gathered.rejected[split]
            raise InputError(
                f"{path}: none of {len(rejected)} rows can be used; the first, {rejected[0].reason}",
                "correct the table",
            )
    if config.tables.test is None:
        gathered.notes.append("test: none, corpus.tables.test is not set")
    corpus = gathered.to_corpus(config.dev_share, hold_out_dev=config.tables.dev is None)
    return dataclasses.replace(corpus, notes=corpus.notes + tuple(_shared_audio(corpus, listings)))


def _read(path: Path, split: str, gathered: Gathered, config: CorpusConfig, listings: FolderListings) -> dict[str, int]:
    """Read one table: the rows that can be used, and those that cannot; return the line of each id that can."""
    base = config.root or path.parent
    lines: dict[str, int] = {}
    missing = []
    table = read_table(path)
    for row in table.rows:
        try:
            if row.problem:
                raise BadRow(row.problem)
            if row.id in lines:
                raise BadRow(f"the id {row.id!r} is already that of line {lines[row.id]}")
            gathered.utterances[split].append(_utterance(row, base, gathered, listings))
            lines[row.id] = row.line
        except BadRow as error:
            if isinstance(error, NoRecording):
                missing.append(Path(row.audio))
            gathered.rejected[split].append(Rejected(row.id or f"line {row.line}", f"{path}, line {row.line}: {error}"))
    if table.note:
        gathered.warnings.append(table.note)
    gathered.warn_of(missing, f"{path}: rows left out, because their recordings are not there")
    gathered.warn_of_formats(utterance.audio for utterance in gathered.utterances[split])
    return lines


def _utterance(row: Row, base: Path, gathered: Gathered, listings: FolderListings) -> Utterance:
    if not row.id:
        raise BadRow("the id is empty")
    if not row.audio:
        raise BadRow("the audio path is empty")
    if row.phones is None:
        raise BadRow("no phones; a recording without speech is written as []")
    audio = _find(base, row.audio, listings)
    try:
        labels, _ = gathered.labels(row.phones)
    except InputError as error:
        raise BadRow(str(error)) from None
    return Utterance(row.id, audio, tuple(labels), sys.intern(row.speaker), channel=row.channel)


def _find(base: Path, name: str, listings: FolderListings) -> Path:
    """Return a recording; its name may have backslashes, or another Unicode form than the file's (macOS's)."""
    if listings.is_file(os.path.join(base, name)):
        return base / name
    plain = name.replace("\\", "/")
    for form in (plain, unicodedata.normalize("NFC", plain), unicodedata.normalize("NFD", plain)):
        if (base / form).is_file():
            return base / form
    raise NoRecording(f"no such recording: {base / name}")


def _check_unique(ids: Iterable[str], path: Path, earlier: dict[Path, dict[str, int]]) -> None:
    for before, known in earlier.items():
        if before != path and (twice := next((id for id in ids if id in known), None)) is not None:
            raise InputError(f"the id {twice!r} is both in {before} and in {path}", "give each its own id")


def _shared_audio(corpus: Corpus, listings: FolderListings) -> list[str]:
    """Tell of recordings that are in training and in another split: scores on those mean little."""
    if not corpus.splits["dev"] and not corpus.splits["test"]:
        return []
    trained = {(listings.real(utterance.audio), utterance.channel) for utterance in corpus.splits["train"]}
    notes = []
    for split in ("dev", "test"):
        shared = [(listings.real(utterance.audio), utterance.channel) in trained for utterance in corpus.splits[split]]
        if count := sum(shared):
            notes.append(f"{count} recordings of {split} are in the training split too: its scores will flatter")
    return notes
