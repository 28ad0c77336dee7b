"""Pair recordings with their transcripts, to align them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.recordings import Recording, find_recordings, left_out
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora import transcripts
from speechctc.corpora.transcripts import Labels, Transcript, TranscriptOrError


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
    if given is not None and not given.is_dir() and transcripts.is_table(given):
        pairs = transcripts.in_table(given, find_recordings(arguments) if arguments else None, labels)
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
        return transcripts.beside_each(recordings, tier, labels)
    if given.is_dir():
        return transcripts.in_folder(given, recordings, tier, labels)
    return [transcripts.read_transcript(given, recordings[0].path, tier, labels)]
