"""Recordings of one's own: a table per split, as TSV, CSV or JSON lines, with the columns id, audio and phones.

``phones`` are labels separated by spaces, or a JSON list; ``speaker`` is read where there is one; other columns are
not. Audio paths are relative to the table's folder, or to ``corpus.root`` if that is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.held_out import hold_out
from speechctc.corpora.table_rows import Row, read_rows
from speechctc.errors import InputError
from speechctc.phones import FOUND, Inventory, found, inventory

if TYPE_CHECKING:
    from speechctc.config import CorpusConfig


class BadRow(Exception):
    """A row that cannot be used; the message says why."""


def read_tables(config: CorpusConfig) -> Corpus:
    """Read the tables that the config names.

    Raises
    ------
    InputError
        No training table, a table that cannot be read or has no usable row where it must, or an id in two tables.
    """
    if config.tables.train is None:
        raise InputError("corpus.tables.train is not set, and corpus.kind is table", "set it to the training table")
    phones = None if config.phones in ("auto", FOUND) else inventory(config.phones)
    parts: dict[str, list[Utterance]] = {split: [] for split in SPLITS}
    rejected: dict[str, list[Rejected]] = {split: [] for split in SPLITS}
    notes: list[str] = []
    owner: dict[str, str] = {}
    for split in SPLITS:
        path: Path | None = getattr(config.tables, split)
        if path is None:
            continue
        parts[split], rejected[split] = _read(path, config.root or path.parent, phones)
        _check_unique(parts[split], path, owner)
        if not parts[split]:
            first = rejected[split][0].reason
            raise InputError(f"{path}: none of {len(rejected[split])} rows can be used; the first, {first}", "mend it")
    if config.tables.dev is None:
        held, note = hold_out(parts["train"], config.dev_share)
        parts["dev"] = [utterance for utterance in parts["train"] if utterance.id in held]
        parts["train"] = [utterance for utterance in parts["train"] if utterance.id not in held]
        notes.append(note)
    if config.tables.test is None:
        notes.append("test: none, corpus.tables.test is not set")
    if phones is None:
        phones = found(phone for utterance in parts["train"] for phone in utterance.phones)
        notes.append(f"phone set: the {len(phones.phones)} labels of the training split")
        for split in ("dev", "test"):
            parts[split], unknown = _known(parts[split], phones)
            rejected[split] += unknown
    notes += _shared_audio(parts)
    return Corpus(
        {split: tuple(sorted(parts[split], key=lambda utterance: utterance.id)) for split in SPLITS},
        phones.name,
        {split: tuple(rejected[split]) for split in SPLITS},
        tuple(notes),
    )


def _read(path: Path, base: Path, phones: Inventory | None) -> tuple[list[Utterance], list[Rejected]]:
    """Read one table: the rows that can be used, and those that cannot."""
    utterances: list[Utterance] = []
    rejected: list[Rejected] = []
    lines: dict[str, int] = {}
    for row in read_rows(path):
        try:
            if row.problem:
                raise BadRow(row.problem)
            if row.id in lines:
                raise BadRow(f"the id {row.id!r} is already that of line {lines[row.id]}")
            utterances.append(_utterance(row, base, phones))
            lines[row.id] = row.line
        except BadRow as error:
            rejected.append(Rejected(row.id or f"line {row.line}", f"{path}, line {row.line}: {error}"))
    return utterances, rejected


def _utterance(row: Row, base: Path, phones: Inventory | None) -> Utterance:
    if not row.id:
        raise BadRow("the id is empty")
    if not row.audio:
        raise BadRow("the audio path is empty")
    if row.phones is None:
        raise BadRow("no phones; a recording without speech is written as []")
    audio = base / row.audio
    if not audio.is_file():
        raise BadRow(f"no such recording: {audio}")
    labels = row.phones
    if phones is not None:
        try:
            labels = tuple(phones.decode(phones.encode(labels)))  # as the set spells them
        except InputError as error:
            raise BadRow(str(error)) from None
    return Utterance(row.id, audio, labels, row.speaker)


def _check_unique(utterances: Iterable[Utterance], path: Path, owner: dict[str, str]) -> None:
    for utterance in utterances:
        before = owner.setdefault(utterance.id, str(path))
        if before != str(path):
            raise InputError(f"the id {utterance.id!r} is both in {before} and in {path}", "give each its own id")


def _known(utterances: list[Utterance], phones: Inventory) -> tuple[list[Utterance], list[Rejected]]:
    """Set apart those with a label that training does not have."""
    known, unknown = [], []
    for utterance in utterances:
        missing = sorted(set(utterance.phones) - set(phones.phones))
        if missing:
            reason = f"labels that the training split does not have: {' '.join(missing)}"
            unknown.append(Rejected(utterance.id, reason))
        else:
            known.append(utterance)
    return known, unknown


def _shared_audio(parts: dict[str, list[Utterance]]) -> list[str]:
    """Warn of recordings that are in training and in another split: scores on those mean little."""
    trained = {utterance.audio.resolve() for utterance in parts["train"]}
    notes = []
    for split in ("dev", "test"):
        count = sum(utterance.audio.resolve() in trained for utterance in parts[split])
        if count:
            notes.append(f"{count} recordings of {split} are in the training split too: its scores will flatter")
    return notes
