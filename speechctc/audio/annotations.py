"""Files of labelled intervals: TextGrids of Praat, and .PHN files of TIMIT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.textgrids import long_text, read_tiers
from speechctc.audio.tiers import Entry, Tier, choose_tier
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.phones.labels import nfc

PHN_RATE = 16000  # Hz, of TIMIT; for .PHN files without their recording
LONGEST = 18  # digits of a sample number: Python reads no number of more than 4300


class Interval(NamedTuple):
    """A label from `start` to `end`, in seconds."""

    start: float
    end: float
    label: str


class PhnLine(NamedTuple):
    """A line of a .PHN file: its number from 1, and a label from sample `start` to sample `end` of the recording."""

    number: int
    start: int
    end: int
    label: str


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
    chosen = choose_tier(read_tiers(path), path, tier)
    if chosen.points:
        raise InputError(f"{path}: the tier {chosen.name!r} has points, not intervals", "name another tier")
    return [Interval(start, end, nfc(label)) for start, end, label in chosen.entries]


def textgrid_text(
    seconds: float, tiers: Mapping[str, Sequence[Interval]], points: Mapping[str, Sequence[Interval]] | None = None
) -> str:
    """Return a TextGrid with tiers of intervals, tiers of points and a duration, in Praat's long text format."""
    found = [
        Tier(name, has_points, [Entry(*each) for each in entries])
        for has_points, several in ((False, tiers), (True, points or {}))
        for name, entries in several.items()
    ]
    return long_text(seconds, found)


def read_phn(path: Path, rate: int = PHN_RATE) -> list[Interval]:
    """Read the intervals of a .PHN file whose times are in samples at `rate`, Hz.

    Raises
    ------
    InputError
        As `read_phn_lines`.
    """
    lines = read_phn_lines(path)
    for number, start, end, _ in lines:
        if end < start:
            raise InputError(f"{path}, line {number}: ends before it begins ({start}, {end})", "correct the line")
    return [Interval(start / rate, end / rate, label) for _, start, end, label in lines]


def read_phn_lines(path: Path) -> list[PhnLine]:
    """Read the lines of a .PHN file.

    Raises
    ------
    InputError
        The file cannot be read, has no labels, or has a line that is not a start, an end and a label.
    """
    lines = []
    for number, text in enumerate(read_text(path).text.split("\n"), start=1):
        fields = text.split()
        if not fields:
            continue
        if len(fields) != 3 or not all(field.isdecimal() and len(field) <= LONGEST for field in fields[:2]):
            what = f"{path}, line {number}: {' '.join(fields)[:80]!r} is not a start, an end in samples and a phone"
            raise InputError(what, "correct the line")
        lines.append(PhnLine(number, int(fields[0]), int(fields[1]), nfc(fields[2])))
    if not lines:
        raise InputError(f"{path}: no labels in it", "label the recording, or leave it out")
    return lines
