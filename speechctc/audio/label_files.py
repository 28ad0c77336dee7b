"""Reads label files of other programs: Audacity, HTK, xlabel (ESPS, FestVox), CTM, STM, SRT, WebVTT, recognisers."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path, PurePath
from typing import NamedTuple

from speechctc.audio.annotations import Interval
from speechctc.audio.folders import OF_MANY, SUBTITLES, TIMED
from speechctc.audio.recognised import READ, WHISPER, of_recogniser
from speechctc.audio.sound_file import AudioInfo
from speechctc.core.errors import InputError, first_few
from speechctc.core.text_files import read_text
from speechctc.phones.inventory import nfc

# What is called by its name, and not read: by the ending, or by how the text begins.
_FOREIGN = {
    ".cha": ("a CHAT transcript", "convert it with CLAN's chat2elan or chat2praat"),
    ".mlf": ("a master label file of HTK, of several recordings", "write the labels of each into a .lab file"),
    ".trs": ("a file of Transcriber", "import it into ELAN, and save it as .eaf"),
    ".par": ("a BAS Partitur file", "convert it to a TextGrid, as BAS web services do"),
    **dict.fromkeys((".ass", ".ssa"), ("subtitles of Aegisub", "save them as SRT")),
    **dict.fromkeys((".ttml", ".dfxp"), ("subtitles in TTML", "save them as SRT")),
    ".sbv": ("subtitles of YouTube's editor", "save them as SRT"),
    ".lrc": ("lyrics in LRC", "save them as SRT"),
}
FOREIGN = tuple(_FOREIGN)
_WHISPER_TSV = "start\tend\ttext"  # whole milliseconds
_BEGINNINGS = {"#!MLF!#": ".mlf", "@UTF8": ".cha", "@Begin": ".cha", "[Script Info]": ".ass"}

TAIL = 0.05  # seconds that labels may end after their recording
FRAME = 1e-7  # seconds; HTK's unit of time
FILLED = 0.2  # the least share of a recording that labels end after, if the unit of their times is not known

_NUMBER = r"-?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?"
_TIMES = re.compile(rf"({_NUMBER})(\t|[ ;,]+)({_NUMBER})(?:[\t ;,]+(.*))?")
_NUMBERED = re.compile(rf"{_NUMBER}[\s;,.:)].*|\S+\s+{_NUMBER}\s+{_NUMBER}")
_STATE = re.compile(r".*\[\d+\]")
_CONTEXT = re.compile(r"(?:[^\s^]*\^)?[^\s\-+]+-([^\s+]+)\+\S+")  # HTK's a-b+c, and HTS's z^a-b+c=d
_CUE = re.compile(r"((?:\d+:)?\d+:\d+[,.]\d+)\s*-->\s*((?:\d+:)?\d+:\d+[,.]\d+)(?:\s.*)?")
_TAG = re.compile(r"</?(?:[bius]|c|v|lang|ruby|rt|font)(?:[.\s][^>]*)?>|\{\\[^}]*\}", re.IGNORECASE)
_WORD_TIME = re.compile(r"<\d[\d:.]*>")
_UNDERLINED = re.compile(r"<u>(.*?)</u>", re.IGNORECASE)
_SPEAKS = re.compile(r"^\s*[-–—]\s+|[♪♫]")
_IGNORED = {"ignore_time_segment_in_scoring", "inter_segment_gap"}


class LabelFile(NamedTuple):
    """The labels of a recording with their times.

    Attributes
    ----------
    kind : str
        What the file is, in words.
    entries : list of Interval
        Those with a label, in the order of time.
    note : str
        What the user should know about how the file was read, or ``""``.
    speakers : sequence of str
        Who says each label, of a file that tells so: STM; else empty.
    """

    kind: str
    entries: list[Interval]
    note: str = ""
    speakers: Sequence[str] = ()


class _Line(NamedTuple):
    """A line with times, in the unit of the file, and a label, and what is between the times."""

    number: int
    start: str
    end: str
    label: str
    between: str

    @property
    def tabs(self) -> bool:
        """Whether a tab is between the times."""
        return self.between == "\t"

    @property
    def spaces(self) -> bool:
        """Whether spaces alone are between the times."""
        return self.between.isspace() and not self.tabs


def is_label_file(path: Path) -> bool:
    """Tell whether a file is one with times, or one that is refused by its name, and not a text or a table."""
    if path.suffix.lower() in (*TIMED, *FOREIGN):
        return True
    try:
        text = read_text(path).text
    except InputError:
        return False
    if _kind_of(path, text) or _whisper_tsv(text) is not None or of_recogniser(text) is not None:
        return True
    lines = _lines(text)
    return bool(_after_header(lines) or _timed(lines, path)) or _is_numbered(lines)


def read_label_file(path: Path, recording: Path, about: AudioInfo | None) -> LabelFile | None:
    """Read the labels of a recording; None for a text without times.

    Parameters
    ----------
    path : Path
    recording : Path
        Its name chooses the labels of a file that has those of several.
    about : AudioInfo, optional
        Length and sample rate of the recording, which tell the unit of times; None: they are not known.

    Raises
    ------
    InputError
        The file cannot be read, is of a kind that is not read, is damaged, or its times are not those of the recording.
    """
    text, note = read_text(path)
    ending = _kind_of(path, text)
    if ending in _FOREIGN:
        what, fix = _FOREIGN[ending]
        raise InputError(f"{path}: {what}, which is not read", fix)
    if ending in SUBTITLES:
        found = LabelFile("subtitles", *_subtitles(path, text))
    elif ending in OF_MANY:
        found = _of_many(path, text, recording, ending)
    elif (segments := _whisper_tsv(text)) is not None:
        found = LabelFile(WHISPER, segments)
    elif (recognised := of_recogniser(text)) is not None:
        if not recognised.entries:
            raise InputError(f"{path}: {recognised.kind}, which is not read", "save it as SRT or WebVTT")
        found = LabelFile(*recognised)
    elif after := _after_header(lines := _lines(text)):
        found = LabelFile("a label file of xlabel", _xlabel(path, after))
    elif timed := _timed(lines, path):
        found = _track(path, timed, about)
    elif _is_numbered(lines):
        place = "begins with a number" if lines[0][1][:1] in "-0123456789" else "has two numbers"
        what = f"{path}: each line {place}, as in {lines[0][1][:40]!r}, so it is no transcript"
        raise InputError(what, "leave the numbers out, or write start, end and label on each line")
    else:
        return None
    said = "" if ending else f"{path}: read as {found.kind}"
    entries = [each._replace(label=nfc(each.label)) for each in found.entries if each.label]
    speakers = tuple(compress(found.speakers, (each.label for each in found.entries)))
    _check(path, found.kind, entries, about)
    if about is not None:
        entries = [each._replace(end=min(each.end, max(each.start, about.seconds))) for each in entries]
    return found._replace(entries=entries, note="; ".join(filter(None, (note, said, found.note))), speakers=speakers)


def _check(path: Path, kind: str, entries: Sequence[Interval], about: AudioInfo | None) -> None:
    """Check that there are labels, and that they lie in the recording; subtitles may go on after it."""
    if not entries:
        raise InputError(f"{path}: {kind} without a label", "label the recording, or leave the file out")
    for each in entries:
        if not 0 <= each.start <= each.end < math.inf:
            what = f"{path}: {kind}, in which {each.label[:40]!r} goes from {each.start:g} to {each.end:g} s"
            raise InputError(what, "correct its times")
    last = max(each.start if kind in ("subtitles", *READ) else each.end for each in entries)
    if about is not None and last > about.seconds + TAIL:
        what = f"{path}: {kind}, with labels up to {last:.2f} s for a recording of {about.seconds:.2f} s"
        raise InputError(what, "check that they belong together")


def _is_numbered(lines: Sequence[tuple[int, str]]) -> bool:
    """Tell whether all of several lines begin with a number, or end with two, which no transcript does."""
    return len(lines) > 1 and all(_NUMBERED.fullmatch(line) for _, line in lines)


def _whisper_tsv(text: str) -> list[Interval] | None:
    """Return the segments of a TSV file of Whisper; None of other texts."""
    head, _, rest = text.partition("\n")
    if head.strip().lower() != _WHISPER_TSV:
        return None
    rows = [line.split("\t", 2) for line in rest.split("\n") if line.strip()]
    try:
        return [Interval(int(start) / 1000, int(end) / 1000, label.strip()) for start, end, label in rows]
    except ValueError:
        return None


def recordings_in(path: Path) -> list[str]:
    """Return the names of the recordings in a file of CTM or STM, in order.

    Raises
    ------
    InputError
        It cannot be read.
    """
    return list(_rows_by_recording(read_text(path).text))


@lru_cache(maxsize=2)  # a file of many recordings is read for each of them
def _rows_by_recording(text: str) -> dict[str, list[tuple[int, list[str]]]]:
    """Return the lines of CTM or STM that are no comments, by their first fields: their numbers and their fields."""
    rows: dict[str, list[tuple[int, list[str]]]] = {}
    for number, line in _lines(text):
        if not line.startswith(";;"):
            fields = line.split()
            rows.setdefault(fields[0], []).append((number, fields))
    return rows


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not empty, with their numbers from 1."""
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _kind_of(path: Path, text: str) -> str:
    """Return the ending of files like this one, by its name or its text; ``""``: labels in lines, or a text."""
    ending = path.suffix.lower()
    head = text.lstrip()[:2000]
    by_text = next((kind for sign, kind in _BEGINNINGS.items() if head.startswith(sign)), "")
    if by_text or ending in (*TIMED, *FOREIGN):
        return by_text or ending
    if head.startswith("WEBVTT"):
        return ".vtt"
    return ".srt" if any(_CUE.fullmatch(line.strip()) for line in head.split("\n")[:4]) else ""


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _after_header(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines after the ``#`` that ends xlabel's header, if all of them begin with a time; else none."""
    place = next((k for k, (_, line) in enumerate(lines) if line == "#"), None)
    rest = [] if place is None else list(lines[place + 1 :])
    return rest if all(re.fullmatch(rf"{_NUMBER}(\s.*)?", line) for _, line in rest) else []


def _xlabel(path: Path, lines: Iterable[tuple[int, str]]) -> list[Interval]:
    """Return labels with ends alone: each begins where the last one ended. A colour is before them, fields after."""
    found, start = list[Interval](), 0.0
    for number, line in lines:
        time, *rest = line.split(None, 2)
        end = _number(time)
        if end < start:
            what = f"{path}, line {number}: a label of xlabel ends at {end:g} s, before the last one ({start:g} s)"
            raise InputError(what, "correct the line")
        label = rest[1] if len(rest) == 2 else ""
        found.append(Interval(start, end, label.partition(";")[0].strip()))
        start = end
    return found


def _timed(lines: Sequence[tuple[int, str]], path: Path) -> list[_Line]:
    """Return lines that all have a start, an end and a label; none if one has not, or they may be numbers of a text.

    Audacity writes the frequencies of a label on a line of its own, HTK ``///`` between alternatives.
    """
    found = list[_Line]()
    for number, line in lines:
        if line.startswith("\\") and found:
            continue
        if (match := _TIMES.fullmatch(line)) is None:
            return []
        found.append(_Line(number, match[1], match[3], (match[4] or "").strip(), match[2]))
    if len(found) == 1 and path.suffix.lower() != ".lab" and not _is_decimal(found) and not found[0].tabs:
        return []  # may be a text that begins with numbers
    return found if any(each.label for each in found) else []


def _is_decimal(lines: Iterable[_Line]) -> bool:
    return any(sign in time for line in lines for time in (line.start, line.end) for sign in ".,")


def _track(path: Path, lines: Sequence[_Line], about: AudioInfo | None) -> LabelFile:
    """Return labels with a start and an end: in seconds where they have decimals, else in a unit that fits."""
    spans = [(_number(line.start), _number(line.end)) for line in lines]
    ends = {end for _, end in spans}
    if len(ends) == 1 < len(spans) and all(a < b for (a, _), (b, _) in zip(spans, spans[1:], strict=False)):
        if not any(line.spaces for line in lines):  # a time, a height and a text
            found = [Interval(start, start, line.label) for (start, _), line in zip(spans, lines, strict=True)]
            return LabelFile("a text layer of Sonic Visualiser", found)
        return LabelFile("a label file of xlabel", _xlabel(path, [(each.number, _joined(each)) for each in lines]))
    for k, (line, (start, end)) in enumerate(zip(lines, spans, strict=True)):
        if start < 0 or end < start or (k and start < spans[k - 1][0]):
            what = f"{path}, line {line.number}: times that are not in order ({line.start}, {line.end})"
            raise InputError(what, "put one track of labels into a file, each with its start and its end")
    if _is_decimal(lines):
        kind, unit, note = "a label track of Audacity" if lines[0].tabs else "labels in seconds", 1.0, ""
    else:
        kind, (unit, note) = "a label file of HTK", _unit(path, spans[-1][1], about)
    labels, more = _labels_of(path, lines)
    entries = [Interval(a * unit, b * unit, label) for (a, b), label in zip(spans, labels, strict=True)]
    return LabelFile(kind, entries, "; ".join(filter(None, (note, more))))


def _joined(line: _Line) -> str:
    return f"{line.start} {line.end} {line.label}"


def _unit(path: Path, last: float, about: AudioInfo | None) -> tuple[float, str]:
    """Return the unit of whole numbers, in seconds: HTK's, or the only one with which labels fill a recording."""
    is_htk = path.suffix.lower() in (".lab", ".rec")
    if about is None:
        return FRAME, "" if is_htk else "its times are taken for units of 100 ns, as HTK has them"
    units = {"units of 100 ns": FRAME, "samples": 1 / about.rate, "milliseconds": 1e-3, "seconds": 1.0}
    below = {name: unit for name, unit in units.items() if last * unit <= about.seconds + TAIL}
    fits = [name for name, unit in below.items() if last * unit >= FILLED * about.seconds]
    if len(fits) == 1 or (not fits and is_htk and "units of 100 ns" in below):
        name = fits[0] if fits else "units of 100 ns"
        usual = is_htk and name == "units of 100 ns"
        return units[name], "" if usual else f"its times are taken for {name}, which fit the recording"
    what = f"{path}: a label file of HTK with times up to {last:.0f}, and a recording of {about.seconds:.2f} s: neither"
    what = f"{what} in units of 100 ns, nor in samples, milliseconds or seconds do they fit it"
    raise InputError(what, "check that they belong together")


def _labels_of(path: Path, lines: Sequence[_Line]) -> tuple[list[str], str]:
    """Return the labels of lines, of HTK's without scores and neighbours, and what the user should know about that."""
    fields = [line.label.split() for line in lines]
    if any(line.tabs for line in lines) or any(len(each) > 1 and not _is_number(each[1]) for each in fields):
        return [line.label for line in lines], ""
    if any(len(each) > 2 for each in fields):
        what = f"{path}: labels of HTK on several levels (phones, and words beside them)"
        raise InputError(what, "keep start, end and one label on each line")
    labels = [each[0] if each else "" for each in fields]
    if all(_STATE.fullmatch(label) for label in labels if label):
        raise InputError(f"{path}: labels of the states of HTK's models ({labels[0]})", "write those of phones")
    inner = [_CONTEXT.fullmatch(label) for label in labels]
    if 2 * sum(each is not None for each in inner) >= len(labels):
        note = f"of labels with their neighbours, such as {labels[0][:40]}, the middle is taken"
        return [each[1] if each else label for each, label in zip(inner, labels, strict=True)], note
    return labels, ""


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER, text) is not None


