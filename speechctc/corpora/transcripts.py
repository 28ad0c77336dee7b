"""Phones or words of recordings from transcripts: .PHN files, TextGrids, text files and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from speechctc.audio import sound_file
from speechctc.audio.annotations import PHN_RATE, read_phn, read_textgrid
from speechctc.audio.recordings import Recording, name_of, sibling_file
from speechctc.corpora.table_rows import Row, read_table
from speechctc.errors import InputError
from speechctc.storage.text_files import read_text

TEXTS = (".lab", ".txt")
FILES = (".phn", *TEXTS, ".textgrid")
"""Endings of transcripts; of several for one recording, the first in this order is read."""
NAMES = {"phones": ".PHN, .lab, .txt or .TextGrid", "words": ".lab, .txt or .TextGrid"}
Labels = Literal["phones", "words"]


class Transcript(NamedTuple):
    """The phones or words of a recording.

    Attributes
    ----------
    labels : tuple of str
    starts : tuple of float
        Start of each label in seconds; empty if not known.
    file : Path, optional
        The file that they were read from.
    note : str
        What the user should know about how the file was read, or ``""``.
    """

    labels: tuple[str, ...]
    starts: tuple[float, ...] = ()
    file: Path | None = None
    note: str = ""


TranscriptOrError = Transcript | InputError
"""A transcript, or the reason why there is none."""


def read_transcript(file: Path, recording: Path, tier: str | None = None, labels: Labels = "phones") -> Transcript:
    """Read the phones or words of a recording from a file, whose format is told by its ending.

    Parameters
    ----------
    file : Path
        A .PHN file, a TextGrid, or a text file with labels separated by white space.
    recording : Path
        The times of a .PHN file are in its samples.
    tier : str, optional
        Tier of a TextGrid; ``"phones"`` or ``"words"`` by default.
    labels : str
        What to read.

    Raises
    ------
    InputError
        The file cannot be read, or has no such tier.
    """
    ending = file.suffix.lower()
    if ending in (".phn", ".textgrid"):
        intervals = read_phn(file, _rate(recording)) if ending == ".phn" else read_textgrid(file, tier or labels)
        return Transcript(tuple(each.label for each in intervals), tuple(each.start for each in intervals), file)
    text, note = read_text(file)
    return Transcript(tuple(text.split()), (), file, note)


def _rate(recording: Path) -> int:
    try:
        return sound_file.info(recording).rate
    except InputError:  # reported when the recording is read
        return PHN_RATE


def beside_each(
    recordings: Sequence[Recording], tier: str | None, labels: Labels = "phones"
) -> list[TranscriptOrError]:
    """Read the transcript in the folder of each recording; if a tier is named, only from TextGrids."""
    return [_first(each, [each.path], f"beside {each.path.name}", tier, labels) for each in recordings]


def in_folder(
    folder: Path, recordings: Sequence[Recording], tier: str | None, labels: Labels = "phones"
) -> list[TranscriptOrError]:
    """Read transcripts with the names of the recordings from a folder, or from the same subfolders of it."""
    places = [[folder / each.name.parent / each.path.name, folder / each.path.name] for each in recordings]
    return [_first(each, where, f"in {folder}", tier, labels) for each, where in zip(recordings, places, strict=True)]


def _first(
    recording: Recording, places: Sequence[Path], where: str, tier: str | None, labels: Labels
) -> TranscriptOrError:
    endings = (".textgrid",) if tier else FILES if labels == "phones" else FILES[1:]
    file = next((file for place in places if (file := sibling_file(place, endings)) is not None), None)
    if file is None:
        names = ".TextGrid" if tier else NAMES[labels]
        return InputError(f"{recording.path}: no {names} file of its name {where}", f"write its {labels} into one")
    try:
        return read_transcript(file, recording.path, tier, labels)
    except InputError as error:
        return error


def is_table(file: Path) -> bool:
    """Return whether a file is a table: it has no ending of a transcript, or is .txt with a tab in its first line."""
    if file.suffix.lower() != ".txt":
        return file.suffix.lower() not in FILES
    try:
        return "\t" in read_text(file).text.partition("\n")[0]
    except InputError:
        return True


def in_table(
    table: Path, recordings: Sequence[Recording] | None, labels: Labels = "phones"
) -> list[tuple[Recording, TranscriptOrError]]:
    """Pair the rows of a table with recordings, by their ids or file names; with None, with those that it names.

    A recording gets the channel that its row names.

    Raises
    ------
    InputError
        The table cannot be read, or a row has no such labels.
    """
    found, note = read_table(table)
    rows = list(found)
    read = [row.phones if labels == "phones" else tuple(row.words.split()) or None for row in rows]
    for each, those in zip(rows, read, strict=True):
        if each.problem or those is None:
            raise InputError(f"{table}, line {each.line}: {each.problem or f'no {labels}'}", "correct the line")

    def transcript(row: Row) -> Transcript:
        return Transcript(row.phones or () if labels == "phones" else tuple(row.words.split()), (), table, note)

    if recordings is None:
        return [(Recording(table.parent / row.audio, name_of(row.id), row.channel), transcript(row)) for row in rows]
    known = {Path(row.audio).stem: row for row in rows} | {row.id: row for row in rows}
    missing = "no row of its name among the ids and recordings"
    return [
        (each._replace(channel=row.channel), transcript(row))
        if (row := known.get(each.path.stem)) is not None
        else (each, InputError(f"{each.path}: {table} has {missing}", "add one"))
        for each in recordings
    ]
