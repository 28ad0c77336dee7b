"""Phones or words of recordings from transcripts: .PHN files, TextGrids, text files and tables."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from speechctc.audio import sound_file
from speechctc.audio.annotations import PHN_RATE, read_phn, read_textgrid
from speechctc.audio.recordings import Recording, find_recordings, left_out, name_of
from speechctc.audio.siblings import Siblings, belongs_to_another, differs_by_case
from speechctc.core.errors import InputError, some
from speechctc.core.progress import Reporter
from speechctc.core.text_files import read_text
from speechctc.corpora.table_rows import Row, read_table

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
    endings, siblings = _endings(tier, labels), Siblings()
    found = []
    for each in recordings:
        file = siblings.find(each.path, endings)
        near = None if file else siblings.near(each.path, endings)
        found.append((each, file, f"beside {each.path.name}{belongs_to_another(near)}"))
    return _read_each(found, tier, labels)


def in_folder(
    folder: Path, recordings: Sequence[Recording], tier: str | None, labels: Labels = "phones"
) -> list[TranscriptOrError]:
    """Read transcripts with the names of the recordings from a folder, or from the same subfolders of it."""
    endings, siblings = _endings(tier, labels), Siblings()
    spelled: defaultdict[str, set[str]] = defaultdict(set)
    for each in recordings:
        spelled[each.path.stem.lower()].add(each.path.stem)
    found = []
    for each in recordings:
        places = [folder / each.name.parent / each.path.name, folder / each.path.name]
        others = spelled[each.path.stem.lower()]
        file = next((file for place in places if (file := siblings.find(place, endings, others)) is not None), None)
        near = None if file else next((near for place in places if (near := siblings.near(place, endings))), None)
        found.append((each, file, f"in {folder}{belongs_to_another(near)}"))
    return _read_each(found, tier, labels)


def _endings(tier: str | None, labels: Labels) -> tuple[str, ...]:
    return (".textgrid",) if tier else FILES if labels == "phones" else FILES[1:]


def _read_each(
    found: Sequence[tuple[Recording, Path | None, str]], tier: str | None, labels: Labels
) -> list[TranscriptOrError]:
    """Read the file found for each recording; where none was, the error says where it was looked for."""
    notes = _notes_on_names([(recording.path, file) for recording, file, _ in found if file is not None])
    read: list[TranscriptOrError] = []
    for recording, file, where in found:
        if file is None:
            names = ".TextGrid" if tier else NAMES[labels]
            what = f"{recording.path}: no {names} file of its name {where}"
            read.append(InputError(what, f"write its {labels} into one"))
            continue
        try:
            transcript = read_transcript(file, recording.path, tier, labels)
        except InputError as error:
            read.append(error)
            continue
        note = "; ".join(filter(None, (transcript.note, notes.get(recording.path, ""))))
        read.append(transcript._replace(note=note))
    return read


def _notes_on_names(pairs: Sequence[tuple[Path, Path]]) -> dict[Path, str]:
    """Return a note for recordings whose transcript has its name in other letter case, or is that of others too."""
    cased = [(path, file) for path, file in pairs if differs_by_case(path, file)]
    of: defaultdict[Path, list[Path]] = defaultdict(list)
    for path, file in pairs:
        of[file].append(path)
    shared = [(path, file) for path, file in pairs if len(of[file]) > 1]
    notes: dict[Path, str] = {}
    for some_, what in ((cased, "differ from their recordings' by letter case"), (shared, "fit several recordings")):
        said = f"transcripts used whose names {what}: {some([f'{file} for {path}' for path, file in some_], 2)}"
        for path, _ in some_:
            notes[path] = f"{notes[path]}; {said}" if path in notes else said
    return notes


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
    missing = "no row of its name among the ids and recordings"
    row_of = _rows_by_recording(table, rows)
    return [
        (each._replace(channel=row.channel), transcript(row))
        if (row := row_of(each.path)) is not None
        else (each, InputError(f"{each.path}: {table} has {missing}, or several", "add one, with its path"))
        for each in recordings
    ]


def _rows_by_recording(table: Path, rows: Sequence[Row]) -> Callable[[Path], Row | None]:
    """Return a function from a recording to its row: that with its path, its name as id, or, if only one has, its name.

    A row that was found by its path is that of no other recording.
    """
    by_path = {os.path.abspath(table.parent / row.audio): row for row in rows if row.audio}
    by_id = {row.id: row for row in rows}
    names = Counter(Path(row.audio).stem for row in rows)
    by_name = {stem: row for row in rows if names[stem := Path(row.audio).stem] == 1}

    def row_of(path: Path) -> Row | None:
        return by_path.get(os.path.abspath(path)) or by_id.get(path.stem) or by_name.get(path.stem)

    return row_of


class Task(NamedTuple):
    """A recording and its transcript, or the error that says why there is none."""

    recording: Recording
    transcript: TranscriptOrError


def find_tasks(
    arguments: Sequence[Path],
    phones: str | None,
    given: Path | None,
    tier: str | None,
    reporter: Reporter,
    labels: Labels = "phones",
) -> list[Task]:
    """Pair recordings with their phones or words.

    Parameters
    ----------
    arguments : sequence of Path
        Files, folders, patterns; may be empty if `given` is a table, whose rows then name the recordings.
    phones : str or None
        Labels of a single recording, separated by spaces.
    given : Path or None
        A table with the columns id, audio, and phones or words; a folder of transcripts named like the recordings; or
        the transcript of a single recording. If this and `phones` are None, the transcripts are files in the folders
        of the recordings.
    tier : str or None
        The tier of the TextGrids; if it is given, only TextGrids are read.
    reporter : Reporter
        Receives the names of files that are left out.
    labels : str
        What the transcripts hold.

    Raises
    ------
    InputError
        Both `phones` and `given`, no recordings, or a table that cannot be read.
    """
    if phones is not None and given is not None:
        raise InputError("both --phones and --transcripts are given", "give one of them")
    if given is not None and not given.is_dir() and is_table(given):
        pairs = in_table(given, find_recordings(arguments) if arguments else None, labels)
        return _noted_tasks(pairs, reporter)
    recordings = find_recordings(arguments)
    for line in left_out(arguments):
        reporter.note(line)
    if not recordings:
        raise InputError("no recording to align", "name one, or give --transcripts TABLE")
    if len(recordings) > 1 and (phones is not None or (given is not None and not given.is_dir())):
        of = "--phones are" if phones is not None else f"{given} is"
        fix = f"use --{'transcripts' if labels == 'phones' else 'words'} with a table or a folder"
        raise InputError(f"{of} of one recording, and {len(recordings)} are named", fix)
    return _noted_tasks(zip(recordings, _known(recordings, phones, given, tier, labels), strict=True), reporter)


def _noted_tasks(pairs: Iterable[tuple[Recording, TranscriptOrError]], reporter: Reporter) -> list[Task]:
    """Return the pairs as tasks; print each note on how a transcript was read once."""
    tasks = [Task(*pair) for pair in pairs]
    notes = [task.transcript.note for task in tasks if isinstance(task.transcript, Transcript)]
    for note in filter(None, dict.fromkeys(notes)):
        reporter.warn(note)
    return tasks


def _known(
    recordings: Sequence[Recording], phones: str | None, given: Path | None, tier: str | None, labels: Labels
) -> list[TranscriptOrError]:
    if phones is not None:
        return [Transcript(tuple(phones.split()))]
    if given is None:
        return beside_each(recordings, tier, labels)
    if given.is_dir():
        return in_folder(given, recordings, tier, labels)
    return [read_transcript(given, recordings[0].path, tier, labels)]
