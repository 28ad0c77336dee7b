"""Phones that are known of recordings, as files have them: .PHN, TextGrids, text, tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.audio import sound_file
from speechctc.audio.annotations import PHN_RATE, read_phn, read_textgrid
from speechctc.audio.recordings import Recording, sibling_file
from speechctc.corpora.table_rows import read_rows
from speechctc.errors import InputError

TIER = "phones"
TEXTS = (".lab", ".txt")
FILES = (".phn", *TEXTS, ".textgrid")
"""Endings of files with phones, those that are taken first at the front."""
NAMES = ".PHN, .lab, .txt or .TextGrid"


class Transcript(NamedTuple):
    """The phones of a recording.

    Attributes
    ----------
    phones : tuple of str
    starts : tuple of float
        Where each begins, in seconds; empty where that is not known.
    file : Path, optional
        Where they were read.
    """

    phones: tuple[str, ...]
    starts: tuple[float, ...] = ()
    file: Path | None = None


Found = Transcript | InputError
"""A transcript, or why there is none."""


def read_transcript(file: Path, recording: Path, tier: str | None = None) -> Transcript:
    """Read the phones of a recording from a file, by its ending.

    Parameters
    ----------
    file : Path
        A .PHN file, a TextGrid, or text: labels between blanks.
    recording : Path
        In whose rate a .PHN file counts.
    tier : str, optional
        Of a TextGrid; ``"phones"`` without it.

    Raises
    ------
    InputError
        It cannot be read, or has no such tier.
    """
    ending = file.suffix.lower()
    if ending in (".phn", ".textgrid"):
        if ending == ".phn":
            intervals = read_phn(file, _rate(recording))
        else:
            intervals = read_textgrid(file, tier or TIER)
        return Transcript(tuple(each.label for each in intervals), tuple(each.start for each in intervals), file)
    try:
        return Transcript(tuple(file.read_text(encoding="utf-8-sig").split()), (), file)
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{file}: not readable as UTF-8 text", "save its phones as text") from None


def _rate(recording: Path) -> int:
    try:
        return sound_file.info(recording).rate
    except InputError:  # said when the recording is read
        return PHN_RATE


def beside_each(recordings: Sequence[Recording], tier: str | None) -> list[Found]:
    """Read the phones from the file beside each recording; with a tier named, from TextGrids alone."""
    return [_first(each, [each.path], f"beside {each.path.name}", tier) for each in recordings]


def in_folder(folder: Path, recordings: Sequence[Recording], tier: str | None) -> list[Found]:
    """Read the phones from files of a folder, called like the recordings, in the same subfolders or in none."""
    places = [[folder / each.name.parent / each.path.name, folder / each.path.name] for each in recordings]
    return [_first(each, where, f"in {folder}", tier) for each, where in zip(recordings, places, strict=True)]


def _first(recording: Recording, places: Sequence[Path], where: str, tier: str | None) -> Found:
    endings = (".textgrid",) if tier else FILES
    file = next((file for place in places if (file := sibling_file(place, endings)) is not None), None)
    if file is None:
        names = ".TextGrid" if tier else NAMES
        return InputError(f"{recording.path}: no {names} file of its name {where}", "write its phones into one")
    try:
        return read_transcript(file, recording.path, tier)
    except InputError as error:
        return error


def is_table(file: Path) -> bool:
    """Tell whether a file of transcripts is a table: not by its ending a transcript, and .txt only with tabs."""
    if file.suffix.lower() != ".txt":
        return file.suffix.lower() not in FILES
    try:
        return "\t" in file.read_text(encoding="utf-8-sig").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return True


def in_table(table: Path, recordings: Sequence[Recording] | None) -> list[tuple[Recording, Found]]:
    """Pair a table's rows with the recordings named, by their id or file name; or with those the rows name.

    Raises
    ------
    InputError
        The table cannot be read, or a row has no phones.
    """
    rows = read_rows(table)
    if bad := next((row for row in rows if row.problem or row.phones is None), None):
        raise InputError(f"{table}, line {bad.line}: {bad.problem or 'no phones'}", "mend the line")
    if recordings is None:
        paths = [table.parent / row.audio for row in rows]
        pairs = zip(paths, rows, strict=True)
        return [(Recording(path, Path(row.id)), Transcript(row.phones or (), (), table)) for path, row in pairs]
    known = {Path(row.audio).stem: row.phones or () for row in rows} | {row.id: row.phones or () for row in rows}
    missing = "no row of its name among the ids and recordings"
    return [
        (
            each,
            Transcript(known[each.path.stem], (), table)
            if each.path.stem in known
            else InputError(f"{each.path}: {table} has {missing}", "add one"),
        )
        for each in recordings
    ]
