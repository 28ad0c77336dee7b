"""The alignment stage: known phones placed in recordings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from speechctc.audio.recordings import Recording, find_recordings, left_out
from speechctc.corpora import transcripts
from speechctc.corpora.transcripts import Transcript, TranscriptOrError
from speechctc.errors import InputError
from speechctc.inference.batch_decode import in_order
from speechctc.inference.output import Wanted, check_out
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.writer import Delivery, deliver, say_if_uncalibrated, to_do
from speechctc.phones.inventory import Inventory
from speechctc.progress import Reporter

FARTHEST = 3  # recordings named whose own boundaries are farthest from those found
EXAMPLES = 8  # phones of the model named where words were given


class Task(NamedTuple):
    """A recording and the phones to place in it, or why they are not known."""

    recording: Recording
    transcript: TranscriptOrError


def align(recogniser: Recogniser, tasks: Sequence[Task], wanted: Wanted, reporter: Reporter) -> int:
    """Align recordings, writing each as it comes; return the exit status: 0, 1 if some failed, 2 if all did.

    Raises
    ------
    InputError
        The results do not fit into the output named, or would replace a person's files.
    """
    check_out([task.recording for task in tasks], wanted)
    say_if_uncalibrated(recogniser, wanted, reporter)
    left = {recording.path for recording in to_do([task.recording for task in tasks], wanted, reporter)}
    tasks = [task for task in tasks if task.recording.path in left]
    errors: dict[str, float] = {}
    results = in_order(lambda task: _place(recogniser, task, wanted.channel), tasks, wanted.jobs)
    delivery = Delivery([task.recording for task in tasks], _noted(results, errors), wanted)
    status = deliver(delivery, "aligning", reporter, aligned=True)
    if errors:
        reporter.note(_errors_in_words(errors))
    return status


def _place(recogniser: Recogniser, task: Task, channel: int | None) -> Recognition:
    """Align one recording, and compare with the boundaries of its transcript if it has times."""
    path, transcript = task.recording.path, task.transcript
    if isinstance(transcript, InputError):
        raise transcript
    if not transcript.phones:
        where = f" in {transcript.file}" if transcript.file else ""
        raise InputError(f"{path}: no phones to place in it{where}", "name some, separated by spaces")
    if _look_like_words(transcript.phones, recogniser.inventory):
        raise _words(path, transcript, recogniser.inventory)
    result = recogniser.align(path, transcript.phones, channel=task.recording.channel or channel)
    pairs = list(zip(transcript.starts, result.segments, strict=False))[1:]
    return replace(result, given_error=median(abs(start - it.start) for start, it in pairs)) if pairs else result


def _look_like_words(labels: Sequence[str], inventory: Inventory) -> bool:
    """Tell whether most labels are not of the model and are spelled like words."""
    unknown = [label for label in labels if inventory.normalise(label) not in inventory.phones]
    letters = [sum(map(str.isalpha, label)) for label in unknown]
    return len(labels) > 1 and 2 * len(unknown) > len(labels) and sum(letters) >= 2.5 * len(unknown)


def _words(path: Path, transcript: Transcript, inventory: Inventory) -> InputError:
    some = " ".join(transcript.phones[:6]) + (" ..." if len(transcript.phones) > 6 else "")
    where = f"{path}: {transcript.file}" if transcript.file else str(path)
    fix = f"give phones of the model, such as {' '.join(inventory.phones[:EXAMPLES])}"
    text = transcript.file is not None and transcript.file.suffix.lower() in transcripts.TEXTS
    advice = "; --tier phones reads those of a TextGrid" if text else ""
    return InputError(f"{where}: these look like words, not phones: {some}", fix + advice)


def _noted(results: Iterable[Recognition | InputError], errors: dict[str, float]) -> Iterator[Recognition | InputError]:
    """Pass results on, and keep how far given boundaries are from those found, by file."""
    for result in results:
        if isinstance(result, Recognition) and result.given_error is not None:
            errors[result.file] = result.given_error
        yield result


def _errors_in_words(errors: dict[str, float]) -> str:
    if len(errors) == 1:
        ((file, error),) = errors.items()
        return f"{file}: the boundaries of its transcript are {1000 * error:.1f} ms from the aligned ones (median)"
    far = sorted(errors, key=errors.__getitem__, reverse=True)[:FARTHEST]
    named = ", ".join(f"{file} {1000 * errors[file]:.1f} ms" for file in far)
    middle = 1000 * median(errors.values())
    return (
        f"the boundaries of the transcripts of {len(errors)} recordings are {middle:.1f} ms from the aligned ones"
        f" (median of the recordings' medians); farthest: {named}"
    )


def find_tasks(
    arguments: Sequence[Path], phones: str | None, given: Path | None, tier: str | None, reporter: Reporter
) -> list[Task]:
    """Pair recordings with their phones.

    Parameters
    ----------
    arguments : sequence of Path
        Files, folders, patterns; may be empty with a table in `given`, whose rows then name the recordings.
    phones : str or None
        Labels separated by spaces, of the one recording.
    given : Path or None
        A table with the columns id, audio and phones; a folder of transcripts called like the recordings; or the
        transcript of the one recording. Without it and `phones`, files beside the recordings have them.
    tier : str or None
        Of the TextGrids; named, only TextGrids are read.
    reporter : Reporter
        Hears of files that are left out.

    Raises
    ------
    InputError
        Both or neither are given where one must be, or the table cannot be read.
    """
    if phones is not None and given is not None:
        raise InputError("both --phones and --transcripts are given", "give one of them")
    if given is not None and not given.is_dir() and transcripts.is_table(given):
        pairs = transcripts.in_table(given, find_recordings(arguments) if arguments else None)
        return _noted_tasks(pairs, reporter)
    recordings = find_recordings(arguments)
    for line in left_out(arguments):
        reporter.note(line)
    if not recordings:
        raise InputError("no recording to align", "name one, or give --transcripts TABLE")
    if len(recordings) > 1 and (phones is not None or (given is not None and not given.is_dir())):
        of = "--phones are" if phones is not None else f"{given} is"
        fix = "use --transcripts with a table or a folder"
        raise InputError(f"{of} of one recording, and {len(recordings)} are named", fix)
    return _noted_tasks(zip(recordings, _known(recordings, phones, given, tier), strict=True), reporter)


def _noted_tasks(pairs: Iterable[tuple[Recording, TranscriptOrError]], reporter: Reporter) -> list[Task]:
    """Return the pairs as tasks; print each note on how a transcript was read once."""
    tasks = [Task(*pair) for pair in pairs]
    notes = [task.transcript.note for task in tasks if isinstance(task.transcript, Transcript)]
    for note in filter(None, dict.fromkeys(notes)):
        reporter.warn(note)
    return tasks


def _known(
    recordings: Sequence[Recording], phones: str | None, given: Path | None, tier: str | None
) -> list[TranscriptOrError]:
    if phones is not None:
        return [Transcript(tuple(phones.split()))]
    if given is None:
        return transcripts.beside_each(recordings, tier)
    if given.is_dir():
        return transcripts.in_folder(given, recordings, tier)
    return [transcripts.read_transcript(given, recordings[0].path, tier)]
