"""Reads TextGrids in all formats of Praat: long and short text, chronological text, binary."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from speechctc.errors import InputError
from speechctc.phones.labels import nfc
from speechctc.storage.text_files import decode_text

BINARY = b"ooBinaryFile\x08TextGrid"
CHRONOLOGICAL = '"Praat chronological TextGrid text file"'
_TOKEN = re.compile(r'"((?:[^"]|"")*)"|([^\s"!]+)|![^\n]*')  # a string, a number, a comment
_CLOSE = 0.001  # seconds of overlap between neighbours that rounding explains


class Entry(NamedTuple):
    """A label from `start` to `end`, in seconds; for a point both are equal."""

    start: float
    end: float
    label: str


class Tier(NamedTuple):
    """A tier of intervals or points in the order of the file, including those without a label."""

    name: str
    points: bool
    entries: list[Entry]


class TextGrid(NamedTuple):
    """All tiers of a file, and what the user should know about how it was read, or ``""``."""

    tiers: list[Tier]
    note: str


def read_tiers(path: Path) -> TextGrid:
    """Read a TextGrid in any of Praat's formats.

    Raises
    ------
    InputError
        The file does not exist, is not a TextGrid, or has times that are not numbers.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", "check the path")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", "change its permissions") from None
    try:
        if raw.startswith(BINARY):
            return TextGrid(list(_binary(io.BytesIO(raw[len(BINARY) :]))), "")
        text, note = decode_text(raw, path)
        tiers = _chronological(text) if text.lstrip().startswith(CHRONOLOGICAL) else _praatio(text)
    except InputError:
        raise
    except Exception as error:  # files that are not TextGrids raise errors of many types
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not a TextGrid ({reason})", "save it again in Praat") from None
    return TextGrid(tiers, note)


def choose_tier(grid: TextGrid, path: Path, name: str) -> Tier:
    """Return the tier with a name, its labelled entries in the order of time.

    If no tier has exactly this name, letter case and Unicode form are ignored.

    Raises
    ------
    InputError
        No tier has this name (the error lists the tiers), or its intervals are not in order or overlap.
    """
    exact = {tier.name: tier for tier in reversed(grid.tiers)}
    like = {tier_key(tier.name): tier for tier in reversed(grid.tiers)}
    tier = exact.get(name) or like.get(tier_key(name))
    if tier is None:
        there = f"only {', '.join(repr(tier.name) for tier in grid.tiers)}" if grid.tiers else "it has no tiers"
        raise InputError(
            f"{path}: no tier {name!r}, {there}", "name one of those" if grid.tiers else "add one in Praat"
        )
    ordered = sorted((each for each in tier.entries if each.label), key=lambda each: (each.start, each.end))
    for entry in ordered:
        if not (-_CLOSE <= entry.start <= entry.end < float("inf")):
            raise InputError(
                f"{path}: {entry.label!r} goes from {entry.start} s to {entry.end} s", "correct it in Praat"
            )
    for left, right in zip(ordered, ordered[1:], strict=False):
        if right.start < left.end - _CLOSE:
            what = f"{left.label!r} ends at {left.end:.3f} s, {right.label!r} begins at {right.start:.3f} s"
            raise InputError(f"{path}: labels of the tier {tier.name!r} overlap: {what}", "correct it in Praat")
    return tier._replace(entries=ordered)


def tier_key(name: str) -> str:
    """Return a form of a tier's name without differences of letter case, Unicode form and spaces around it."""
    return nfc(name).strip().casefold()


def _praatio(text: str) -> list[Tier]:
    """Read the long and short text formats."""
    from praatio.utilities.textgrid_io import parseTextgridStr  # late: only reading TextGrids needs it

    tiers = []
    for tier in parseTextgridStr(text, includeEmptyIntervals=True)["tiers"]:
        points = tier["class"] == "TextTier"
        entries = [(each[0], each[0], each[1]) if points else (each[0], each[1], each[2]) for each in tier["entries"]]
        tiers.append(Tier(tier["name"], points, [_entry(*each) for each in entries]))
    return tiers


def _entry(start: float | str, end: float | str, label: str) -> Entry:
    return Entry(float(start), float(end), label.strip())


def _chronological(text: str) -> list[Tier]:
    """Read chronological text: the names of the tiers, then the entries of all tiers in the order of time."""
    tokens = (match for match in _TOKEN.finditer(text) if match[1] is not None or match[2] is not None)

    def string() -> str:
        token = next(tokens)
        if token[1] is None:
            raise ValueError(f"{token[2]} in place of a text in quotes")
        return str(token[1]).replace('""', '"')

    def number() -> float:
        return float(next(tokens)[2])

    try:
        string(), number(), number()
        tiers, ends = [], []
        for _ in range(int(number())):
            kind, name, _, end = string(), string(), number(), number()
            tiers.append(Tier(name, kind == "TextTier", []))
            ends.append(end)
        while (token := next(tokens, None)) is not None:
            tier = tiers[int(token[2]) - 1]
            start = number()
            tier.entries.append(_entry(start, start if tier.points else number(), string()))
    except StopIteration:
        raise ValueError("it is cut off") from None
    for tier, end in zip(tiers, ends, strict=True):  # in Praat, intervals fill the time to the end
        if not tier.points and max((entry.end for entry in tier.entries), default=0.0) < end - _CLOSE:
            raise ValueError("it is cut off")
    return tiers


def _binary(file: io.BytesIO) -> Iterator[Tier]:
    """Read the binary format, big-endian: start and end, whether there are tiers, their number, and each tier."""
    _, _, there = _unpack(file, ">dd?")
    for _ in range(_unpack(file, ">i")[0] if there else 0):
        kind = _take(file, *_unpack(file, ">B"))
        name, points = _string(file), kind.startswith(b"TextTier")
        _, _, count = _unpack(file, ">ddi")
        entries = []
        for _ in range(count):
            start = _unpack(file, ">d")[0]
            entries.append(_entry(start, start if points else _unpack(file, ">d")[0], _string(file)))
        yield Tier(name, points, entries)


def _string(file: io.BytesIO) -> str:
    """Read a text: a length and ASCII, or 0xFFFF, a length and UTF-16."""
    (length,) = _unpack(file, ">H")
    if length != 0xFFFF:
        return _take(file, length).decode("latin-1")
    return _take(file, 2 * _unpack(file, ">H")[0]).decode("utf-16-be")


def _unpack(file: io.BytesIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, _take(file, struct.calcsize(form)))


def _take(file: io.BytesIO, size: int) -> bytes:
    taken = file.read(size)
    if len(taken) < size:
        raise ValueError("it is cut off")
    return taken
