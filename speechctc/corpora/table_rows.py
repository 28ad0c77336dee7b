"""Reads the rows of tables: TSV, CSV, JSON and Excel, and what `speechctc.corpora.manifests` reads; sentences."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import unicodedata
import warnings
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from speechctc.audio.annotations import MAX_OVERLAP
from speechctc.audio.folders import ENDINGS as SOUNDS
from speechctc.audio.tracks import Channel, chosen
from speechctc.core.errors import InputError, first_few, optional, with_extra
from speechctc.core.text_files import MOST_TABLE, Text, most_unpacked, read_text, read_unpacked
from speechctc.corpora.manifests import fairseq_rows, of_object, read_folder, with_end, without_header
from speechctc.phones.inventory import CMU39, SILENCES, TIMIT39, TIMIT48, TIMIT61
from speechctc.phones.label_rules import unenclosed
from speechctc.phones.nonspeech_labels import kind_of_phone

if TYPE_CHECKING:
    from speechctc.audio.sound_file import AudioInfo

REQUIRED = ("audio",)
LABELS = ("phones", "words")  # at least one of them
OPTIONAL = ("id", "speaker", "channel", "track")
_SECONDS = ("start", "end", "offset", "duration")
TIMES = ("start", "end")  # columns with the times between which a row lies in its recording, in seconds
COLUMNS = "audio, and phones or words"
# Names that the columns have in other corpora, such as Common Voice, and in the manifests of other programs.
USUAL = {
    "id": "utt_id utterance_id utterance utt key".split(),
    "audio": (
        "audio_filepath audio_path audio_file file_name filename file path wav recording wav_filename wav_path".split()
    ),
    "phones": "ipa phone phonemes phonetic pronunciation phn".split(),
    "words": "text sentence transcript transcription orthography word gloss wrd txt".split(),
    "speaker": "client_id speaker_id speaker_name spk spk_id".split(),
    "language": "locale lang".split(),
    "accent": ["accents"],
    "split": "subset partition set fold data_split dataset_split split_name usage".split(),
    "start": "start_time start_sec start_seconds begin begin_time xmin tmin".split(),
    "end": "end_time end_sec end_seconds stop_time xmax tmax".split(),
}
# Columns of times that may not be in seconds, and what is a time.
_OTHER_TIMES = re.compile(
    r"(start|begin|end|stop|onset)[\W_]*(((time|sec|ss|hh|milli|ms|sample|frame|pos).*)?|(?<=[\W_])s\W*)|frame_offset",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d+([.,:]\d+)*")
# Columns that say of one split whether a row is in it, as is_test does, and what means yes.
_OF_SPLIT = re.compile(r"(?:is|in|for)[\W_]*(train|dev|val|test|eval)[a-z]*(?:[\W_]*(?:set|split))?")
_YES = frozenset("1 1.0 true t yes y x".split())
# Endings of the names of two columns that are the edges of a piece, whatever is before: ``segment_start``, ``from``.
_EDGES = (("start", "end"), ("start", "stop"), ("begin", "end"), ("from", "to"), ("onset", "offset"), ("t0", "t1"))
_NO_TIMES = re.compile(r"(char|character|token|word|line|verse|page|chapter|index|idx|year|date|age)s?[\W_]*")
_IN_SECONDS = "write the columns start and end, in seconds"
AGREES = 0.01  # seconds between two lengths that rounding explains
_SPANS = ("timestamp", "timestamps", "interval", "segment")  # columns that may have both times of a row
_SPAN = re.compile(r"[\[(]\s*\d+(\.\d+)?\s*,\s*\d+(\.\d+)?\s*[\])]")
# Columns with a trait of the speaker, by which scores are split.
TRAITS = ("sex", "gender", "dialect", "accent", "region", "language")
_TRAITS = frozenset(TRAITS)
_TEXTS = ("audio", *OPTIONAL)
_NUMBERED, _NOT_FROM_ONE = ("channel", "track"), "is not a number from 1"
_HEAD = 1 << 16  # characters of JSON, among which the name of a column that it has stands
_ONCE = (*REQUIRED, *LABELS, *OPTIONAL, *TIMES, *TRAITS, "split", "duration", "offset")  # columns that no other has
DELIMITED = (".tsv", ".tab", ".txt", ".csv")
JSON_LINES = (".jsonl", ".ndjson", ".json", ".list")
_DELIMITERS = "\t,;|"  # what separates columns
_SEPARATOR = re.compile(r'"?sep=(.)"?[,;\t]*\s*', re.IGNORECASE)  # what Excel reads in the first line of a CSV
# SpeechBrain's name of the folder that paths begin in
_ROOT = re.compile(r"(\{data_?root\}|\$data_?root)[/\\]", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s,:]*")  # the entries of a JSON list or object
_SPACE = " \t\n\u00a0\ufeff"
_TRANSCRIBED = re.compile(r"\[[^\[\]\",]*[^\[\]\",\s][^\[\]\",]*\]")  # phones between brackets, and no JSON list
_DECIMAL = re.compile(r"-?\d*,\d+")
_EMPTY = _SPACE + ",;"  # characters of an empty line from a spreadsheet

ENDING = ".xlsx"
ENDINGS = (*DELIMITED, *JSON_LINES, ENDING)
MAX_CELLS = 20_000_000  # of a sheet: one far below and to the right would stand for billions


class Row(NamedTuple):
    """A row of a table: one utterance.

    Attributes
    ----------
    line : int
        Line number in the file, from 1.
    id, audio, speaker : str
        Empty where the field is empty or missing; without a column id, that is the name of the recording.
    phones : tuple of str, optional
        None where the field is empty; an empty tuple where it is ``[]``.
    channel : int or Track, optional
        Of the columns channel and track, counted from 1; None where these are empty or missing.
    words : str
        Empty where the field is empty or missing.
    traits : tuple of (str, str)
        Names and values of the columns `TRAITS` that are there and not empty.
    start, end : str
        Times, as they are written, but with a point for a comma; empty where the field is empty or missing.
    problem, fix : str
        What is wrong with the row, or ``""``; and what to do about it.
    split : str
        What a column of splits says; empty where the field is empty or missing.
    duration : str
        Of a row without times, as it is written; empty where the field is empty or missing.
    file : str
        Of a folder's row, the file that it is in.
    samples : bool
        Its times are SpeechBrain's, in samples: `in_seconds` converts them.
    of_speechbrain : bool
        They surely are, by their form; else the recording tells.
    """

    line: int
    id: str = ""
    audio: str = ""
    phones: tuple[str, ...] | None = None
    speaker: str = ""
    channel: Channel | None = None
    words: str = ""
    problem: str = ""
    start: str = ""
    end: str = ""
    traits: tuple[tuple[str, str], ...] = ()
    fix: str = "correct the line"
    split: str = ""
    duration: str = ""
    file: str = ""
    samples: bool = False
    of_speechbrain: bool = False

    def times(self) -> tuple[float, float]:
        """Return `start` and `end` in seconds; an infinite end is that of the recording.

        Raises
        ------
        InputError
            One is not a number of seconds, or there is no time between them.
        """
        assert not self.samples, "in_seconds comes first"
        try:
            start, end = float(self.start), float(self.end)
        except ValueError:
            start = end = math.nan
        if not math.isfinite(start) or math.isnan(end):
            what = f"start and end are {self.start[:40]!r} and {self.end[:40]!r}, not seconds"
            raise InputError(what, "write both as numbers with a point: 12.5")
        if start < 0 or end - start < MAX_OVERLAP:
            raise InputError(f"no time from {start:g} to {end:g} s", "correct the line")
        return start, end


def in_seconds(row: Row, about: AudioInfo) -> Row:
    """Return a row whose times in samples are in seconds of its recording; one with a problem if that is not sure.

    It is sure where its duration is that of as many samples; of a row without one, where it has SpeechBrain's form, or
    where the recording is too short for as many milliseconds.
    """
    if not row.samples:
        return row
    start, stop = int(row.start), int(row.end)
    try:
        is_sure = abs(float(row.duration) - (stop - start) / about.rate) <= AGREES
    except ValueError:  # no duration
        is_sure = row.of_speechbrain or stop / 1000 > about.seconds + AGREES
    if is_sure and start < stop <= about.frames + AGREES * about.rate:
        return row._replace(start=str(start / about.rate), end=str(stop / about.rate), duration="", samples=False)
    read = f"{start} to {stop}" + (f", with the duration {row.duration}," if row.duration else "")
    problem = f"start and stop are {read} which may be no samples of its {about.frames} at {about.rate} Hz"
    return row._replace(problem=problem, fix=_IN_SECONDS)


class Rows(Iterable[Row]):
    """The rows of a table, read one by one, and anew each time that one goes through them."""

    def __init__(self, read: Callable[[], Iterator[Row]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Row]:
        return self._read()


class Table(NamedTuple):
    """The rows of a table, and what the user should know about how it was read."""

    rows: Rows
    notes: tuple[str, ...]


def is_table(path: Path) -> bool:
    """Tell by its ending whether a file is a table, and not a text."""
    return ending_of(path) in ENDINGS and ending_of(path) != ".txt"


def ending_of(path: Path) -> str:
    """Return the ending of a file's name in lower case, without that of a packed file (``.gz``)."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table; see `read_table`."""
    return list(read_table(path).rows)


