"""Files of labelled intervals: Praat TextGrids, and TIMIT's .PHN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.textgrids import choose_tier, read_tiers
from speechctc.errors import InputError
from speechctc.phones.labels import nfc
from speechctc.storage.text_files import read_text

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
        A TextGrid in any of Praat's formats: text, short text, chronological text, binary.
    tier : str
        The tier's name; if none has just that, the one whose name has it in another case or Unicode form.

    Returns
    -------
    list of Interval
        In the order of time; labels in Unicode's NFC.

    Raises
    ------
    InputError
        No such file, not a TextGrid, no such tier, one of points, or intervals that overlap.
    """
    chosen = choose_tier(read_tiers(path), path, tier)
    if chosen.points:
        raise InputError(f"{path}: the tier {chosen.name!r} is of points, not of intervals", "name another tier")
    return [Interval(start, end, nfc(label)) for start, end, label in chosen.entries]


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
        It is not such a file, holds nothing, or a phone ends before it starts.
    """
    try:
        lines = [line.split() for line in read_text(path).text.split("\n")]
        intervals = [
            Interval(int(start) / rate, int(end) / rate, nfc(label)) for start, end, label in filter(None, lines)
        ]
    except (ValueError, OverflowError):
        raise InputError(f"{path}: not a .PHN file (a line is not: start end phone)", "check what is there") from None
    if not intervals:
        raise InputError(f"{path}: no phones in it", "check what is there")
    if wrong := next((each for each in intervals if not 0 <= each.start <= each.end), None):
        raise InputError(f"{path}: {wrong.label!r} goes from {wrong.start} s to {wrong.end} s", "mend the line")
    return intervals