def _of_many(path: Path, text: str, recording: Path, ending: str) -> LabelFile:
    """Return the labels of a recording in a file of CTM or STM."""
    kind, rows = ending[1:].upper(), _rows_by_recording(text)
    if spaced := next((name for name in (recording.name, recording.stem) if _divides(name, rows)), ""):
        what = f"{path}: {kind}, whose fields the spaces in the name {spaced!r} divide"
        raise InputError(what, f"write {'_'.join(spaced.split())} in its place")
    name, taken = _meant(path, [*rows], recording)
    own = rows[name]
    if len(channels := sorted({fields[1] for _, fields in own if len(fields) > 1})) > 1:
        what = f"{path}: {kind} with labels of the channels {', '.join(channels)} of {name}"
        raise InputError(what, "keep those of one channel in it")
    read = [_row(path, number, fields, ending) for number, fields in own]
    ignored = sum(each.label in _IGNORED for each in read)
    left = f"{path}: {ignored} segments left out, which {kind} marks as not to be scored" if ignored else ""
    note = "; ".join(filter(None, (taken, left)))
    said = sorted((each, fields[2]) for each, (_, fields) in zip(read, own, strict=True) if each.label not in _IGNORED)
    speakers = [speaker for _, speaker in said] if ending == ".stm" else ()
    return LabelFile(kind, [each for each, _ in said], note, speakers)