def read_table(path: Path, labels: Sequence[str] = LABELS) -> Table:
    """Read a table: .jsonl with an object on each line, .tsv and .csv with tabs, commas or semicolons, or .xlsx.

    A folder of Kaldi or LibriSpeech is a table, too (`speechctc.corpora.table_rows`). A table needs one of the columns
    `labels`, if there are any.

    Raises
    ------
    InputError
        The file does not exist, is not text, is empty, or has not all required columns; by the iterator: a line is
        not a row.
    """
    if path.is_dir() and (read := read_folder(path)) is not None:
        return _as_phones(path, lambda: map(_folder_row, read()), (), labels)
    ending = ending_of(path)
    if ending not in ENDINGS:
        fix = f"use one of {', '.join(ENDINGS)}; save a spreadsheet as .xlsx or CSV (UTF-8)"
        raise InputError(f"{path}: not the ending of a table", fix)
    if not os.path.isfile(path):  # False of a path that is too long, too
        raise InputError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}", "check corpus.tables")
    text, note = read_cells(path, REQUIRED)
    if not text.strip():
        raise InputError(f"{path}: the table is empty", f"its first line names the columns: {COLUMNS}")
    notes, columns = (note,) if note else (), text[:_HEAD].lower() if ending in JSON_LINES else list[str]()
    if ending in JSON_LINES:
        rows: Callable[[], Iterator[Row]] = partial(_json_rows, text, path, labels)
        with suppress(InputError, ValueError, RecursionError):
            *_, entry = next(_json_values(text, path), (None,))
            values = json.loads(entry) if isinstance(entry, str) else entry
            notes = (*notes, *_choices(path, values if isinstance(values, dict) else ()))
    elif (values := fairseq_rows(text, path)) is not None:
        rows = partial(map, _folder_row, values)
    else:
        header = _read_header(text, path, labels)
        rows, notes = partial(_delimited_rows, text, path, header), (*notes, *header.notes)
        columns = header.columns
    first = next(rows(), None)
    if first is None:
        raise InputError(f"{path}: no rows in the table", f"a row has {COLUMNS}")
    counted = any(name in columns for name in _NUMBERED)
    return _as_phones(path, partial(_from_one, rows) if counted else rows, notes, labels)


