"""Reads TextGrids in all formats of Praat: long, short and chronological text, binary; writes them as long text."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from speechctc.audio.annotations import CLOSE, Interval, TextGrid, Tier, choose_tier
from speechctc.core.errors import InputError
from speechctc.core.text_files import decode_text, read_bytes
from speechctc.phones.labels import nfc

BINARY = b"ooBinaryFile\x08TextGrid"
CHRONOLOGICAL = '"Praat chronological TextGrid text file"'
_COMMENT = re.compile(r'("[^"]*")|![^\n]*')  # a string is kept, a comment is not


def read_tiers(path: Path) -> TextGrid:
    """Read a TextGrid in any of Praat's formats.

    Raises
    ------
    InputError
        The file does not exist, is not a TextGrid, or has times that are not numbers.
    """
    raw = read_bytes(path)
    try:
        if raw.startswith(BINARY):
            return TextGrid(list(_binary(io.BytesIO(raw[len(BINARY) :]))), "")
        text, note = decode_text(raw, path)
        tiers = _chronological(text) if text.lstrip().startswith(CHRONOLOGICAL) else _long_or_short(text)
    except InputError:
        raise
    except Exception as error:  # files that are not TextGrids raise errors of many types
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not a TextGrid ({reason})", "save it again in Praat") from None
    return TextGrid(tiers, note)


def read_textgrid(path: Path, tier: str) -> list[Interval]:
    """Read the labelled intervals of a tier; intervals without a label are left out.

    Parameters
    ----------
    path : Path
        A TextGrid in any of Praat's formats: text, short text, chronological text, binary.
    tier : str
        Name of the tier; if no tier has exactly this name, letter case and Unicode form are ignored.

    Returns
    -------
    list of Interval
        In the order of time, labels in Unicode's NFC.

    Raises
    ------
    InputError
        The file does not exist or is not a TextGrid, the tier does not exist or has points, or intervals overlap.
    """
    chosen = choose_tier(read_tiers(path).tiers, path, tier)
    if chosen.points:
        raise InputError(f"{path}: the tier {chosen.name!r} has points, not intervals", "name another tier")
    return [each._replace(label=nfc(each.label)) for each in chosen.entries]


def _long_or_short(text: str) -> list[Tier]:
    """Read the long and short text formats; praatio reads files that do not follow Praat's definition to the letter."""
    try:
        return by_definition(_strings_and_numbers(text))
    except ValueError:
        return by_praatio(text)


def _strings_and_numbers(text: str) -> _Values:
    """Return the texts in quotes and the free-standing numbers; to Praat, all else in both formats is a comment.

    Raises
    ------
    ValueError
        Something might be read in another way.
    """
    pieces = f"{text}\n".split('"')  # by turns outside and inside of quotes
    outsides, insides = pieces[::2], [*pieces[1::2], ""]
    every = "".join(outsides)
    if not every.isascii() or "!" in every or "_" in every or len(pieces) % 2 == 0:
        raise ValueError("a comment to the end of the line, a number that only Python reads, or an open quote")
    values: list[str | float] = []
    for outside, inside in zip(outsides, insides, strict=True):
        if not outside and values:  # two quotes stand for one
            values[-1] = f'{values[-1]}"{inside}'
        else:
            values += [float(word) for word in outside.split() if word[0] in "-0123456789"]
            values.append(inside)
    return _Values(values[:-1])


class _Values:
    """The strings and numbers of a TextGrid, from the first to the last."""

    def __init__(self, values: Sequence[str | float]) -> None:
        self._values = values
        self.left = len(values)

    def take(self, *kinds: type, count: int = 1) -> list[list[Any]]:
        """Return the next values in columns of these types; `ValueError`: there are others, or too few."""
        width, at = len(kinds), len(self._values) - self.left
        part = self._values[at : at + width * count]
        columns = [list(part[k::width]) for k in range(width)]
        found = zip(columns, kinds, strict=True)
        if len(part) != width * count or any(set(map(type, column)) - {kind} for column, kind in found):
            raise ValueError("not a TextGrid, or cut off")
        self.left -= len(part)
        return columns

    def entries(self, points: bool, count: int = 1) -> list[Interval]:
        """Return the next intervals or points."""
        starts, *ends, labels = self.take(*(float, str) if points else (float, float, str), count=count)
        return list(map(Interval, starts, ends[0] if ends else starts, map(str.strip, labels)))


