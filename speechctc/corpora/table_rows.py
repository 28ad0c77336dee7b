"""The rows of a TSV, CSV or JSON-lines file, with their line numbers and what is wrong with each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speechctc.errors import InputError

REQUIRED = ("id", "audio", "phones")
DELIMITERS = {".tsv": "\t", ".tab": "\t", ".txt": "\t", ".csv": ","}
JSON_LINES = (".jsonl", ".ndjson", ".json")
_NAMES = {"\t": "tabs", ",": "commas", ";": "semicolons"}


@dataclass(frozen=True)
class Row:
    """One utterance as the table has it.

    Attributes
    ----------
    line : int
        Where in the file, from 1.
    id, audio, speaker : str
        Empty where the table has nothing.
    phones : tuple of str, optional
        None where the field is empty; an empty tuple only where the table says ``[]``.
    problem : str
        What is wrong with the row's form; ``""`` if nothing is.
    """

    line: int
    id: str = ""
    audio: str = ""
    phones: tuple[str, ...] | None = None
    speaker: str = ""
    problem: str = ""


def read_rows(path: Path) -> list[Row]:
    """Read a table by its ending: .tsv, .csv or .jsonl.

    Raises
    ------
    InputError
        The file is missing, is not UTF-8, is empty, lacks a column, or its delimiter is another than its ending says.
    """
    ending = path.suffix.lower()
    if ending not in DELIMITERS and ending not in JSON_LINES:
        raise InputError(f"{path}: not the ending of a table", f"name it {', '.join([*DELIMITERS, *JSON_LINES])}")
    text = _text(path)
    rows = list(_json_rows(text) if ending in JSON_LINES else _delimited_rows(text, path, DELIMITERS[ending]))
    if not rows:
        raise InputError(f"{path}: no rows in the table", f"a row has {', '.join(REQUIRED)}")
    return rows


def _text(path: Path) -> str:
    if not path.is_file():
        raise InputError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}", "check corpus.tables")
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8", "save the table as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}, line {line}: a NUL character, so not a text file", "save the table as text")
    if not text.strip():
        raise InputError(f"{path}: the table is empty", f"its first line names the columns: {', '.join(REQUIRED)}")
    return text


def _delimited_rows(text: str, path: Path, delimiter: str) -> Iterator[Row]:
    """Yield the rows below the header. In TSV a quote is a quote (words may have one), unless it encloses a field."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines) if delimiter == "," else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        columns = [name.strip().lower() for name in next(reader)]
        _check_columns(columns, path, delimiter)
        for fields in reader:
            if any(field.strip() for field in fields):
                yield _delimited_row(columns, fields, reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}", "mend the line") from None


def _check_columns(columns: list[str], path: Path, delimiter: str) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if not missing:
        return
    other = next((sign for sign in _NAMES if sign != delimiter and sign in columns[0]), None)
    if len(columns) == 1 and other:
        raise InputError(
            f"{path}, line 1: {_NAMES[other]} between the columns, where a {path.suffix} file has {_NAMES[delimiter]}",
            "rename the file .tsv or .csv to suit, or save it with the other delimiter",
        )
    raise InputError(
        f"{path}, line 1: no column {' and no '.join(missing)} among: {', '.join(columns)}",
        "name the columns in the first line",
    )


def _delimited_row(columns: list[str], fields: list[str], line: int) -> Row:
    if len(fields) != len(columns):
        return Row(line, problem=f"{len(fields)} fields for {len(columns)} columns")
    row = {name: _unquoted(field.strip()) for name, field in zip(columns, fields, strict=True)}
    phones: Any = row["phones"]
    if phones.startswith("["):
        try:
            phones = json.loads(phones)
        except ValueError:
            return Row(line, row["id"], problem=f"phones are not a JSON list: {phones[:40]!r}")
    return _row(line, row | {"phones": phones})


def _unquoted(field: str) -> str:
    enclosed = len(field) > 1 and field[0] == field[-1] == '"'
    return field[1:-1].replace('""', '"') if enclosed else field


def _json_rows(text: str) -> Iterator[Row]:
    for line, source in enumerate(text.split("\n"), start=1):
        if not source.strip():
            continue
        try:
            values = json.loads(source)
        except ValueError as error:
            yield Row(line, problem=f"not a JSON object on one line ({error})")
            continue
        if not isinstance(values, dict):
            yield Row(line, problem="not a JSON object, which starts with {")
            continue
        missing = [name for name in REQUIRED if name not in values]
        if missing:
            yield Row(line, str(values.get("id", "")), problem=f"no {' and no '.join(missing)}")
            continue
        yield _row(line, values)


def _row(line: int, values: dict[str, Any]) -> Row:
    """Make a row of plain values, whose phones may be a list or a line of labels."""
    phones = values["phones"]
    if isinstance(phones, str):
        labels: tuple[str, ...] | None = tuple(phones.split()) or None
    elif isinstance(phones, list) and all(isinstance(label, str) and label.split() == [label] for label in phones):
        labels = tuple(phones)
    else:
        return Row(line, str(values["id"]), problem="phones are neither a line of labels nor a list of them")
    id, audio, speaker = ("" if values.get(name) is None else str(values[name]) for name in ("id", "audio", "speaker"))
    return Row(line, id, audio, labels, speaker)