def _from_one(rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Yield rows, without the channels or tracks of a table in which one is 0: the others are counted from 0, too."""
    named, lines = {f"{name} '0' {_NOT_FROM_ONE}": name for name in _NUMBERED}, dict[str, int]()
    for row in rows():
        if name := named.get(row.problem):
            lines.setdefault(name, row.line)
    first = next(filter(lines.__contains__, _NUMBERED), None)
    problem = f"a {first} that is counted from 0, as line {lines[first]} has it" if first else ""
    for row in rows():
        yield row._replace(problem=problem) if problem and not row.problem and row.channel is not None else row


_LISTED = frozenset((*TIMIT61, *TIMIT48, *TIMIT39, *CMU39, *SILENCES))
_VOWELS = frozenset("aa ae ah ao aw ax ay eh er ey ih ix iy ow oy uh uw ux".split())
_FEWEST, _SHORTEST = 5, 3.0  # different labels of a table, and the mean length of its rows, by which they are phones


def _as_phones(path: Path, rows: Callable[[], Iterator[Row]], notes: tuple[str, ...], labels: Sequence[str]) -> Table:
    """Return the table of rows; where all words of all rows are labels of TIMIT or of the CMU dictionary, as phones.

    Kaldi's and lhotse's TIMIT have such texts.
    """
    if not set(LABELS) <= set(labels) or not _are_phones(rows()):
        return Table(Rows(rows), notes)
    note = f"{path}: all its words are phones of TIMIT or of the CMU dictionary, and are read as phones"

    def as_phones() -> Iterator[Row]:
        return (row._replace(phones=tuple(row.words.split()) or None, words="") for row in rows())

    return Table(Rows(as_phones), (*notes, note))


def _are_phones(rows: Iterator[Row]) -> bool:
    """Tell whether the texts of all rows are phones; most other tables tell by their first row."""
    known, count, tokens = set[str](), 0, 0
    for row in rows:
        own = [_unstressed(word) for word in row.words.split()]
        if row.phones or not _LISTED.issuperset(own):
            return False
        known.update(own)
        count, tokens = count + bool(own), tokens + len(own)
    return (
        len(known) >= _FEWEST and tokens >= _SHORTEST * count and not known.isdisjoint(_VOWELS) and not known <= _VOWELS
    )


def _unstressed(label: str) -> str:
    return label.lower().rstrip("012")


@dataclass(frozen=True)
class Header:
    """How the lines of a delimited table are read.

    Attributes
    ----------
    columns : list of str
        The names of the columns in lower case, as they are here; ``""`` for columns without a name.
    delimiter : str
    lines : int
        How many lines are before the first row.
    audio : str
        Where the recordings are, if rows name them by their ids alone: ``"wavs/{}.wav"``.
    notes : tuple of str
        What the user should know.
    """

    columns: list[str]
    delimiter: str
    lines: int
    audio: str = ""
    notes: tuple[str, ...] = ()


def _read_header(text: str, path: Path, labels: Sequence[str]) -> Header:
    """Read the line of the columns' names, after lines that are empty, or name the delimiter as Excel does."""
    lines, first, delimiter = io.StringIO(text), 1, ""
    line = next(lines, "")
    if named := _SEPARATOR.fullmatch(line):
        delimiter, line, first = named[1], next(lines, ""), 2
    while line and not line.strip(_EMPTY):
        line, first = next(lines, ""), first + 1
    delimiter = delimiter or max(_DELIMITERS, key=line.count)
    names = next(
        csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if delimiter in ",;" else csv.QUOTE_NONE), []
    )
    try:
        columns = _columns(names, path, first, labels)
    except InputError:
        rows = (each.rstrip("\n").split("|") for each in chain([line], lines) if each.strip(_EMPTY))
        if "|" not in line or "words" not in labels or (found := without_header(rows, path)) is None:
            raise
        return Header(found[0], "|", first - 1, *found[1:])
    return Header(columns, delimiter, first, "", _choices(path, [_name(field) for field in names]))


