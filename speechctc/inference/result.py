"""The phones and words recognised or aligned in one recording, and stretches where it and its transcript do not fit."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.conditions import Conditions
from speechctc.core import files
from speechctc.core.errors import InputError, optional, plural
from speechctc.core.packed import Packed
from speechctc.inference.segmenter import Segment, Segments, lasting
from speechctc.phones.inventory import SILENCES
from speechctc.phones.marks import is_tone

WORDS_SHOWN = 6  # missing words to name

SHOWN = 12  # phones in the repr of a result
TICK = 0.002  # duration that a phone without any gets in a file of tiers, seconds: ELAN counts milliseconds
TOUCH = 0.05  # seconds between a phone and a tone that is its own
TIERS = ("words", "phones", "tones", "confidence")  # of ours: a tier of these names that was given gets another
PAUSE = 0.3  # seconds between two phones of a word that are named: 1 word of 1,272 in the sentences of 38 natives
POINT = 0.01  # shortest word or misfit in a TextGrid, seconds


class Variant(NamedTuple):
    """The pronunciation of a word that fits a recording best, where the word has several.

    Attributes
    ----------
    phones : str
    number, of : int
        Which it is, from 1, in the order in which they were given, and of how many.
    """

    phones: str
    number: int
    of: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.phones} ({self.number} of {self.of})"


class Word(NamedTuple):
    """A word in time.

    Attributes
    ----------
    word : str
        ``*`` for a stretch that the transcript leaves open.
    start, end : float
        Seconds from the recording's start.
    log_ratio : float
        How well the word fits: the log probability of its phones less that of the best classes, divided by the number
        of phones; at most 0.
    number : int
        Its number in the transcript, from 0; those of all alternatives are counted. -1 for an open stretch.
    score : float, optional
        The mean score of its phones, from 0 to 1, if these were scored.
    variant : Variant, optional
        The pronunciation that was taken, if there are several.
    """

    word: str
    start: float
    end: float
    log_ratio: float
    number: int
    score: float | None = None
    variant: Variant | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON output, times rounded to 0.1 ms."""
        return _rounded(self._asdict() | {"variant": self.variant and self.variant._asdict()})

    def renamed(self, symbols: Mapping[str, str]) -> Word:
        """Return the word with phones written as other symbols."""
        if self.variant is None:
            return self
        phones = " ".join(symbols.get(each, each) for each in self.variant.phones.split())
        return self._replace(variant=self.variant._replace(phones=phones))


class Words(Packed[Word]):
    """Words in little memory."""

    form = "=i3did"

    def __init__(self, items: Iterable[Word] = ()) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._variants: dict[int, Variant] = {}  # of words with several pronunciations
        super().__init__(items)

    def pack(self, place: int, item: Word) -> tuple[float, ...]:
        """Return the numbers of a word."""
        number = self._numbers.setdefault(item.word, len(self._texts))
        if number == len(self._texts):
            self._texts.append(item.word)
        self._variants.pop(place, None)
        if item.variant:
            self._variants[place] = item.variant
        return number, *item[1:5], math.nan if item.score is None else item.score

    def unpack(self, place: int, numbers: tuple[Any, ...]) -> Word:
        """Return a word."""
        text, start, end, ratio, number, score = numbers
        known = None if math.isnan(score) else score
        return Word(self._texts[text], start, end, ratio, number, known, self._variants.get(place))


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
        named = " ".join(texts[:WORDS_SHOWN]) + (" ..." if len(texts) > WORDS_SHOWN else "")
        parts.append(f"not found, {len(texts)} of its words or phones: {named}")
    return "; ".join(parts)


NOTHING_HEARD = "nothing was recognised: it may be silence, or only steady or faint sound"
LOG_PROBABILITY = "log probability"  # the tier that has it, one number for a whole recording


