"""Reads TextGrids in Praat's long and short text formats; writes them as long text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speechctc.audio.annotations import Interval, TextGrid, Tier, choose_tier
from speechctc.core.errors import InputError
from speechctc.core.text_files import decode_text, read_bytes
from speechctc.phones.labels import nfc

BINARY = b"ooBinaryFile"
CHRONOLOGICAL = '"Praat chronological'
TIERS = re.compile(r"<exists>\D*(\d+)")
SIZE = re.compile(
    r'"(?:Interval|Text)Tier"[^"]*"(?:[^"]|"")*"[^"\d]*[\d.]\S*[^"\d]+[\d.]\S*[^"\d]+(\d+)'
)  # name, times, size


def read_tiers(path: Path) -> TextGrid:
    """Read a TextGrid in Praat's long or short text format.

    Raises
    ------
    InputError
        The file does not exist, is not such a TextGrid, or has times that are not numbers.
    """
    raw = read_bytes(path)
    if not raw.strip():
        raise InputError(f"{path}: the file is empty", "delete it, or save it again in Praat")
    try:
        is_binary = raw.startswith(BINARY)
        text, note = ("", "") if is_binary else decode_text(raw, path)
        if is_binary or text.lstrip().startswith(CHRONOLOGICAL):
            what = f"{path}: a {'binary' if is_binary else 'chronological'} TextGrid, which is not read"
            raise InputError(what, "open it in Praat and save it with 'Save as text file'")
        tiers = _long_or_short(text)
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
        A TextGrid in Praat's long or short text format.
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
    """Return the tiers as praatio reads them.

    Raises
    ------
    ValueError
        There are fewer tiers or entries than the file says, so it was cut off: praatio leaves out the rest.
    """
    from praatio.utilities.textgrid_io import parseTextgridStr  # late: only reading TextGrids needs it

    tiers = []
    for tier in parseTextgridStr(text, includeEmptyIntervals=True)["tiers"]:
        points = tier["class"] == "TextTier"
        entries = [(each[0], each[0], each[1]) if points else (each[0], each[1], each[2]) for each in tier["entries"]]
        tiers.append(Tier(tier["name"], points, [_entry(*each) for each in entries]))
    sizes = [int(size) for size in SIZE.findall(text)]
    too_few = len(tiers) < sum(map(int, TIERS.findall(text)[:1]))
    too_few |= any(len(tier.entries) < size for tier, size in zip(tiers, sizes, strict=False))
    if too_few or (len(sizes) < len(tiers) and not tiers[-1].entries):
        raise ValueError("it has fewer tiers or intervals than it says: cut off")
    return tiers


def _entry(start: float | str, end: float | str, label: str) -> Interval:
    return Interval(float(start), float(end), label.strip())


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
