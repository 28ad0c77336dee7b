"""Calibration: from a posterior to the probability that a phone is right.

A well-trained net is usually overconfident [1]_. Platt scaling [2]_, a logistic regression of "this phone is right" on
the log odds of its posterior, corrects that with two numbers, for which a small dev split is enough.

References
----------
.. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks", ICML 2017: the
   expected calibration error is its equation 3.
.. [2] J. C. Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin Classifiers, 1999.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from speechctc.core import files
from speechctc.core.errors import InputError

FILE = "calibration.json"
FORMAT = 1
BINS = 15  # as in Guo et al.
TINY = 1e-6  # smallest distance of a posterior from 0 and 1
FOLDS = 5
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
        Expected calibration error on dev, from 0 to 1; `error_after` is by cross-validation with `FOLDS` folds.
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
        worse = "; too few phones to help: confidences are less right than before" if after > before else ""
        return (
            f"calibrated on {self.phones} phones, {100 * self.correct:.1f} % of them right ({self.protocol})\n"
            f"  expected calibration error {before:.1f} % before, {after:.1f} % after (cross-validated){worse}\n"
            f"  boundaries moved by {1000 * self.shift:+.1f} ms"
        )

    def save(self, folder: Path) -> None:
        """Write the calibration into a checkpoint's folder."""
        files.write_json(folder / FILE, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Calibration:
        """Read the calibration in a checkpoint's folder; without one, posteriors are not changed.

        Raises
        ------
        InputError
            The file is damaged, or of another version.
        """
        path = folder / FILE
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
            fix = "make it again with speechctc calibrate, or delete it"
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


def fit(posteriors: Floats, correct: Floats) -> tuple[float, float]:
    """Return slope and intercept of the logistic regression, by Newton's method.

    Parameters
    ----------
    posteriors, correct : ndarray, shape = (n,)
        Each phone's posterior, and 1 if it is right, else 0. As in Platt, the targets are not 0 and 1: one imagined
        phone of each kind is added, so that no phone becomes certain if all are right.
    """
    right = float(correct.sum())
    high, low = (right + 1) / (right + 2), 1 / (len(correct) - right + 2)
    targets = np.where(correct > 0, high, low)
    inputs = np.column_stack([log_odds(posteriors), np.ones(len(posteriors))])
    weights = np.array([1.0, 0.0])
    for _ in range(50):
        fitted = 1.0 / (1.0 + np.exp(-inputs @ weights))
        curvature = (inputs * (fitted * (1 - fitted))[:, None]).T @ inputs + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, inputs.T @ (targets - fitted))
        weights = weights + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return float(weights[0]), float(weights[1])


def cross_validated(posteriors: Floats, correct: Floats, utterances: NDArray[np.int64]) -> Floats:
    """Return each phone's probability, fitted on the phones of other utterances."""
    probabilities = np.zeros(len(posteriors))
    for fold in range(FOLDS):
        left_out = utterances % FOLDS == fold
        if left_out.any() and not left_out.all():
            slope, intercept = fit(posteriors[~left_out], correct[~left_out])
            probabilities[left_out] = Calibration(slope, intercept).probabilities(posteriors[left_out])
        elif left_out.all():
            probabilities[left_out] = posteriors[left_out]
    return probabilities


def expected_calibration_error(probabilities: Floats, correct: Floats) -> float:
    """Return the mean distance between probability and share of right phones, over 15 bins of equal width."""
    if not len(probabilities):
        return 0.0
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=probabilities - correct, minlength=BINS)
    return float(np.abs(gaps).sum() / len(probabilities))


def log_odds(probabilities: Floats) -> Floats:
    """Return ``log(p / (1 - p))``, finite for 0 and 1 too."""
    inside = np.clip(probabilities, TINY, 1 - TINY)
    return np.asarray(np.log(inside) - np.log1p(-inside))
