"""Align recordings with their known phones, and write the results."""

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
from speechctc.inference.batch_decode import map_in_threads
from speechctc.inference.output import OutputOptions, check_out
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.writer import Delivery, deliver, left_to_do, say_if_uncalibrated
from speechctc.phones.inventory import Inventory
from speechctc.progress import Reporter

FARTHEST = 3  # recordings to name, those with the largest errors of given boundaries
EXAMPLES = 8  # phones of the model to name if words were given


class Task(NamedTuple):
    """A recording and its transcript, or the error that says why there is none."""

    recording: Recording
    transcript: TranscriptOrError


def align(recogniser: Recogniser, tasks: Sequence[Task], options: OutputOptions, reporter: Reporter) -> int:
    """Align recordings and write each result when it is ready; return the exit status.

    The status is 0 if all recordings were aligned, 1 if some failed, 2 if all failed.

    Raises
    ------
    InputError
        The output cannot hold the results, or files that a person made or changed would be replaced.
    """
    check_out([task.recording for task in tasks], options)
    say_if_uncalibrated(recogniser, options, reporter)
    left = {recording.path for recording in left_to_do([task.recording for task in tasks], options, reporter)}
    tasks = [task for task in tasks if task.recording.path in left]
    errors: dict[str, float] = {}
    results = map_in_threads(lambda task: _place(recogniser, task, options.channel), tasks, options.jobs)
    delivery = Delivery([task.recording for task in tasks], _collect_errors(results, errors), options)
    status = deliver(delivery, "aligning", reporter, aligned=True)
    if errors:
        reporter.note(_errors_text(errors))
    return status


def _place(recogniser: Recogniser, task: Task, channel: int | None) -> Recognition:
    """Align one recording; if its transcript has times, compare the boundaries."""
    path, transcript = task.recording.path, task.transcript
    if isinstance(transcript, InputError):
        raise transcript
    if not transcript.phones:
        where = f" in {transcript.file}" if transcript.file else ""
        raise InputError(f"{path}: no phones to align{where}", "give some, separated by spaces")
    if _look_like_words(transcript.phones, recogniser.inventory):
        raise _words_error(path, transcript, recogniser.inventory)
    result = recogniser.align(path, transcript.phones, channel=task.recording.channel or channel)
    pairs = list(zip(transcript.starts, result.segments, strict=False))[1:]
    return replace(result, given_error=median(abs(start - it.start) for start, it in pairs)) if pairs else result


def _look_like_words(labels: Sequence[str], inventory: Inventory) -> bool:
    """Return whether most labels are unknown to the model and spelled like words."""
    unknown = [label for label in labels if inventory.normalise(label) not in inventory.phones]
    letters = [sum(map(str.isalpha, label)) for label in unknown]
    return len(labels) > 1 and 2 * len(unknown) > len(labels) and sum(letters) >= 2.5 * len(unknown)


def _words_error(path: Path, transcript: Transcript, inventory: Inventory) -> InputError:
    some = " ".join(transcript.phones[:6]) + (" ..." if len(transcript.phones) > 6 else "")
    where = f"{path}: {transcript.file}" if transcript.file else str(path)
    fix = f"give phones of the model, such as {' '.join(inventory.phones[:EXAMPLES])}"
    text = transcript.file is not None and transcript.file.suffix.lower() in transcripts.TEXTS
    advice = "; --tier phones reads those of a TextGrid" if text else ""
    return InputError(f"{where}: these look like words, not phones: {some}", fix + advice)


def _collect_errors(
    results: Iterable[Recognition | InputError], errors: dict[str, float]
) -> Iterator[Recognition | InputError]:
    """Yield the results, and collect the errors of given boundaries by file."""
    for result in results:
        if isinstance(result, Recognition) and result.given_error is not None:
            errors[result.file] = result.given_error
        yield result


def _errors_text(errors: dict[str, float]) -> str:
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
        Files, folders, patterns; may be empty if `given` is a table, whose rows then name the recordings.
    phones : str or None
        Labels of a single recording, separated by spaces.
    given : Path or None
        A table with the columns id, audio and phones; a folder of transcripts named like the recordings; or the
        transcript of a single recording. If this and `phones` are None, the transcripts are files in the folders of the
        recordings.
    tier : str or None
        The tier of the TextGrids; if it is given, only TextGrids are read.
    reporter : Reporter
        Receives the names of files that are left out.

    Raises
    ------
    InputError
        Both `phones` and `given`, no recordings, or a table that cannot be read.
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
