"""Files of labelled intervals: Praat TextGrids, through praatio, and TIMIT's .PHN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.errors import InputError

PHN_RATE = 16000  # Hz; TIMIT's, for .PHN files whose recording is not at hand


class Interval(NamedTuple):
    """A label from `start` to `end`, in seconds."""

    start: float
    end: float
    label: str


def read_textgrid(path: Path, tier: str) -> list[Interval]:
    """Read the labelled intervals of one tier; intervals without a label are left out.

    Parameters
    ----------
    path : Path
        A TextGrid in Praat's long or short text format, UTF-8 or UTF-16.
    tier : str
        The tier's name; if none has just that, the one whose name has it in another case.

    Raises
    ------
    InputError
        No such file, not a TextGrid, no such tier, or one of points.
    """
    from praatio import textgrid  # late: only those who read TextGrids wait for it

    if not path.is_file():
        raise InputError(f"{path}: no such file", "check the path")
    try:
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False, duplicateNamesMode="rename")
    except Exception as error:  # praatio fails on a broken file with whatever its parsing ran into
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(
            f"{path}: not a TextGrid in Praat's text format ({reason})", "save it again in Praat"
        ) from None
    names = {name.lower(): name for name in reversed(grid.tierNames)} | {name: name for name in grid.tierNames}
    name = names.get(tier) or names.get(tier.lower())
    if name is None:
        raise InputError(f"{path}: no tier {tier!r}, only {', '.join(map(repr, grid.tierNames))}", "name one of those")
    chosen = grid.getTier(name)
    if not isinstance(chosen, textgrid.IntervalTier):
        raise InputError(f"{path}: the tier {name!r} is of points, not of intervals", "name another tier")
    intervals = [Interval(float(start), float(end), label.strip()) for start, end, label in chosen.entries]
    return [interval for interval in intervals if interval.label]


def textgrid_text(seconds: float, tiers: Mapping[str, Sequence[Interval]]) -> str:
    """Return a TextGrid of interval tiers, in Praat's long text format."""
    from praatio.utilities.textgrid_io import getTextgridAsStr

    grid = {
        "xmin": 0.0,
        "xmax": seconds,
        "tiers": [
            {"class": "IntervalTier", "name": name, "xmin": 0.0, "xmax": seconds, "entries": list(intervals)}
            for name, intervals in tiers.items()
        ],
    }
    return str(getTextgridAsStr(grid, "long_textgrid", includeBlankSpaces=True))


def read_phn(path: Path, rate: int = PHN_RATE) -> list[Interval]:
    """Read a .PHN file: a line for each phone, its start and end in samples at `rate`.

    Raises
    ------
    InputError
        It is not such a file, or holds nothing.
    """
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        intervals = [Interval(int(start) / rate, int(end) / rate, label) for start, end, label in filter(None, lines)]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a line is not: start end phone"
        raise InputError(f"{path}: not a .PHN file ({reason})", "check what is there") from None
    if not intervals:
        raise InputError(f"{path}: no phones in it", "check what is there")
    return intervals
