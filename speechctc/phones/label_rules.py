"""How the labels of a corpus are read as phones: replaced by a map, divided into symbols, marks stripped or split."""

from __future__ import annotations

import csv
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from speechctc.core.errors import InputError, some
from speechctc.core.text_files import read_text
from speechctc.phones.labels import nfc
from speechctc.phones.marks import Kind, apply_marks, divide_phone, segment_ipa

Segment = Literal["labels", "spaces", "ipa"]


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


class LabelRules:
    """Read labels as phones.

    Parameters
    ----------
    replaced : mapping of str to tuple of str
        What labels are read as. A whole label is looked up first, then each of its symbols.
    segment : str
        ``"labels"``: a label is one phone; ``"spaces"``: it is divided at spaces; ``"ipa"``: also into IPA symbols.
    marks : mapping of str to str
        As for `apply_marks`.
    divided : collection of str
        ``"diphthongs"`` and ``"affricates"``, if these are divided; see `divide_phone`. Phones of the map are not.

    Attributes
    ----------
    is_plain : bool
        Each label is one phone, as it is.
    """

    def __init__(
        self,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        segment: Segment = "labels",
        marks: Mapping[Kind, str] | None = None,
        divided: Collection[str] = (),
    ) -> None:
        self._map, self._segment = dict(replaced or {}), segment
        self._marks = {kind: choice for kind, choice in (marks or {}).items() if choice != "keep"}
        self._known: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._replaced: Counter[str] = Counter()
        self._divided = "diphthongs" in divided, "affricates" in divided
        self.is_plain = not (self._map or self._marks or any(self._divided)) and segment == "labels"

    def phones(self, label: str) -> tuple[str, ...]:
        """Return the phones of a label in NFC; none where it is mapped to nothing, or nothing of it is left."""
        if label not in self._known:
            self._known[label] = self._read(label)
        phones, used = self._known[label]
        self._replaced.update(used)
        return phones

    def _read(self, label: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the phones of a label, and the labels of the map that were used."""
        if label in self._map:
            return self._unmarked(self._map[label]), (label,)
        parts = [label] if self._segment == "labels" else label.split()
        if self._segment == "ipa":
            parts = [symbol for part in parts for symbol in ([part] if part in self._map else segment_ipa(part))]
        used = tuple(part for part in parts if part in self._map)
        phones = (self._map[part] if part in self._map else divide_phone(part, *self._divided) for part in parts)
        return self._unmarked(tuple(chain.from_iterable(phones))), used

    def _unmarked(self, phones: tuple[str, ...]) -> tuple[str, ...]:
        if not self._marks:
            return tuple(map(nfc, phones))
        return tuple(part for phone in phones for part in apply_marks(phone, self._marks))

    def notes(self) -> list[str]:
        """Return which labels the map replaced and how often, in words; nothing where it is empty."""
        if not self._map:
            return []
        shown = {label: " ".join(phones) or "nothing" for label, phones in self._map.items()}
        counts = [f"{label} as {shown[label]} ({count})" for label, count in self._replaced.most_common()]
        return [f"labels read as corpus.map says: {some(counts) or 'none'}"]

    def unused(self) -> list[str]:
        """Return the labels of the map that did not occur."""
        return sorted(set(self._map) - set(self._replaced))
