"""Reads TextGrids in Praat's long and short text formats; writes them as long text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speechctc.audio.annotations import Interval, TextGrid, Tier, choose_tier
from speechctc.core.errors import InputError
from speechctc.core.text_files import decode_text, read_bytes
from speechctc.phones.inventory import nfc

BINARY = b"ooBinaryFile"
CHRONOLOGICAL = '"Praat chronological'
_TOKENS = re.compile(r'(?<!\S)!.*|("[^"]*(?:""[^"]*)*")|(?<!\S)(-?[0-9][-+0-9.eE]*)(?!\S)')


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
    """Read the long and short text formats: to Praat, all but strings and free-standing numbers is a comment in both.

    Raises
    ------
    ValueError
        They are not those of a TextGrid, or too few, or too many.
    """
    found = (each for each in _TOKENS.findall(text) if any(each))
    values = [float(number) if number else quoted[1:-1].replace('""', '"') for quoted, number in found]
    at = 0

    def take(*kinds: type, count: int = 1) -> list[list[Any]]:
        """Return the next values in columns of these types."""
        nonlocal at
        part = values[at : at + len(kinds) * count]
        at += len(part)
        columns = [part[k :: len(kinds)] for k in range(len(kinds))]
        types = (set(map(type, column)) <= {kind} for column, kind in zip(columns, kinds, strict=True))
        if len(part) != len(kinds) * count or not all(types):
            raise ValueError("cut off, or damaged")
        return columns

    [file_type], [content], _, _, [number] = take(str, str, float, float, float)
    if not file_type.startswith("ooTextFile") or content != "TextGrid":
        raise ValueError("another format")
    tiers = []
    for _ in range(int(number)):
        [kind], [name], _, _, [count] = take(str, str, float, float, float)
        points = kind == "TextTier"
        starts, *ends, labels = take(*(float, str) if points else (float, float, str), count=int(count))
        entries = list(map(Interval, starts, ends[0] if ends else starts, map(str.strip, labels)))
        tiers.append(Tier(name, points, entries))
    if at < len(values):
        raise ValueError("more than it says")
    return tiers


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
