"""Forced alignment: a placed transcript in time; labels that the model does not have are heard as its phones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.alignment.posteriors import Posteriors
from speechctc.alignment.transcript import ANY, Items, Phrase, Unit, fewest_phones, is_plain, units_of
from speechctc.core.errors import InputError, some
from speechctc.inference.result import Misfit, Recognition, Word
from speechctc.inference.segmenter import WHOLE, FrameClock, PhoneScore, Segment, Segmenter, Span, lasting
from speechctc.phones.inventory import FOUND, Inventory, frames_needed
from speechctc.phones.matching import match_phones

if TYPE_CHECKING:
    from speechctc.alignment.placement import Placement
    from speechctc.inference.goodness import Judge

Refine = Callable[[Sequence[Segment], Span], list[Segment]]
"""Returns phones with other times, within a span."""
BEYOND = 0.1
"""Seconds by which a phrase may end after the recording: times of other programs are rounded."""
NAMED = 3
"""Phrases that are left out, to be named."""
SHORTEST = 0.005
"""Least duration of a phone, seconds: a frame of the boundary model."""


def unrefined(segments: Sequence[Segment], span: Span) -> list[Segment]:
    """Return the phones as they are."""
    return list(segments)


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
    needed = frames_needed(labels)
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
    refine: Refine = unrefined,
    watch: Callable[[str], None] | None = None,
    start: float | None = None,
    judge: Judge | None = None,
) -> Recognition:
    """Place a transcript in a recording, and return its phones, words and misfits.

    Parameters
    ----------
    name : str
        Of the recording.
    seconds : float
        Its length; of a part, when it ends.
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
    start : float, optional
        When the part begins that the posteriors are of, seconds; None: they are of the whole recording.
    judge : callable, optional
        Says how well each phone was said.

    Raises
    ------
    InputError
        The recording is too short, or the transcript cannot be compiled.
    """
    if not items:
        return Recognition(name, seconds, (), 0.0)
    encode, length = segmenter.inventory.encode, seconds - (start or 0.0)
    if not find_misfits:
        plain = units_of(items) if is_plain(items) else ()
        labels = [label for unit in plain for label in encode(unit.pronunciations[0])]
        check_fit(name, labels or range(fewest_phones(items)), posteriors.frames, length)
    from speechctc.alignment.placement import place  # late: it loads numba

    placed = place(items, encode, posteriors, segmenter.clock.step, find_misfits, encode(silences), watch)
    if placed.score == -math.inf:
        if placed.is_exact:
            what, fix = f"its {length:.2f} s are too short for the transcript", "check that they belong together"
        else:
            what, fix = "no alignment near what is recognised", "cut the recording and its transcript into parts"
        raise InputError(f"{name}: {what}", fix)
    units = tuple(units_of(items))
    span = WHOLE if start is None else (start, seconds)
    aligned = in_time(placed, posteriors, units, segmenter, seconds, lambda found: refine(found, span), span[0])
    if judge is not None:
        aligned = _judged(aligned, placed, judge(placed, posteriors))
    segments, words, misfits = aligned
    if all(unit.pronunciations == ((unit.text,),) for unit in units):
        words = ()  # they would repeat the phones
    note = ""
    if placed.touched is not None:
        where = f"from {segmenter.clock.seconds(placed.touched):.0f} s on"
        note = f"{name}: the alignment may be wrong {where}; it is at the edge of what was looked at: cut the recording"
    return Recognition(name, seconds, segments, placed.score / max(len(segments), 1), None, words, misfits, note)


def _judged(aligned: Aligned, placed: Placement, scores: Sequence[PhoneScore | None]) -> Aligned:
    """Return phones with their scores, and words with the means of those."""
    segments = tuple(each._replace(goodness=score) for each, score in zip(aligned.segments, scores, strict=True))
    inside: dict[int, list[float]] = {}
    for visit, score in zip(placed.visits, scores, strict=True):
        if score is not None:
            inside.setdefault(visit.unit, []).append(score.score)
    words = [
        each._replace(goodness=fmean(inside[each.number])) if each.number in inside else each for each in aligned.words
    ]
    return Aligned(segments, tuple(words), aligned.misfits)


def of_phrases(
    name: str,
    seconds: float,
    phrases: Sequence[Phrase],
    posteriors: Posteriors,
    segmenter: Callable[[FrameClock], Segmenter],
    clock: FrameClock,
    place_part: Callable[..., Recognition],
) -> Recognition:
    """Place each phrase between its times, and return all as one result, which notes the phrases that do not fit.

    Parameters
    ----------
    name, seconds
        As for `recognition`.
    phrases : sequence of Phrase
        In the order of time.
    posteriors : Posteriors
        Of the whole recording.
    segmenter : callable
        Returns a new segmenter with a clock.
    clock : FrameClock
        Of the posteriors.
    place_part : callable
        `recognition`, with its settings.

    Raises
    ------
    InputError
        No phrase lies in the recording and fits.
    """
    parts, failures, number = [], list[InputError](), 0
    for phrase in phrases:
        start, end = phrase.start, min(phrase.end, seconds)
        where = f"{name}, {phrase.start:.2f} to {phrase.end:.2f} s"
        first, last = (max(math.ceil((time - clock.half) / clock.step), 0) for time in (start, end))
        own = FrameClock(clock.step, clock.seconds(first))
        try:
            if end - start <= 0 or phrase.end > seconds + BEYOND:
                what = f"{where}: a phrase ends after the recording, which has {seconds:.2f} s"
                raise InputError(what, "correct its times")
            with posteriors.part(first, last) as rows:
                found = place_part(where, end, phrase.items, rows, segmenter(own), start=start)
            parts.append(_moved(found, start, end, number))
        except InputError as error:
            failures.append(error)
        number += sum(1 for _ in units_of(phrase.items))
    if not parts:
        raise failures[0]
    notes = [part.note for part in parts if part.note]
    if failures:
        left = f"{name}: {len(failures)} of {len(phrases)} phrases are left out, which do not fit their times"
        notes.append(f"{left}: {some([each.what.removeprefix(f'{name}, ') for each in failures], NAMED)}")
    return _joined(name, seconds, parts, "; ".join(notes))


def _moved(part: Recognition, start: float, end: float, number: int) -> Recognition:
    """Return a part within its times, with words numbered from `number`."""

    def within(time: float) -> float:
        return min(max(time, start), end)

    return replace(
        part,
        segments=tuple(
            each._replace(
                start=within(each.start),
                end=within(each.end),
                start_interval=each.start_interval and (within(each.start_interval[0]), within(each.start_interval[1])),
                end_interval=each.end_interval and (within(each.end_interval[0]), within(each.end_interval[1])),
            )
            for each in part.segments
        ),
        words=tuple(
            each._replace(
                start=within(each.start), end=within(each.end), number=each.number + number if each.number >= 0 else -1
            )
            for each in part.words
        ),
        misfits=tuple(each._replace(start=within(each.start), end=within(each.end)) for each in part.misfits),
    )


def _joined(name: str, seconds: float, parts: Sequence[Recognition], note: str) -> Recognition:
    """Return the parts of a recording as one result; the score is the mean over phones."""
    segments = tuple(each for part in parts for each in part.segments)
    score = sum((part.score or 0.0) * len(part.segments) for part in parts) / max(len(segments), 1)
    words = tuple(each for part in parts for each in part.words)
    misfits = tuple(each for part in parts for each in part.misfits)
    return Recognition(name, seconds, segments, score, None, words, misfits, note)


def in_time(
    placed: Placement,
    posteriors: Posteriors,
    units: Sequence[Unit],
    segmenter: Segmenter,
    seconds: float,
    refine: Callable[[Sequence[Segment]], list[Segment]] = list,
    begin: float = 0.0,
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
        Length of the recording; of a part, when it ends.
    refine : callable
        Refines the boundaries.
    begin : float
        When the part begins, seconds.
    """
    segments: list[Segment] = []
    start = 0
    for rows in posteriors.blocks():
        segments += segmenter.push(rows, placed.classes[start : start + len(rows)])
        start += len(rows)
    segments += segmenter.finish(seconds)
    clock = segmenter.clock
    segments = lasting(_outside_stretches(refine(segments), placed, clock), SHORTEST, begin, seconds)
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
            segments[after - 1] = last.moved(last.start, max(begin, last.start))
        if after < len(segments) and segments[after].start < end:
            segments[after] = segments[after].moved(min(end, segments[after].end), segments[after].end)
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


