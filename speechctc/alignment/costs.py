"""What departures from a transcript cost in a recording: learned from how well its words fit where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.alignment.transcript import Unit

Values = NDArray[np.float64]

EXTRA = 2.0
"""To begin a stretch that is not in the transcript, and to end it, nats."""
NEVER = 1000.0
"""For what should happen only where there is no other path, nats."""
AROUND = 5.0
"""How far around a unit others say what is usual there, seconds."""
SPREADS = 3.0
"""How many distances of the median from the upper quartile above that a deficit is unusual: Tukey's fence."""
GAP = 3.0
"""How many phones a gap costs beside its own."""
LEAST = 2.5
"""Least deficit of a phone that is unusual, nats: about that of guessing among 12 phones."""
FEWEST = 20
"""Units to learn from; with fewer, `LEAST` is unusual."""


class Costs(NamedTuple):
    """What departures from a transcript cost, in nats; all are positive.

    Attributes
    ----------
    extra : float
        To begin a stretch that is not in the transcript, and to end it; what its frames cost is in their emissions.
    gap : ndarray, shape = (units,), float64
        To begin to leave units out with this one; several in a row are one gap.
    missing : ndarray, shape = (units,), float64
        To leave a unit out.
    repeat : ndarray, shape = (units,), float64
        To leave out a word that is the same as the one before it.
    """

    extra: float
    gap: Values
    missing: Values
    repeat: Values


class Fits(NamedTuple):
    """How units fit where a first pass has placed them, in order of time; each shape = (n,).

    Attributes
    ----------
    unit : ndarray, int64
        Their numbers.
    begin, end : ndarray, float64
        Their frames: from `begin` to before `end`.
    deficit : ndarray, float64
        By how much they are less probable than the best classes of their frames, per phone, nats.
    """

    unit: NDArray[np.int64]
    begin: Values
    end: Values
    deficit: Values


def costs_of_all_placed(units: int) -> Costs:
    """Return costs for the pass to learn from: what is said beyond the transcript is found, and no unit is left out."""
    never = np.full(units, NEVER)
    return Costs(EXTRA, never, never, never)


def learned_costs(fits: Fits, units: Sequence[Unit], step: float) -> Costs:
    """Return costs learned from a path that leaves no unit out.

    A unit should be left out if it fits worse than the units around it usually do, for the net may fail in a whole part
    of a recording. With the median q2 and the upper quartile q3 of the deficits there, a deficit per phone is unusual
    from ``q3 + SPREADS (q3 - q2)`` on. Those of the whole recording count instead if this makes it less: a whole
    part of the transcript may not be said. Each phone left out costs this once, and a gap `GAP` times more: where the
    net fails, it fails for some phones in a row. The second of two equal words is more often a slip of the pen than
    said: it costs q3 for each phone.

    Parameters
    ----------
    fits : Fits
        May be empty.
    units : sequence of Unit
        All units of the transcript.
    step : float
        Seconds from one frame to the next.
    """
    phones = np.array([min(map(len, unit.pronunciations)) for unit in units], np.float64)
    if len(fits.unit) < FEWEST:
        return Costs(EXTRA, np.full(len(units), GAP * LEAST), LEAST * phones, 0.5 * LEAST * phones)
    middle, upper = _quartiles(fits, AROUND / step)
    unusual = np.minimum(_fence(middle, upper), _fence(*np.percentile(fits.deficit, (50, 75))))
    unusual = np.maximum(unusual, LEAST)
    unusual, upper = (np.interp(np.arange(len(units)), fits.unit, values) for values in (unusual, upper))
    return Costs(EXTRA, GAP * unusual, unusual * phones, upper * phones)


def _fence(middle: Values, upper: Values) -> Values:
    """Return from where on a deficit is unusual, by the median and the upper quartile."""
    return upper + SPREADS * (upper - middle)


def _quartiles(fits: Fits, around: float) -> tuple[Values, Values]:
    """Return the median and the upper quartile of the deficits so many frames around each unit.

    A unit counts by its length: many words that were not said have little room, and must not seem usual there.
    """
    centre, length = (fits.begin + fits.end) / 2, fits.end - fits.begin
    found = np.zeros((2, len(centre)))
    for number, (low, high) in enumerate(np.searchsorted(centre, (centre - around, centre + around)).T.tolist()):
        order = low + np.argsort(fits.deficit[low:high])
        below = np.cumsum(length[order])
        at = np.searchsorted(below, np.array((0.5, 0.75)) * below[-1])
        found[:, number] = fits.deficit[order[at]]
    return found[0], found[1]
