"""Words in time, and stretches where a recording and its transcript do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHOWN = 6  # missing words to name


class Word(NamedTuple):
    """A word in time.

    Attributes
    ----------
    word : str
        ``*`` for a stretch that the transcript leaves open.
    start, end : float
        Seconds from the recording's start.
    score : float
        How well the word fits: the log probability of its phones less that of the best classes, divided by the number
        of phones; at most 0.
    number : int
        Its number in the transcript, from 0; those of all alternatives are counted. -1 for an open stretch.
    """

    word: str
    start: float
    end: float
    score: float
    number: int


class Misfit(NamedTuple):
    """A stretch where recording and transcript do not fit.

    Attributes
    ----------
    start, end : float
        Seconds; equal where words are missing and nothing is said instead.
    kind : str
        ``"extra"``: something is said that is not in the transcript. ``"missing"``: words of the transcript are not
        said. ``"differs"``: something else is said.
    text : str
        The words of the transcript that are not said.
    """

    start: float
    end: float
    kind: str
    text: str


def misfits_text(misfits: Sequence[Misfit]) -> str:
    """Return one line that counts the misfits and names the longest stretch and the first missing words."""
    parts = []
    if extra := [each for each in misfits if each.kind != "missing"]:
        longest = max(extra, key=lambda each: each.end - each.start)
        total = sum(each.end - each.start for each in extra)
        count = "1 stretch is" if len(extra) == 1 else f"{len(extra)} stretches are"
        span = f"{longest.start:.2f} to {longest.end:.2f} s"
        parts.append(f"{count} not as in the transcript, {total:.1f} s in all (longest: {span})")
    if texts := [text for each in misfits for text in each.text.split()]:
        named = " ".join(texts[:SHOWN]) + (" ..." if len(texts) > SHOWN else "")
        parts.append(f"not found, {len(texts)} of its words or phones: {named}")
    return "; ".join(parts)
