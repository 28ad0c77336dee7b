"""Tune the weight, the bonus and the LSTM's share: fewest errors on dev."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.config.load import with_settings
from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.core.parallel import map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.inference.recogniser import Recogniser
from speechctc.lm.model import LanguageModel, PhoneLM, Sequences
from speechctc.lm.ngram import Reals
from speechctc.lm.search import Ranker, Rows, best_labels, choose_search, collapse
from speechctc.metrics.per import edit_counts
from speechctc.metrics.reliability import draw_rates, few_of, known_speakers
from speechctc.phones.folding import Folding, choose_folding
from speechctc.stages.split_scoring import HEARD, keep_dev, sound_of

Counts = NDArray[np.int64]
WEIGHTS, BONUSES = (0.2, 0.5, 0.8, 1.1, 1.4), (0.0, 1.0, 2.0, 3.0)
SHARES = (0.25, 0.5, 0.75)
FINE = (-0.15, -0.075, 0.0, 0.075, 0.15)  # around the best weight; four times as far for bonuses


class Point(NamedTuple):
    """Settings of the search."""

    weight: float
    bonus: float
    share: float


@dataclass(frozen=True)
class Tuning:
    """The results of tuning.

    Attributes
    ----------
    errors : dict of Point to ndarray, shape = (n_utterances,)
    without : ndarray, shape = (n_utterances,)
        Errors without a language model.
    beam : int
        The beam of the search.
    phones : ndarray, shape = (n_utterances,)
        Number of phones in each reference.
    best : Point
    speakers : int or None
        None: not all are known.
    """

    errors: dict[Point, Counts]
    without: Counts
    beam: int
    phones: Counts
    best: Point
    speakers: int | None

    def per(self, point: Point) -> float:
        """Return the phone error rate, in per cent."""
        return 100.0 * int(self.errors[point].sum()) / max(int(self.phones.sum()), 1)

    def to_text(self) -> str:
        """Return the best weight, bonus and share, and what they gain."""
        (low, high), (less, least) = self._intervals()
        without = 100.0 * int(self.without.sum()) / max(int(self.phones.sum()), 1)
        share = f", share of the LSTM {self.best.share:g}" if len({point.share for point in self.errors}) > 1 else ""
        lines = [
            f"best: weight {self.best.weight:g}, bonus {self.best.bonus:g}{share}:"
            f" PER {self.per(self.best):.2f} % (95 % interval over utterances {low:.2f} to {high:.2f})",
            f"without a language model {without:.2f} %; the difference is {less:+.2f} to {least:+.2f}",
        ]
        if few := few_of(int(self.phones.sum()), self.speakers):
            lines.append(f"not reliable: this choice is based on {few}; another may be as good for other speakers")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        interval_of_best, difference = self._intervals()
        return {
            "lm_weight": self.best.weight,
            "lm_bonus": self.best.bonus,
            "lm_share": self.best.share,
            "beam": self.beam,
            "per": round(self.per(self.best), 4),
            "interval": [round(value, 4) for value in interval_of_best],
            "less_without": [round(value, 4) for value in difference],
            "utterances": len(self.phones),
            "tried": [[*point, round(self.per(point), 4)] for point in sorted(self.errors)],
        }

    def _intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        errors = self.errors[self.best]
        return interval(errors, self.phones), interval(errors, self.phones, self.without)


def tune(recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter) -> Tuning:
    """Try weights, bonuses and shares on a split, first far apart, then around the best.

    Parameters
    ----------
    recogniser : Recogniser
        It has the language models to tune for.
    split : str
    overrides : sequence of str
        Settings that replace those of the model's config: another corpus, another folding.
    reporter : Reporter

    Raises
    ------
    InputError
        There is no language model, or nothing in the split can be decoded.
    """
    ngram, lstm = recogniser.checkpoint.lm, recogniser.lstm
    if ngram is None and lstm is None:
        raise InputError("the model has no language model to tune for", "name one with --lm")
    remembered = Remembered(lstm) if lstm is not None else None
    config = with_settings(recogniser.config, (HEARD, *overrides))
    speech, phones = split_speech(recogniser.configured(config), config, split, reporter)
    shares = SHARES if ngram is not None and lstm is not None else (float(ngram is None),)

    def tried(groups: Sequence[Sequence[Point]], what: str) -> dict[Point, Counts]:
        """Return the errors in each utterance at each point."""
        found: dict[Point, Counts] = {}
        for points in reporter.track(what, groups, len(groups)):
            work = partial(errors_at, points=points, ngram=ngram, lstm=remembered, config=config)
            counts = np.array(list(map_in_threads(work, speech)))
            found |= {point: counts[:, k] for k, point in enumerate(points)}
        return found

    (without,) = tried([[Point(0.0, 0.0, 0.0)]], "without").values()
    errors = tried(coarse_points(shares), "coarse")
    fine = [points for points in fine_points(best_point(errors), shares) if points[0] not in errors]
    errors |= tried(fine, "fine")
    speakers = known_speakers([each.speaker for each in speech])
    return Tuning(errors, without, config.decode.beam, phones, best_point(errors), speakers)


def split_speech(recogniser: Recogniser, config: Config, split: str, reporter: Reporter) -> tuple[list[Speech], Counts]:
    """Return the recordings of a split that can be read, and how many phones each has.

    Raises
    ------
    InputError
        The split is empty, or nothing in it can be decoded.
    """
    folding = choose_folding(config.score.fold, recogniser.inventory)
    corpus, notes = keep_dev(read_corpus(config.corpus, needed=split), config, recogniser.checkpoint, reporter)
    reporter.note(*notes)
    utterances = corpus.splits[split]
    if not utterances:
        raise InputError(f"the corpus has no {split} split, or nothing usable in it", "name another with --split")
    speech, phones = [], []
    results = map_in_threads(lambda each: recogniser.log_posteriors(**sound_of(each, recogniser)), utterances)
    pairs = reporter.track(f"reading {split}", zip(utterances, results, strict=True), len(utterances))
    for utterance, result in pairs:
        if isinstance(result, InputError):
            reporter.warn(f"left out: {result}")
        else:
            speech.append(Speech(result, partial(_errors, recogniser, folding, utterance), utterance.speaker))
            phones.append(len(folding.apply(utterance.phones)))
    if not sum(phones):
        raise InputError(f"{split}: no phones in what can be decoded of it", "name another with --split")
    return speech, np.array(phones)


def _errors(recogniser: Recogniser, folding: Folding, utterance: Utterance, labels: Sequence[int]) -> int:
    phones = recogniser.inventory.decode(labels)
    return edit_counts(folding.apply(utterance.phones), folding.apply(phones)).errors


@dataclass(frozen=True)
class Speech:
    """The log posteriors of a recording, and a function that counts errors.

    Attributes
    ----------
    log_probs : ndarray, shape = (n_frames, classes)
    errors : callable
        Maps labels to the number of edits between them and the reference.
    speaker : str
        ``""``: unknown.
    """

    log_probs: Rows
    errors: Callable[[Sequence[int]], int]
    speaker: str = ""


class Remembered:
    """A language model that remembers the scores of sequences."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm
        self._scores: dict[tuple[int, ...], float] = {}
        self.inventory, self.kind = lm.inventory, lm.kind
        self.begin, self.step = lm.begin, lm.step

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        keys = [tuple(labels) for labels in sequences]
        new = [key for key in dict.fromkeys(keys) if key not in self._scores]
        if new:
            self._scores |= dict(zip(new, self._lm.score(new).tolist(), strict=True))
        return np.array([self._scores[key] for key in keys])


