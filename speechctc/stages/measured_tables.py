"""Tables of measured phones: a row for each, in the formats that `decode` writes tables in."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from speechctc.inference.formats import Kept, Layout, Named, RecordingName, Sheet, Table, Workbook, Writer

STEPS = 10
FORMANTS = (1, 2, 3)
BESIDE = ("confidence", "score")
"""Tiers with a value for each phone, which align, decode and score-phones write."""
COLUMNS = (
    *("file", "speaker", "phone", "previous", "next", "tone", "word", "word_number", "position", "word_phones"),
    *("start", "end", "duration", *BESIDE, "f0_mean", "intensity_mean"),
    *(f"f{n}_mid" for n in FORMANTS),
    *(f"f{n}_{step}" for n in (*FORMANTS, 0) for step in range(1, STEPS + 1)),
    "maximum_formant",
)
_SECONDS = frozenset(("start", "end", "duration", *BESIDE))

Row = dict[str, Any]


class MeasuredTable(Table):
    """Lines of text; what is not known is empty, which R and pandas read as missing."""

    def head(self, layout: Layout = Layout()) -> str:  # noqa: B008
        """Return the names of the columns."""
        return self.mark + self.line(COLUMNS)

    def write(self, results: Iterable[Named], out: TextIO, layout: Layout = Layout()) -> None:  # noqa: B008
        """Write the rows of recordings as soon as they are known."""
        out.write(self.head())
        for name, rows in results:
            out.writelines(self.pieces(name, rows, layout))

    def pieces(self, name: RecordingName, result: Any, layout: Layout) -> Iterator[str]:
        """Yield the rows of a recording as text."""
        yield result.text if isinstance(result, Kept) else self._lines(name, result)

    def content(self, name: RecordingName, result: Any, place: Path | None = None) -> bytes:
        """Return the table of a recording."""
        return (self.head() + self._lines(name, result)).encode("utf-8", "backslashreplace")

    def _lines(self, name: RecordingName, rows: Iterable[Row]) -> str:
        return "".join(self.line(row, _texts(row)) for row in _values(name, rows))


class MeasuredWorkbook(Workbook):
    """A workbook of Excel with a sheet of phones; what is not known is an empty cell."""

    def content(self, name: RecordingName, result: Any, place: Path | None = None) -> bytes:
        """Return a workbook of one recording."""
        out = io.BytesIO()
        self._write([(name, result)], out, False, False)
        return out.getvalue()

    def _fill(self, book: Any, results: Iterable[Named], aligned: bool, scored: bool) -> None:
        phones = Sheet(book, "phones", COLUMNS)
        phones.begin()
        for name, rows in results:
            for values in _values(name, rows):
                phones.add(*values)


def _values(name: RecordingName, rows: Iterable[Row]) -> Iterator[list[Any]]:
    """Yield the values of the columns of each phone: seconds to 0.1 ms, Hz and dB to hundredths."""
    of = {"file": name.file, "speaker": name.speaker}
    for row in rows:
        values = of | row
        yield [
            round(value, _digits(column)) if isinstance(value := values.get(column), float) else value
            for column in COLUMNS
        ]


def _texts(values: Iterable[Any]) -> list[str]:
    return [
        f"{value:.{_digits(column)}f}" if isinstance(value, float) else "" if value is None else str(value)
        for column, value in zip(COLUMNS, values, strict=True)
    ]


def _digits(column: str) -> int:
    return 4 if column in _SECONDS else 2


MEASURED: dict[str, Writer] = {
    "csv": MeasuredTable("csv", ".csv"),
    "csv-bom": MeasuredTable("csv-bom", ".bom.csv", mark="\ufeff"),
    "tsv": MeasuredTable("tsv", ".tsv"),
    "xlsx": MeasuredWorkbook("xlsx", ".xlsx"),
}
"""The writers by the names of their formats, whose endings are those of `speechctc.inference.formats`."""
