"""Rank the utterances of a corpus by how far their labels' score lies under that of what a model hears instead."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speechctc.config.schema import Config
from speechctc.core.errors import InputError, some
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import SPLITS, Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.inference.batch_decode import map_in_threads
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.samples import opened
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import Logits
from speechctc.inference.suspects import Doubt, Place, doubt

COLUMNS = (
    *("rank", "id", "split", "speaker", "audio", "channel", "score", "per_phone", "start", "end"),
    *("labels_there", "heard_there", "labels", "heard"),
)
SHOWN = 6  # phones of a place, in the lines for people
AROUND = 0.15  # s; shown before and after a place where something is missing


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
    def score(self) -> float:
        """Return the largest gain of a place, nats: 0 where labels and what was heard agree, inf if labels cannot fit.

        One wrong word in a long utterance ranks as high as in a short one.
        """
        if math.isinf(self.doubt.labels):
            return math.inf
        return max((place.gain for place in self.doubt.places), default=0.0)

    def span(self, place: Place) -> tuple[float, float]:
        """Return from when to when a place lasts, in seconds, by the times of what was heard."""
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
        numbers = (f"{value:.3f}" for value in (self.score, self.doubt.per_phone, start, end))
        phones = " ".join(segment.phone for segment in self.heard)
        known = (str(rank), one.id, self.split, one.speaker, str(one.audio), str(one.channel or ""))
        return [*known, *numbers, said, heard, " ".join(one.phones), phones]


@dataclass(frozen=True)
class Checked:
    """The utterances, the most doubtful first, and those that could not be checked with the reasons."""

    suspects: tuple[Suspect, ...]
    skipped: tuple[tuple[str, str], ...]

    def to_tsv(self) -> str:
        """Return the table of all utterances."""
        out = io.StringIO()
        writer = csv.writer(out, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
        writer.writerow(COLUMNS)
        for rank, suspect in enumerate(self.suspects, start=1):
            writer.writerow([" ".join(value.split()) for value in suspect.row(rank)])
        return out.getvalue()

    def to_text(self, most: int = 10) -> str:
        """Return the first suspects for people."""
        lines = [f"{len(self.suspects)} utterances checked; the most doubtful first, by nats:"]
        for suspect in self.suspects[:most]:
            if suspect.score <= 0:
                break
            said, heard = (some(text.split(), SHOWN) for text in suspect.words(suspect.doubt.places[0]))
            start, end = suspect.span(suspect.doubt.places[0])
            where = f"{start:.2f} to {end:.2f} s: labels [{said}], heard [{heard}]"
            lines.append(f"  {suspect.score:7.1f}  {suspect.utterance.id}  {where}")
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
    with reporter.progress("checking labels", len(members)) as advance:
        for (_, utterance), result in zip(members, results, strict=True):
            advance(1)
            if isinstance(result, InputError):
                skipped.append((utterance.id, result.what))
            else:
                suspects.append(result)
    if not suspects:
        fix = "use a model with the phones of this corpus, such as one that was trained on it: --model DIR"
        raise InputError(f"none of {len(members)} utterances can be checked; the first: {skipped[0][1]}", fix)
    ranked = sorted(suspects, key=lambda each: (-each.score, -each.doubt.per_phone, each.utterance.id))
    return Checked(tuple(ranked), tuple(skipped))


def listen(recogniser: Recogniser, utterance: Utterance) -> tuple[Logits, tuple[Segment, ...], float]:
    """Return the logits of an utterance, what was heard in it, and its seconds.

    Raises
    ------
    InputError
        The recording cannot be read, or is shorter than one frame.
    """
    rate = recogniser.config.features.sample_rate
    with opened(utterance.audio, None, utterance.channel, rate) as (name, blocks):
        parts = list(recogniser.logit_blocks(blocks))
        seconds = blocks.seconds
    if not sum(map(len, parts)):
        raise InputError(f"{name}: {1000 * seconds:.0f} ms is shorter than one frame", "leave it out")
    logits = np.concatenate(parts)
    return logits, tuple(recogniser.segments_of(logits, seconds)), seconds


def _suspect(recogniser: Recogniser, split: str, utterance: Utterance) -> Suspect:
    labels = recogniser.inventory.encode(utterance.phones)
    logits, heard, seconds = listen(recogniser, utterance)
    classes = recogniser.inventory.encode(segment.phone for segment in heard)
    return Suspect(utterance, split, doubt(logits, labels, classes), heard, seconds)
