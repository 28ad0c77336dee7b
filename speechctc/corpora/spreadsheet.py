"""Reads a sheet of an Excel workbook (.xlsx) as the text of a table with tabs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from speechctc.core.errors import InputError
from speechctc.core.text_files import Text

ENDING = ".xlsx"


def read_sheet(path: Path, columns: Iterable[str]) -> Text:
    """Return the first sheet whose first row with text names all of some columns, else the first sheet.

    The numbers of its rows are those of the lines. Results of formulas are those that were saved.

    Raises
    ------
    InputError
        openpyxl is not installed, or the file is not a workbook.
    """
    try:
        import openpyxl
    except ImportError:
        fix = "pip install 'speechctc[xlsx]', or save it as CSV (UTF-8)"
        raise InputError(f"{path}: reading .xlsx needs openpyxl, which is not installed", fix) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of features such as data validation, which do not matter here
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            sheets = {sheet.title: _rows(sheet) for sheet in book.worksheets}
            book.close()
    except Exception as error:  # files that are not workbooks raise errors of many types
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not an Excel workbook ({reason})", "save it again, or as CSV (UTF-8)") from None
    if not sheets:
        raise InputError(f"{path}: no sheet with cells in it", "save it as CSV (UTF-8)")
    wanted = set(columns)
    title = next((title for title, rows in sheets.items() if wanted <= _header(rows)), next(iter(sheets)))
    note = f"{path}: the sheet {title!r} is read, of {len(sheets)}" if len(sheets) > 1 else ""
    return Text("\n".join("\t".join(row) for row in sheets[title]) + "\n", note)


def _rows(sheet: Any) -> list[list[str]]:
    return [[_text(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]


def _text(cell: Any) -> str:
    """Return a cell on one line; whole numbers without a point."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return " ".join(str(cell).split())


def _header(rows: list[list[str]]) -> set[str]:
    return {cell.lower() for cell in next((row for row in rows if any(row)), [])}
