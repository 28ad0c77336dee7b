"""Pairs recordings with their transcripts: those beside them, in a folder, in one file, or in the rows of a table."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

from speechctc.audio import label_files, sound_file
from speechctc.audio.addresses import why_lost
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import find_media, read_eaf
from speechctc.audio.folders import OF_MANY, TIMED, files_below
from speechctc.audio.recordings import Named, Recording, Siblings, chosen_outside, find_recordings, left_out, name_of
from speechctc.audio.tracks import Channel, words
from speechctc.core import written
from speechctc.core.errors import InputError, counted_alike, first_few
from speechctc.core.parallel import attempt
from speechctc.core.progress import Reporter
from speechctc.core.text_files import read_text
from speechctc.corpora.manifests import PERTURBED, read_folder
from speechctc.corpora.table_rows import ENDINGS as ENDINGS_OF_TABLES
from speechctc.corpora.table_rows import Row, in_seconds, read_table, spelling_of
from speechctc.corpora.table_rows import is_table as looks_like_table
from speechctc.corpora.transcripts import (
    TEXTS,
    Labels,
    Phrase,
    Task,
    Transcript,
    TranscriptOptions,
    TranscriptOrError,
    endings_of,
    limits_of,
    read_in,
    read_sidecars,
    read_transcript,
)
from speechctc.phones.inventory import nfc
from speechctc.phones.praat import from_praat

FILES = (".phn", ".wrd", *TEXTS, ".textgrid", EAF, *TIMED, *label_files.FOREIGN)


def is_table(file: Path) -> bool:
    """Return whether a file is a table: it has no ending of a transcript, or is .txt with a tab in its first line.

    Folders of Kaldi, LibriSpeech and VCTK are tables, too. A file of another program whose lines are labels with times
    is none.
    """
    if file.is_dir():
        return read_folder(file) is not None
    ending = file.suffix.lower()
    if ending in FILES and ending != ".txt":
        return False
    if ending not in ENDINGS_OF_TABLES or ending in (".txt", ".json", ".tsv"):
        if label_files.is_label_file(file):
            return False
    try:
        return ending != ".txt" or "\t" in read_text(file).text.partition("\n")[0]
    except InputError:
        return True


def in_table(table: Path, recordings: Sequence[Recording] | None, choice: TranscriptOptions) -> list[Task]:
    """Pair the rows of a table with recordings, by their ids or file names; with None, with those that it names.

    A recording gets the channel that its row names, and the error of a row that is damaged or has no labels. Rows with
    times are the phrases of their recording.

    Raises
    ------
    InputError
        The table cannot be read, no row has such labels, or times are none, or are empty or overlap.
    """
    entries = _entries(table, choice)
    if recordings is None:
        return list(map(Task, _recordings(table, list(entries)), entries.values()))
    rows_of = _rows_by_recording(table, list(entries))
    tasks: list[Task] = []
    used = set[Row]()
    for recording in recordings:
        own = rows_of(recording.called)
        used.update(own)
        if not own or len({row.channel for row in own}) < len(own) or len({row.audio for row in own}) > 1:
            what = f"{len(own)} rows that fit it" if own else "no row of its name among the ids and recordings"
            where = "write its folder before its name in the column audio, or in the column speaker"
            fix = where if own else "add one"
            lost = why_lost(recording.path)
            tasks.append(Task(recording, lost or InputError(f"{recording.path}: {table} has {what}", fix)))
            continue
        for row in own:
            name = recording.name if len(own) == 1 else recording.name.with_name(_of(recording.name.name, row.channel))
            named = recording._replace(name=name, channel=row.channel, speaker=row.speaker or recording.speaker)
            tasks.append(Task(named, entries[row]))
    return _with_note(tasks, f"{table}: rows of recordings that are not named here", [*entries.keys() - used])


def _with_note(tasks: list[Task], what: str, rows: Sequence[Row]) -> list[Task]:
    """Return the tasks, their transcripts with a note on rows that are not used, if there are any."""
    if not rows:
        return tasks
    names = [row.id or f"line {row.line}" for row in sorted(rows, key=lambda row: row.line)]
    note = f"{what} ({len(rows)}): {first_few(names, 3)}"
    return [
        task._replace(transcript=said._replace(note="; ".join(filter(None, (said.note, note)))))
        if isinstance(said := task.transcript, Transcript)
        else task
        for task in tasks
    ]


def _entries(table: Path, choice: TranscriptOptions) -> dict[Row, TranscriptOrError]:
    """Return the rows of a table, those of the phrases of one recording as one, each with its transcript or error."""
    found, notes = read_table(table)
    labels, base, note = choice.labels, _base(table), "; ".join(notes)
    rows = [_in_seconds(base, row._replace(audio=_audio(base, row))) for row in found]
    copies = [row for row in rows if row.problem.startswith(PERTURBED)]
    if 0 < len(copies) < len(rows):
        rows = [row for row in rows if row not in copies]
        note = "; ".join([*notes, f"{table}: perturbed copies of recordings are left out ({len(copies)})"])
    entries: dict[Row, TranscriptOrError] = {
        each: InputError(f"{table / each.file}, line {each.line}: {each.problem or f'no {labels}'}", each.fix)
        for each in rows
        if each.problem or _labels_of(each, labels) is None
    }
    if len(entries) == len(rows):
        if labels == "phones" and any(each.words for each in rows):
            raise InputError(f"{table}: has words and no phones", "give it with --words")
        if labels == "words" and any(each.phones for each in rows):
            raise InputError(f"{table}: has phones and no words", "give it with --transcripts")
        raise next(error for error in entries.values() if isinstance(error, InputError))
    for row, phrases in _merged(table, [each for each in rows if each not in entries], choice).items():
        read = tuple(label for part in phrases for label in part.labels) if phrases else _labels_of(row, labels) or ()
        limits = () if choice.limits is False else phrases
        entries[row] = Transcript(read, table, note, limits, dict(row.traits).get("language", ""))
    return dict(sorted(entries.items(), key=lambda entry: entry[0].line))


def _in_seconds(base: Path, row: Row) -> Row:
    """Return a row with times in seconds; one of which that cannot be told with a problem."""
    about = attempt(sound_file.info, base / row.audio) if row.samples else None
    if isinstance(about, InputError):
        return row._replace(problem=about.what, fix=about.fix)
    return in_seconds(row, about) if about else row


def _recordings(table: Path, rows: Sequence[Row]) -> list[Recording]:
    """Return the recordings that rows name; raise an error where none is there."""
    base = _base(table)
    found = [Recording(base / row.audio, name_of(row.id), row.channel, row.speaker) for row in rows]
    if found and not any(os.path.exists(each.path) for each in found):
        what = f"{table}: its recordings are not there ({len(found)}, the first {found[0].path})"
        raise InputError(what, "correct its column audio, or name the folder that holds them, too")
    return found


def _base(table: Path) -> Path:
    """Return the folder from which the paths of a table are: its own, or itself."""
    return table if table.is_dir() else table.parent


def _audio(base: Path, row: Row) -> str:
    """Return where the recording of a row is: where the row says, or in the folder of its speaker or of its last name.

    A table may have bare names, or lie where the folders of speakers are and name them where they were before.
    """
    *folders, name = PurePath(row.audio.replace("\\", "/")).parts or ("",)
    tails = [PurePath(*folders[k:], name) for k in range(len(folders))]
    names = [row.audio, *map(str, tails), *([str(PurePath(row.speaker, name))] if row.speaker else [])]
    here = os.path.abspath(row.audio) if row.audio and os.path.isfile(row.audio) else row.audio  # as Kaldi means it
    return next((found for each in names if (found := spelling_of(base, each))), here)


def _labels_of(row: Row, labels: Labels) -> tuple[str, ...] | None:
    return row.phones if labels == "phones" else (row.words,) if row.words.strip() else None


def _merged(table: Path, rows: Sequence[Row], choice: TranscriptOptions) -> dict[Row, tuple[Phrase, ...]]:
    """Return the rows with their phrases; of several with times and one recording the first, named like that."""
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        is_timed = bool(row.start or row.end)
        groups[(row.audio or row.id, row.channel) if is_timed else (row.line,)].append(row)
    timed = Counter(key[0] for key in groups if len(key) > 1)  # recordings, and how many channels they have here
    if bare := next((row for row in rows if not (row.start or row.end) and (row.audio or row.id) in timed), None):
        what = f"{table}, line {bare.line}: no start and end, which other rows of {bare.audio} have"
        raise InputError(what, "add them")
    stems = Counter(Path(str(audio)).stem for audio in timed)
    merged: dict[Row, tuple[Phrase, ...]] = {}
    for group in groups.values():
        row = group[0]
        if not (row.start or row.end):
            merged[row] = ()
            continue
        parts = [Phrase(*_times(table, each), _labels_of(each, choice.labels) or ()) for each in group]
        path = Path(row.audio or row.id).with_suffix("")
        id = row.id if len({each.id for each in group}) == 1 else path.stem if stems[path.stem] == 1 else str(path)
        if timed[row.audio or row.id] > 1 and id != row.id:
            id = _of(id, row.channel)
        check = choice.limits is not False
        phrases = limits_of(f"{table}, {row.audio or row.id}", parts) if check else tuple(sorted(parts))
        speaker = row.speaker if len({each.speaker for each in group}) == 1 else ""
        merged[row._replace(id=id, speaker=speaker)] = phrases
    return merged


def _of(name: str, channel: Channel | None) -> str:
    """Return the name of the result of one channel or track among several."""
    return f"{name}-{words(channel).replace(', ', '-').replace(' ', '').removeprefix('channel') or 'all'}"


def _times(table: Path, row: Row) -> tuple[float, float]:
    try:
        start, end = row.times()
    except InputError as error:
        raise InputError(f"{table / row.file}, line {row.line}: {error.what}", error.fix) from None
    about = attempt(sound_file.info, _base(table) / row.audio) if math.isinf(end) else None
    return start, end if about is None or isinstance(
        about, InputError
    ) else about.seconds  # else reported when it is read


def _rows_by_recording(table: Path, rows: Sequence[Row]) -> Callable[[Path], list[Row]]:
    """Return a function from a recording to its rows: those with its path, its name as id, or its name.

    Of several rows of its name, those with most of its folders are taken; the folder above it may be their speaker.
    An id that is its name without the ending is another's (``talk.wav`` of ``talk.wav.wav``), if other rows name it.
    """
    by_path, by_name = defaultdict[str, list[Row]](list), defaultdict[str, list[Row]](list)
    whole = defaultdict[str, list[Row]](list)
    for row in rows:
        if row.audio:
            by_path[os.path.abspath(_base(table) / row.audio)].append(row)
            by_name[Path(row.audio).stem].append(row)
            whole[Path(row.audio).name].append(row)
    by_id = {row.id: [row] for row in rows}

    def rows_of(path: Path) -> list[Row]:
        exact, own = whole.get(path.name, []), by_id.get(path.stem, [])
        if found := by_path.get(os.path.abspath(path)) or (own if not exact or {*own} <= {*exact} else []):
            return found
        named = exact or by_name.get(path.stem, [])
        shared = [_shared_folders(row, path) for row in named]
        return [row for row, count in zip(named, shared, strict=True) if count == max(shared)]

    return rows_of


def _shared_folders(row: Row, path: Path) -> int:
    """Return how many folders above a recording have the names of those of a row, from the last; 1 for its speaker."""
    own = [nfc(part) for part in Path(os.path.abspath(path)).parts[-2::-1]]
    given = [nfc(part) for part in PurePath(row.audio.replace("\\", "/")).parts[-2::-1]]
    count = next((k for k, (a, b) in enumerate(zip(own, given, strict=False)) if a != b), min(len(own), len(given)))
    return max(count, int(own[:1] == [nfc(row.speaker)]))


def find_tasks(
    arguments: Sequence[Named], phones: str | None, given: Path | None, choice: TranscriptOptions, reporter: Reporter
) -> list[Task]:
    """Pair recordings with their phones or words.

    Parameters
    ----------
    arguments : sequence of Path
        Files, folders, patterns; may be empty if `given` is a table, whose rows then name the recordings, or a file of
        ELAN, which links to its own.
    phones : str or None
        Labels of a single recording, separated by spaces.
    given : Path or None
        A table with the columns id, audio, and phones or words; a folder of transcripts named like the recordings; or
        the transcript of a single recording. If this and `phones` are None, the transcripts are files in the folders
        of the recordings.
    choice : TranscriptOptions
    reporter : Reporter
        Receives the names of files that are left out.

    Raises
    ------
    InputError
        Both `phones` and `given`, no recordings, or a table that cannot be read.
    """
    if phones is not None and given is not None:
        raise InputError("both --phones and --transcripts are given", "give one of them")
    files = (each for each in arguments if isinstance(each, Path) and each.is_file())
    if table := next(filter(looks_like_table, files), None):
        raise InputError(
            f"{table}: a table, not a recording", "name it after --words, or --transcripts if it has phones"
        )
    if given is not None and not os.path.exists(given):
        option = "--transcripts" if choice.labels == "phones" else "--words"
        fix = f"{option} takes a table, a folder of texts, or the text of one recording: a file, not the"
        raise InputError(f"{given}: no such file", f"{fix} {choice.labels} themselves")
    if given is not None and is_table(given):
        tasks = in_table(given, find_recordings(arguments) if arguments else None, choice)
        if not arguments:
            reporter.note(*chosen_outside(given, _base(given), (task.recording.path for task in tasks)))
        return _noted(tasks, reporter)
    if given is not None and given.suffix.lower() == EAF and not given.is_dir() and not arguments:
        media = find_media(given, read_eaf(given).media)
        arguments = [media]
        reporter.note(*chosen_outside(given, given.parent, [media]))
    is_of_many = given is not None and given.suffix.lower() in OF_MANY
    if given is not None and is_of_many and not arguments:
        arguments = _recordings_beside(given)
    recordings = find_recordings(arguments)
    reporter.note(*left_out(arguments))
    if not recordings:
        raise InputError("no recording to align", "name one, or give --transcripts TABLE")
    if len(recordings) > 1 and (phones is not None or (given is not None and not given.is_dir() and not is_of_many)):
        of = "--phones are" if phones is not None else f"{given} is"
        fix = f"use --{'transcripts' if choice.labels == 'phones' else 'words'} with a table or a folder"
        raise InputError(f"{of} of one recording, and {len(recordings)} are named", fix)
    known = _known(recordings, phones, given, choice, reporter)
    if given is not None and given.is_dir() and any(isinstance(each, Path) and each.is_dir() for each in arguments):
        reporter.warn(*_not_read(given, recordings, known, choice))
    return _noted(list(map(Task, recordings, known)), reporter)


def _not_read(
    folder: Path, recordings: Sequence[Recording], read: Sequence[TranscriptOrError], choice: TranscriptOptions
) -> Iterator[str]:
    """Yield what to say of the transcripts in a folder that are of no recording, or beside another text of the same."""
    names = {nfc(name).casefold() for each in recordings for name in (each.called.stem, each.called.name)}
    used = {each.file for each in read if isinstance(each, Transcript)}
    texts = {file.with_suffix("") for file in used if file is not None and file.suffix.lower() in TEXTS}
    files = [file for file in files_below(folder) if file.suffix.lower() in endings_of(choice) and file not in used]
    alone, doubles = list[str](), list[str]()
    for file in written.changed(files):
        if nfc(file.stem).casefold() not in names:
            alone.append(str(file))
        elif file.suffix.lower() in TEXTS and file.with_suffix("") in texts:
            doubles.append(str(file))
    if alone:
        yield f"transcripts without a recording of their name: {len(alone)} ({first_few(alone, 3)})"
    if doubles:
        yield f"texts that are not read, as others of their names are: {len(doubles)} ({first_few(doubles, 3)})"


def _recordings_beside(file: Path) -> list[Path]:
    """Return the recordings beside a file of CTM or STM that it names."""
    siblings, names = Siblings(), label_files.recordings_in(file)
    places = {name: siblings.recording_of(file.with_name(f"{name_of(name)}{file.suffix}")) for name in names}
    if gone := [name for name in names if places[name] is None]:
        fix = "name the recordings before the option, or put them beside the file"
        raise InputError(f"{file}: the recordings {first_few(gone, 3)} are not beside it", fix)
    return [place for place in places.values() if place is not None]


def _noted(tasks: list[Task], reporter: Reporter) -> list[Task]:
    """Return the tasks; print each note on how a transcript was read once, with a count of those like it."""
    tasks = [task._replace(transcript=_of_praat(task.transcript)) for task in tasks]
    read = [task.transcript for task in tasks if isinstance(task.transcript, Transcript)]
    notes = dict.fromkeys((each.file or Path(), each.note) for each in read if each.note)
    reporter.warn(*counted_alike([*notes], with_numbers=True))
    return tasks


def _of_praat(transcript: TranscriptOrError) -> TranscriptOrError:
    """Return a transcript with Praat's backslash symbols as Unicode."""
    if isinstance(transcript, InputError) or not any("\\" in label for label in transcript.labels):
        return transcript
    phrases = tuple(each._replace(labels=tuple(from_praat(each.labels))) for each in transcript.phrases)
    return transcript._replace(labels=tuple(from_praat(transcript.labels)), phrases=phrases)