def by_definition(values: _Values) -> list[Tier]:
    """Return the tiers that strings and numbers mean.

    Raises
    ------
    ValueError
        They are not those of a TextGrid, or too few, or too many.
    """
    [file_type], [content], _, _, [number] = values.take(str, str, float, float, float)
    if not file_type.startswith("ooTextFile") or content != "TextGrid":
        raise ValueError("not a TextGrid")
    tiers = []
    for _ in range(int(number)):
        [kind], [name], _, _, [count] = values.take(str, str, float, float, float)
        points = kind == "TextTier"
        tiers.append(Tier(name, points, values.entries(points, int(count))))
    if values.left:
        raise ValueError("more than the TextGrid")
    return tiers


def by_praatio(text: str) -> list[Tier]:
    """Return the tiers as praatio reads them."""
    from praatio.utilities.textgrid_io import parseTextgridStr  # late: only reading TextGrids needs it

    tiers = []
    for tier in parseTextgridStr(text, includeEmptyIntervals=True)["tiers"]:
        points = tier["class"] == "TextTier"
        entries = [(each[0], each[0], each[1]) if points else (each[0], each[1], each[2]) for each in tier["entries"]]
        tiers.append(Tier(tier["name"], points, [_entry(*each) for each in entries]))
    return tiers


def _entry(start: float | str, end: float | str, label: str) -> Interval:
    return Interval(float(start), float(end), label.strip())


def _chronological(text: str) -> list[Tier]:
    """Read chronological text: the names of the tiers, then the entries of all tiers in the order of time."""
    values = _strings_and_numbers(_COMMENT.sub(r"\1", text))
    _, _, _, [count] = values.take(str, float, float, float)
    kinds, names, _, ends = values.take(str, str, float, float, count=int(count))
    tiers = [Tier(name, kind == "TextTier", []) for kind, name in zip(kinds, names, strict=True)]
    while values.left:
        [[number]] = values.take(float)
        tier = tiers[int(number) - 1]
        tier.entries.extend(values.entries(tier.points))
    for tier, end in zip(tiers, ends, strict=True):  # in Praat, intervals fill the time to the end
        if not tier.points and max((entry.end for entry in tier.entries), default=0.0) < end - CLOSE:
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
    """Read a text: a length and ASCII, or 0xFFFF, a number of characters and UTF-16."""
    (length,) = _unpack(file, ">H")
    if length != 0xFFFF:
        return _take(file, length).decode("latin-1")
    units = (_take(file, 2) for _ in range(_unpack(file, ">H")[0]))
    return b"".join(unit + (_take(file, 2) if 0xD8 <= unit[0] < 0xDC else b"") for unit in units).decode("utf-16-be")


def _unpack(file: io.BytesIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, _take(file, struct.calcsize(form)))


def _take(file: io.BytesIO, size: int) -> bytes:
    taken = file.read(size)
    if len(taken) < size:
        raise ValueError("it is cut off")
    return taken


def long_text(seconds: float, tiers: Sequence[Tier]) -> str:
    """Return a TextGrid in Praat's long text format; intervals without a label fill what a tier leaves free.

    Intervals that are very short are joined with their neighbours. The tiers begin at 0, or where the first of their
    entries does if that is earlier.

    Parameters
    ----------
    seconds : float
        The end of all tiers.
    tiers : sequence of Tier
        Their entries in any order.

    Raises
    ------
    InputError
        Intervals overlap, or end after the tiers.
    """
    from praatio.utilities.errors import PraatioException
    from praatio.utilities.textgrid_io import getTextgridAsStr  # late: only writing TextGrids needs it

    begin, seconds = min([0.0, *(entry.start for tier in tiers for entry in tier.entries)]), float(seconds)
    rows = [
        {
            "class": "TextTier" if tier.points else "IntervalTier",
            "name": tier.name,
            "xmin": begin,
            "xmax": seconds,
            "entries": [(*map(float, each[: 1 if tier.points else 2]), each.label) for each in tier.entries],
        }
        for tier in tiers
    ]
    try:
        grid = {"xmin": begin, "xmax": seconds, "tiers": rows}
        return str(getTextgridAsStr(grid, "long_textgrid", includeBlankSpaces=True))
    except PraatioException as error:
        reason = " ".join(str(error).split())
        raise InputError(f"a TextGrid cannot hold these tiers ({reason})", "correct them in Praat") from None


def textgrid_text(
    seconds: float, tiers: Mapping[str, Sequence[Interval]], points: Mapping[str, Sequence[Interval]] | None = None
) -> str:
    """Return a TextGrid with tiers of intervals, tiers of points and a duration, in Praat's long text format."""
    found = [Tier(name, False, [*entries]) for name, entries in tiers.items()]
    found += [Tier(name, True, [*entries]) for name, entries in (points or {}).items()]
    return long_text(seconds, found)