def _divides(name: str, rows: Mapping[str, Sequence[tuple[int, Sequence[str]]]]) -> bool:
    """Return whether a line begins with a name in which there are spaces."""
    first, *others = name.split()
    own = rows.get(first, ()) if others else ()
    return any(tuple(fields[: len(others) + 1]) == (first, *others) for _, fields in own)


def _meant(path: Path, names: Sequence[str], recording: Path) -> tuple[str, str]:
    """Return the name in a file that is a recording's; where there is one name alone, it is that, with a note."""
    spelled = {"_".join(nfc(each).split()) for each in (recording.name, recording.stem)}
    found = [name for name in names if nfc(name) in spelled]
    found = found or [name for name in names if nfc(PurePath(name).name) in spelled]
    if not found and len(names) == 1:
        return names[0], f"{path}: labels of {names[0]}, which are taken for those of {recording.name}"
    if len(found) != 1:
        count = f"{len(found)} recordings" if found else "no recording"
        what = f"{path}: labels of {count} called {recording.stem}, but of {first_few(names, 3)}"
        raise InputError(what, "name the recording as the file does")
    return found[0], ""


def _row(path: Path, number: int, fields: Sequence[str], ending: str) -> Interval:
    """Return the label of a line: of CTM, a start and a duration are before it; of STM, a speaker, start and end."""
    what = "recording, channel, start, duration, label" if ending == ".ctm" else "recording, channel, speaker, times"
    try:
        if ending == ".ctm":
            start, seconds, label = float(fields[2]), float(fields[3]), fields[4]
            return Interval(start, start + seconds, label)
        start, end, text = float(fields[3]), float(fields[4]), fields[5:]
        if text[:1] and re.fullmatch(r"<[^<>]*,[^<>]*>", text[0]):  # the classes of a segment
            text = text[1:]
        return Interval(start, end, " ".join(text))
    except (IndexError, ValueError):
        shown = " ".join(fields)[:60]
        raise InputError(f"{path}, line {number}: {shown!r} is not {what}", "correct the line") from None


