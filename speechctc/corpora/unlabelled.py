"""Recordings without labels: those of a folder or table, long ones cut where they are quietest."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.recordings import find_recordings, ids, left_out
from speechctc.core import files
from speechctc.core.errors import InputError, counted
from speechctc.corpora.corpus import UNLABELLED, Corpus, Rejected, Utterance
from speechctc.corpora.table import BadRow, FolderListings, checked, find_audio, stretch_of
from speechctc.corpora.table_rows import read_table

LONGEST = 20.0  # seconds of a piece
EARLIEST = 10.0  # seconds after which a piece may end
QUIET = 0.2  # seconds whose mean power is compared
RATE = 8000  # Hz, to measure power
EVER = (0.0, math.inf)
SOURCE = "source.txt"  # beside the features: the folder or table of the recordings


def with_unlabelled(corpus: Corpus, source: Path) -> Corpus:
    """Return a corpus with the recordings of a folder or table as a split; those that have labels are left out.

    Raises
    ------
    InputError
        There are none, or the table cannot be read.
    """
    named, rejected, said = _named(source)
    labelled: defaultdict[Path, list[tuple[str, tuple[float, float]]]] = defaultdict(list)
    for split, part in corpus.splits.items():
        for each in part:
            labelled[each.audio.resolve()].append((split, each.stretch or EVER))
    taken = [_split_of(each, labelled.get(each.audio.resolve(), ())) for each in named]
    notes = (*corpus.notes, *said)
    if any(taken):
        found = counted(Counter(split for split in taken if split))
        notes += (f"{source}: recordings of the corpus itself are left out: {found}",)
    pieces: list[Utterance] = []
    taken_ids = {each.id for each in named}
    for each in (each for each, split in zip(named, taken, strict=True) if split is None):
        try:
            for piece in _pieces(each):
                pieces.append(each if piece is each else dataclasses.replace(piece, id=_free(piece.id, taken_ids)))
        except InputError as error:
            rejected.append(Rejected(each.id, error.what))
    if not pieces:
        why = rejected[0].reason if rejected else "all are recordings of the corpus itself"
        raise InputError(f"data.unlabelled={source}: no recording in it can be used ({why})", "name another folder")
    splits = {**corpus.splits, UNLABELLED: tuple(pieces)}
    unusable = {**corpus.rejected, UNLABELLED: tuple(rejected)}
    return dataclasses.replace(corpus, splits=splits, rejected=unusable, notes=notes)


def note_source(features: Path, source: Path) -> None:
    """Note beside features of recordings without labels where these came from."""
    files.write_text(features / UNLABELLED / SOURCE, f"{source}\n")


def check_source(features: Path, source: Path) -> None:
    """Check that features of recordings without labels are those of a folder or table, where that was noted.

    Raises
    ------
    InputError
        They are of another.
    """
    noted = features / UNLABELLED / SOURCE
    made = Path(noted.read_text(encoding="utf-8").removesuffix("\n")) if noted.is_file() else source
    if made != source and made.resolve() != source.resolve():
        fix = f"run speechctc extract with it first, or give data.unlabelled={made}"
        raise InputError(f"data.unlabelled={source}: the features in {noted.parent} are of {made}", fix)


def _free(id: str, taken: set[str]) -> str:
    """Return an id that is not among those taken, with a number where it is one of them; and take it."""
    names = (f"{id}-{number}" if number > 1 else id for number in count(1))
    free = next(name for name in names if name not in taken)
    taken.add(free)
    return free


def _split_of(utterance: Utterance, used: Iterable[tuple[str, tuple[float, float]]]) -> str | None:
    """Return the split that some of an utterance is in, by the stretches of its recording that splits use."""
    start, end = utterance.stretch or EVER
    return next((split for split, (since, until) in used if start < until and since < end), None)


def _named(source: Path) -> tuple[list[Utterance], list[Rejected], list[str]]:
    """Return the recordings, or parts of them, of a folder or table; the rows that name none; notes."""
    if source.is_dir():
        recordings = find_recordings([source])
        pairs = zip(recordings, ids(recordings), strict=True)
        return [Utterance(id, each.path, (), channel=each.channel) for each, id in pairs], [], left_out([source])
    if not source.exists():
        raise InputError(f"data.unlabelled={source}: no such folder or table", "name one, or null")
    listings, found, rejected, lines = FolderListings(), [], [], dict[str, int]()
    table = read_table(source, labels=())
    for row in table.rows:
        try:
            row = checked(row, lines)
            audio = find_audio(source.parent, row.audio, listings)
            stretch = stretch_of(row, audio, listings)
            found.append(Utterance(row.id, audio, (), channel=row.channel, stretch=stretch))
            lines[row.id] = row.line
        except (BadRow, InputError) as error:
            rejected.append(Rejected(row.id or f"line {row.line}", f"{source}, line {row.line}: {error}"))
    return found, rejected, [table.note] if table.note else []


def _pieces(whole: Utterance) -> Iterator[Utterance]:
    """Yield an utterance, or pieces of it of 10 to 20 s, cut in the middle of the quietest 0.2 s."""
    start, until = whole.stretch or (0.0, sound_file.info(whole.audio).seconds)
    if until - start <= LONGEST:
        yield whole
        return
    is_last = False
    while start < until and not is_last:
        end, is_last = (until, True) if start + LONGEST >= until else _end(whole, start)
        yield dataclasses.replace(whole, id=f"{whole.id}@{start:.2f}", stretch=(start, end))
        start = end


def _end(whole: Utterance, start: float) -> tuple[float, bool]:
    """Return where the piece from `start` on ends, s, and whether the recording does: one may be cut short."""
    path, channel = whole.audio, whole.channel
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