_OWN = "\N{NULL}"
"""Before a phone of the model that is spelt like another label of the transcript: ``y`` in ARPABET is IPA's ``j``."""


@dataclass(frozen=True)
class Heard:
    """Phones of a model, and labels that are heard as them.

    Attributes
    ----------
    phones : Inventory
        Of the model.
    labels : mapping of str to str
        By label, the phone of the model.
    """

    phones: Inventory
    labels: Mapping[str, str]

    @property
    def inventory(self) -> Inventory:
        """The phones of the model, and after them the labels."""
        own = (_OWN + phone if phone in self.labels else phone for phone in self.phones.phones)
        return Inventory(FOUND, (*own, *self.labels)) if self.labels else self.phones

    @property
    def classes(self) -> NDArray[np.int64]:
        """By class of `inventory`, the class of the model that it is heard as."""
        return np.array([*range(len(self.phones.phones) + 1), *self.phones.encode(self.labels.values())], np.int64)

    def rows(self, log_probs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return log posteriors of the classes of `inventory`: those of the model, and each label's as its phone's."""
        if not self.labels:
            return log_probs
        return np.hstack([log_probs, log_probs[:, self.phones.encode(self.labels.values())]])

    def around(self, refine: Refine) -> Refine:
        """Return a function that refines segments as phones of the model, and keeps their labels."""

        def refined(segments: Sequence[Segment], span: Span) -> list[Segment]:
            heard = [each._replace(phone=self.labels.get(each.phone, each.phone)) for each in segments]
            return [each._replace(phone=own.phone) for each, own in zip(refine(heard, span), segments, strict=True)]

        return refined if self.labels else refine


class Hearing:
    """Matches labels with the phones of a model, and remembers which became which.

    Parameters
    ----------
    phones : Inventory
        Of the model.
    others : sequence of str
        Labels of the same notation, by which it is told.
    """

    def __init__(self, phones: Inventory, others: Sequence[str] = ()) -> None:
        self.phones, self._others = phones, others
        self._known: dict[str, str | None] = {}

    def knows(self, labels: Iterable[str]) -> bool:
        """Return whether all labels are heard as some phone."""
        new = [label for label in dict.fromkeys(labels) if label not in self._known]
        if new:
            matches = match_phones((*new, *self._others), self.phones.phones)
            self._known |= {label: matches[label].phone if label in matches else None for label in new}
        return all(self._known[label] is not None for label in labels)

    def of(self, labels: Iterable[str]) -> Heard:
        """Return how these labels are heard; those that are phones of the model need nothing."""
        found = {label: self._known[label] for label in labels if self._known.get(label) not in (None, label)}
        return Heard(self.phones, {label: phone for label, phone in found.items() if phone is not None})

    def note(self) -> str:
        """Return which labels were heard as which phones, or ``""``."""
        pairs = [f"{label} as {to}" for label, to in sorted(self._known.items()) if to not in (None, label)]
        return f"labels are those of the words; the model hears {some(pairs, 40)}" if pairs else ""
