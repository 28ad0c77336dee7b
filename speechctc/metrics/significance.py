"""Whether two systems differ by more than chance: paired tests on the same utterances.

References
----------
.. [1] L. Gillick and S. J. Cox, "Some statistical issues in the comparison of speech recognition algorithms", ICASSP
   1989: the matched-pairs test. Its segments are whole utterances here.
.. [2] M. Bisani and H. Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004:
   the paired bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.metrics.per import DRAWS, draw_rates, groups_of

LEVEL = 0.05


@dataclass(frozen=True)
class PairedTest:
    """The difference of two systems on the same utterances.

    Attributes
    ----------
    difference : float
        PER of the second system minus that of the first, in points; negative: the second is better.
    low, high : float
        95 % interval of the difference by the paired bootstrap.
    over : str
        What was resampled: ``"speakers"``, or ``"utterances"`` where fewer than 3 speakers are known.
    p_bootstrap : float
        Two-sided: twice the share of draws on the other side of 0.
    p_matched_pairs : float
        Two-sided, by the matched-pairs test.
    utterances : int
    """

    difference: float
    low: float
    high: float
    over: str
    p_bootstrap: float
    p_matched_pairs: float
    utterances: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        return asdict(self) | {"is_significant": self.is_significant}

    def to_text(self) -> str:
        """Return the difference and the tests as text."""
        said = "they differ" if self.is_significant else "chance may explain it"
        interval = f"95 % interval {self.low:+.2f} to {self.high:+.2f}, drawn over {self.over}"
        return (
            f"{self.difference:+.2f} points ({interval});"
            f" p = {self.p_bootstrap:.3g} by the bootstrap, {self.p_matched_pairs:.3g} by matched pairs: {said}"
        )

    @property
    def is_significant(self) -> bool:
        """Return whether both tests say that the systems differ, at the 5 % level."""
        return self.p_bootstrap < LEVEL and self.p_matched_pairs < LEVEL


def compare_errors(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    phones: NDArray[np.float64],
    speakers: Sequence[str],
    seed: int = 0,
) -> PairedTest:
    """Compare the errors of two systems.

    Parameters
    ----------
    first, second : ndarray, shape = (n_utterances,)
        Errors of each system; means over several runs may be fractions.
    phones : ndarray, shape = (n_utterances,)
        Reference phones.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    seed : int
    """
    over = groups_of(speakers)
    groups = np.unique(np.asarray(speakers), return_inverse=True)[1] if over == "speakers" else np.arange(len(first))
    sums = np.stack([np.bincount(groups, weights=each) for each in (second - first, phones)], axis=1)
    differences = draw_rates(sums, seed)
    low, high = np.percentile(differences, [2.5, 97.5]) if len(differences) else (0.0, 0.0)
    below, above = (float(np.mean(side)) if len(differences) else 1.0 for side in (differences <= 0, differences >= 0))
    total = 100 * float((second - first).sum()) / max(float(phones.sum()), 1.0)
    p = min(1.0, 2 * max(min(below, above), 0.5 / DRAWS))
    return PairedTest(total, float(low), float(high), over, p, matched_pairs(first, second), len(first))


def matched_pairs(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of Gillick and Cox's matched-pairs test [1]_, with utterances as segments.

    ``W = mean(Z) / (std(Z) / sqrt(n))`` of the differences Z of errors is standard normal if the systems are alike.
    """
    differences = np.asarray(second - first, dtype=np.float64)
    if len(differences) < 2 or not differences.any():
        return 1.0
    deviation = float(differences.std(ddof=1))
    if deviation == 0:
        return 0.0
    return math.erfc(abs(float(differences.mean())) / (deviation / math.sqrt(len(differences))) / math.sqrt(2))
