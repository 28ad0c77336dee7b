"""Forced alignment: a placed transcript in time; labels that the model does not have are heard as its phones."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError, first_few
from speechctc.inference.hearing import PART, PhoneMapping, begins
from speechctc.inference.placement import Posteriors, Visits
from speechctc.inference.result import Misfit, Recognition, Variant, Word, Words, misfits_text
from speechctc.inference.segmenter import (
    BEYOND,
    MIN_DURATION,
    WHOLE,
    FrameClock,
    PhoneScore,
    Segment,
    Segmenter,
    Segments,
    Span,
    lasting,
)
from speechctc.inference.transcript import Items, Phrase, Unit, check_fit, fewest_phones, is_plain, units_of
from speechctc.phones.inventory import SILENCES, Inventory
from speechctc.phones.nonspeech_labels import ANY

if TYPE_CHECKING:
    from speechctc.inference.goodness import Judge
    from speechctc.inference.placement import Placement, Stretch
    from speechctc.inference.refinement import Refiner
    from speechctc.inference.segmenter import Calibration

NAMED = 3  # phrases that are left out, to be named
SPOKEN = -1
GOES_ON = 50  # most frames of a phone that goes on into a stretch
# Phones in a row that are not left out of right speech: among 13,240 of TIMIT's at most 5 of a row were not heard.
SLURRED = 6
# Phones of a transcript from which it is told whether it fits, what a phone is worth at least, nats, and how many are
# amiss at most for each of a right transcript.
LEAST_TOLD, WORTH, FITS = 8, 8.4, 0.5
UNLIKE = "its transcript does not fit: words may be missing in it, or doubled, or be those of another recording"


class Aligned(NamedTuple):
    """The phones, words and misfits of an alignment, in the order of time."""

    segments: Sequence[Segment]
    words: Sequence[Word]
    misfits: tuple[Misfit, ...]


class Times(NamedTuple):
    """The clock of the frames of a part of a recording, when the part ends, and within what times it lies."""

    clock: FrameClock
    seconds: float
    span: Span


@dataclass(frozen=True)
class AlignOptions:
    """How a transcript is placed.

    Attributes
    ----------
    find_misfits, silences
        As for `speechctc.inference.placement.place`; silences by name.
    heard : PhoneMapping, optional
        Labels that are not the model's, and the phones that they are heard as.
    say_misfits : bool
        All units are placed, and the result says what misfits there seem to be.
    judge : callable, optional
        Scores the phones: `Goodness.scores`, or `collect` to learn from them.
    watch : callable
        As for `speechctc.inference.placement.place`; it is also told how much the net has computed.
    """

    find_misfits: bool = False
    silences: Sequence[str] = ()
    heard: PhoneMapping | None = None
    judge: Judge | None = None
    watch: Callable[[str], None] = lambda text: None
    say_misfits: bool = False


class Aligner:
    """Places transcripts in the posteriors of a recording.

    Parameters
    ----------
    phones : Inventory
        Of the model.
    clock : FrameClock
        Of the posteriors.
    calibration : Calibration
    options : AlignOptions
    refiner : Refiner, optional
        Refines the boundaries.

    Attributes
    ----------
    inventory : Inventory
        The phones of the transcripts and of the segments.
    heard : PhoneMapping
        The model's phone of each of these.
    """

    def __init__(
        self,
        phones: Inventory,
        clock: FrameClock,
        calibration: Calibration,
        options: AlignOptions = AlignOptions(),  # noqa: B008
        refiner: Refiner | None = None,
    ) -> None:
        self.clock, self.calibration, self.options, self.refiner = clock, calibration, options, refiner
        self.heard = options.heard or PhoneMapping(phones, {})
        self.inventory = self.heard.inventory

    def place(
        self,
        name: str,
        seconds: float,
        items: Items,
        posteriors: Posteriors,
        start: float | None = None,
        first: int = 0,
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
            Log posteriors of `Aligner.inventory`.
        start : float, optional
            When the part begins that the posteriors are of, seconds; None: they are of the whole recording.
        first : int
            Their first frame.

        Raises
        ------
        InputError
            The recording is too short, or the transcript cannot be compiled.
        """
        if not items:
            return Recognition(name, seconds, (), 0.0)
        length, clock = seconds - (start or 0.0), FrameClock(self.clock.step, self.clock.seconds(first))
        times, units = Times(clock, seconds, WHOLE if start is None else (start, seconds)), tuple(units_of(items))
        placed = self._placed(name, length, items, posteriors, self.options.find_misfits)
        aligned = self._in_time(placed, posteriors, units, times, self.refiner)
        notes, is_unfit = list[str](), False
        if not self.options.find_misfits:
            notes, is_unfit = self._fit(name, posteriors, placed, aligned.segments)
        if self.options.judge is not None:
            judged = posteriors.judged or posteriors
            scores = self.options.judge(placed, judged, aligned.segments, self.heard.classes)
            aligned = _judged(aligned, placed, scores, beside_misfits(placed))
            if self.options.find_misfits:  # of what is left out, all would seem to fit
                notes, is_unfit = self._fit_of_all(name, length, items, posteriors, times)
        segments, words, misfits = aligned
        score, touched = placed.score / max(len(segments), 1), placed.touched
        del placed, aligned  # of hours they are large beside those of the next path
        if all(unit.is_phone for unit in units):
            words = ()  # they would repeat the phones
        if touched is not None:
            where = f"from {clock.seconds(touched):.0f} s on"
            edge = "it is at the edge of what was looked at: cut the recording"
            notes.append(f"{name}: the alignment may be wrong {where}; {edge}")
        doubt = ""
        if self.options.say_misfits and not is_unfit:
            around = self._placed(name, length, items, posteriors, True)
            doubt = misfits_text(self._in_time(around, posteriors, units, times, None).misfits)
        note = "; ".join(notes)
        return Recognition(name, seconds, segments, score, words, misfits, note, is_unfit, doubt=doubt)

    def _fit_of_all(
        self, name: str, length: float, items: Items, posteriors: Posteriors, times: Times
    ) -> tuple[list[str], bool]:
        """As `_fit`, of the transcript placed without misfits."""
        try:
            placed = self._placed(name, length, items, posteriors, False)
        except InputError:
            return [f"{name}: {UNLIKE}"], True
        aligned = self._in_time(placed, posteriors, tuple(units_of(items)), times, None)
        return self._fit(name, posteriors, placed, aligned.segments)

    def _fit(
        self, name: str, posteriors: Posteriors, placed: Placement, segments: Sequence[Segment]
    ) -> tuple[list[str], bool]:
        """Return what is to be said of how a transcript fits as a whole, and whether most of it does not.."""
        is_unlike = amiss(placed, posteriors, _silent(self.inventory)) > FITS
        notes, is_unheard = [f"{name}: {UNLIKE}"] if is_unlike else [], False
        if self.options.judge is not None:
            unheard, is_unheard = _unheard(name, segments, placed, posteriors, self.inventory)
            notes += unheard
        return notes, is_unlike or is_unheard

    def _placed(self, name: str, length: float, items: Items, posteriors: Posteriors, find_misfits: bool) -> Placement:
        """Return the best placement of a transcript."""
        encode, options = self.inventory.encode, self.options
        if not find_misfits:
            plain = units_of(items) if is_plain(items) else ()
            labels = [label for unit in plain for label in encode(unit.pronunciations[0])]
            check_fit(name, labels or range(fewest_phones(items)), posteriors.frames, length)
        from speechctc.inference.placement import place  # late: it loads numba

        silences = encode(options.silences)
        placed = place(items, encode, posteriors, self.clock.step, find_misfits, silences, options.watch)
        if placed.score == -math.inf:
            if placed.is_exact:
                what, fix = f"its {length:.2f} s are too short for the transcript", "check that they belong together"
            else:
                what, fix = "no alignment near what is recognised", "cut the recording and its transcript into parts"
            raise InputError(f"{name}: {what}", fix)
        return placed

    def place_phrases(
        self, name: str, seconds: float, phrases: Sequence[Phrase], posteriors: Posteriors
    ) -> Recognition:
        """Place each phrase between its times, and return all as one result, which notes the phrases that do not fit.

        Parameters
        ----------
        name, seconds
            As for `place`.
        phrases : sequence of Phrase
            In the order of time.
        posteriors : Posteriors
            Of the whole recording.

        Raises
        ------
        InputError
            No phrase lies in the recording and fits.
        """
        parts, failures, number = [], list[InputError](), 0
        for phrase in phrases:
            start, end = phrase.start, min(phrase.end, seconds)
            where = f"{name}, {phrase.start:.2f} to {phrase.end:.2f} s"
            first, last = map(self.clock.frame, (start, end))
            try:
                if end - start <= 0 or phrase.end > seconds + BEYOND:
                    what = f"{where}: a phrase ends after the recording, which has {seconds:.2f} s"
                    raise InputError(what, "correct its times")
                with posteriors.part(first, last) as rows:
                    found = self.place(where, end, phrase.items, rows, start, first)
                parts.append(_moved(found, start, end, number))
            except InputError as error:
                failures.append(error)
            number += sum(1 for _ in units_of(phrase.items))
        if not parts:
            raise failures[0]
        notes = [part.note for part in parts if part.note]
        if failures:
            left = f"{name}: {len(failures)} of {len(phrases)} phrases are left out, which do not fit their times"
            notes.append(f"{left}: {first_few([each.what.removeprefix(f'{name}, ') for each in failures], NAMED)}")
        return _joined(name, seconds, parts, "; ".join(notes))

    def _in_time(
        self,
        placed: Placement,
        posteriors: Posteriors,
        units: Sequence[Unit],
        times: Times,
        refiner: Refiner | None,
    ) -> Aligned:
        """Return an alignment in time."""
        clock, seconds, span = times
        segmenter, segments = Segmenter(self.inventory, clock, self.calibration), Segments()
        start = 0
        classes, stretch_of = _with_heard(placed, posteriors)
        for rows in posteriors.blocks():
            segments.extend(segmenter.push(rows, classes[start : start + len(rows)]))
            start += len(rows)
        segments.extend(segmenter.finish(seconds))
        if refiner:
            segments = self._refined(refiner, segments, span)
        heard, spoken = dict[int, list[Segment]](), Segments()
        for segment, number in zip(segments, stretch_of, strict=True):
            (spoken if number == SPOKEN else heard.setdefault(number, [])).append(segment)
        spans = [
            (heard[k][0].start, heard[k][-1].end) if k in heard else _edges(stretch, clock, seconds)
            for k, stretch in enumerate(placed.stretches)
        ]
        _keep_outside(spoken, placed, spans)
        segments = Segments(lasting(spoken, MIN_DURATION, span[0], seconds))
        words = _words(segments, placed, units, spans, self.inventory)
        misfits = _misfits(segments, placed, units, spans, seconds)
        return Aligned(segments, words, tuple(misfits))

    def _refined(self, refiner: Refiner, segments: Sequence[Segment], span: Span) -> Segments:
        """Return segments that are refined as phones of the model, and keep their labels."""
        own = Segments(each._replace(phone=self.heard.phone(each.phone)) for each in segments)
        refined = refiner.refine(own, span)
        return Segments(each._replace(phone=label.phone) for each, label in zip(refined, segments, strict=True))


