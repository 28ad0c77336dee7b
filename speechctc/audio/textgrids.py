"""Reads TextGrids in all formats of Praat: long and short text, chronological text, binary."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.errors import InputError
from speechctc.phones.labels import nfc
from speechctc.storage.text_files import decode_text

BINARY = b"ooBinaryFile\x08TextGrid"
CHRONOLOGICAL = '"Praat chronological TextGrid text file"'
_TOKEN = re.compile(r'"((?:[^"]|"")*)"|([^\s"!]+)|![^\n]*')  # a string, a number, a comment
_WILD = {"*": ".*", "?": "."}
_CLOSE = 0.001  # seconds of overlap between neighbours that rounding explains


class Entry(NamedTuple):
    """A label from `start` to `end`, in seconds; for a point both are equal."""

    start: float
    end: float
    label: str


class Tier(NamedTuple):
    """A tier of intervals or points in the order of the file, including those without a label.

    Attributes
    ----------
    name : str
    points : bool
    entries : list of Entry
    speaker : str
        The participant of a tier of ELAN, or ``""``.
    timed : bool
        The times are those of the file. False: ELAN has none for these labels, which share the time of their parent.
    """

    name: str
    points: bool
    entries: list[Entry]
    speaker: str = ""
    timed: bool = True


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
    tier = _named(grid.tiers, name)
    if tier is None:
        raise _no_tier(grid.tiers, path, name)
    return in_order(tier, path)


def choose_tiers(tiers: Sequence[Tier], path: Path, pattern: str) -> list[tuple[Tier, str]]:
    """Return the tiers that a name or a pattern names, in the order of the file, as they are in it.

    A tier with that name counts alone. Else ``*`` in the pattern stands for any text and ``?`` for a letter; tiers of
    points are passed over. With each tier comes the text that the first ``*`` stands for in its name, which is that of
    a speaker where tiers are named ``anna-phones`` and ``otto-phones``.

    Raises
    ------
    InputError
        No tier has this name or fits the pattern; the error lists the tiers.
    """
    tier = _named(tiers, pattern)
    if tier is not None:
        return [(tier, "")]
    parts = [f"({_WILD[part]})" if part in _WILD else re.escape(part) for part in re.split(r"([*?])", nfc(pattern))]
    fits = [(tier, re.fullmatch("".join(parts), nfc(tier.name).strip(), re.IGNORECASE)) for tier in tiers]
    place = parts[1::2].index("(.*)") + 1 if "(.*)" in parts else 0
    found = [(tier, match[place] if place else "") for tier, match in fits if match and not tier.points]
    if not found:
        raise _no_tier(tiers, path, pattern)
    return [(tier, star.strip(" -_.:/@")) for tier, star in found]


def _named(tiers: Sequence[Tier], name: str) -> Tier | None:
    exact = {tier.name: tier for tier in reversed(tiers)}
    like = {tier_key(tier.name): tier for tier in reversed(tiers)}
    return exact.get(name) or like.get(tier_key(name))


def _no_tier(tiers: Sequence[Tier], path: Path, name: str) -> InputError:
    there = f"only {', '.join(repr(tier.name) for tier in tiers)}" if tiers else "it has no tiers"
    return InputError(f"{path}: no tier {name!r}, {there}", "name one of those" if tiers else f"add one in {_by(path)}")


def in_order(tier: Tier, path: Path) -> Tier:
    """Return a tier with its labelled entries in the order of time.

    Raises
    ------
    InputError
        Intervals end before they begin, or overlap.
    """
    ordered = sorted((each for each in tier.entries if each.label), key=lambda each: (each.start, each.end))
    for entry in ordered:
        if not (-_CLOSE <= entry.start <= entry.end < float("inf")):
            what = f"{path}: {entry.label!r} goes from {entry.start} s to {entry.end} s"
            raise InputError(what, f"correct it in {_by(path)}")
    for left, right in zip(ordered, ordered[1:], strict=False):
        if right.start < left.end - _CLOSE:
            what = f"{left.label!r} ends at {left.end:.3f} s, {right.label!r} begins at {right.start:.3f} s"
            fix = f"correct it in {_by(path)}"
            raise InputError(f"{path}: labels of the tier {tier.name!r} overlap: {what}", fix)
    return tier._replace(entries=ordered)


def _by(path: Path) -> str:
    """Return the program that writes such files."""
    return "ELAN" if path.suffix.lower() == ".eaf" else "Praat"


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
