"""Find the weight, the bonus and the LSTM's share with the fewest errors on labelled recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import Config
from speechctc.decoding.search import Rows, best_labels, collapse
from speechctc.lm.model import LanguageModel, Sequences
from speechctc.lm.rescore import Ranker, choose_search
from speechctc.ngram.automaton import PhoneLM
from speechctc.ngram.trie import Reals

Counts = NDArray[np.int64]

WEIGHTS, BONUSES = (0.2, 0.5, 0.8, 1.1, 1.4), (0.0, 1.0, 2.0, 3.0)
SHARES = (0.25, 0.5, 0.75)
FINE = (-0.15, -0.075, 0.0, 0.075, 0.15)  # around the best weight; four times as far for bonuses
RESAMPLES = 2000


class Point(NamedTuple):
    """Settings of the search."""

    weight: float
    bonus: float
    share: float


@dataclass(frozen=True)
class Speech:
    """The log posteriors of a recording, and a function that counts errors.

    Attributes
    ----------
    log_probs : ndarray, shape = (n_frames, classes)
    errors : callable
        Maps labels to the number of edits between them and the reference.
    """

    log_probs: Rows
    errors: Callable[[Sequence[int]], int]


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


def coarse_points(shares: Sequence[float]) -> Iterator[list[Point]]:
    """Yield the first points to try, those of one weight and bonus together."""
    for weight in WEIGHTS:
        for bonus in BONUSES:
            yield [Point(weight, bonus, share) for share in shares]


def fine_points(best: Point, shares: Sequence[float]) -> Iterator[list[Point]]:
    """Yield points around the best, those of one weight and bonus together."""
    near = {round(best.share + step, 3) for step in (-0.125, 0.0, 0.125)} if len(shares) > 1 else {best.share}
    for step in FINE:
        for other in FINE:
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
    draws = np.random.default_rng(0).integers(len(errors), size=(RESAMPLES, len(errors)))
    difference = errors if other is None else errors - other
    low, high = np.percentile(100 * difference[draws].sum(1) / np.maximum(phones[draws].sum(1), 1), [2.5, 97.5])
    return float(low), float(high)