def amiss(placed: Placement, posteriors: Posteriors, silent: Sequence[int]) -> float:
    """Return how much is amiss in a transcript, in phones for each of its phones; 0 for less than `LEAST_TOLD`.

    That is by how much its path is less probable than what is recognised, which grows with each phone that is heard and
    not written, or written and not heard. A net that is surer of itself loses more: a phone is worth by how much the
    frames of those recognised are more probable than blanks (the upper quartile), if that is more than `WORTH`.
    `silent` are the classes that are no speech.
    """
    told = sum(placed.classes[visit.first] not in silent for visit in placed.visits)
    if told < LEAST_TOLD:
        return 0.0
    blanks = np.concatenate([rows[:, 0].copy() for rows in posteriors.blocks()])  # a view would keep all classes
    heard = np.flatnonzero(posteriors.onsets & ~np.isin(posteriors.greedy, silent))
    worth = np.quantile(np.add.reduceat(posteriors.best - blanks, heard), 0.75) if len(heard) else 0.0
    return (float(posteriors.best.sum(dtype=np.float64)) - placed.score) / told / max(float(worth), WORTH)


def _silent(inventory: Inventory) -> list[int]:
    """Return the classes that are no speech: blank, and the silences."""
    return [0, *inventory.encode([phone for phone in inventory.phones if phone in SILENCES])]


