"""Phones or words of recordings from transcripts: .PHN files, TextGrids, files of ELAN, text files and tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from speechctc.audio import label_files, sound_file
from speechctc.audio.addresses import why_lost
from speechctc.audio.annotations import (
    MAX_OVERLAP,
    PHN_RATE,
    Interval,
    NoTierError,
    choose_tier,
    intervals_of,
    read_phn,
    read_tiers,
)
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import origin_of, read_eaf
from speechctc.audio.folders import RECOGNISED, TIERS, TIMED
from speechctc.audio.recordings import Recording, Siblings
from speechctc.core.errors import InputError, first_few, plural
from speechctc.core.parallel import attempt
from speechctc.core.text_files import read_text
from speechctc.phones.inventory import nfc
from speechctc.phones.nonspeech_labels import kind_of_phone

TEXTS = (".lab", ".txt")
# Endings of transcripts beside recordings; the first that is there is read. Subtitles have words.
BESIDE = {
    "phones": (".phn", *TEXTS, ".textgrid", EAF, ".ctm"),
    "words": (*TEXTS, ".textgrid", EAF, ".wrd", *TIMED, *RECOGNISED, *label_files.FOREIGN),
}
NAMES = {"phones": ".PHN, .lab, .txt, .TextGrid or .eaf", "words": ".lab, .txt, .TextGrid, .eaf or .WRD"}
MORE = {"phones": ", nor .ctm", "words": ", nor .ctm, .stm, .srt, .vtt or .json"}
Labels = Literal["phones", "words"]
SHOWN = 40  # signs of a phrase in an error

_TIMIT_TEXT = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})\s+([^\W\d].*\S)\s*")
TIMIT_TEXT = (
    "the two numbers at the beginning of a text are TIMIT's, the samples of its recording, and not read as words"
)
MAX_SURPLUS = 0.01  # share of the samples by which TIMIT's number may differ


class Phrase(NamedTuple):
    """Labels that lie between two times of a recording, in seconds."""

    start: float
    end: float
    labels: tuple[str, ...]


class Transcript(NamedTuple):
    """The phones or words of a recording.

    Attributes
    ----------
    labels : tuple of str
    file : Path, optional
        The file that they were read from.
    note : str
        What the user should know about how the file was read, or ``""``.
    phrases : tuple of Phrase
        The labels in parts, in the order of time, if their times are limits: each part lies between its own.
    language : str
        Of the words, if a table names it in its column ``language``, or ``""``.
    """

    labels: tuple[str, ...]
    file: Path | None = None
    note: str = ""
    phrases: tuple[Phrase, ...] = ()
    language: str = ""


TranscriptOrError = Transcript | InputError  # a transcript, or the reason why there is none


class Task(NamedTuple):
    """A recording and its transcript, or the error that says why there is none."""

    recording: Recording
    transcript: TranscriptOrError


class TranscriptOptions(NamedTuple):
    """What to read of transcripts.

    Attributes
    ----------
    tier : str, optional
        Tier of TextGrids and files of ELAN, and then no other files are read; ``"phones"`` or ``"words"`` by default.
    labels : str
    limits : bool, optional
        The times of intervals, annotations and rows are limits of their labels; None: those of rows are, and those of
        a tier if most of its labels stand in annotations of several.
    """

    tier: str | None = None
    labels: Labels = "phones"
    limits: bool | None = None


def read_transcript(file: Path, recording: Path, choice: TranscriptOptions, called: Path | None = None) -> Transcript:
    """Read the phones or words of a recording from a file, whose format is told by its ending.

    Parameters
    ----------
    file : Path
        A .PHN file, a TextGrid, a file of ELAN, another program's file of labels with times, or a text file with labels
        separated by white space.
    recording : Path
        Of a file of ELAN that links to several, the one that the times are of.
    choice : TranscriptOptions
    called : Path, optional
        The recording as a file of labels of several names it, if that is not as its path.

    Raises
    ------
    InputError
        The file cannot be read, or has no such tier; its times should be limits, and are empty or overlap.
    """
    ending, tier = file.suffix.lower(), choice.tier or choice.labels
    if ending == EAF:
        return _of_elan(file, recording, tier, choice.limits)
    if ending == ".textgrid":
        return _of_grid(file, recording, tier, choice.limits)
    if ending in (".phn", ".wrd"):
        return _of_intervals(file, read_phn(file), choice.limits, ending[1:].upper())
    if label_files.is_label_file(file):
        about = attempt(sound_file.info, recording)
        found = label_files.read_label_file(file, called or recording, None if isinstance(about, InputError) else about)
        if found is not None:
            return _noted_first(_of_intervals(file, found.entries, choice.limits, file.name), found.note)
    text, note = read_text(file)
    if ending in RECOGNISED:
        what = f"{file}: JSON, but of none of the recognisers whose transcripts are read"
        raise InputError(what, "save the transcript as SRT, WebVTT or text")
    if choice.labels == "phones":
        return Transcript(tuple(text.split()), file, note)
    if ending == ".txt" and (sentence := _of_timit(text, file, recording)):
        text, note = sentence, "; ".join(filter(None, [note, TIMIT_TEXT]))
    return Transcript(tuple(filter(None, map(str.strip, text.splitlines()))), file, note)


def _of_timit(text: str, file: Path, recording: Path) -> str:
    """Return the sentence of a .TXT of TIMIT, after its first and last sample; ``""`` of other texts."""
    match = _TIMIT_TEXT.fullmatch(text)
    if match is None or int(match[2]) <= int(match[1]):
        return ""
    about, siblings = attempt(sound_file.info, recording), Siblings()
    samples = [] if isinstance(about, InputError) else [about.frames, about.seconds * PHN_RATE]
    fits = any(abs(int(match[2]) - each) <= MAX_SURPLUS * each for each in samples)
    return match[3] if fits or siblings.find(file, [".phn", ".wrd"]) else ""


def _of_grid(file: Path, recording: Path, tier: str, limits: bool | None) -> Transcript:
    """Return a tier of a TextGrid, its times those in the recording."""
    grid, about = read_tiers(file), attempt(sound_file.info, recording)
    if not isinstance(about, InputError):  # else it is refused when it is read
        grid = grid.of_recording(file, about.seconds)
    return _noted_first(_of_intervals(file, intervals_of(grid.tiers, file, tier), limits, tier), grid.note)


def _of_elan(file: Path, recording: Path, name: str, limits: bool | None) -> Transcript:
    """Return a tier of ELAN; its times are those of the recording."""
    tiers, media = read_eaf(file)
    tier = choose_tier(tiers, file, name)
    own = f"{file}: {tier.note}" if tier.note else ""
    if not tier.timed:
        if limits:
            what = f"{file}: the tier {tier.name!r} has no times of its own, which could be limits"
            raise InputError(what, "name the tier above it with --tier, or give --no-limits")
        return Transcript(tuple(each.label for each in tier.entries), file, own)
    origin, note = origin_of(file, media, recording)
    entries = [Interval(start + origin, end + origin, nfc(label)) for start, end, label in tier.entries]
    return _noted_first(_of_intervals(file, entries, limits, name), "; ".join(filter(None, (own, note))))


def _noted_first(transcript: Transcript, note: str) -> Transcript:
    """Return a transcript with a note on its file before its own."""
    return transcript._replace(note="; ".join(filter(None, [note, transcript.note])))


def _of_intervals(file: Path, intervals: Sequence[Interval], limits: bool | None, name: str) -> Transcript:
    """Return labels in the order of time, with their times as limits or without; `name` is that of the tier.

    The times of phrases are limits, those of words or phones are not: most labels tell which they are.
    """
    parts = [Phrase(start, end, _parts(label)) for start, end, label in intervals]
    several = [part for part in parts if len(part.labels) > 1]
    are_phrases = 2 * sum(len(part.labels) for part in several) > sum(len(part.labels) for part in parts)
    if are_phrases if limits is None else limits:
        labels = tuple(label for part in parts for label in part.labels)
        return Transcript(labels, file, "", limits_of(str(file), parts))
    if not several or limits is False:
        return Transcript(tuple(each.label for each in intervals), file)
    spaced = first_few([f"{_quoted(part)} at {part.start:.2f} s" for part in several])
    what = f"{file}: {len(several)} of {plural(len(parts), 'label')} of the tier {name!r} are several"
    note = f"{what}: {spaced}; the tier is not taken for phrases (--limits takes it for them)"
    return Transcript(tuple(label for part in parts for label in part.labels), file, note)


def _parts(label: str) -> tuple[str, ...]:
    """Return the labels of an interval; one of what is no phone may have spaces."""
    return (label,) if kind_of_phone(label) else tuple(label.split())


def limits_of(where: str, parts: Sequence[Phrase]) -> tuple[Phrase, ...]:
    """Return parts in the order of time; those that overlap by less than `MAX_OVERLAP` touch.

    Raises
    ------
    InputError
        Times are empty, or overlap.
    """
    found: list[Phrase] = []
    for part in sorted(parts):
        described = f"{_quoted(part)} from {part.start:.3f} to {part.end:.3f} s"
        if part.end - part.start < MAX_OVERLAP:
            raise InputError(f"{where}: no time for {described}", "correct its times, or give --no-limits")
        start = max(part.start, 0.0)
        if found and start < found[-1].end:
            if start < found[-1].end - MAX_OVERLAP:
                before = f"{_quoted(found[-1])} until {found[-1].end:.3f} s"
                raise InputError(f"{where}: limits overlap: {before}, {described}", "correct them, or give --no-limits")
            start = found[-1].end
        found.append(part._replace(start=start))
    return tuple(found)


def _quoted(part: Phrase) -> str:
    text = " ".join(part.labels)
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def read_sidecars(
    recordings: Sequence[Recording], choice: TranscriptOptions, siblings: Siblings | None = None
) -> list[TranscriptOrError]:
    """Read the transcript in the folder of each recording; if a tier is named, only from files with tiers."""
    endings, siblings, found = endings_of(choice), siblings or Siblings(), []
    for each in recordings:
        found.append((each, siblings.find(each.path, endings), f"beside {each.path.name}"))
    return _read_each(found, choice)


def read_in(
    folder: Path, recordings: Sequence[Recording], choice: TranscriptOptions, siblings: Siblings | None = None
) -> list[TranscriptOrError]:
    """Read transcripts with the names of the recordings from a folder, or from the subfolders that they have, too."""
    endings, siblings, found = endings_of(choice), siblings or Siblings(), []
    others = siblings.around(each.called for each in recordings)
    for each in recordings:
        last = Path(os.path.abspath(each.called)).parent.name
        places = [folder / part / each.called.name for part in (each.name.parent, last, "")]
        file = next((file for place in places if (file := siblings.find(place, endings, others)) is not None), None)
        found.append((each, file, f"in {folder}"))
    return _read_each(found, choice)


def endings_of(choice: TranscriptOptions) -> tuple[str, ...]:
    """Return the endings of the files that are looked for, in the order in which they are taken."""
    return TIERS if choice.tier else BESIDE[choice.labels]


def _read_each(
    found: Sequence[tuple[Recording, Path | None, str]], choice: TranscriptOptions
) -> list[TranscriptOrError]:
    """Read the file found for each recording; where none was, the error says where it was looked for."""
    notes = _notes_on_names([(recording.path, file) for recording, file, _ in found if file is not None])
    read: list[TranscriptOrError] = []
    for recording, file, where in found:
        if file is None:
            names = ".TextGrid or .eaf" if choice.tier else NAMES[choice.labels]
            more = "" if choice.tier else MORE[choice.labels]
            what, fix = f"no {names} file of its name {where}{more}", f"write its {choice.labels} into one"
            if not os.path.exists(recording.path):
                what, fix = "no such file", "check the path"
            read.append(why_lost(recording.path) or InputError(f"{recording.path}: {what}", fix))
            continue
        try:
            transcript = read_transcript(file, recording.path, choice, recording.called)
        except NoTierError as error:
            fix = f"write its {choice.labels} into {file.with_suffix('.txt').name}, or {error.fix}"
            read.append(error if choice.tier else InputError(error.what, fix))
            continue
        except InputError as error:
            read.append(error)
            continue
        note = "; ".join(filter(None, (transcript.note, notes.get(recording.path, ""))))
        read.append(transcript._replace(note=note))
    return read


def _notes_on_names(pairs: Sequence[tuple[Path, Path]]) -> dict[Path, str]:
    """Return a note for recordings whose transcript is that of others too."""
    users = Counter(file for _, file in pairs)
    shared = {path: f"{file} for {path}" for path, file in pairs if users[file] > 1}
    note = f"transcripts used whose names fit several recordings: {first_few([*shared.values()], 2)}"
    return dict.fromkeys(shared, note)
