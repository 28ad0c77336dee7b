"""Tiers of labelled intervals and points, as Praat and ELAN have them, and the choice among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.phones.labels import nfc

_WILD = {"*": ".*", "?": "."}
CLOSE = 0.001  # seconds of overlap between neighbours that rounding explains


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

    A tier with that name counts alone. Names and patterns may be separated by ``|``: the first that a file has counts.
    In a pattern, ``*`` stands for any text and ``?`` for a letter; tiers of points are passed over. With each tier
    comes the text that the first ``*`` stands for in its name, which is that of a speaker where tiers are named
    ``anna-phones`` and ``otto-phones``.

    Raises
    ------
    InputError
        No tier has this name or fits the pattern; the error lists the tiers.
    """
    tier = _named(tiers, pattern)
    if tier is not None:
        return [(tier, "")]
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
        if not (-CLOSE <= entry.start <= entry.end < float("inf")):
            what = f"{path}: {entry.label!r} goes from {entry.start} s to {entry.end} s"
            raise InputError(what, f"correct it in {_by(path)}")
    for left, right in zip(ordered, ordered[1:], strict=False):
        if right.start < left.end - CLOSE:
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