def _unheard(
    name: str, segments: Sequence[Segment], placed: Placement, posteriors: Posteriors, inventory: Inventory
) -> tuple[list[str], bool]:
    """Return a note on phones in a row where the net hears none, if they are more than are slurred in right speech.

    And whether they are half of all phones or more.
    """
    silent = _silent(inventory)
    heard = np.concatenate([[0], np.cumsum(~np.isin(posteriors.greedy, silent))])
    phones = [pair for pair in zip(placed.visits, segments, strict=True) if pair[1].phone not in SILENCES]
    spans = [(heard[visit.first], heard[visit.end], segment) for visit, segment in phones]
    runs = [[each[2] for each in run] for (a, b), run in groupby(spans, lambda each: each[:2]) if a == b]
    runs = [run for run in runs if len(run) >= SLURRED or SLURRED / 2 <= len(run) == len(phones)]
    if not runs:
        return [], False
    longest = max(runs, key=len)
    where = f"{longest[0].start:.2f} to {longest[-1].end:.2f} s"
    count = sum(begins(each.phone) for run in runs for each in run)  # a diphthong is one
    note = f"{name}: no phone is heard where {count} of the transcript would be (most: {where})"
    return [note], 2 * sum(map(len, runs)) >= len(phones)


def beside_misfits(placed: Placement) -> set[int]:
    """Return the units that are next to what does not fit, and so may be placed in the sound of another."""
    spoken = Visits(visit for visit in placed.visits if visit.unit >= 0)
    firsts = [visit.first for visit in spoken]
    extra = (np.searchsorted(firsts, each.first) for each in placed.stretches if not each.wanted)
    missing = (np.searchsorted(firsts, frame, side="right") for frame, _ in placed.missing)
    found = {int(at) for at in (*extra, *missing)}
    return {visit.unit for at in found for visit in spoken[max(at - 1, 0) : at + 1]}


