"""Turn frame posteriors into phones with start, end and confidence, frame by frame.

On the best path each phone has a spike: a run of frames whose class is the phone. The boundary between two phones lies
between their spikes, where the best path through a lattice of only these two phones, without blanks, changes from the
first to the second.

A well-trained net is usually overconfident [1]_. Platt scaling [2]_, a logistic regression of "this phone is right" on
the log odds of its posterior, corrects that with two numbers, for which a small dev split is enough.

References
----------
.. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks", ICML 2017.
.. [2] J. C. Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin Classifiers, 1999.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.packed import Packed
from speechctc.features.extractor import extractor
from speechctc.phones.inventory import BLANK, SILENCES, Inventory

CALIBRATION_FILE = "calibration.json"
FORMAT = 1
EPSILON = 1e-6  # smallest distance of a posterior from 0 and 1
_MAX_PARAMETER = 1e6  # largest slope or intercept that a file may have
_MAX_PHONES = 1 << 53  # most phones that a file may name

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Parameters that map a phone's highest posterior to a probability, and correct boundaries.

    Attributes
    ----------
    slope, intercept : float
        Of the logistic regression on the log odds; 1 and 0 do not change a posterior.
    shift : float
        Seconds added to every boundary: the median error of the net's boundaries on dev; 0 for a corpus without times.
    phones : int
        Number of phones of dev used to fit; 0: not calibrated.
    error_before, error_after : float
        Expected calibration error on dev, from 0 to 1; `error_after` is by cross-validation. Where
        that is larger, slope and intercept are 1 and 0.
    correct : float
        Share of the phones that were right.
    protocol : str
        How phones were compared, in words.
    """

    slope: float = 1.0
    intercept: float = 0.0
    shift: float = 0.0
    phones: int = 0
    error_before: float = math.nan
    error_after: float = math.nan
    correct: float = math.nan
    protocol: str = ""

    @property
    def helps(self) -> bool:
        """Whether it changes anything: confidences for the better, or boundaries."""
        return (self.slope, self.intercept, self.shift) != (1.0, 0.0, 0.0)

    def probability(self, posterior: float) -> float:
        """Return the probability that a phone with this posterior is right."""
        return float(self.probabilities(np.array([posterior]))[0]) if self.phones else posterior

    def probabilities(self, posteriors: Floats) -> Floats:
        """Return the probabilities for many posteriors, shape = (n,)."""
        exponents = np.clip(self.slope * log_odds(posteriors) + self.intercept, -700, 700)  # exp overflows beyond
        return np.asarray(1.0 / (1.0 + np.exp(-exponents)))

    def to_text(self) -> str:
        """Return the report for people."""
        before, after = 100 * self.error_before, 100 * self.error_after
        worse = "; too few phones to help: confidences stay as they were" if after > before else ""
        return (
            f"calibrated on {self.phones} phones, {100 * self.correct:.1f} % of them right ({self.protocol})\n"
            f"  expected calibration error {before:.1f} % before, {after:.1f} % after (cross-validated){worse}\n"
            f"  boundaries moved by {1000 * self.shift:+.1f} ms"
        )

    def save(self, folder: Path) -> None:
        """Write the calibration into a checkpoint's folder."""
        files.write_json(folder / CALIBRATION_FILE, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Calibration:
        """Read the calibration in a checkpoint's folder; without one, posteriors are not changed.

        Raises
        ------
        InputError
            The file is damaged, or of another version.
        """
        path = folder / CALIBRATION_FILE
        if not path.exists():
            return cls()
        try:
            values = files.read_json(path)
            if values.pop("format") != FORMAT:
                raise ValueError
            calibration = cls(**values)
            calibration._check()
            return calibration
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            fix = "delete it; speechctc calibrate makes it again"
            raise InputError(f"{path}: not a calibration that this version reads", fix) from None

    def _check(self) -> None:
        """Check the values; raise a `TypeError` or `ValueError` if `speechctc calibrate` cannot have written them."""
        errors = (self.error_before, self.error_after, self.correct)
        numbers = (self.slope, self.intercept, self.shift)
        if any(type(value) not in (int, float) for value in (*numbers, *errors)) or type(self.phones) is not int:
            raise TypeError("not numbers")
        if not all(map(math.isfinite, numbers)) or max(map(abs, numbers)) > _MAX_PARAMETER or abs(self.shift) > 1:
            raise ValueError("not finite, or out of range")
        if any(value < 0 or value > 1 for value in errors) or not 0 <= self.phones <= _MAX_PHONES:
            raise ValueError("not shares, or not a number of phones")
        if not self.protocol.isprintable() or len(self.protocol) > 1000:
            raise ValueError("not one line")


def log_odds(probabilities: Floats) -> Floats:
    """Return ``log(p / (1 - p))``, finite for 0 and 1 too."""
    inside = np.clip(probabilities, EPSILON, 1 - EPSILON)
    return np.asarray(np.log(inside) - np.log1p(-inside))


Rows = NDArray[np.float32]
Span = tuple[float, float]  # from when to when, in seconds
WHOLE: Span = (0.0, math.inf)
NO_INTERVAL: Span = (math.nan, math.nan)

# Longest distance of a phone's start or end from its spike, seconds; silences have no limit. Of TIMIT's labelled
# phones, 999 of 1000 stay within it.
REACH = 0.25
# Seconds that a phone extends beyond its spike at a pause without a label: where no other spike is within twice
# `REACH`. Of TIMIT's labelled phones, 19 of 20 begin less than this before their spike.
EDGE = 0.1
MARGIN = 0.25  # shortest distance of a boundary from a spike, in frames: no phone has zero duration
BEYOND = 0.1  # seconds by which an interval may end after the recording: times of other programs are rounded
MIN_DURATION = 0.005  # least duration of a phone in an interval, seconds: a frame of the boundary model
# What is said instead of a phone that is left out.
OMITTED = "-"


class PhoneScore(NamedTuple):
    """How well a phone was said.

    Attributes
    ----------
    score : float
        From 0 to 1, see `speechctc.inference.goodness`.
    probability : float
        That the phone was said as it is written.
    said_instead : tuple of (str, float)
        What was said instead, the most probable first, with probabilities: another phone, ``"-"`` for nothing, or two
        phones, one of them more than is written.
    log_odds : tuple of (str, float)
        Of each other phone, or ``"-"``, in its place against the transcript, nats.
    rating : float, optional
        As raters would score it, where the model learned that.
    not_told : tuple of str
        Phones of the language that the model hears as this one: the score is the same where one of them was said.
    contrasts : tuple of (str, float)
        Of each phone that it was compared with alone, the probability that this one was said and not that.
    """

    score: float
    probability: float
    said_instead: tuple[tuple[str, float], ...] = ()
    log_odds: tuple[tuple[str, float], ...] = ()
    rating: float | None = None
    not_told: tuple[str, ...] = ()
    contrasts: tuple[tuple[str, float], ...] = ()

    @property
    def instead(self) -> str:
        """What was said instead, with its probability, if that is more probable than the phone; else ``""``."""
        text, probability = self.said_instead[0] if self.said_instead else ("", 0.0)
        return f"{text} {probability:.2f}" if probability > self.probability else ""


class Segment(NamedTuple):
    """A phone in time.

    Attributes
    ----------
    phone : str
    start, end : float
        Seconds from the recording's start.
    confidence : float
        Probability that the phone is right (see `Calibration`); without a calibration, the highest posterior of the
        phone's frames.
    alternatives : tuple of (str, float)
        The next most probable phones at the peak of this one, with their posteriors.
    goodness : PhoneScore, optional
        How well it was said, if that was looked for.
    start_interval, end_interval : (float, float), optional
        Between which times the start and the end lie with a probability of 95 %, as a boundary model says.
    """

    phone: str
    start: float
    end: float
    confidence: float
    alternatives: tuple[tuple[str, float], ...] = ()
    goodness: PhoneScore | None = None
    start_interval: Span | None = None
    end_interval: Span | None = None

    @property
    def contrast(self) -> tuple[str, float] | None:
        """Of the contrasts of the phone the one that it does worst in, such as ``th/s``, and its probability there."""
        found = min(self.goodness.contrasts, key=lambda each: each[1], default=None) if self.goodness else None
        return found and (f"{self.phone}/{found[0]}", found[1])

    @property
    def contrast_text(self) -> str:
        """That contrast as people read it: ``th/s 0.12``; ``""`` without one."""
        return "{} {:.2f}".format(*self.contrast) if self.contrast else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON output, times rounded to 0.1 ms."""
        numbers = {"start": self.start, "end": self.end, "confidence": self.confidence}
        values: dict[str, Any] = {"phone": self.phone} | {name: round(value, 4) for name, value in numbers.items()}
        for name, interval in (("start_interval", self.start_interval), ("end_interval", self.end_interval)):
            if interval is not None:
                values[name] = [round(time, 4) for time in interval]
        if self.alternatives:
            values["alternatives"] = [{"phone": phone, "posterior": round(p, 4)} for phone, p in self.alternatives]
        if self.goodness:
            score, probability, instead, log_odds, rating, not_told, contrasts = self.goodness
            values |= {"score": round(score, 4), "probability": round(probability, 4)}
            values["said_instead"] = [{"phones": phones, "probability": round(p, 4)} for phones, p in instead]
            values |= {} if rating is None else {"rating": round(rating, 3)}
            values |= {"not_told_from": list(not_told)} if not_told else {}
            values |= {"contrasts": {other: round(p, 4) for other, p in contrasts}} if contrasts else {}
            values |= {"log_odds": {name: round(value, 2) for name, value in log_odds}} if log_odds else {}
        return values

    def moved(self, start: float, end: float) -> Segment:
        """Return the segment at other times; its intervals reach to them."""
        edges = (self.start_interval, start), (self.end_interval, end)
        before, after = (inner and (min(inner[0], time), max(inner[1], time)) for inner, time in edges)
        return self._replace(start=start, end=end, start_interval=before, end_interval=after)

    def renamed(self, symbols: Mapping[str, str]) -> Segment:
        """Return the segment with its phones written as other symbols; those without one stay as they are."""
        named = tuple((symbols.get(phone, phone), p) for phone, p in self.alternatives)
        found = self._replace(phone=symbols.get(self.phone, self.phone), alternatives=named)
        if not self.goodness:
            return found
        heard = self.goodness.said_instead
        instead = tuple((" ".join(symbols.get(each, each) for each in text.split()), p) for text, p in heard)
        log_odds = tuple((symbols.get(name, name), value) for name, value in self.goodness.log_odds)
        not_told = tuple(symbols.get(each, each) for each in self.goodness.not_told)
        contrasts = tuple((symbols.get(other, other), p) for other, p in self.goodness.contrasts)
        own = self.goodness._replace(said_instead=instead, log_odds=log_odds, not_told=not_told, contrasts=contrasts)
        return found._replace(goodness=own)


@dataclass(frozen=True)
class FrameClock:
    """The times of the net's output frames.

    Attributes
    ----------
    step : float
        Seconds from one frame to the next.
    half : float
        Half of the analysis window: the time of frame 0.
    """

    step: float
    half: float

    @classmethod
    def of(cls, features: FeatureConfig, model: ModelConfig) -> FrameClock:
        """Return the clock of a model."""
        shift = extractor(features).shift / features.sample_rate
        return cls(shift * model.time_stride, features.window_ms * 0.0005)

    def seconds(self, position: float) -> float:
        """Return the time of a frame; a fraction is between two frames."""
        return position * self.step + self.half

    def frame(self, seconds: float) -> int:
        """Return the first frame whose time is not before a time; 0 where all are after it."""
        return max(math.ceil((seconds - self.half) / self.step), 0)


@dataclass
class _Spike:
    """A run of frames of one phone: its position, and the log posteriors of its first, last and peak frame."""

    label: int
    first: int
    last: int
    rise: Rows
    fall: Rows
    peak: Rows
    silent: bool
    start: float = 0.0

    @classmethod
    def of(cls, label: int, first: int, rows: Rows, silent: bool) -> _Spike:
        """Return a spike with its first rows."""
        peak = rows[rows[:, label].argmax()]
        return cls(label, first, first + len(rows) - 1, rows[0], rows[-1], peak, silent)

    def extend(self, rows: Rows) -> None:
        """Append the next rows."""
        self.last += len(rows)
        self.fall = rows[-1]
        best = rows[rows[:, self.label].argmax()]
        if best[self.label] > self.peak[self.label]:
            self.peak = best


class Segments(Packed[Segment]):
    """Phones of an alignment, in little memory."""

    form = "=i7d"

    def __init__(self, items: Iterable[Segment] = ()) -> None:
        self._labels: list[str] = []
        self._numbers: dict[str, int] = {}
        self._more: dict[int, tuple[Any, ...]] = {}  # alternatives and goodness, of those that have some
        super().__init__(items)

    def pack(self, place: int, item: Segment) -> tuple[float, ...]:
        """Return the numbers of a phone."""
        number = self._numbers.setdefault(item.phone, len(self._labels))
        if number == len(self._labels):
            self._labels.append(item.phone)
        self._more.pop(place, None)
        if item.alternatives or item.goodness:
            self._more[place] = item.alternatives, item.goodness
        edges = item.start_interval or NO_INTERVAL, item.end_interval or NO_INTERVAL
        return number, *item[1:4], *edges[0], *edges[1]

    def unpack(self, place: int, numbers: tuple[Any, ...]) -> Segment:
        """Return a phone."""
        number, start, end, confidence, *edges = numbers
        alternatives, goodness = self._more.get(place, ((), None))
        before, after = (None if math.isnan(edges[k]) else (edges[k], edges[k + 1]) for k in (0, 2))
        return Segment(self._labels[number], start, end, confidence, alternatives, goodness, before, after)


class Segmenter:
    """Finds the phones of a recording in log posteriors, which may come in blocks.

    Parameters
    ----------
    inventory : Inventory
    clock : FrameClock
    calibration : Calibration
    alternatives : int
        Number of other phones to name for each phone.
    """

    def __init__(
        self, inventory: Inventory, clock: FrameClock, calibration: Calibration, alternatives: int = 0
    ) -> None:
        self.clock = clock
        self.inventory, self._calibration = inventory, calibration
        self._alternatives = min(alternatives, len(inventory.phones) - 1)
        self._reach = math.ceil(REACH / clock.step)
        self._frames = 0
        self._ends_early = SILENCES.isdisjoint(inventory.phones)  # a label of silence would fill a pause
        self._spike: _Spike | None = None
        # log posteriors of the blank frames since the spike; of many frames, the first and the last
        self._gap: Rows = np.zeros((0, len(inventory.phones) + 1), np.float32)

    def push(self, log_probs: Rows, path: NDArray[np.signedinteger] | None = None) -> Iterator[Segment]:
        """Yield the phones that the next frames complete.

        Parameters
        ----------
        log_probs : ndarray, shape = (n_frames, classes), float32
            Log posteriors.
        path : ndarray, shape = (n_frames,), optional
            The class of each frame; the most probable by default.
        """
        if not len(log_probs):
            return
        path = log_probs.argmax(axis=1) if path is None else path
        edges = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
        for a, b in pairwise(edges):
            label, rows = int(path[a]), log_probs[a:b]
            if label == BLANK:
                yield from self._blanks(rows)
            elif self._spike and self._spike.label == label and not len(self._gap):  # the edge of a block cut the spike
                self._spike.extend(rows)
            else:
                yield from self._next(label, rows)
            self._frames += b - a

    def finish(self, seconds: float) -> Iterator[Segment]:
        """Yield the last phone of a recording of this length."""
        last = self._spike
        if last is not None:
            yield self._segment(last, min(seconds if last.silent else self._edge(last), seconds))

    def _edge(self, spike: _Spike) -> float:
        """Return the end of a phone before a pause."""
        return self._time(spike.last + EDGE / self.clock.step)

    def _blanks(self, rows: Rows) -> Iterator[Segment]:
        """Append frames after a spike; in a pause, yield its phone."""
        if self._spike is None:
            return
        gap, within = np.concatenate([self._gap, rows]), self._reach
        if len(gap) <= 2 * within:
            self._gap = gap
        elif self._ends_early:
            yield self._segment(self._spike, self._edge(self._spike))
            self._spike, self._gap = None, gap[:0]
        else:
            self._gap = np.concatenate([gap[:within], gap[-within:]])

    def _next(self, label: int, rows: Rows) -> Iterator[Segment]:
        """Start a phone, and yield the previous one."""
        spike = _Spike.of(label, self._frames, rows, self.inventory.phones[label - 1] in SILENCES)
        left = self._spike
        if left is None:
            spike.start = 0.0 if spike.silent else self._time(spike.first - EDGE / self.clock.step)
        else:
            end, spike.start = map(self._time, self._between(left, spike))
            yield self._segment(left, end)
        self._spike, self._gap = spike, self._gap[:0]

    def _between(self, left: _Spike, right: _Spike) -> tuple[float, float]:
        """Return the end of a phone and the start of the next, in frames; they are equal except around a pause."""
        pause = right.first - left.last - 1 > len(self._gap)
        if pause and not left.silent and not right.silent:
            edge = EDGE / self.clock.step
            return left.last + edge, right.first - edge
        boundary = self._boundary(left, right)
        if not left.silent:
            boundary = min(boundary, left.last + self._reach)
        if not right.silent:
            boundary = max(boundary, right.first - self._reach)
        return boundary, boundary

    def _boundary(self, left: _Spike, right: _Spike) -> float:
        """Return the boundary between two phones, in frames of the recording."""
        rows = np.concatenate([left.fall[None], self._gap, right.rise[None]])
        place = change_point(rows, left.label, right.label)
        cut_out = right.first - left.last - 1 - len(self._gap)
        if place > len(rows) / 2:
            place += cut_out
        elif left.label == right.label:
            place += cut_out / 2
        return float(np.clip(left.last + place, left.last + MARGIN, right.first - MARGIN))

    def _time(self, position: float) -> float:
        return max(self.clock.seconds(position) + self._calibration.shift, 0.0)

    def _segment(self, spike: _Spike, end: float) -> Segment:
        peak = np.exp(spike.peak.astype(np.float64))
        others = [k for k in np.argsort(-peak)[: self._alternatives + 2] if k not in (BLANK, spike.label)]
        phones, confidence = self.inventory.phones, self._calibration.probability(float(peak[spike.label]))
        alternatives = tuple((phones[k - 1], float(peak[k])) for k in others[: self._alternatives] if peak[k])
        return Segment(phones[spike.label - 1], min(spike.start, end), end, confidence, alternatives)


def change_point(rows: Rows, left: int, right: int) -> float:
    """Return the position where frames change from one class to another.

    Parameters
    ----------
    rows : ndarray, shape = (n_frames, classes)
        Log posteriors; the first row belongs to `left`, the last to `right`.
    left, right : int
        The classes.

    Returns
    -------
    float
        In rows from the first. It maximises the sum of ``log p(left)`` of the rows before it and ``log p(right)`` of
        the rows after it; between these two rows, it is where both are equal by linear interpolation. Half way if the
        classes are the same.
    """
    if left == right:
        return (len(rows) - 1) / 2
    contrast = rows[:, left].astype(np.float64) - rows[:, right]
    last = int(np.cumsum(contrast)[:-1].argmax())
    fall, rise = contrast[last], contrast[last + 1]
    return last + (min(max(fall / (fall - rise), 0.0), 1.0) if fall > rise else 0.5)


def lasting(segments: Sequence[Segment], shortest: float, begin: float, end: float) -> Iterator[Segment]:
    """Yield segments of which each has a duration, in order and within a span; those that do are as they were.

    A segment that is too short gets its time from the ones after it, or at the end from the ones before it.

    Parameters
    ----------
    segments : sequence of Segment
        In order.
    shortest : float
        Least duration, seconds; less where the span is too short for so many.
    begin, end : float
        The span, seconds.
    """
    shortest = max(min(shortest, (end - begin) / max(len(segments), 1)), 0.0)
    until = begin
    for left, segment in zip(range(len(segments), 0, -1), segments, strict=True):
        start = max(min(segment.start, end - left * shortest), until)
        until = max(min(segment.end, end - (left - 1) * shortest), start)
        if until - start < shortest - 1e-9:
            until = min(start + shortest, end)
        yield segment.moved(start, until)