@dataclass(frozen=True, repr=False)
class Recognition:
    """The phones recognised or aligned in one recording.

    Attributes
    ----------
    file : str
        As the user named it.
    seconds : float
        Length of the recording.
    segments : sequence of Segment
        The phones in order, without overlap.
    log_probability : float, optional
        Of an alignment: the log probability of its path, divided by the number of phones.
    words : sequence of Word
        Of an alignment of words: the words in order.
    misfits : tuple of Misfit
        Of an alignment: where recording and transcript do not fit, if that was looked for.
    note : str
        What the user should know about how the result was found, or ``""``.
    is_unfit : bool
        The note says that most of the transcript is not heard, so that scores mean nothing.
    channel : Conditions, optional
        Through what the recording came, if the phones were scored.
    doubt : str
        Of an alignment that has to place all: which misfits there seem to be, or ``""``.
    about : str
        What the scores mean and what they do not judge, if the phones were scored.
    symbols : str
        The notation of the phones, as ``--symbols`` names it, if they were scored.
    show_intervals : bool
        A TextGrid has a tier of points for the intervals of the boundaries.
    intervals : tuple of Interval
        Those of a tier, if phones were recognised only inside of them.
    tier : str
        The name of this tier.
    is_dereverberated : bool
        The reverberation of a room was taken off first.
    """

    file: str
    seconds: float
    segments: Sequence[Segment]
    log_probability: float | None = None
    words: Sequence[Word] = ()
    misfits: tuple[Misfit, ...] = ()
    note: str = ""
    is_unfit: bool = False
    about: str = ""
    symbols: str = "own"
    show_intervals: bool = False
    intervals: tuple[Interval, ...] = ()
    tier: str = ""
    is_dereverberated: bool = False
    doubt: str = ""
    channel: Conditions | None = None

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones without times."""
        return tuple(segment.phone for segment in self.segments)

    @property
    def score(self) -> float | None:
        """The mean score of the phones, from 0 to 1; None where none was scored."""
        scores = [segment.goodness.score for segment in self.segments if segment.goodness]
        return sum(scores) / len(scores) if scores else None

    @property
    def rate(self) -> float | None:
        """Phones a second of speech, without pauses; None without phones."""
        spoken = [each for each in self.segments if each.phone not in SILENCES]
        seconds = sum(each.end - each.start for each in spoken)
        return len(spoken) / seconds if seconds > 0 else None

    @cached_property
    def pauses_inside(self) -> dict[Word, float]:
        """The words with `PAUSE` or more between two of their phones, and the seconds of the longest such stretch."""
        found = dict[Word, float]()
        for one, other in pairwise(self.segments if self.words else ()):
            gap = other.start - one.end
            if gap >= PAUSE and (word := self.word_of(one)) and word == self.word_of(other):
                found[word] = max(gap, found.get(word, 0.0))
        return found

    @property
    def pauses_text(self) -> str:
        """One line that counts the words of `pauses_inside` and names that with the longest; ``""`` for none."""
        found = self.pauses_inside
        if not found:
            return ""
        word = max(found, key=lambda each: found[each])
        first = f"{word.word}, {word.start:.2f} to {word.end:.2f} s: {found[word]:.1f} s"
        held = "1 word holds a pause" if len(found) == 1 else f"{len(found)} words hold a pause"
        return f"{held} (longest: {first}): listen whether its sounds stand on the right side of it"

    def word_of(self, segment: Segment) -> Word | None:
        """Return the word that a phone belongs to; None for a pause, or where there are no words."""
        middle = (segment.start + segment.end) / 2
        at = bisect_right(self.words, middle, key=lambda word: word.start) - 1
        return self.words[at] if at >= 0 and middle <= self.words[at].end and self.words[at].number >= 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON output, times rounded to 0.1 ms."""
        return {key: list(each) if isinstance(each, Iterator) else each for key, each in self.values().items()}

    def values(self) -> dict[str, Any]:
        """Return what `to_dict` does; iterators for the lists of phones, words and segments."""
        phones = (segment.phone for segment in self.segments)
        values: dict[str, Any] = {"file": self.file, "seconds": round(self.seconds, 6), "phones": phones}
        if self.is_dereverberated:
            values["is_dereverberated"] = True
        if self.log_probability is not None:
            values["log_probability"] = round(self.log_probability, 4)
        if self.intervals:
            values["intervals"] = [_rounded(each._asdict()) for each in self.intervals]
        if self.words:
            pauses = {word: {"pause_inside": round(gap, 4)} for word, gap in self.pauses_inside.items()}
            values["words"] = (word.to_dict() | pauses.get(word, {}) for word in self.words)
        if self.score is not None:
            values["score"] = round(self.score, 4)
        if self.about:
            values["about"] = self.about
            values |= {"symbols": self.symbols} if self.symbols != "own" else {}
            values |= {"phones_a_second": round(self.rate, 2)} if self.rate else {}
            values |= {"sound": self.channel.to_dict()} if self.channel else {}
            values |= {"note": self.note, "is_unfit": self.is_unfit} if self.note else {}
        if self.misfits:
            values["misfits"] = [_rounded(misfit._asdict()) for misfit in self.misfits]
        return values | {"segments": (segment.to_dict() for segment in self.segments)}

    def renamed(self, symbols: Mapping[str, str]) -> Recognition:
        """Return the result with phones written as other symbols; those without one stay as they are."""
        segments = Segments(each.renamed(symbols) for each in self.segments)
        return replace(self, segments=segments, words=Words(each.renamed(symbols) for each in self.words))

    def tiers(self, tones: bool = True) -> dict[str, list[Interval]]:
        """Return the tiers of annotation files: words, phones, and those with a value for each phone.

        With `tones`, those that are phones of the model have a tier of their own; each lasts as long as the phone
        before it, which reaches to the tone's end.
        """
        segments, apart = _without_tones(self.segments) if tones else (self.segments, [])
        if any(round(s.end, 4) <= round(s.start, 4) for s in segments):  # no tier holds them
            segments = tuple(lasting(segments, TICK, 0.0, self.seconds))

        def tier(labels: Iterable[str]) -> list[Interval]:
            pairs = zip(segments, labels, strict=True)
            return [Interval(round(s.start, 4), min(round(s.end, 4), self.seconds), label) for s, label in pairs]

        tiers = {"words": _tier([(w.start, w.end, w.word) for w in self.words], self.seconds)} if self.words else {}
        if self.intervals:
            tiers[f"{self.tier} (given)" if self.tier in TIERS else self.tier] = _tier(self.intervals, self.seconds)
        tiers["phones"] = tier(s.phone for s in segments)
        if apart:
            tiers["tones"] = _tier(apart, self.seconds)
        tiers["confidence"] = tier(f"{s.confidence:.2f}" for s in segments)
        for rank in range(max((len(s.alternatives) for s in segments), default=0)):
            named = [s.alternatives[rank] if rank < len(s.alternatives) else ("", 0.0) for s in segments]
            tiers[f"alternative {rank + 1}"] = tier(f"{phone} {p:.2f}" if phone else "" for phone, p in named)
        if any(s.goodness for s in segments):
            tiers["score"] = tier(f"{s.goodness.score:.2f}" if s.goodness else "" for s in segments)
            tiers["said instead"] = tier(s.goodness.instead if s.goodness else "" for s in segments)
        if any(s.contrast for s in segments):
            tiers["contrast"] = tier(s.contrast_text for s in segments)
        if self.misfits:
            texts = [(m.start, m.end, f"{m.kind}: {m.text}" if m.text else m.kind) for m in self.misfits]
            tiers["misfits"] = _tier(texts, self.seconds)
        if self.log_probability is not None:
            tiers[LOG_PROBABILITY] = [Interval(0.0, self.seconds, f"{self.log_probability:.4f}")]
        return tiers

    def to_textgrid(self, path: str | Path | None = None, overwrite: bool = False) -> str:
        """Return a Praat TextGrid: tiers of words, phones, confidences, alternatives, scores, misfits and others.

        Parameters
        ----------
        path : str or Path, optional
            Also write it to this file, in UTF-8.
        overwrite : bool
            Replace an existing file.

        Raises
        ------
        InputError
            The file exists already.
        """
        text = textgrid_text(self.seconds, self.tiers(), {"boundaries": self.points()} if self.show_intervals else {})
        if path is not None:
            if os.path.lexists(path) and not overwrite:
                raise InputError(f"{path}: exists already", "name another file, or give overwrite=True")
            files.write_text(Path(path), text)
        return text

    def points(self) -> list[Interval]:
        """Return a point for each boundary that has an interval, labelled with the two times of the interval."""
        found: dict[float, Interval] = {}
        for each in self.segments:
            for time, interval in ((each.start, each.start_interval), (each.end, each.end_interval)):
                if interval is not None:
                    at = min(round(time, 4), self.seconds)
                    found[at] = Interval(at, at, f"{interval[0]:.4f} {min(interval[1], self.seconds):.4f}")
        return [found[at] for at in sorted(found)]

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each phone: file, start, end, phone, confidence.

        Raises
        ------
        InputError
            pandas is not installed.
        """
        pandas = optional("pandas", "to_dataframe needs pandas, which is not installed", "pip install pandas")
        rows = [(self.file, s.start, s.end, s.phone, s.confidence) for s in self.segments]
        return pandas.DataFrame(rows, columns=["file", "start", "end", "phone", "confidence"])

    def __repr__(self) -> str:
        """Return a summary: the file, its length, the first phones."""
        phones = " ".join(self.phones[:SHOWN]) + (" ..." if len(self.phones) > SHOWN else "")
        score = "" if self.log_probability is None else f", log probability {self.log_probability:.2f}"
        count = plural(len(self.phones), "phone")
        return f"<Recognition of {self.file!r}, {self.seconds:.2f} s, {count}{score}: {phones}>"


def _without_tones(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], list[tuple[float, float, str]]]:
    """Return phones without tones, and the tones with the times of the phones that have them."""
    phones, tones = list[Segment](), list[tuple[float, float, str]]()
    for each in segments:
        if not is_tone(each.phone):
            phones.append(each)
            continue
        start = each.start
        if phones and each.start - phones[-1].end < TOUCH:
            phones[-1] = phones[-1]._replace(end=each.end, end_interval=each.end_interval)
            start = phones[-1].start
        if tones and start < tones[-1][1]:  # two of one phone
            start, _, label = tones.pop()
            tones.append((start, each.end, f"{label} {each.phone}"))
        else:
            tones.append((start, each.end, each.phone))
    return tuple(phones), tones


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Return values for JSON, rounded to 0.1 ms as all times are."""
    given = {key: value for key, value in values.items() if value is not None}
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in given.items()}


def _tier(entries: Iterable[tuple[float, float, str]], seconds: float) -> list[Interval]:
    """Return entries in order as intervals that do not overlap; one without duration gets `POINT` seconds."""
    intervals: list[Interval] = []
    for start, end, label in entries:
        if round(end, 4) - round(start, 4) < POINT:
            start, end = (start + end - POINT) / 2, (start + end + POINT) / 2
        start = round(max(start, intervals[-1].end if intervals else 0.0), 4)
        end = min(round(max(end, start + POINT / 10), 4), seconds)
        if start < end:
            intervals.append(Interval(start, end, label))
        elif intervals:  # no room behind the last
            last = intervals.pop()
            intervals.append(last._replace(label=f"{last.label}; {label}"))
    return intervals
