"""A user's table of labels and what each is read as."""

from __future__ import annotations

import csv
import unicodedata
from pathlib import Path
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text


class LabelMap(NamedTuple):
    """A table of labels and what each is read as; and what the user should know about how it was read, or ``""``."""

    phones: dict[str, tuple[str, ...]]
    note: str = ""


def read_map(path: Path) -> LabelMap:
    """Read a table of two columns without a header: a label, and the label or labels in its place, or nothing.

    The columns are separated by tabs, or else by semicolons, commas or spaces.

    Raises
    ------
    InputError
        The file cannot be read, is empty, or has a line that is not two columns or contradicts another.
    """
    text, note = read_text(path)
    sign = next((sign for sign in "\t;," if sign in text), " ")
    phones: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.lstrip("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.split(maxsplit=1) if sign == " " else next(csv.reader([line], delimiter=sign))
        label, *others = [unicodedata.normalize("NFC", field.strip()) for field in fields]
        if not label or len(others) > 1 or label.split() != [label]:
            raise InputError(f"{path}, line {number}: {line.strip()[:80]!r} is not two columns", "correct the line")
        to = tuple(others[0].split()) if others else ()
        if phones.setdefault(label, to) != to:
            raise InputError(f"{path}, line {number}: {label!r} stands for two things", "leave one of the lines out")
    if not phones:
        raise InputError(f"{path}: no labels in it", "a line has a label, a tab, and what it is read as")
    return LabelMap(phones, note)