def _judged(
    aligned: Aligned, placed: Placement, scores: Sequence[PhoneScore | None], doubtful: Container[int]
) -> Aligned:
    """Return phones with their scores, and words with the means of those; `doubtful` units have none."""
    pairs = zip(scores, placed.visits, strict=True)
    scores = [None if visit.unit in doubtful else score for score, visit in pairs]
    segments = Segments(each._replace(goodness=score) for each, score in zip(aligned.segments, scores, strict=True))
    inside: dict[int, list[float]] = {}
    for visit, score in zip(placed.visits, scores, strict=True):
        if score is not None:
            inside.setdefault(visit.unit, []).append(score.score)
    means = {unit: fmean(found) for unit, found in inside.items()}
    words = Words(each._replace(score=means.get(each.number)) for each in aligned.words)
    return Aligned(segments, words, aligned.misfits)


def _moved(part: Recognition, start: float, end: float, number: int) -> Recognition:
    """Return a part within its times, with words numbered from `number`."""

    def within(time: float) -> float:
        return min(max(time, start), end)

    def moved(each: Any, **more: Any) -> Any:
        return each._replace(start=within(each.start), end=within(each.end), **more)

    def interval(times: Span | None) -> Span | None:
        return times and (within(times[0]), within(times[1]))

    segments = (
        moved(each, start_interval=interval(each.start_interval), end_interval=interval(each.end_interval))
        for each in part.segments
    )
    words = (moved(each, number=each.number + number if each.number >= 0 else -1) for each in part.words)
    return replace(part, segments=Segments(segments), words=Words(words), misfits=tuple(map(moved, part.misfits)))


def _joined(name: str, seconds: float, parts: Sequence[Recognition], note: str) -> Recognition:
    """Return the parts of a recording as one result; the score is the mean over phones."""
    segments = Segments(each for part in parts for each in part.segments)
    score = sum((part.log_probability or 0.0) * len(part.segments) for part in parts) / max(len(segments), 1)
    words = Words(each for part in parts for each in part.words)
    misfits = tuple(each for part in parts for each in part.misfits)
    is_unfit = 2 * sum(len(part.segments) for part in parts if part.is_unfit) > len(segments)
    doubt = "; ".join(f"{part.file.removeprefix(f'{name}, ')}: {part.doubt}" for part in parts if part.doubt)
    return Recognition(name, seconds, segments, score, words, misfits, note, is_unfit, doubt=doubt)


