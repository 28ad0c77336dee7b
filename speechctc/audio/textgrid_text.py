"""Writes TextGrids in Praat's long text format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from speechctc.audio.tiers import Entry, Tier
from speechctc.core.errors import InputError

SHORTEST = 1e-8  # seconds of an interval; praatio joins shorter ones with their neighbours


def long_text(seconds: float, tiers: Sequence[Tier]) -> str:
    """Return a TextGrid in Praat's long text format; intervals without a label fill what a tier leaves free.

    Intervals that overlap, are very short or end after the tiers are left to praatio, which is slower. The tiers begin
    at 0, or where the first of their entries does if that is earlier.

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
    begin = min([0.0, *(entry.start for tier in tiers for entry in tier.entries)])
    if not all(tier.points or _is_plain(tier.entries, begin, seconds) for tier in tiers):
        return _praatio(begin, seconds, tiers)
    parts = ['File type = "ooTextFile"\nObject class = "TextGrid"\n\n']
    parts.append(
        f"xmin = {_number(begin)} \nxmax = {_number(seconds)} \ntiers? <exists> \nsize = {len(tiers)} \nitem []: \n"
    )
    for number, tier in enumerate(tiers, start=1):
        kind, name = ("Text", "points") if tier.points else ("Interval", "intervals")
        rows = list(_points(tier.entries) if tier.points else _intervals(tier.entries, begin, seconds))
        parts.append(f'    item [{number}]:\n        class = "{kind}Tier" \n        name = {_quoted(tier.name)} \n')
        parts.append(f"        xmin = {_number(begin)} \n        xmax = {_number(seconds)} \n")
        parts.append(f"        {name}: size = {len(rows)} \n")
        parts += [f"        {name} [{k}]:\n{row}" for k, row in enumerate(rows, start=1)]
    return "".join(parts)


def _is_plain(entries: Sequence[Entry], begin: float, seconds: float) -> bool:
    """Return whether intervals lie in the recording without overlap, and no gap or interval is very short."""
    edges = [begin, *chain.from_iterable(sorted((start, end) for start, end, _ in entries)), seconds]
    lengths = [b - a for a, b in zip(edges, edges[1:], strict=False)]
    return all(gap == 0 or gap >= SHORTEST for gap in lengths[::2]) and min(lengths[1::2], default=1) >= SHORTEST


def _intervals(entries: Sequence[Entry], begin: float, seconds: float) -> Iterator[str]:
    at = begin
    for start, end, label in sorted(entries):
        if start > at:
            yield _interval(at, start, "")
        yield _interval(start, end, label)
        at = end
    if at < seconds:
        yield _interval(at, seconds, "")


def _interval(start: float, end: float, label: str) -> str:
    times = f"            xmin = {_number(start)} \n            xmax = {_number(end)} \n"
    return f"{times}            text = {_quoted(label)} \n"


def _points(entries: Sequence[Entry]) -> Iterator[str]:
    for time, _, label in sorted(entries):
        yield f"            number = {_number(time)} \n            mark = {_quoted(label)} \n"


def _number(value: float) -> str:
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _praatio(begin: float, seconds: float, tiers: Sequence[Tier]) -> str:
    from praatio.utilities.errors import PraatioException
    from praatio.utilities.textgrid_io import getTextgridAsStr  # late: only unusual tiers need it

    kinds = {True: "TextTier", False: "IntervalTier"}
    rows = [
        {
            "class": kinds[tier.points],
            "name": tier.name,
            "xmin": begin,
            "xmax": seconds,
            "entries": [(start, label) if tier.points else (start, end, label) for start, end, label in tier.entries],
        }
        for tier in tiers
    ]
    grid = {"xmin": begin, "xmax": seconds, "tiers": rows}
    try:
        return str(getTextgridAsStr(grid, "long_textgrid", includeBlankSpaces=True))
    except PraatioException as error:
        reason = " ".join(str(error).split())
        raise InputError(f"a TextGrid cannot hold these tiers ({reason})", "correct them in Praat") from None
