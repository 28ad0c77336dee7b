"""The alignment stage: known phones placed in recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.corpora.table_rows import read_rows
from speechctc.errors import InputError
from speechctc.progress import Reporter
from speechctc.recognition.annotations import read_phn
from speechctc.recognition.many import in_order
from speechctc.recognition.recogniser import Recogniser
from speechctc.recognition.recognition import Recognition
from speechctc.recognition.recordings import Recording, beside, find_recordings
from speechctc.recognition.results import Wanted, check_out, deliver, say_if_uncalibrated

TRANSCRIPTS = (".phn", ".lab", ".txt")


class Task(NamedTuple):
    """A recording and the phones to place in it, or why they are not known."""

    recording: Recording
    phones: tuple[str, ...] | InputError


def align(recogniser: Recogniser, tasks: Sequence[Task], wanted: Wanted, reporter: Reporter) -> int:
    """Align recordings, writing each as it comes; return the exit status: 0, 1 if some failed, 2 if all did."""

    def work(task: Task) -> Recognition:
        if isinstance(task.phones, InputError):
            raise task.phones
        if not task.phones:
            raise InputError(f"{task.recording.path}: no phones to place in it", "name some, separated by spaces")
        return recogniser.align(task.recording.path, task.phones)

    recordings = [task.recording for task in tasks]
    check_out(recordings, wanted)
    say_if_uncalibrated(recogniser, wanted.form, reporter)
    return deliver(recordings, in_order(work, tasks, wanted.jobs), wanted, "aligning", reporter)


def find_tasks(arguments: Sequence[Path], phones: str | None, transcripts: Path | None) -> list[Task]:
    """Pair recordings with their phones.

    Parameters
    ----------
    arguments : sequence of Path
        Files, folders, patterns; may be empty with `transcripts`, whose rows then name the recordings.
    phones : str or None
        Labels separated by spaces, of the one recording.
    transcripts : Path or None
        A table with the columns id, audio and phones. Without it and `phones`, a .PHN, .lab or .txt file beside each
        recording has them.

    Raises
    ------
    InputError
        Both or neither are given where one must be, or the table cannot be read.
    """
    if phones is not None and transcripts is not None:
        raise InputError("both --phones and --transcripts are given", "give one of them")
    if transcripts is not None:
        return _from_table(transcripts, find_recordings(arguments) if arguments else None)
    recordings = find_recordings(arguments)
    if not recordings:
        raise InputError("no recording to align", "name one, or give --transcripts TABLE")
    if phones is not None and len(recordings) > 1:
        raise InputError(f"--phones are of one recording, and {len(recordings)} are named", "use --transcripts TABLE")
    if phones is not None:
        return [Task(recordings[0], tuple(phones.split()))]
    return [Task(recording, _beside(recording.path)) for recording in recordings]


def _beside(path: Path) -> tuple[str, ...] | InputError:
    """Read the phones from the file beside a recording."""
    file = beside(path, TRANSCRIPTS)
    if file is None:
        return InputError(f"{path}: no {', '.join(TRANSCRIPTS)} file beside it", "write its phones into one")
    try:
        if file.suffix.lower() == ".phn":
            return tuple(interval.label for interval in read_phn(file))
        phones = tuple(file.read_text(encoding="utf-8").split())
    except InputError as error:
        return error
    except (OSError, UnicodeDecodeError):
        return InputError(f"{file}: not readable as UTF-8 text", "save its phones as text")
    return phones


def _from_table(table: Path, recordings: Sequence[Recording] | None) -> list[Task]:
    """Pair a table's rows with the recordings named, by their id or file name; or with those the rows name."""
    rows = read_rows(table)
    if bad := next((row for row in rows if row.problem or row.phones is None), None):
        raise InputError(f"{table}, line {bad.line}: {bad.problem or 'no phones'}", "mend the line")
    if recordings is None:
        paths = [table.parent / row.audio for row in rows]
        return [Task(Recording(path, Path(row.id)), row.phones or ()) for path, row in zip(paths, rows, strict=True)]
    known = {Path(row.audio).stem: row.phones or () for row in rows} | {row.id: row.phones or () for row in rows}
    missing = "no row of its name among the ids and recordings"
    return [
        Task(each, known.get(each.path.stem, InputError(f"{each.path}: {table} has {missing}", "add one")))
        for each in recordings
    ]
