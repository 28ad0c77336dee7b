"""Rank the utterances of a corpus by how far their labels' score lies under that of what a model hears instead.

How far the labels of an utterance score under what the model heard instead, and where. Both scores are the log
probabilities of CTC, summed over all paths (Graves et al. 2006, eq. 3), so that neither depends on an alignment. Where
the labels and what was heard differ, the labels are replaced by what was heard, one place at a time: the gain is by how
much the log probability rises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from speechctc.audio import sound_file
from speechctc.audio.tracks import number_of, track_of
from speechctc.config.schema import Config
from speechctc.core.errors import InputError, first_few, plural
from speechctc.core.parallel import map_in_threads
from speechctc.core.progress import Reporter
from speechctc.core.text_files import tsv
from speechctc.corpora.corpus import SPLITS, Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import Logits
from speechctc.lm.search import log_softmax
from speechctc.pages import timeline
from speechctc.pages.page import render_page
from speechctc.pages.timeline import Cell, Tier, Timeline, make_timeline
from speechctc.stages.report import studio_command
from speechctc.stages.split_scoring import sound_of, times_of_labels

Classes = Sequence[int]

COLUMNS = (
    "rank id split speaker audio track channel gain per_phone start end labels_there heard_there labels heard".split()
)
SHOWN = 6  # phones of a place, in the lines for people
AROUND = 0.15  # s; shown before and after a place where something is missing

RATE = 16000  # Hz, of the sound on the page
CLEAR = 3.0  # nats; the model says clearly that a place is not as labelled


@dataclass(frozen=True)
class Place:
    """A place where the labels and what was heard differ.

    Attributes
    ----------
    start, end : int
        The labels ``[start, end)``; empty where something was heard between labels.
    heard_start, heard_end : int
        What was heard there.
    gain : float
        By how much the log probability of the labels rises if they are replaced here by what was heard, nats.
    """

    start: int
    end: int
    heard_start: int
    heard_end: int
    gain: float


@dataclass(frozen=True)
class Doubt:
    """How doubtful the labels of an utterance are.

    Attributes
    ----------
    labels, heard : float
        Log probabilities of the labels, and of what was heard, nats; -inf where the labels do not fit into the frames.
    phones : int
        The larger number of phones of both.
    places : tuple of Place
        The places where they differ, the greatest gain first.
    """

    labels: float
    heard: float
    phones: int
    places: tuple[Place, ...]

    @property
    def per_phone(self) -> float:
        """Return by how much what was heard is more probable, nats per phone; inf for labels that do not fit."""
        return (self.heard - self.labels) / max(self.phones, 1)


def doubt(logits: NDArray[np.float32], labels: Classes, heard: Classes) -> Doubt:
    """Compare labels with what was heard.

    Parameters
    ----------
    logits : ndarray, shape = (n_frames, classes)
        At least one frame.
    labels, heard : sequence of int
        Classes of the phones; what was heard fits into the frames.
    """
    regions = _differences(labels, heard)
    versions = [list(labels), list(heard)]
    versions += [[*labels[:a], *heard[c:d], *labels[b:]] for a, b, c, d in regions]
    scores = _log_probabilities(logits, versions)
    places = [
        Place(*region, gain=score - scores[0] if np.isfinite(scores[0]) else float(score > scores[0]))
        for region, score in zip(regions, scores[2:], strict=True)
    ]
    ranked = sorted(places, key=lambda place: -place.gain)
    return Doubt(scores[0], scores[1], max(len(labels), len(heard)), tuple(ranked))


def _differences(labels: Classes, heard: Classes) -> list[tuple[int, int, int, int]]:
    """Return the places that differ in an alignment with the fewest edits; neighbouring edits are one place."""
    edits = groupby(Levenshtein.opcodes(list(labels), list(heard)), key=lambda edit: edit.tag != "equal")
    regions = [list(group) for differs, group in edits if differs]
    return [(each[0].src_start, each[-1].src_end, each[0].dest_start, each[-1].dest_end) for each in regions]


def _log_probabilities(logits: NDArray[np.float32], versions: Sequence[Classes]) -> list[float]:
    """Return the log probability of each sequence of classes; -inf where it does not fit."""
    log_probs, longest = log_softmax(logits.astype(np.float64)), max(map(len, versions))
    states = np.zeros((len(versions), 2 * longest + 1), np.int64)  # blanks, and phones between them
    for row, version in zip(states, versions, strict=True):
        row[1 : 2 * len(version) : 2] = version
    leaps = np.zeros(states.shape, bool)  # a blank between other phones may be left out
    leaps[:, 1:2] = True
    leaps[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]
    alpha = np.full((len(versions), states.shape[1] + 2), -np.inf)  # the first two stand before the sequence
    alpha[:, 1] = 0.0
    for row in log_probs:
        leap = np.where(leaps, alpha[:, :-2], -np.inf)
        alpha[:, 2:] = np.logaddexp(np.logaddexp(alpha[:, 2:], alpha[:, 1:-1]), leap) + row[states]
        alpha[:, :2] = -np.inf
    ends = 2 + 2 * np.array([len(version) for version in versions])
    at = np.arange(len(versions))
    last = np.where(ends > 2, alpha[at, ends - 1], -np.inf)
    return [float(each) for each in np.logaddexp(alpha[at, ends], last)]


@dataclass(frozen=True)
class Suspect:
    """An utterance, how doubtful its labels are, and what the model heard instead.

    Attributes
    ----------
    utterance : Utterance
    split : str
    doubt : Doubt
    heard : tuple of Segment
    seconds : float
        Length of the recording.
    """

    utterance: Utterance
    split: str
    doubt: Doubt
    heard: tuple[Segment, ...]
    seconds: float

    @property
    def gain(self) -> float:
        """Return the largest gain of a place, nats: 0 where labels and what was heard agree, inf if labels cannot fit.

        One wrong word in a long utterance ranks as high as in a short one.
        """
        if math.isinf(self.doubt.labels):
            return math.inf
        return max((place.gain for place in self.doubt.places), default=0.0)

    @property
    def begin(self) -> float:
        """When the utterance begins in its recording, in seconds."""
        return self.utterance.stretch[0] if self.utterance.stretch else 0.0

    def span(self, place: Place) -> tuple[float, float]:
        """Return from when to when a place of the utterance lasts, in seconds, by the times of what was heard."""
        there = self.heard[place.heard_start : place.heard_end]
        if there:
            return there[0].start, there[-1].end
        before, after = self.heard[: place.heard_start], self.heard[place.heard_end :]
        start = before[-1].end if before else 0.0
        end = after[0].start if after else self.seconds
        return max(start - AROUND, 0.0), min(end + AROUND, self.seconds)

    def words(self, place: Place) -> tuple[str, str]:
        """Return the labels of a place and what was heard there, as text."""
        heard = [segment.phone for segment in self.heard[place.heard_start : place.heard_end]]
        return " ".join(self.utterance.phones[place.start : place.end]), " ".join(heard)

    def row(self, rank: int) -> list[str]:
        """Return the values of `COLUMNS`."""
        one, places = self.utterance, self.doubt.places
        start, end = self.span(places[0]) if places else (0.0, self.seconds)
        said, heard = self.words(places[0]) if places else ("", "")
        times = (self.begin + start, self.begin + end)
        numbers = (f"{value:.3f}" for value in (self.gain, self.doubt.per_phone, *times))
        phones = " ".join(segment.phone for segment in self.heard)
        sound = (str(one.audio), *(str(each or "") for each in (track_of(one.channel), number_of(one.channel))))
        known = (str(rank), one.id, self.split, one.speaker, *sound)
        return [*known, *numbers, said, heard, " ".join(one.phones), phones]


@dataclass(frozen=True)
class Checked:
    """The utterances, the most doubtful first, and those that could not be checked with the reasons."""

    suspects: tuple[Suspect, ...]
    skipped: tuple[tuple[str, str], ...]

    def to_tsv(self) -> str:
        """Return the table of all utterances."""
        return tsv([COLUMNS, *(suspect.row(rank) for rank, suspect in enumerate(self.suspects, start=1))])

    def to_text(self, most: int = 10) -> str:
        """Return the first suspects for people."""
        lines = [f"{plural(len(self.suspects), 'utterance')} checked; the most doubtful first, by nats:"]
        for suspect in self.suspects[:most]:
            if suspect.gain <= 0:
                break
            said, heard = (first_few(text.split(), SHOWN) for text in suspect.words(suspect.doubt.places[0]))
            start, end = (suspect.begin + time for time in suspect.span(suspect.doubt.places[0]))
            where = f"{start:.2f} to {end:.2f} s: labels [{said}], heard [{heard}]"
            lines.append(f"  {suspect.gain:7.1f}  {suspect.utterance.id}  {where}")
        lines += [f"  not checked: {id}: {reason}" for id, reason in self.skipped[:most]]
        if len(self.skipped) > most:
            lines.append(f"  and {len(self.skipped) - most} more that could not be checked")
        return "\n".join(lines)


def check_labels(recogniser: Recogniser, config: Config, splits: Sequence[str], reporter: Reporter) -> Checked:
    """Check the labels of these splits of a config's corpus.

    Raises
    ------
    InputError
        There is no utterance, or none could be checked.
    """
    corpus = read_corpus(config.corpus)
    members = [(split, each) for split in SPLITS if split in splits for each in corpus.splits[split]]
    if not members:
        raise InputError(f"the corpus has no utterance in {' and '.join(splits)}", "name other splits with --split")
    suspects, skipped = [], []
    results = map_in_threads(lambda member: _suspect(recogniser, *member), members)
    pairs = reporter.track("checking labels", zip(members, results, strict=True), len(members))
    for (_, utterance), result in pairs:
        if isinstance(result, InputError):
            skipped.append((utterance.id, result.what))
        else:
            suspects.append(result)
    if not suspects:
        fix = "use a model with the phones of this corpus, such as one that was trained on it: --model DIR"
        raise InputError(f"none of {plural(len(members), 'utterance')} can be checked; the first: {skipped[0][1]}", fix)
    ranked = sorted(suspects, key=lambda each: (-each.gain, -each.doubt.per_phone, each.utterance.id))
    return Checked(tuple(ranked), tuple(skipped))


def listen(recogniser: Recogniser, utterance: Utterance) -> tuple[Logits, tuple[Segment, ...], float]:
    """Return the logits of an utterance, what was heard in it, and its seconds.

    Raises
    ------
    InputError
        The recording cannot be read, or is shorter than one frame.
    """
    with recogniser.opened(**sound_of(utterance, recogniser)) as (_, blocks):
        parts = list(recogniser.forward.in_blocks(blocks))
        seconds = blocks.seconds
    if not sum(map(len, parts)):
        raise InputError(f"{utterance.audio}: {1000 * seconds:.0f} ms is shorter than one frame", "leave it out")
    logits = np.concatenate(parts)
    return logits, tuple(recogniser.segments_of(logits, seconds)), seconds


def _suspect(recogniser: Recogniser, split: str, utterance: Utterance) -> Suspect:
    labels = recogniser.inventory.encode(utterance.phones)
    logits, heard, seconds = listen(recogniser, utterance)
    classes = recogniser.inventory.encode(segment.phone for segment in heard)
    return Suspect(utterance, split, doubt(logits, labels, classes), heard, seconds)


def suspects_page(checked: Checked, recogniser: Recogniser, most: int, reporter: Reporter) -> str:
    """Return a page with the `most` doubtful utterances, as HTML."""
    chosen = [suspect for suspect in checked.suspects if suspect.doubt.places][:most]
    tracked = enumerate(reporter.track("writing the page", chosen, len(chosen)))
    shown = [(suspect, _timeline(f"s{number}", suspect, recogniser)) for number, suspect in tracked]
    values = {"suspects": shown, "model": recogniser.about, "checked": len(checked.suspects), "clear": CLEAR}
    values |= {"infinity": math.inf, "studio_command": studio_command}
    return render_page("suspects.html", "Doubtful labels", values, [timeline.STYLE], [timeline.SCRIPT])


def _timeline(id: str, suspect: Suspect, recogniser: Recogniser) -> Timeline:
    one = suspect.utterance
    samples, _ = sound_file.read(one.audio, RATE, one.channel, one.stretch)
    doubts = {k: place for place in suspect.doubt.places for k in range(place.heard_start, place.heard_end)}
    heard = (_cell(each.start, each.end, each.phone, doubts.get(k)) for k, each in enumerate(suspect.heard))
    tiers = [Tier("heard", tuple(heard))]
    times = times_of_labels(one, recogniser)  # by the corpus, else by alignment
    if one.phones and times is not None and len(times) == len(one.phones):
        doubts = {k: place for place in suspect.doubt.places for k in range(place.start, place.end)}
        labels = (_cell(*times[k], phone, doubts.get(k)) for k, phone in enumerate(one.phones))
        tiers.insert(0, Tier("labels", tuple(labels)))
    return make_timeline(id, one.id, samples, RATE, tiers)


def _cell(start: float, end: float, phone: str, place: Place | None) -> Cell:
    about = f"{phone}, {start:.2f} to {end:.2f} s"
    if place is None:
        return Cell(start, end, phone, "plain", about)
    about += f"; labels and what was heard differ here, by {place.gain:.1f} nats"
    return Cell(start, end, phone, "substituted" if place.gain >= CLEAR else "doubtful", about)
