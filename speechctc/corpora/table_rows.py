"""Reads the rows of TSV, CSV, JSON-lines and Excel files, with line numbers and faults."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from speechctc.audio.annotations import MAX_OVERLAP
from speechctc.core.errors import InputError, optional, with_extra
from speechctc.core.text_files import Text, read_text
from speechctc.corpora import manifests
from speechctc.phones.texts import most_unpacked, read_unpacked

REQUIRED = ("audio",)
LABELS = ("phones", "words")  # at least one of them
OPTIONAL = ("id", "speaker", "channel")
TIMES = ("start", "end")  # columns with the times between which a row lies in its recording, in seconds
COLUMNS = "audio, and phones or words"
# Names that the columns have in other corpora, such as Common Voice, and in the manifests of other programs.
USUAL = {
    "id": ("utt_id", "utterance_id", "utterance", "utt"),
    "audio": (
        "audio_filepath",
        "audio_path",
        "audio_file",
        "file_name",
        "filename",
        "file",
        "path",
        "wav",
        "recording",
    ),
    "phones": ("ipa", "phone", "phonemes", "phonetic", "pronunciation"),
    "words": ("text", "sentence", "transcript", "transcription", "orthography", "word", "gloss"),
    "speaker": ("client_id", "speaker_id", "spk", "spk_id"),
    "language": ("locale", "lang"),
    "accent": ("accents",),
}
# Columns with a trait of the speaker, by which scores are split.
TRAITS = ("sex", "gender", "dialect", "accent", "region", "language")
_TRAITS = frozenset(TRAITS)
_TEXTS = ("audio", *OPTIONAL)
DELIMITED = (".tsv", ".tab", ".txt", ".csv")
JSON_LINES = (".jsonl", ".ndjson", ".json")
SPREADSHEETS = (".xls", ".ods", ".numbers")
_SIGNS = "\t,;"  # what separates columns
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
    channel : int, optional
        Channel of the recording, counted from 1; None where the field is empty or missing.
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
    channel: int | None = None
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

    A folder of Kaldi or LibriSpeech is a table, too (`speechctc.corpora.manifests`). A table needs one of the columns
    `labels`, if there are any.

    Raises
    ------
    InputError
        The file does not exist, is not text, is empty, or has not all required columns; by the iterator: a line is
        not a row.
    """
    if path.is_dir() and (values := manifests.read_folder(path)) is not None:
        return Table((_folder_row(line, each) for line, each in enumerate(values, start=1)), "")
    ending = ending_of(path)
    if ending in SPREADSHEETS:
        raise InputError(f"{path}: a spreadsheet, not a table in a text file", "save it as .xlsx or as CSV (UTF-8)")
    if ending not in ENDINGS:
        endings = ", ".join(ENDINGS)
        if not ending and not os.path.lexists(path):
            raise InputError(f"{path}: no such file", f"give a table, whose name ends in one of {endings}")
        raise InputError(f"{path}: not the ending of a table", f"use one of {endings}")
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
    while header and (not header.strip(_EMPTY) or header.lower().startswith("sep=")):
        header, first = next(lines, ""), first + 1
    delimiter = max(_SIGNS, key=header.count)
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
            values = json.loads(source)
        except (ValueError, RecursionError) as error:
            yield Row(line, problem=f"not a JSON object on one line ({str(error)[:200]})")
            continue
        if not isinstance(values, dict):
            yield Row(line, problem="not a JSON object, which starts with {")
            continue
        try:
            entries = manifests.of_object(values, path)
        except (AttributeError, KeyError, TypeError, ValueError):
            yield Row(line, problem="a manifest's entry with a field of another kind")
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
    phones = values.get("phones", "")
    if phones is None and "words" in values:
        labels: tuple[str, ...] | None = None
    elif isinstance(phones, str):
        labels = tuple(phones.split()) or None
    elif isinstance(phones, list) and all(isinstance(label, str) and label.split() == [label] for label in phones):
        labels = tuple(phones)
    else:
        return Row(line, str(values.get("id", "")), problem="phones are neither a line of labels nor a list of them")
    audio, id, speaker, channel, start, end = map(_text, map(values.get, (*_TEXTS, *TIMES)))
    if "id" not in values:
        id = PurePath(audio.replace("\\", "/")).stem
    if channel and not (channel.isdecimal() and len(channel) < 10 and int(channel) > 0):
        return Row(line, id, problem=f"channel {channel[:40]!r} is not a number from 1")
    words = values.get("words")
    if isinstance(words, list):
        words = " ".join(map(str, words))
    named = () if _TRAITS.isdisjoint(values) else TRAITS  # most tables have none
    traits = tuple((name, text) for name in named if (text := _text(values.get(name))))
    number = int(channel) if channel else None
    return Row(line, id, audio, labels, speaker, number, _text(words), start=start, end=end, traits=traits)


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
