"""Cuts a recording into utterances, where its labels leave a gap or name a pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PAD = 0.25  # longest silence that an utterance keeps before its first and after its last label, s
LEAST = 0.05  # shortest silence in which a long utterance is cut, s


class Span(NamedTuple):
    """A labelled time in seconds, and whether the label is that of a pause."""

    start: float
    end: float
    pause: bool = False


class Piece(NamedTuple):
    """The spans ``first`` to ``last``, both included, and from when to when the recording is read for them, s."""

    first: int
    last: int
    start: float
    end: float


def cut(
    spans: Sequence[Span], seconds: float, max_gap: float | None, max_seconds: float, anywhere: bool = False
) -> list[Piece]:
    """Return the utterances of a recording.

    Parameters
    ----------
    spans : sequence of Span
        In order, at least one.
    seconds : float
        Duration of the recording.
    max_gap : float or None
        Time without a label, in seconds, above which it separates utterances; None: it never does.
    max_seconds : float
        Longer utterances are cut again at their longest silence, a gap or a labelled pause, as long as they have one.
        A pause is cut in its middle, and its label belongs to both sides.
    anywhere : bool
        They may also be cut between two labels that touch.
    """
    limit = float("inf") if max_gap is None else max_gap
    lead, tail = spans[0].start, seconds - spans[-1].end
    ends = [*(k for k in range(len(spans) - 1) if _gap(spans, k) > limit), len(spans) - 1]
    pieces, first = [], 0
    for last in ends:
        before = (lead if lead > limit else 0.0) if first == 0 else _gap(spans, first - 1)
        after = (tail if tail > limit else 0.0) if last == len(spans) - 1 else _gap(spans, last)
        start = spans[first].start - min(before / 2, PAD) if before or first else 0.0
        end = spans[last].end + min(after / 2, PAD) if after or last < len(spans) - 1 else seconds
        pieces += _shortened(Piece(first, last, start, end), spans, max_seconds, 0.0 if anywhere else LEAST)
        first = last + 1
    return pieces


def _gap(spans: Sequence[Span], k: int) -> float:
    return spans[k + 1].start - spans[k].end


def _shortened(piece: Piece, spans: Sequence[Span], most: float, least: float) -> list[Piece]:
    """Cut a piece at its longest silence, and its halves again, until none is longer than `most` seconds."""
    done, waiting = [], [piece]
    while waiting:
        first, last, start, end = now = waiting.pop()
        inside = range(first, last)
        silences = [(_gap(spans, k), spans[k].end, k, k + 1) for k in inside]
        silences += [
            (spans[k].end - spans[k].start, spans[k].start, k, k) for k in inside if spans[k].pause and k > first
        ]
        longest = max(silences, default=(-1.0, 0.0, 0, 0))
        if end - start <= most or longest[0] < least:
            done.append(now)
            continue
        length, begin, left, right = longest
        middle = begin + length / 2
        waiting += [Piece(right, last, middle, end), Piece(first, left, start, middle)]
    return done
