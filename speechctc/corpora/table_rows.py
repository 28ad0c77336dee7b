"""Reads rows: of TSV, CSV, JSON lines and Excel, of LibriSpeech and Kaldi, of lhotse and NeMo; sentences to speak."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from speechctc.audio.annotations import MAX_OVERLAP
from speechctc.audio.recordings import ENDINGS as SOUNDS
from speechctc.audio.recordings import walk
from speechctc.audio.tracks import Channel, chosen
from speechctc.core.errors import InputError, optional, with_extra
from speechctc.core.text_files import Text, most_unpacked, read_text, read_unpacked

TRANS = ".trans.txt"
SCP = "wav.scp"
Values = dict[str, Any]

_FILE = r"""(?P<file>'[^']+'|"[^"$`\\]+"|(?!-)[^\s'"|<>;&$`\\()*?\[]+)"""
# The commands of wav.scp that unpack a recording, whole or one channel of it, and do not change how long it is.
_UNPACK = [
    re.compile(each.replace(" ", r"\s+").replace("FILE", _FILE))
    for each in (
        r"(?:\S*/)?flac (?:(?:-[cds]+|--decode|--stdout|--silent) )+FILE",
        r"(?:\S*/)?sph2pipe (?:(?:-f (?:wav|rif)|-p|-c (?P<channel>[12])) )+FILE(?: -)?",
        r"(?:\S*/)?sox (?:-t \w+ )?FILE (?:-[rbe] \S+ )*-t wav (?:-[rbe] \S+ )*-(?: remix (?P<channel>\d+))?",
    )
]


def corpora_in(folder: Path, names: Iterable[Path]) -> list[Path]:
    """Return the folders in a folder, or itself, that are a table: Kaldi's data folders, and splits of LibriSpeech.

    Parameters
    ----------
    folder : Path
    names : iterable of Path
        The files below it.
    """
    found: dict[Path, None] = {}
    for path in names:
        if path.name == SCP and (path.parent / "text").is_file():
            found[path.parent] = None
        elif path.name.endswith(TRANS):  # split/speaker/chapter/file
            found[next(each for each in path.parents[2::-1] if each == folder or folder in each.parents)] = None
    return list(found)


def read_folder(folder: Path) -> Iterator[Values] | None:
    """Return the rows of a corpus of Kaldi or LibriSpeech; None if a folder is none."""
    if (folder / SCP).is_file():
        return _kaldi(folder)
    files = sorted(Path(where, name) for where, _, names in walk(folder) for name in names if name.endswith(TRANS))
    return _librispeech(folder, files) if files else None


def _librispeech(folder: Path, files: Iterable[Path]) -> Iterator[Values]:
    """Yield the rows of lines ``ID WORDS`` in files beside recordings, whose names begin with that of the speaker."""
    for path in files:
        beside = {Path(name).stem: name for name in os.listdir(path.parent) if name.lower().endswith(SOUNDS)}
        place = path.parent.relative_to(folder)
        for id, words in _pairs(path):
            audio = str(place / beside.get(id, f"{id}.flac"))
            yield {"id": id, "audio": audio, "words": words, "speaker": id.partition("-")[0]}


def _kaldi(folder: Path) -> Iterator[Values]:
    """Yield the rows of ``text``, whose recordings are those of ``segments`` in ``wav.scp``, or have the same id."""
    recordings = {id: _recording(place) for id, place in _pairs(folder / SCP)}
    segments = {id: rest.split() for id, rest in _pairs(folder / "segments")}
    speakers, sexes = dict(_pairs(folder / "utt2spk")), dict(_pairs(folder / "spk2gender"))
    for id, words in _pairs(folder / "text", needed=True):
        recording, *times = segments.get(id, [id])
        speaker = speakers.get(id, "")
        traits = {"words": words, "speaker": speaker, "sex": sexes.get(speaker, "")}
        yield {"id": id, **traits, **_stretch(times, recordings.get(recording, {"audio": ""}))}