def _read_given(file: Path, choice: TranscriptOptions, recording: Recording) -> TranscriptOrError:
    """Read a recording's labels from a file of several; an error where it could not be fetched."""
    if (lost := why_lost(recording.path)) is not None:
        return lost
    return attempt(lambda each: read_transcript(file, each.path, choice, each.called), recording)


def _known(
    recordings: Sequence[Recording],
    phones: str | None,
    given: Path | None,
    choice: TranscriptOptions,
    reporter: Reporter,
) -> list[TranscriptOrError]:
    if phones is not None:
        return [Transcript(tuple(phones.split()))]
    if given is not None and not given.is_dir():
        if len(recordings) > 1:
            return [_read_given(given, choice, each) for each in recordings]
        return [read_transcript(given, recordings[0].path, choice, recordings[0].called)]
    left: dict[str, None] = {}

    def is_result(file: Path) -> bool:
        """Return whether a file was written by speechctc, so that it has phones, where words are looked for."""
        if choice.labels == "phones" or file.suffix.lower() not in (*TEXTS, ".ctm") or not os.access(file, os.R_OK):
            return False
        if not written.changed([file]):
            left[str(file)] = None
        return str(file) in left

    siblings = Siblings(is_result)
    read = read_in(given, recordings, choice, siblings) if given else read_sidecars(recordings, choice, siblings)
    if left:
        what = "text files left out, which nobody has changed since speechctc wrote phones into them"
        reporter.warn(f"{what}: {len(left)} ({first_few(list(left), 2)})")
    return read
