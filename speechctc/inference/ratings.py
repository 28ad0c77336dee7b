"""Raters' scores of phones, predicted from the odds of all substitutions by ridge regression.

Each phone has weights of its own: those of all phones together, and a correction from its own ratings. What raters mark
is above all what was said instead, which no single score tells (vectors in place of a scalar: Hu et al. 2015, Speech
Communication 67, https://doi.org/10.1016/j.specom.2014.12.008).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.inference.segmenter import OMITTED, PhoneScore

FILE, FORMAT = "ratings.json", 1
MOST = 20.0  # log odds beyond which they tell no more, nats
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # of the squared weights; the best one is taken
FOLDS = 5  # of speakers, each rated by what the others taught

Array = NDArray[np.float64]


class Ratings:
    """What predicts the rating of each phone.

    Parameters
    ----------
    phones : sequence of str
        Of the model.
    weights : mapping of str to ndarray
        By phone, as `features` has its columns; phones without ratings have those of all, ``""``.
    """

    def __init__(self, phones: Sequence[str], weights: Mapping[str, Array]) -> None:
        self.phones, self.weights = tuple(phones), dict(weights)

    @classmethod
    def learn(cls, phones: Sequence[str], said: Sequence[str], values: Array, rated: Array, penalty: float) -> Ratings:
        """Learn from `features` of phones `said`, shape (n, columns), and their ratings, (n,)."""
        weights = {"": _ridge(values, rated, penalty)}
        left = rated - values @ weights[""]
        for phone in set(said):
            own = np.array([each == phone for each in said])
            weights[phone] = weights[""] + _ridge(values[own], left[own], penalty)
        return cls(phones, weights)

    def predict(self, said: Sequence[str], values: Array) -> Array:
        """Return ratings of phones, shape (n,)."""
        every = self.weights[""]
        return np.array([row @ self.weights.get(phone, every) for phone, row in zip(said, values, strict=True)])

    def rate(self, phone: str, score: PhoneScore) -> float:
        """Return the rating of a phone."""
        return float(self.predict([phone], features(self.phones, [score]))[0])

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint's folder."""
        weights = {phone: [float(f"{value:.5g}") for value in each] for phone, each in self.weights.items()}
        files.write_json(folder / FILE, {"format": FORMAT, "phones": self.phones, "weights": weights})

    @classmethod
    def load(cls, folder: Path, phones: Sequence[str]) -> Ratings | None:
        """Read it from a checkpoint's folder; None if there is none.

        Raises
        ------
        InputError
            The file is damaged, of another version, or of other phones.
        """
        path = folder / FILE
        if not path.exists():
            return None
        try:
            values = files.read_json(path)
            weights = {str(phone): np.array(each, np.float64) for phone, each in values["weights"].items()}
            is_right = all(each.shape == (len(phones) + 4,) and np.isfinite(each).all() for each in weights.values())
            if values["format"] != FORMAT or values["phones"] != [*phones] or "" not in weights or not is_right:
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError):
            fix = "delete it; speechctc calibrate --ratings makes it again"
            raise InputError(f"{path}: not what this version knows of raters' scores", fix) from None
        return cls(phones, weights)


def features(phones: Sequence[str], scores: Sequence[PhoneScore]) -> Array:
    """Return what predicts ratings, (n, len(phones) + 4): 1, score, probability, the odds of omission and of phones."""
    columns = {name: k for k, name in enumerate((OMITTED, *phones), start=3)}
    found = np.zeros((len(scores), len(columns) + 3))
    for row, each in zip(found, scores, strict=True):
        row[:3] = 1.0, each.score, each.probability
        for name, value in each.log_odds:
            row[columns[name]] = np.clip(value, -MOST, MOST) / MOST
    return found


def cross_validated(
    phones: Sequence[str], speakers: Sequence[str], said: Sequence[str], values: Array, rated: Array
) -> tuple[float, Array]:
    """Return the best of `PENALTIES`, and the ratings of each speaker as the others teach them."""
    numbers = {name: k % FOLDS for k, name in enumerate(sorted(set(speakers)))}
    folds, best = np.array([numbers[each] for each in speakers]), (-np.inf, PENALTIES[0], rated)
    for penalty in PENALTIES:
        found = np.zeros(len(rated))
        for fold in range(FOLDS):
            others, own = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            known = Ratings.learn(phones, [said[k] for k in others], values[others], rated[others], penalty)
            found[own] = known.predict([said[k] for k in own], values[own])
        best = max(best, (-float(((found - rated) ** 2).mean()), penalty, found), key=lambda each: each[0])
    return best[1:]


def _ridge(values: Array, target: Array, penalty: float) -> Array:
    """Return the weights whose squared error and penalty is least; the first column, of ones, has a small one."""
    size = values.shape[1]
    costs = np.full(size, penalty)
    costs[0] = 1.0
    return np.asarray(np.linalg.solve(values.T @ values + np.diag(costs), values.T @ target))
