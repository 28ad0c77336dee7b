"""Forced alignment: from a placed transcript to phones, words and misfits in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from speechctc.alignment.posteriors import Posteriors
from speechctc.alignment.transcript import ANY, Items, Unit, is_plain, units_of
from speechctc.core.errors import InputError
from speechctc.ctc.feasibility import frames_needed
from speechctc.inference.result import Misfit, Recognition, Word
from speechctc.inference.segmenter import FrameClock, Segment, Segmenter
from speechctc.phones.inventory import Inventory

if TYPE_CHECKING:
    from speechctc.alignment.placement import Placement


Refine = Callable[[Sequence[Segment]], list[Segment]]
"""Returns phones with other times."""


class Aligned(NamedTuple):
    """The phones, words and misfits of an alignment, in the order of time."""

    segments: tuple[Segment, ...]
    words: tuple[Word, ...]
    misfits: tuple[Misfit, ...]


def check_phones(file: str, items: Items, silences: Sequence[str], inventory: Inventory) -> None:
    """Check that all phones of a transcript are phones of the model.

    Raises
    ------
    InputError
        One is not.
    """
    try:
        for phones in (phones for unit in units_of(items) for phones in unit.pronunciations):
            inventory.encode(phones)
        inventory.encode(silences)
    except InputError as error:
        raise InputError(f"{file}: {error.what}", f"the model's are: {' '.join(inventory.phones)}") from None


def check_fit(file: str, labels: Sequence[int], frames: int, seconds: float) -> None:
    """Check that phones fit into a recording.

    Parameters
    ----------
    file : str
        Named in the error.
    labels : sequence of int
    frames : int
        Output frames of the recording.
    seconds : float
        Its length.

    Raises
    ------
    InputError
        The phones need more frames than there are.
    """
    needed = int(frames_needed(torch.tensor(labels, dtype=torch.int64), torch.tensor([len(labels)])))
    if needed > frames:
        repeats = needed - len(labels)
        apart = f" and {repeats} blanks between repeated ones" if repeats else ""
        raise InputError(
            f"{file}: {len(labels)} phones{apart} need {needed} frames, and its {seconds:.2f} s have {frames}",
            "check that these phones belong to this recording, or align with a model of a smaller model.time_stride",
        )


def recognition(
    name: str,
    seconds: float,
    items: Items,
    posteriors: Posteriors,
    segmenter: Segmenter,
    find_misfits: bool,
    silences: Sequence[str],
    refine: Refine = list,
    watch: Callable[[str], None] | None = None,
) -> Recognition:
    """Place a transcript in a recording, and return its phones, words and misfits.

    Parameters
    ----------
    name : str
        Of the recording.
    seconds : float
        Its length.
    items : Items
        The transcript.
    posteriors : Posteriors
    segmenter : Segmenter
        New; finds the boundaries.
    find_misfits, silences
        As for `speechctc.alignment.placement.place`.
    refine : callable
        Refines the boundaries.
    watch : callable, optional
        As for `speechctc.alignment.placement.place`.

    Raises
    ------
    InputError
        The recording is too short, or the transcript cannot be compiled.
    """
    if not items:
        return Recognition(name, seconds, (), 0.0)
    encode = segmenter.inventory.encode
    if is_plain(items) and not find_misfits:
        labels = [label for unit in units_of(items) for label in encode(unit.pronunciations[0])]
        check_fit(name, labels, posteriors.frames, seconds)
    from speechctc.alignment.placement import place  # late: it loads numba

    placed = place(items, encode, posteriors, segmenter.clock.step, find_misfits, encode(silences), watch)
    if placed.score == -math.inf:
        if placed.is_exact:
            what, fix = f"its {seconds:.2f} s are too short for the transcript", "check that they belong together"
        else:
            what, fix = "no alignment near what is recognised", "cut the recording and its transcript into parts"
        raise InputError(f"{name}: {what}", fix)
    units = tuple(units_of(items))
    segments, words, misfits = in_time(placed, posteriors, units, segmenter, seconds, refine)
    if all(unit.pronunciations == ((unit.text,),) for unit in units):
        words = ()  # they would repeat the phones
    note = ""
    if placed.touched is not None:
        where = f"from {segmenter.clock.seconds(placed.touched):.0f} s on"
        note = f"{name}: the alignment may be wrong {where}; it is at the edge of what was looked at: cut the recording"
    return Recognition(name, seconds, segments, placed.score / max(len(segments), 1), None, words, misfits, note)


def in_time(
    placed: Placement,
    posteriors: Posteriors,
    units: Sequence[Unit],
    segmenter: Segmenter,
    seconds: float,
    refine: Refine = list,
) -> Aligned:
    """Return an alignment in time.

    Parameters
    ----------
    placed : Placement
    posteriors : Posteriors
    units : sequence of Unit
        Of the transcript, in reading order.
    segmenter : Segmenter
        New; finds the boundaries.
    seconds : float
        Length of the recording.
    refine : callable
        Refines the boundaries.
    """
    segments: list[Segment] = []
    start = 0
    for rows in posteriors.blocks():
        segments += segmenter.push(rows, placed.classes[start : start + len(rows)])
        start += len(rows)
    segments += segmenter.finish(seconds)
    clock = segmenter.clock
    segments = _outside_stretches(refine(segments), placed, clock)
    words = _words(segments, placed, units, clock, seconds)
    return Aligned(tuple(segments), tuple(words), tuple(_misfits(segments, placed, units, clock, seconds)))


def _edge(clock: FrameClock, frame: int, seconds: float) -> float:
    """Return the time between a frame and the one before it."""
    return float(np.clip(clock.seconds(frame - 0.5), 0.0, seconds)) if frame else 0.0


def _outside_stretches(segments: list[Segment], placed: Placement, clock: FrameClock) -> list[Segment]:
    """Return the segments cut where they reach into a stretch without phones of the transcript."""
    visits = placed.visits
    after = 0
    for stretch in placed.stretches:
        begin, end = (clock.seconds(edge - 0.5) for edge in (stretch.first, stretch.end))
        while after < len(visits) and visits[after].first < stretch.first:
            after += 1
        if after and segments[after - 1].end > begin:
            last = segments[after - 1]
            segments[after - 1] = last._replace(end=max(begin, last.start))
        if after < len(segments) and segments[after].start < end:
            segments[after] = segments[after]._replace(start=min(end, segments[after].end))
    return segments


def _words(
    segments: Sequence[Segment], placed: Placement, units: Sequence[Unit], clock: FrameClock, seconds: float
) -> list[Word]:
    """Return the words, and the stretches that the transcript leaves open."""
    words = []
    pairs = [(visit, segment) for visit, segment in zip(placed.visits, segments, strict=True) if visit.unit >= 0]
    for unit, group in groupby(pairs, key=lambda pair: pair[0].unit):
        inside = list(group)
        score = -sum(visit.deficit for visit, _ in inside) / len(inside)
        words.append(Word(units[unit].text, inside[0][1].start, inside[-1][1].end, score, unit))
    for stretch in placed.stretches:
        if stretch.wanted:
            words.append(Word(ANY, _edge(clock, stretch.first, seconds), _edge(clock, stretch.end, seconds), 0.0, -1))
    return sorted(words, key=lambda word: (word.start, word.end))


def _misfits(
    segments: Sequence[Segment], placed: Placement, units: Sequence[Unit], clock: FrameClock, seconds: float
) -> list[Misfit]:
    """Return the misfits: what lies between two phones, or phone and end, and does not fit, is one."""
    places = [visit.first for visit in placed.visits]
    found: dict[int, tuple[list[float], list[str]]] = {}
    for stretch in placed.stretches:
        if not stretch.wanted:
            edges, _ = found.setdefault(int(np.searchsorted(places, stretch.first)), ([], []))
            edges += [_edge(clock, stretch.first, seconds), _edge(clock, stretch.end, seconds)]
    for frame, unit in placed.missing:
        _, texts = found.setdefault(int(np.searchsorted(places, frame, side="right")), ([], []))
        texts.append(units[unit].text)
    misfits = []
    for after, (edges, texts) in sorted(found.items()):
        left = segments[after - 1].end if after else 0.0
        right = segments[after].start if after < len(segments) else seconds
        start, end = (min(edges), max(edges)) if edges else (left, max(left, right))
        kind = "missing" if not edges else "differs" if texts else "extra"
        misfits.append(Misfit(start, end, kind, " ".join(texts)))
    return misfits