def _choices(path: Path, names: Container[str]) -> tuple[str, ...]:
    """Return which of several columns that may be meant is read."""
    notes = []
    for target, others in USUAL.items():
        taken, *left = [name for name in (target, *others) if name in names] or [""]
        if left:
            notes.append(f"{path}: the column {taken!r} is read as {target}, and not {first_few(left)}")
    return tuple(notes)


def _delimited_rows(text: str, path: Path, header: Header) -> Iterator[Row]:
    """Yield the rows below the header."""
    for line, raw, problem in _records(text, path, header):
        fields = [field.strip(_SPACE) for field in raw]
        if problem:
            yield Row(line, problem=problem, fix="write it twice and the field in quotes, or save the table as .tsv")
        elif any(fields):
            yield _delimited_row(header, fields, line)


def _records(text: str, path: Path, header: Header) -> Iterator[tuple[int, list[str], str]]:
    """Yield the line of each row, its fields, and what is wrong with its quotation marks, or ``""``.

    In fields of tables with tabs or ``|`` they are plain characters. In others they enclose a field, whose text may
    have line ends.

    Raises
    ------
    InputError
        A field begins with a quotation mark that is not closed in its line, and holds other rows.
    """
    lines = islice(io.StringIO(text), header.lines, None)
    if header.delimiter in "\t|":
        yield from ((*each, "") for each in _plain_records(lines, header))
        return
    taken: list[str] = []

    def watched() -> Iterator[str]:
        for each in lines:
            taken.append(each)
            yield each

    reader = csv.reader(watched(), delimiter=header.delimiter, strict=True)
    line = header.lines + 1
    while True:
        try:
            fields, problem = next(reader), ""
        except StopIteration:
            return
        except csv.Error as error:
            fields, problem = [], f"a quotation mark inside of a field, or not closed ({error})"
        if len(taken) > 1 and (problem or _holds_rows(header, fields, taken)):
            what = f"{path}, line {line}: a field begins with a quotation mark that is not closed in this line"
            raise InputError(what, "close it; one that is text is written twice, in quotes; or save the table as .tsv")
        yield line, fields, problem
        line += len(taken)
        taken.clear()