class _Cue(NamedTuple):
    start: float
    end: float
    lines: list[str]


def _subtitles(path: Path, text: str) -> tuple[list[Interval], str]:
    """Return the text of subtitles, and what the user should know about how they were read."""
    cues = list(_cues(path, text))
    marked = [_UNDERLINED.findall(" ".join(cue.lines)) for cue in cues]
    if cues and 2 * sum(len(each) == 1 for each in marked) >= len(cues):
        found = [Interval(cue.start, cue.end, _plain(each[0])) for cue, each in zip(cues, marked, strict=True) if each]
        return found, f"{path}: the underlined word of each line is taken, as whisper --highlight_words writes them"
    shown, repeated = list[str](), 0
    rolls = _WORD_TIME.search(text) is not None
    entries = []
    for cue in cues:
        lines = [_plain(line) for line in cue.lines]
        fresh = lines
        if rolls:  # captions that roll up show a line again, above the next
            count = next((k for k in range(min(len(lines), len(shown)), 0, -1) if shown[-k:] == lines[:k]), 0)
            fresh, repeated, shown = lines[count:], repeated + count, lines or shown
        entries.append(Interval(cue.start, cue.end, " ".join(filter(None, fresh))))
    note = f"{path}: {repeated} lines left out that captions show again above the next one" if repeated else ""
    return entries, note


