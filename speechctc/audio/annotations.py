"""Labelled intervals and points: tiers of them, the choice of one, TextGrids of Praat as text, .PHN files of TIMIT."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from speechctc.core.errors import InputError, plural
from speechctc.core.text_files import decode_text, read_bytes, read_text
from speechctc.phones.inventory import nfc
from speechctc.phones.praat import from_praat

_WILD = {"*": ".*", "?": "."}
MAX_OVERLAP = 0.001  # seconds of overlap between neighbours that rounding explains
MAX_DIFFERENCE = 0.05  # seconds between a recording and its TextGrid that codecs and rounding explain
PHN_RATE = 16000  # Hz, of TIMIT; for .PHN files without their recording
MAX_DIGITS = 18  # digits of a sample number: Python reads no number of more than 4300


class Interval(NamedTuple):
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
    entries : list of Interval
    speaker : str
        The participant of a tier of ELAN, or ``""``.
    timed : bool
        The times are those of the file. False: ELAN has none for these labels, which share the time of their parent.
    problem : str
        Why the tier cannot be read, though others of the file can, or ``""``. It has no entries then.
    note : str
        What the user should know about how the tier was read, or ``""``.
    """

    name: str
    points: bool
    entries: list[Interval]
    speaker: str = ""
    timed: bool = True
    problem: str = ""
    note: str = ""


class TextGrid(NamedTuple):
    """All tiers of a file, what the user should know about how it was read, or ``""``, and its own begin and end, s."""

    tiers: list[Tier]
    note: str
    start: float
    end: float

    def begins_at(self, seconds: float) -> float:
        """Return the time in the file, in seconds, at which a recording of a length begins.

        A part that was extracted in Praat with its times begins elsewhere than at 0; so does its TextGrid, but not its
        recording. If the TextGrid's length is nearer to that of the recording than its end is, it begins at its start.
        """
        off = abs(self.end - self.start - seconds)
        return self.start if off <= MAX_DIFFERENCE and off + MAX_OVERLAP < abs(self.end - seconds) else 0.0

    def domain_note(self, path: Path, seconds: float) -> str:
        """Return what the user should know of a file's begin and end beside a recording of a length, or ``""``."""
        if start := self.begins_at(seconds):
            return f"{path}: goes from {start:.2f} s on, and is as long as the recording: its times count from there"
        if abs(self.end - seconds) <= MAX_DIFFERENCE:
            return ""
        own = f"{path}: goes from {self.start:.2f} to {self.end:.2f} s, and the recording has {seconds:.2f} s"
        return f"{own}; check that they belong together"

    def of_recording(self, path: Path, seconds: float) -> TextGrid:
        """Return the file with times that count from the begin of a recording of a length, and a note if they do not.

        Parameters
        ----------
        path : Path
            Of the file, for the note.
        seconds : float
            Length of the recording.
        """
        shift = -self.begins_at(seconds)
        tiers = [shifted(tier, shift) for tier in self.tiers]
        note = "; ".join(filter(None, (self.note, self.domain_note(path, seconds))))
        return TextGrid(tiers, note, self.start + shift, self.end + shift)


def shifted(tier: Tier, seconds: float) -> Tier:
    """Return a tier whose entries are later by this time."""
    if not seconds:
        return tier
    entries = [Interval(start + seconds, end + seconds, label) for start, end, label in tier.entries]
    return tier._replace(entries=entries)


def choose_tier(tiers: Sequence[Tier], path: Path, name: str) -> Tier:
    """Return the tier with a name, its labelled entries in the order of time.

    If no tier has exactly this name, letter case and Unicode form are ignored. Of several with this name, those without
    a label are passed over.

    Raises
    ------
    InputError
        No tier has this name (the error lists the tiers), or several have it, or its intervals are not in order or
        overlap.
    """
    if not (named := tiers_named(tiers, name)):
        raise _no_tier(tiers, path, name)
    labelled = [tier for tier in named if any(each.label for each in tier.entries)]
    if len(labelled) > 1:
        count = sum(bool(each.label) for tier in labelled[1:] for each in tier.entries)
        what = (
            f"{path}: {len(labelled)} tiers are called {name!r}; the first lacks {plural(count, 'label')} of the others"
        )
        raise InputError(what, f"give each a name of its own in {_by(path)}")
    return in_order((labelled or named)[0], path)


def choose_tiers(tiers: Sequence[Tier], path: Path, pattern: str) -> list[tuple[Tier, str]]:
    """Return the tiers that a name or a pattern names, in the order of the file, as they are in it.

    Tiers with that name count alone. Names and patterns may be separated by ``|``: the first that a file has counts.
    In a pattern, ``*`` stands for any text and ``?`` for a letter. Tiers of points are passed over, but where a name
    has no others. With each tier comes the text that the first ``*`` stands for in its name, which is that of a speaker
    where tiers are named ``anna-phones`` and ``otto-phones``.

    Raises
    ------
    InputError
        No tier has this name or fits the pattern; the error lists the tiers.
    """
    if named := tiers_named(tiers, pattern):
        return [(tier, "") for tier in [tier for tier in named if not tier.points] or named]
    first, _, others = pattern.partition("|")
    if others:
        try:
            return choose_tiers(tiers, path, first.strip())
        except InputError:
            return choose_tiers(tiers, path, others.strip())
    parts = [f"({_WILD[part]})" if part in _WILD else re.escape(part) for part in re.split(r"([*?])", nfc(pattern))]
    fits = [(tier, re.fullmatch("".join(parts), nfc(tier.name).strip(), re.IGNORECASE)) for tier in tiers]
    place = parts[1::2].index("(.*)") + 1 if "(.*)" in parts else 0
    found = [(tier, match[place] if place else "") for tier, match in fits if match and not tier.points]
    if not found:
        raise _no_tier(tiers, path, pattern)
    return [(tier, star.strip(" -_.:/@")) for tier, star in found]