def _with_heard(placed: Placement, posteriors: Posteriors) -> tuple[NDArray[np.int16], list[int]]:
    """Return the class of each frame, also of the phones that are heard in stretches, and the stretch of each phone.

    Boundaries beside a stretch can then be refined as those between two phones. `SPOKEN`: a phone of the transcript.
    """
    classes, where = placed.classes.copy(), np.full(len(placed.classes), SPOKEN, np.int32)
    for number, (first, end, _) in enumerate(placed.stretches):
        found = posteriors.greedy[first:end].copy()
        near = min(GOES_ON, end - first)
        sides = (first - 1, posteriors.read(first, first + near)), (end, posteriors.read(end - near, end)[::-1])
        for (beside, rows), run in zip(sides, (found, found[::-1]), strict=True):
            if 0 <= beside < len(classes) and placed.classes[beside]:  # its phone may go on; it is not another
                same = rows[:, placed.classes[beside]] == rows.max(axis=1)
                run[: np.argmin(np.append(same, False))] = 0
        classes[first:end], where[first:end] = found, number
    begins = (classes > 0) & (np.diff(classes, prepend=0) != 0)
    return classes, where[begins].tolist()


def _edges(stretch: Stretch, clock: FrameClock, seconds: float) -> Span:
    """Return the times between the frames of a stretch and those beside it."""
    first, end = (float(np.clip(clock.seconds(k - 0.5), 0.0, seconds)) if k else 0.0 for k in stretch[:2])
    return first, end


def _keep_outside(segments: Segments, placed: Placement, spans: Sequence[Span]) -> None:
    """Cut segments where they reach into a stretch without phones of the transcript."""
    visits = placed.visits
    after = 0
    for stretch, (begin, end) in zip(placed.stretches, spans, strict=True):
        while after < len(visits) and visits[after].first < stretch.first:
            after += 1
        if after and segments[after - 1].end > begin:
            last = segments[after - 1]
            segments[after - 1] = last.moved(last.start, max(begin, last.start))
        if after < len(segments) and segments[after].start < end:
            segments[after] = segments[after].moved(min(end, segments[after].end), segments[after].end)


def _words(
    segments: Sequence[Segment], placed: Placement, units: Sequence[Unit], spans: Sequence[Span], inventory: Inventory
) -> Words:
    """Return the words, and the stretches that the transcript leaves open."""
    words = Words()
    pairs = ((visit, segment) for visit, segment in zip(placed.visits, segments, strict=True) if visit.unit >= 0)
    for unit, group in groupby(pairs, key=lambda pair: pair[0].unit):
        inside = list(group)
        score = -sum(visit.deficit for visit, _ in inside) / len(inside)
        variant = _variant(units[unit], [int(placed.classes[visit.first]) for visit, _ in inside], inventory)
        times = inside[0][1].start, inside[-1][1].end
        words.append(Word(units[unit].text, *times, score, unit, variant=variant))
    wanted = [span for stretch, span in zip(placed.stretches, spans, strict=True) if stretch.wanted]
    words.extend(Word(ANY, *span, 0.0, -1) for span in wanted)
    return Words(sorted(words, key=lambda word: (word.start, word.end))) if wanted else words


def _variant(unit: Unit, classes: Sequence[int], inventory: Inventory) -> Variant | None:
    """Return the pronunciation of a word with these phones; None if it has only one."""
    readings = list(dict.fromkeys(tuple(inventory.encode(each)) for each in unit.pronunciations))
    if len(readings) < 2:
        return None
    phones = " ".join(label.partition(PART)[0] for label in inventory.decode(classes) if begins(label))
    return Variant(phones, readings.index((*classes,)) + 1, len(readings))


def _misfits(
    segments: Sequence[Segment], placed: Placement, units: Sequence[Unit], spans: Sequence[Span], seconds: float
) -> list[Misfit]:
    """Return the misfits: what lies between two phones, or phone and end, and does not fit, is one."""
    places = [visit.first for visit in placed.visits]
    found: dict[int, tuple[list[float], list[str]]] = {}
    for stretch, span in zip(placed.stretches, spans, strict=True):
        if not stretch.wanted:
            edges, _ = found.setdefault(int(np.searchsorted(places, stretch.first)), ([], []))
            edges += span
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