def _plain(line: str) -> str:
    """Return a line of subtitles without markup, notes of music and the dash of a speaker."""
    text = html.unescape(_TAG.sub("", _WORD_TIME.sub("", line)))
    return " ".join(_SPEAKS.sub(" ", text).split())


def _cues(path: Path, text: str) -> Iterator[_Cue]:
    """Yield the cues of SRT or WebVTT, whose comments and styles are left out."""
    cue: _Cue | None = None
    skips = False
    lines = text.split("\n")
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if match := _CUE.fullmatch(line):
            if cue is not None:
                yield cue._replace(lines=cue.lines[:-1] if "".join(cue.lines[-1:]).isdecimal() else cue.lines)
            cue, skips = _Cue(_clock(match[1]), _clock(match[2]), []), False
        elif not line:
            if cue is not None and (cue.lines or not raw):  # captions that roll up begin with a blank
                yield cue
                cue = None
            skips = False
        elif cue is not None:
            cue.lines.append(line)
        elif not skips and not _is_name(lines, number):
            skips = line.split(None, 1)[0] in ("WEBVTT", "NOTE", "STYLE", "REGION")
            if not skips:
                what = f"{path}, line {number}: {line[:40]!r} is without a time, as an empty line is before it"
                raise InputError(what, "remove the empty line, or give it a time")
    if cue is not None:
        yield cue


def _is_name(lines: Sequence[str], number: int) -> bool:
    """Tell whether the line with a number, from 1, is the number or name of the cue below it."""
    return number < len(lines) and _CUE.fullmatch(lines[number].strip()) is not None


def _clock(text: str) -> float:
    """Return a time such as 00:01:02,345 in seconds."""
    seconds = 0.0
    for part in text.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return round(seconds, 6)