def _plain_records(lines: Iterator[str], header: Header) -> Iterator[tuple[int, list[str]]]:
    """Yield the line of each row and its fields; a text in quotes may end in one of the lines after it."""
    held: list[tuple[int, list[str]]] = []  # a row whose last field is open, and the lines after it
    for line, plain in enumerate(lines, start=header.lines + 1):
        held.append((line, plain.rstrip("\n").split(header.delimiter)))
        while held and not (joined := _joined([fields for _, fields in held], header)):
            yield held.pop(0)
        if held and not _is_open(joined):
            yield held[0][0], joined
            held = []
    yield from held


def _joined(parts: Sequence[list[str]], header: Header) -> list[str]:
    """Return the fields of a row over several lines, of which all but the last leave a text open; else none."""
    fields, columns = parts[0], header.columns
    for more in parts[1:]:
        fields = [*fields[:-1], f"{fields[-1]} {more[0]}", *more[1:]]
    is_text = len(parts[0]) <= len(columns) and columns[len(parts[0]) - 1] in ("words", "")
    return fields if len(fields) <= len(columns) and (not _is_open(parts[0]) or is_text) else []


def _is_open(fields: Sequence[str]) -> bool:
    """Tell whether the last of some fields begins with a quotation mark that is not closed."""
    return fields[-1].startswith('"') and fields[-1].count('"') % 2 == 1


def _holds_rows(header: Header, fields: Sequence[str], lines: Sequence[str]) -> bool:
    """Tell whether a field of a row of several lines holds other rows: only texts have line ends, and no recordings."""
    columns, audio = header.columns, header.columns.index("audio")
    for name, field in zip(columns, fields, strict=False):
        if "\n" in field and name in _ONCE and name != "words":
            return True
    rows = (next(csv.reader([each], delimiter=header.delimiter)) for each in lines[1:])
    return any(len(row) >= len(columns) and row[audio].strip().lower().endswith(SOUNDS) for row in rows)


def _columns(header: list[str], path: Path, line: int, labels: Sequence[str]) -> list[str]:
    """Return the names of the columns in lower case; ``""`` for columns without a name."""
    named = [_name(field) for field in header]
    while named and not named[-1]:
        named.pop()
    usual = _as_here(tuple(named))
    columns = [usual.get(name, name) for name in named]
    if missing := _missing(columns, labels):
        what = f"{path}, line {line}: no column {' and no '.join(missing)} among: {', '.join(named)}"
        raise InputError(what, f"name the columns in the first line: {COLUMNS}")
    if twice := sorted({name for name in _ONCE if columns.count(name) > 1}):
        raise InputError(f"{path}, line {line}: several columns named {' and '.join(twice)}", "rename all but one")
    return columns


