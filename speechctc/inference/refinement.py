"""Moves the boundaries of an alignment to where a boundary model places them, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.dereverberation import When
from speechctc.audio.tracks import Channel
from speechctc.inference.boundary_model import CONTEXT, SILENCE, BoundaryModel, has_closures, spelled, step_of
from speechctc.inference.segmenter import WHOLE, Segment, Segments, Span
from speechctc.inference.streaming import opened
from speechctc.phones.articulation import is_arpabet

EACH = 60  # phones to place together
MORE = 6  # phones before and after these that are placed with them, and placed again with their own
MARGIN = 1.0  # seconds of sound before the first phone after a pause, and after the last before one
MAX_SECONDS = 3.0  # phones and pauses that are longer are not looked at as a whole, seconds

Samples = NDArray[np.float32]


class _Part(NamedTuple):
    """Segments that are placed together.

    Attributes
    ----------
    first, end : int
        From `first` to before `end`.
    own, until : int
        Those whose times are taken.
    edges : (bool, bool)
        Whether there is a pause, or nothing, before the first and after the last.
    """

    first: int
    end: int
    own: int
    until: int
    edges: tuple[bool, bool]


class Refiner(ExitStack):
    """Refines segments of a recording part by part; the recording is read once more, and closed with this.

    Parameters
    ----------
    recording : tuple
        The recording, rate and channel, as for `speechctc.inference.streaming.opened`.
    model : BoundaryModel or None
        None: segments stay as they are.
    phones : sequence of str
        The phone set of the segments.
    dereverb : str
        As for `opened`.
    """

    def __init__(
        self,
        recording: tuple[Any, int | None, Channel | None],
        model: BoundaryModel | None,
        phones: Sequence[str],
        dereverb: When,
    ) -> None:
        super().__init__()
        self._recording, self._model, self._phones, self._dereverb = recording, model, phones, dereverb
        self._window: Window | None = None

    def refine(self, segments: Sequence[Segment], span: Span) -> Sequence[Segment]:
        """Return the segments of a part, which lies between these times, with other times."""
        if self._model is None:
            return segments
        if self._window is None:
            _, blocks = self.enter_context(opened(*self._recording, self._model.rate, self._dereverb))
            self._window = Window(blocks, self._model.rate)
        return refined(segments, self._window, self._model, self._phones, span)


def refined(
    segments: Sequence[Segment], window: Window, model: BoundaryModel, phones: Sequence[str], span: Span = WHOLE
) -> Segments:
    """Return segments with their times refined.

    Parameters
    ----------
    segments : sequence of Segment
        In order of time.
    window : Window
        The recording, at the rate of the model.
    model : BoundaryModel
    phones : sequence of str
        The phone set of the segments.
    span : (float, float)
        Seconds between which all segments lie.
    """
    arpabet, closures = is_arpabet(phones), has_closures(phones)
    labels = spelled([segment.phone for segment in segments], arpabet)
    pauses = SILENCE not in spelled(phones, arpabet)
    step = step_of(model.rate)
    result = Segments(segments)
    for part in _parts(segments):
        inside = segments[part.first : part.end]
        begin = max(inside[0].start - MARGIN, span[0]) if part.edges[0] else _cut(inside[0], True)
        begin = step * int(begin / step + 1e-6)  # all parts have the same frames
        end = min(inside[-1].end + MARGIN, span[1]) if part.edges[1] else _cut(inside[-1], False)
        starts, ends = (np.array([getattr(each, name) for each in inside]) for name in ("start", "end"))
        rough = np.maximum(starts - begin, 0.0), np.minimum(ends, end) - begin
        before = min(begin, step * round(CONTEXT / step))
        samples = window.take(begin - before, end + CONTEXT)
        until = begin - before + len(samples) / model.rate
        context = before, max(until - end, 0.0)
        placed = model.place(samples, labels[part.first : part.end], closures, *rough, pauses, part.edges, context)
        for k in range(part.own, part.until):
            at = k - part.first
            if at > 0 or part.edges[0]:
                interval = _shifted(placed.start_intervals, at, begin, until)
                result[k] = result[k]._replace(start=begin + float(placed.starts[at]), start_interval=interval)
            if k + 1 < part.end or part.edges[1]:
                interval = _shifted(placed.end_intervals, at, begin, until)
                result[k] = result[k]._replace(end=begin + float(placed.ends[at]), end_interval=interval)
    return Segments(_in_order(result))


def _shifted(intervals: NDArray[np.float64] | None, k: int, begin: float, until: float) -> Span | None:
    """Return interval `k` shifted by `begin`, and clipped to the recording, which ends at `until`; seconds."""
    if intervals is None:
        return None
    low, high = (min(max(begin + float(time), 0.0), until) for time in intervals[k])
    return low, high


def _parts(segments: Sequence[Segment]) -> Iterator[_Part]:
    """Divide segments at long pauses and inside long phones, and then into parts that are not too long."""
    first, edge = 0, True
    for k, segment in enumerate(segments):
        after = segments[k + 1].start if k + 1 < len(segments) else np.inf
        pause, long = after - segment.end > MAX_SECONDS, segment.end - segment.start > MAX_SECONDS
        if pause or (long and k > first):
            yield from _equal_parts(first, k + 1, (edge, pause))
            first, edge = (k + 1, True) if pause else (k, False)


def _equal_parts(first: int, end: int, edges: tuple[bool, bool]) -> Iterator[_Part]:
    for own in range(first, end, EACH):
        until = min(own + EACH, end)
        begin, stop = max(own - MORE, first), min(until + MORE, end)
        yield _Part(begin, stop, own, until, (begin == first and edges[0], stop == end and edges[1]))


def _cut(segment: Segment, at_start: bool) -> float:
    """Return where to cut a phone at the edge of a part: at its own edge, or nearer to the others if it is long."""
    if at_start:
        return max(segment.start, segment.end - MAX_SECONDS)
    return min(segment.end, segment.start + MAX_SECONDS)


def _in_order(segments: Sequence[Segment]) -> Iterator[Segment]:
    """Yield segments that do not overlap: two parts may place the boundary between them differently."""
    until = 0.0
    for k, segment in enumerate(segments):
        start = max(segment.start, until)
        end = segment.end
        if k + 1 < len(segments):
            end = min(end, segments[k + 1].start)
        until = max(end, start)
        yield segment.moved(start, until)


class Window:
    """The samples of a recording that is read in blocks, by time; what is before the last question is forgotten.

    Parameters
    ----------
    blocks : iterable of ndarray
        The recording from its beginning.
    rate : int
        Hz.
    """

    def __init__(self, blocks: Iterable[Samples], rate: int) -> None:
        self._blocks, self._rate = iter(blocks), rate
        self._kept: Samples = np.zeros(0, np.float32)
        self._first = 0

    def take(self, start: float, end: float) -> Samples:
        """Return the samples between two times, as far as there are any; `start` never decreases much."""
        first, last = round(start * self._rate), round(end * self._rate)
        parts = [self._kept]
        have = self._first + len(self._kept)
        while have < last and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            have += len(block)
            if have < first:  # a long pause
                parts = [block]
        kept = np.concatenate(parts)
        behind = have - len(kept)
        self._first = max(min(first, have), behind)
        self._kept = kept[self._first - behind :]
        return self._kept[: max(last - self._first, 0)]
