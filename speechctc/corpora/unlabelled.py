"""Recordings without labels: those of a folder or table, long ones cut where they are quietest."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.recordings import Recording, find_recordings, ids, left_out
from speechctc.core.errors import InputError, counted
from speechctc.corpora.corpus import UNLABELLED, Corpus, Rejected, Utterance
from speechctc.corpora.table import FolderListings, NoRecording, find_audio
from speechctc.corpora.table_rows import read_table

LONGEST = 20.0  # seconds of a piece
EARLIEST = 10.0  # seconds after which a piece may end
QUIET = 0.2  # seconds whose mean power is compared
RATE = 8000  # Hz, to measure power


def with_unlabelled(corpus: Corpus, source: Path) -> Corpus:
    """Return a corpus with the recordings of a folder or table as a split; those that have labels are left out.

    Raises
    ------
    InputError
        There are none, or the table cannot be read.
    """
    pairs, rejected = _named(source)
    labelled = {each.audio.resolve(): split for split, part in corpus.splits.items() for each in part}
    taken = [labelled.get(recording.path.resolve()) for recording, _ in pairs]
    notes = (*corpus.notes, *left_out([source]))
    if any(taken):
        found = counted(Counter(split for split in taken if split))
        notes += (f"{source}: recordings of the corpus itself are left out: {found}",)
    pieces: list[Utterance] = []
    taken_ids = {id for _, id in pairs}
    for (recording, id), split in zip(pairs, taken, strict=True):
        if split is not None:
            continue
        try:
            for piece in _pieces(recording, id):
                pieces.append(dataclasses.replace(piece, id=_free(piece.id, taken_ids)) if piece.stretch else piece)
        except InputError as error:
            rejected.append(Rejected(id, error.what))
    if not pieces:
        why = rejected[0].reason if rejected else "all are recordings of the corpus itself"
        raise InputError(f"data.unlabelled={source}: no recording in it can be used ({why})", "name another folder")
    splits = {**corpus.splits, UNLABELLED: tuple(pieces)}
    return dataclasses.replace(
        corpus, splits=splits, rejected={**corpus.rejected, UNLABELLED: tuple(rejected)}, notes=notes
    )


def _free(id: str, taken: set[str]) -> str:
    """Return an id that is not among those taken, with a number where it is one of them; and take it."""
    names = (f"{id}-{number}" if number > 1 else id for number in count(1))
    free = next(name for name in names if name not in taken)
    taken.add(free)
    return free


def _named(source: Path) -> tuple[list[tuple[Recording, str]], list[Rejected]]:
    """Return the recordings of a folder or table with an id each, and the rows that name none."""
    if source.is_dir():
        recordings = find_recordings([source])
        return list(zip(recordings, ids(recordings), strict=True)), []
    if not source.exists():
        raise InputError(f"data.unlabelled={source}: no such folder or table", "name one, or null")
    listings, found, rejected = FolderListings(), [], []
    for row in read_table(source, labels=()).rows:
        try:
            path = find_audio(source.parent, row.audio, listings)
            found.append((Recording(path, Path(row.id), row.channel), row.id))
        except NoRecording as error:
            rejected.append(Rejected(row.id, str(error)))
    return found, rejected


def _pieces(recording: Recording, id: str) -> Iterator[Utterance]:
    """Yield a recording, or pieces of it of 10 to 20 s, cut in the middle of the quietest 0.2 s."""
    length = sound_file.info(recording.path).seconds
    if length <= LONGEST:
        yield Utterance(id, recording.path, (), channel=recording.channel)
        return
    start, is_last = 0.0, False
    while start < length and not is_last:
        end, is_last = (length, True) if start + LONGEST >= length else _end(recording, start)
        yield Utterance(f"{id}@{start:.2f}", recording.path, (), channel=recording.channel, stretch=(start, end))
        start = end


def _end(recording: Recording, start: float) -> tuple[float, bool]:
    """Return where the piece from `start` on ends, s, and whether the recording does: one may be cut short."""
    path, channel = recording.path, recording.channel
    earliest, latest = start + EARLIEST, start + LONGEST
    try:
        samples, seconds = sound_file.read(path, RATE, channel, (earliest, latest))
    except InputError:  # nothing is there; the beginning of the piece shows whether the sound is damaged, or at its end
        return start + sound_file.read(path, RATE, channel, (start, latest))[1], True
    if seconds < latest - earliest - QUIET:
        return earliest + seconds, True
    return earliest + _quietest(samples), False


def _quietest(samples: NDArray[np.float32]) -> float:
    """Return the middle of the quietest place in samples, in seconds after the first, in steps of 10 ms."""
    step = RATE // 100
    power = np.square(samples[: len(samples) // step * step].astype(np.float64)).reshape(-1, step).sum(1)
    width = round(100 * QUIET)
    sums = np.convolve(power, np.ones(width), "valid")
    return (int(sums.argmin()) + width // 2) / 100