def point_config(config: Config, point: Point) -> Config:
    """Return the config with the point's settings."""
    values: dict[str, Any] = {"lm_weight": point.weight, "lm_bonus": point.bonus, "lm_share": point.share}
    return config.model_copy(update={"decode": config.decode.model_copy(update={**values, "search": "auto"})})


def errors_at(
    speech: Speech, points: Sequence[Point], ngram: PhoneLM | None, lstm: LanguageModel | None, config: Config
) -> list[int]:
    """Return the errors in one recording, decoded with each of the points.

    All of them have one weight and one bonus: the search is done once, and ranked with each share.
    """
    hypotheses, found = None, []
    for point in points:
        ranker = Ranker(ngram, lstm, point_config(config, point))
        if ranker.lstm is None:
            search = choose_search(ngram, None, point_config(config, point), speech.log_probs.shape[1])
            return [speech.errors(best_labels(search, speech.log_probs))] * len(points)
        if hypotheses is None:
            hypotheses = [ranker.hypotheses(piece) for piece in ranker.pieces(speech.log_probs)]
        best = [ranker.ranked(piece)[0].path for piece in hypotheses]
        found.append(speech.errors(collapse(np.concatenate(best).tolist())))
    return found


def coarse_points(shares: Sequence[float]) -> list[list[Point]]:
    """Return the first points to try, those of one weight and bonus together."""
    return [[Point(*pair, share) for share in shares] for pair in product(WEIGHTS, BONUSES)]


def fine_points(best: Point, shares: Sequence[float]) -> Iterator[list[Point]]:
    """Yield points around the best, those of one weight and bonus together."""
    near = {round(best.share + step, 3) for step in (-0.125, 0.0, 0.125)} if len(shares) > 1 else {best.share}
    for step, other in product(FINE, FINE):
        weight, bonus = round(best.weight + step, 3), round(best.bonus + 4 * other, 3)
        if weight > 0:
            yield [Point(weight, bonus, share) for share in sorted(near)]


def best_point(errors: dict[Point, Counts]) -> Point:
    """Return the point with the fewest errors; of equal ones that with the lowest weight, bonus and share."""
    return min(errors, key=lambda point: (int(errors[point].sum()), point))


def interval(errors: Counts, phones: Counts, other: Counts | None = None) -> tuple[float, float]:
    """Return the 95 % bootstrap interval over utterances of an error rate, or of its difference to another's.

    Parameters
    ----------
    errors, phones : ndarray, shape = (n_utterances,)
        Phones are those of the references.
    other : ndarray, optional
        Errors to subtract.

    Returns
    -------
    low, high : float
        Per cent.
    """
    difference = errors if other is None else errors - other
    low, high = np.percentile(draw_rates(np.column_stack([difference, phones])), [2.5, 97.5])
    return float(low), float(high)