def _stretch(times: list[str], recording: Values) -> Values:
    """Return the columns of a recording of which ``segments`` names start and end."""
    if len(times) not in (0, 2):
        return {"problem": f"a line of segments that has not two times: {' '.join(times)!r}"}
    return {**recording, **dict(zip(TIMES, times, strict=False))}


def _recording(place: str) -> Values:
    """Return the columns of an entry of ``wav.scp``: of a command that only unpacks a recording, those of that one."""
    if not place.endswith("|"):
        return {"audio": place}
    for command in _UNPACK:
        if found := command.fullmatch(place[:-1].strip()):
            named = found.groupdict()
            return {"audio": named["file"].strip("'\""), "channel": named.get("channel")}
    return {"problem": f"a command of {SCP} that may change the sound: {place[:80]!r}"}


def _pairs(path: Path, needed: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the first word of each line and the rest; nothing if there is no such file."""
    if not needed and not path.is_file():
        return
    for line in read_text(path).text.split("\n"):
        first, *rest = line.split(None, 1) or [""]
        if first:
            yield first, rest[0].strip() if rest else ""


def of_object(values: Mapping[str, Any], path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of an object of a JSON manifest: a cut or a supervision of lhotse, an entry of NeMo, or itself.

    Parameters
    ----------
    values : mapping
    path : Path
        The manifest. Supervisions name recordings, which the manifest of that name beside it has.

    Raises
    ------
    InputError
        There is no such manifest of recordings.
    """
    if "supervisions" in values and isinstance(values.get("recording"), dict):
        start, recording = float(values.get("start") or 0), values["recording"]
        return [_supervision(each, recording, start) for each in values["supervisions"]]
    if "recording_id" in values and "text" in values and "audio" not in values:
        return [_supervision(values, _recordings(path).get(values["recording_id"], {}), 0.0)]
    if "offset" in values and "start" not in values and "duration" in values:
        start = float(values["offset"] or 0)
        return [{**values, "start": start, "end": round(start + float(values["duration"]), 6)}]
    return [values]


def _supervision(each: Mapping[str, Any], recording: Mapping[str, Any], offset: float) -> Values:
    """Return the row of a segment in lhotse's fields; its channels count from 0."""
    sources = recording.get("sources") or [{}]
    start = offset + float(each.get("start") or 0)
    channels = [channel for source in sources for channel in source.get("channels", [])]
    channel = each.get("channel", 0)
    return {
        **{name: each[name] for name in ("id", "speaker", "language") if each.get(name)},
        "audio": sources[0].get("source", ""),
        "words": each.get("text", ""),
        "sex": each.get("gender") or "",
        "start": start,
        "end": round(start + float(each.get("duration") or 0), 6),
        **({"channel": channel + 1} if len(channels) > 1 and isinstance(channel, int) else {}),
    }


@cache
def _recordings(path: Path) -> dict[str, Any]:
    """Return the recordings of the manifest beside one of supervisions, by their ids."""
    beside = path.with_name(path.name.replace("supervisions", "recordings"))
    if beside == path or not beside.is_file():
        raise InputError(f"{path}: the manifest of its recordings, {beside.name}, is not there", "put it there")
    lines = read_unpacked(beside, "a manifest").split("\n")
    return {each["id"]: each for each in map(json.loads, filter(str.strip, lines))}


REQUIRED = ("audio",)
LABELS = ("phones", "words")  # at least one of them
OPTIONAL = ("id", "speaker", "channel", "track")
TIMES = ("start", "end")  # columns with the times between which a row lies in its recording, in seconds
COLUMNS = "audio, and phones or words"
# Names that the columns have in other corpora, such as Common Voice, and in the manifests of other programs.
USUAL = {
    "id": "utt_id utterance_id utterance utt".split(),
    "audio": "audio_filepath audio_path audio_file file_name filename file path wav recording".split(),
    "phones": "ipa phone phonemes phonetic pronunciation".split(),
    "words": "text sentence transcript transcription orthography word gloss".split(),
    "speaker": "client_id speaker_id spk spk_id".split(),
    "language": "locale lang".split(),
    "accent": ["accents"],
}
# Columns with a trait of the speaker, by which scores are split.
TRAITS = ("sex", "gender", "dialect", "accent", "region", "language")
_TRAITS = frozenset(TRAITS)
_TEXTS = ("audio", *OPTIONAL)
DELIMITED = (".tsv", ".tab", ".txt", ".csv")
JSON_LINES = (".jsonl", ".ndjson", ".json")
_DELIMITERS = "\t,;"  # what separates columns
_SPACE = " \t\n\u00a0\ufeff"
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
    problem : str
        What is wrong with the format of the row, or ``""``.
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

    def times(self) -> tuple[float, float]:
        """Return `start` and `end` in seconds.

        Raises
        ------
        InputError
            One is not a number of seconds, or there is no time between them.
        """
        try:
            start, end = float(self.start), float(self.end)
        except ValueError:
            start = end = math.nan
        if not (math.isfinite(start) and math.isfinite(end)):
            what = f"start and end are {self.start[:40]!r} and {self.end[:40]!r}, not seconds"
            raise InputError(what, "write both as numbers with a point: 12.5")
        if start < 0 or end - start < MAX_OVERLAP:
            raise InputError(f"no time from {start:g} to {end:g} s", "correct the line")
        return start, end


class Table(NamedTuple):
    """The rows of a table, read one by one, and what the user should know about how it was read, or ``""``."""

    rows: Iterator[Row]
    note: str


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
    if path.is_dir() and (values := read_folder(path)) is not None:
        return Table((_folder_row(line, each) for line, each in enumerate(values, start=1)), "")
    ending = ending_of(path)
    if ending not in ENDINGS:
        fix = f"use one of {', '.join(ENDINGS)}; save a spreadsheet as .xlsx or CSV (UTF-8)"
        raise InputError(f"{path}: not the ending of a table", fix)
    if not os.path.isfile(path):  # False of a path that is too long, too
        raise InputError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}", "check corpus.tables")
    text, note = read_cells(path, REQUIRED)
    if not text.strip():
        raise InputError(f"{path}: the table is empty", f"its first line names the columns: {COLUMNS}")
    rows = _json_rows(text, path, labels) if ending in JSON_LINES else _delimited_rows(text, path, labels)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: no rows in the table", f"a row has {COLUMNS}")
    return Table(chain((first,), rows), note)