@lru_cache(1000)
def _as_here(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the names that columns have here, by those in a table: where it lacks one, of the first in `USUAL`."""
    lacking = {target: names for target, names in USUAL.items() if target not in columns}
    found = {target: next((name for name in names if name in columns), None) for target, names in lacking.items()}
    return {name: target for target, name in found.items() if name}


@lru_cache(1000)
def _other_times(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that seem to be times, but are not read as such."""
    edges = _edges(columns)
    return tuple(
        name
        for name in columns
        if name in _SPANS or name in edges or (name not in TIMES and _OTHER_TIMES.fullmatch(name))
    )


def _edges(columns: tuple[str, ...]) -> set[str]:
    """Return the columns of which two are called as the edges of a piece: ``from`` and ``to``."""
    found = set[str]()
    for name in columns:
        for first, last in _EDGES:
            what = name.removesuffix(first)
            other = what + last
            if name.endswith(first) and not what[-1:].isalnum() and other in columns and not _NO_TIMES.fullmatch(what):
                found |= {name, other} - set(TIMES)
    return found


def _missing(names: Container[str], labels: Sequence[str]) -> list[str]:
    """Return the columns that a table or row lacks: of `labels`, if there are any, it needs one."""
    lacks = [] if not labels or any(name in names for name in labels) else [" or ".join(labels)]
    return [name for name in REQUIRED if name not in names] + lacks


def _name(field: str) -> str:
    return _unquoted(field.strip(_SPACE)).strip(_SPACE).lower()


def _delimited_row(header: Header, fields: list[str], line: int) -> Row:
    columns = header.columns
    while len(fields) > len(columns) and not fields[-1]:
        fields.pop()
    if len(fields) != len(columns):
        return Row(line, problem=f"{len(fields)} fields for {len(columns)} columns")
    row: dict[str, Any] = dict(zip(columns, map(_unquoted, fields), strict=True))
    if header.audio:
        row |= {"audio": header.audio.format(row["id"]), "words": row["words"] or row.get("written", "")}
    if header.delimiter != ",":  # a comma in a time is no other sign than the point that others write
        row |= {name: row[name].replace(",", ".") for name in _SECONDS if _DECIMAL.fullmatch(row.get(name, ""))}
    phones = row.setdefault("phones", "")
    if phones.startswith("[") and not _TRANSCRIBED.fullmatch(phones):
        try:
            row["phones"] = json.loads(phones)
        except (ValueError, RecursionError):
            return Row(line, row.get("id", ""), problem=f"phones are not a JSON list: {phones[:40]!r}")
    try:
        return _row(line, with_end(row))
    except ValueError:
        told = ", ".join(f"{name} {row[name][:40]!r}" for name in _SECONDS if row.get(name))
        return Row(line, row.get("id", ""), problem=f"not seconds: {told}")


def _unquoted(field: str) -> str:
    enclosed = field[:1] == '"' == field[-1:] and len(field) > 1
    return field[1:-1].replace('""', '"') if enclosed else field


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _json_rows(text: str, path: Path, labels: Sequence[str]) -> Iterator[Row]:
    for line, id, source in _json_values(text, path):
        try:
            values = dict(json.loads(source.rstrip().removesuffix(",")) if isinstance(source, str) else source)
            entries = of_object({"id": id, **values} if id else values, path)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            yield Row(line, id, problem=f"not a JSON object of a manifest, on one line ({str(error)[:200]})")
            continue
        for each in entries:
            usual = _as_here(tuple(each))
            named = {usual.get(name, name): value for name, value in each.items()}
            if isinstance(named.get("audio"), dict):  # as Hugging Face's datasets write it
                named["audio"] = named["audio"].get("path")
            if named.get("problem"):
                yield _folder_row({"line": line, **named})
            elif missing := _missing(named, labels):
                yield Row(line, _text(named.get("id")), problem=f"no {' and no '.join(missing)}")
            else:
                yield _row(line, named)


def _json_values(text: str, path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yield the line, the id and the value of each entry: a text for each line, or an object of a whole document.

    A document is a list of objects, or one object with those of SpeechBrain by their ids.
    """
    if not _is_document(text):
        yield from ((line, "", source) for line, source in enumerate(io.StringIO(text), start=1) if source.strip())
        return
    decoder, at, line, counted = json.JSONDecoder(), text.index(text.strip()[0]) + 1, 1, 0
    is_list = text[at - 1] == "["
    try:
        while text[at := _BETWEEN.match(text, at).end()] not in "]}":  # type: ignore[union-attr]
            line, counted, id = line + text.count("\n", counted, at), at, ""
            if not is_list:
                id, at = decoder.raw_decode(text, at)
                at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            value, at = decoder.raw_decode(text, at)
            yield line, id, value
    except (IndexError, RecursionError, ValueError) as error:
        where = error.lineno if isinstance(error, json.JSONDecodeError) else text.count("\n") + 1
        fix = "correct it, or write one object a line"
        raise InputError(f"{path}, line {where}: not JSON, or not closed", fix) from None


def _is_document(text: str) -> bool:
    """Tell whether a text is one JSON value over several lines, or a list in one, and not a value a line."""
    first = next((line for line in io.StringIO(text) if line.strip()), "").strip().removesuffix(",")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return first.endswith(("[", "{")) or first.startswith("[{")
    entries = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    return bool(entries) and all(isinstance(each, dict) for each in entries)


def _folder_row(values: dict[str, Any]) -> Row:
    row = _row(values["line"], values)
    problem, fix = str(values.get("problem") or row.problem), str(values.get("fix") or row.fix)
    return row._replace(problem=problem, fix=fix, file=values.get("file", ""))


def _row(line: int, values: Mapping[str, Any]) -> Row:
    """Return the row of plain values, whose phones may be a list or a text of labels."""
    phones = values.get("phones")
    labels: tuple[str, ...] | None = None
    if isinstance(phones, list) and all(isinstance(label, str) and label.split() == [label] for label in phones):
        labels = tuple(phones)
    elif isinstance(phones, str):
        labels = tuple((phones if kind_of_phone(phones) else unenclosed(phones)).split()) or None
    elif phones is not None:
        return Row(line, str(values.get("id", "")), problem="phones are neither a line of labels nor a list of them")
    audio, id, speaker, channel, track, start, end = map(_text, map(values.get, (*_TEXTS, *TIMES)))
    audio = _ROOT.sub("", audio)
    if "id" not in values:
        id = PurePath(audio.replace("\\", "/")).stem
    for name, number in zip(_NUMBERED, (channel, track), strict=True):
        if number and not (number.isdecimal() and len(number) < 10 and int(number) > 0):
            return Row(line, id, problem=f"{name} {number[:40]!r} {_NOT_FROM_ONE}")
    words = values.get("words")
    words = " ".join(map(str, words)) if isinstance(words, list) else _text(words)
    named = () if _TRAITS.isdisjoint(values) else TRAITS  # most tables have none
    traits = tuple((name, text) for name in named if (text := _text(values.get(name))))
    split, duration = _split_of(values), "" if start or end else _text(values.get("duration"))
    row = Row(
        line,
        id,
        audio,
        labels,
        speaker,
        chosen(int(track) if track else None, int(channel) if channel else None),
        words,
        start=start,
        end=end,
        traits=traits,
        split=split,
        duration=duration,
    )
    return _with_other_times(row, values)


def _split_of(values: Mapping[str, Any]) -> str:
    """Return what a row says of its split: in a column of splits, or in one for each split, or for one alone."""
    if "split" in values:
        return _text(values["split"])
    told = {found[1]: _text(values[name]).lower() in _YES for name in values if (found := _OF_SPLIT.fullmatch(name))}
    if not told:
        return ""
    return next((split for split, is_in in told.items() if is_in), "test" if "train" in told else "train")


def _with_other_times(row: Row, values: Mapping[str, Any]) -> Row:
    """Return a row with times in samples, if it has SpeechBrain's; with a problem, if others are not read."""
    if (since := _text(values.get("source_audio_offset"))) and since.strip("0."):
        problem = (
            f"a piece from {since} s on, of which NeMo's archive has the sound: its file may be the piece or hold it"
        )
        return row._replace(problem=problem, fix="rename source_audio_offset offset, or leave it out")
    start, stop = row.start, _text(values.get("stop"))
    if not row.end and start.isdecimal() and stop.isdecimal() and max(len(start), len(stop)) < 16:
        told, surely = _text(values.get("duration")), bool(values.get("of_speechbrain"))
        return row._replace(end=stop, duration=told, samples=True, of_speechbrain=surely)
    others = () if start and row.end else _other_times(tuple(values))
    if unread := [name for name in others if (_SPAN if name in _SPANS else _TIME).fullmatch(_text(values[name]))]:
        problem = f"times that are not read: {', '.join(unread)}"
        return row._replace(problem=problem, fix=_IN_SECONDS)
    return row


def spelling_of(base: Path, name: str) -> str | None:
    """Return a recording's name as the disk has it: a table may have backslashes or, from macOS, another Unicode form.

    Tables of Common Voice name recordings in their folder ``clips``. None: there is none.
    """
    if os.path.isfile(os.path.join(base, name)):  # False of a path that is too long, too
        return name
    plain = name.replace("\\", "/")
    forms = (plain, unicodedata.normalize("NFC", plain), unicodedata.normalize("NFD", plain), f"clips/{plain}")
    return next((form for form in forms if os.path.isfile(os.path.join(base, form))), None)


def read_cells(path: Path, columns: Iterable[str]) -> Text:
    """Return the text of a table: of an Excel file that of the sheet with the columns, see `read_sheet`."""
    if path.suffix.lower() == ".gz":
        return Text(read_unpacked(path, "a table"), "")
    return read_sheet(path, columns) if path.suffix.lower() == ENDING else read_text(path, MOST_TABLE)


def read_sheet(path: Path, columns: Iterable[str]) -> Text:
    """Return the first sheet whose first row with text names all of some columns, else the first sheet.

    The numbers of its rows are those of the lines. Results of formulas are those that were saved.

    Raises
    ------
    InputError
        openpyxl is not installed, or the file is not a workbook.
    """
    fix = f"{with_extra('xlsx')}, or save it as CSV (UTF-8)"
    openpyxl = optional("openpyxl", f"{path}: reading .xlsx needs openpyxl, which is not installed", fix)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of features such as data validation, which do not matter here
            with zipfile.ZipFile(path) as packed:
                unpacked = sum(part.file_size for part in packed.infolist())
            if unpacked > most_unpacked(path.stat().st_size):
                raise ValueError(f"it unpacks to {unpacked:,} bytes")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            sheets = {sheet.title: _cells(sheet) for sheet in book.worksheets}
            book.close()
    except Exception as error:  # files that are not workbooks raise errors of many types
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not an Excel workbook ({reason})", "save it again, or as CSV (UTF-8)") from None
    if not sheets:
        raise InputError(f"{path}: no sheet with cells in it", "save it as CSV (UTF-8)")
    required = set(columns)
    title = next((title for title, rows in sheets.items() if required <= _header(rows)), next(iter(sheets)))
    note = f"{path}: the sheet {title!r} is read, of {len(sheets)}" if len(sheets) > 1 else ""
    return Text("\n".join("\t".join(row) for row in sheets[title]) + "\n", note)


def _cells(sheet: Any) -> list[list[str]]:
    """Return the rows of a sheet of openpyxl, all as wide as the widest, whatever part the file says that it has."""
    sheet.reset_dimensions()
    rows, read, width = [], 0, 0
    for row in sheet.iter_rows(values_only=True):
        cells = [_cell_text(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        rows.append(cells)
        read, width = read + len(row), max(width, len(cells))
        if max(read, width * len(rows)) > MAX_CELLS:
            raise ValueError(f"more than {MAX_CELLS:,} cells, empty ones too")
    return [cells + [""] * (width - len(cells)) for cells in rows]


def _cell_text(cell: Any) -> str:
    """Return a cell on one line, its blanks as they are; whole numbers without a point."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    lines = str(cell).replace("\t", "\n").splitlines()
    return " ".join(filter(None, map(str.strip, lines)))


def _header(rows: list[list[str]]) -> set[str]:
    return {cell.lower() for cell in next((row for row in rows if any(row)), [])}


_ENDS = re.compile(r"(?<=[.!?…։።।。！？؟])\s+")  # of sentences
MIN_SENTENCES = 12  # some for training, dev and test each


def read_sentences(path: Path, words: tuple[int, int]) -> list[str]:
    """Return the different sentences of a file, in order; long ones are divided, short ones left out.

    Parameters
    ----------
    path : Path
        A table with a column ``words``, by its ending; .txt is a text, in which a sentence ends with its line or a full
        stop.
    words : (int, int)
        Fewest and most words of a sentence.

    Raises
    ------
    InputError
        The file cannot be read, or has too few sentences.
    """
    if path.is_dir():
        raise InputError(f"{path}: a folder", "name a file of sentences")
    rows = list(read_table(path).rows) if is_table(path) else []
    if bad := next((row for row in rows if row.problem), None):
        raise InputError(f"{path}, line {bad.line}: {bad.problem}", bad.fix)
    lines = [row.words for row in rows] if is_table(path) else read_text(path).text.split("\n")
    found: dict[str, None] = {}
    for line in lines:
        for sentence in _ENDS.split(line):
            found.update(dict.fromkeys(_divided(sentence.split(), words)))
    if len(found) < MIN_SENTENCES:
        what = f"{path}: {len(found)} different sentences of {words[0]} to {words[1]} words"
        raise InputError(what, f"give at least {MIN_SENTENCES}, or change the fewest and most words of a sentence")
    return list(found)


def _divided(tokens: list[str], words: tuple[int, int]) -> list[str]:
    """Return a sentence in equal parts that are not too long; without those that are too short."""
    fewest, most = words
    count = -(-len(tokens) // most)
    edges = [round(k * len(tokens) / count) for k in range(count + 1)] if count else []
    parts = [tokens[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [" ".join(part) for part in parts if len(part) >= fewest]