def tiers_named(tiers: Sequence[Tier], name: str) -> list[Tier]:
    """Return the tiers with a name; if there is none, those that it names in other letter case or Unicode form."""
    exact = [tier for tier in tiers if tier.name.strip() == name.strip()]
    return exact or [tier for tier in tiers if tier_key(tier.name) == tier_key(name)]


class NoTierError(InputError):
    """A file lacks the tier."""


def _no_tier(tiers: Sequence[Tier], path: Path, name: str) -> NoTierError:
    there = f"only {', '.join(repr(tier.name) for tier in tiers)}" if tiers else "it has no tiers"
    fix = "name one of those" if tiers else f"add one in {_by(path)}"
    return NoTierError(f"{path}: no tier {name!r}, {there}", fix)


def in_order(tier: Tier, path: Path) -> Tier:
    """Return a tier with its labelled entries in the order of time.

    Raises
    ------
    InputError
        The tier cannot be read; intervals end before they begin, or overlap.
    """
    if tier.problem:
        raise InputError(f"{path}: damaged: the tier {tier.name!r}: {tier.problem}", f"repair it in {_by(path)}")
    ordered = sorted((each for each in tier.entries if each.label), key=lambda each: (each.start, each.end))
    for entry in ordered:
        if not (-MAX_OVERLAP <= entry.start <= entry.end < float("inf")):
            what = f"{path}: {entry.label!r} goes from {entry.start} s to {entry.end} s"
            raise InputError(what, f"correct it in {_by(path)}")
    for left, right in zip(ordered, ordered[1:], strict=False):
        if right.start < left.end - MAX_OVERLAP:
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


class PhnLine(NamedTuple):
    """A line of a .PHN file: its number from 1, and a label from sample `start` to sample `end` of the recording."""

    number: int
    start: int
    end: int
    label: str


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
        if len(fields) != 3 or not all(field.isdecimal() and len(field) <= MAX_DIGITS for field in fields[:2]):
            what = f"{path}, line {number}: {' '.join(fields)[:80]!r} is not a start, an end in samples and a phone"
            raise InputError(what, "correct the line")
        lines.append(PhnLine(number, int(fields[0]), int(fields[1]), nfc(fields[2])))
    if not lines:
        raise InputError(f"{path}: no labels in it", "label the recording, or leave it out")
    return lines


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
        tiers, start, end = _long_or_short(text)
    except InputError:
        raise
    except Exception as error:  # files that are not TextGrids raise errors of many types
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{path}: not a TextGrid ({reason})", "save it again in Praat") from None
    return TextGrid(tiers, note, start, end)


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
    return intervals_of(read_tiers(path).tiers, path, tier)


def intervals_of(tiers: Sequence[Tier], path: Path, tier: str) -> list[Interval]:
    """Return the labelled intervals of a tier of a file that was read; see `read_textgrid`."""
    chosen = choose_tier(tiers, path, tier)
    if chosen.points:
        raise InputError(f"{path}: the tier {chosen.name!r} has points, not intervals", "name another tier")
    return [each._replace(label=nfc(each.label)) for each in chosen.entries]


def _long_or_short(text: str) -> tuple[list[Tier], float, float]:
    """Read the long and short text formats: to Praat, all but strings and free-standing numbers is a comment in both.

    Returns the tiers, and the file's own start and end.

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

    [file_type], [content], [start], [end], [number] = take(str, str, float, float, float)
    if not file_type.startswith("ooTextFile") or content != "TextGrid":
        raise ValueError("another format")
    tiers = []
    for _ in range(int(number)):
        [kind], [name], _, _, [count] = take(str, str, float, float, float)
        points = kind == "TextTier"
        starts, *ends, labels = take(*(float, str) if points else (float, float, str), count=int(count))
        entries = list(map(Interval, starts, ends[0] if ends else starts, map(str.strip, from_praat(labels))))
        tiers.append(Tier(name, points, entries))
    if at < len(values):
        raise ValueError("more than it says")
    return tiers, start, end


def long_text(seconds: float, tiers: Sequence[Tier], begin: float = 0.0) -> str:
    """Return a TextGrid in Praat's long text format; intervals without a label fill what a tier leaves free.

    Intervals that are very short are joined with their neighbours. The tiers begin at `begin`, or where the first of
    their entries does if that is earlier.

    Parameters
    ----------
    seconds : float
        The end of all tiers.
    tiers : sequence of Tier
        Their entries in any order.
    begin : float
        In seconds.

    Raises
    ------
    InputError
        Intervals overlap, or end after the tiers.
    """
    from praatio.utilities.errors import PraatioException
    from praatio.utilities.textgrid_io import getTextgridAsStr  # late: only writing TextGrids needs it

    begin, seconds = min([begin, *(entry.start for tier in tiers for entry in tier.entries)]), float(seconds)
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