def _delimited_rows(text: str, path: Path, labels: Sequence[str]) -> Iterator[Row]:
    """Yield the rows below the header. In TSV, quotes are plain characters, unless they enclose a field."""
    lines, first = io.StringIO(text), 1
    header = next(lines, "")
    while header and not header.strip(_EMPTY):
        header, first = next(lines, ""), first + 1
    delimiter = max(_DELIMITERS, key=header.count)
    quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    reader = csv.reader(chain((header,), lines), delimiter=delimiter, quoting=quoting)
    try:
        columns = _columns(next(reader), path, first, labels)
        for raw in reader:
            fields = [field.strip(_SPACE) for field in raw]
            if any(fields):
                yield _delimited_row(columns, fields, first - 1 + reader.line_num, delimiter)
    except csv.Error as error:
        raise InputError(f"{path}, line {first - 1 + reader.line_num}: {error}", "correct the line") from None


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
    if twice := sorted({name for name in (*REQUIRED, *LABELS, *OPTIONAL) if columns.count(name) > 1}):
        raise InputError(f"{path}, line {line}: several columns named {' and '.join(twice)}", "rename all but one")
    return columns


@lru_cache(1000)
def _as_here(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the names that columns have here, by those in a table: where it lacks one, of the first in `USUAL`."""
    lacking = {target: names for target, names in USUAL.items() if target not in columns}
    found = {target: next((name for name in names if name in columns), None) for target, names in lacking.items()}
    return {name: target for target, name in found.items() if name}


def _missing(names: Container[str], labels: Sequence[str]) -> list[str]:
    """Return the columns that a table or row lacks: of `labels`, if there are any, it needs one."""
    lacks = [] if not labels or any(name in names for name in labels) else [" or ".join(labels)]
    return [name for name in REQUIRED if name not in names] + lacks


def _name(field: str) -> str:
    return _unquoted(field.strip(_SPACE)).strip(_SPACE).lower()


def _delimited_row(columns: list[str], fields: list[str], line: int, delimiter: str) -> Row:
    while len(fields) > len(columns) and not fields[-1]:
        fields.pop()
    if len(fields) != len(columns):
        return Row(line, problem=f"{len(fields)} fields for {len(columns)} columns")
    row: dict[str, Any] = dict(zip(columns, map(_unquoted, fields), strict=True))
    if delimiter != ",":  # a comma in a time is no other sign than the point that others write
        row |= {name: row[name].replace(",", ".") for name in TIMES if _DECIMAL.fullmatch(row.get(name, ""))}
    phones = row.setdefault("phones", "")
    if phones.startswith("["):
        try:
            row["phones"] = json.loads(phones)
        except (ValueError, RecursionError):
            return Row(line, row.get("id", ""), problem=f"phones are not a JSON list: {phones[:40]!r}")
    return _row(line, row)


def _unquoted(field: str) -> str:
    enclosed = field[:1] == '"' == field[-1:] and len(field) > 1
    return field[1:-1].replace('""', '"') if enclosed else field


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _json_rows(text: str, path: Path, labels: Sequence[str]) -> Iterator[Row]:
    for line, source in enumerate(io.StringIO(text), start=1):
        if not source.strip():
            continue
        try:
            entries = of_object(dict(json.loads(source)), path)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            yield Row(line, problem=f"not a JSON object of a manifest, on one line ({str(error)[:200]})")
            continue
        for each in entries:
            usual = _as_here(tuple(each))
            named = {usual.get(name, name): value for name, value in each.items()}
            if missing := _missing(named, labels):
                yield Row(line, str(named.get("id", "")), problem=f"no {' and no '.join(missing)}")
            else:
                yield _row(line, named)


def _folder_row(line: int, values: dict[str, Any]) -> Row:
    problem = values.get("problem")
    return Row(line, values["id"], problem=problem) if problem else _row(line, values)


def _row(line: int, values: dict[str, Any]) -> Row:
    """Return the row of plain values, whose phones may be a list or a text of labels."""
    phones = values.get("phones")
    labels: tuple[str, ...] | None = None
    if isinstance(phones, list) and all(isinstance(label, str) and label.split() == [label] for label in phones):
        labels = tuple(phones)
    elif isinstance(phones, str):
        labels = tuple(phones.split()) or None
    elif phones is not None:
        return Row(line, str(values.get("id", "")), problem="phones are neither a line of labels nor a list of them")
    audio, id, speaker, channel, track, start, end = map(_text, map(values.get, (*_TEXTS, *TIMES)))
    if "id" not in values:
        id = PurePath(audio.replace("\\", "/")).stem
    for name, number in (("channel", channel), ("track", track)):
        if number and not (number.isdecimal() and len(number) < 10 and int(number) > 0):
            return Row(line, id, problem=f"{name} {number[:40]!r} is not a number from 1")
    words = values.get("words")
    words = " ".join(map(str, words)) if isinstance(words, list) else _text(words)
    named = () if _TRAITS.isdisjoint(values) else TRAITS  # most tables have none
    traits = tuple((name, text) for name in named if (text := _text(values.get(name))))
    part = chosen(int(track) if track else None, int(channel) if channel else None)
    return Row(line, id, audio, labels, speaker, part, words, start=start, end=end, traits=traits)


def read_cells(path: Path, columns: Iterable[str]) -> Text:
    """Return the text of a table: of an Excel file that of the sheet with the columns, see `read_sheet`."""
    if path.suffix.lower() == ".gz":
        return Text(read_unpacked(path, "a table"), "")
    return read_sheet(path, columns) if path.suffix.lower() == ENDING else read_text(path)


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
    lines = [row.words for row in read_table(path).rows] if is_table(path) else read_text(path).text.split("\n")
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
