"""How far a phone error rate can be trusted: its confidence interval, and whether two systems differ.

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

from speechctc.core.errors import plural
from speechctc.metrics.per import EditCounts

MIN_PHONES = 500  # a score on fewer phones or speakers is not reliable
MIN_SPEAKERS = 3
DRAWS = 5000  # samples of the bootstrap
LEVEL = 0.05  # of the tests


@dataclass(frozen=True)
class Reliability:
    """The confidence interval of a phone error rate, and what it is based on.

    Attributes
    ----------
    low, high : float or None
        The 95 % confidence interval of the PER, per cent; None for fewer than two utterances.
    over : str
        What was resampled: ``"speakers"``, or ``"utterances"`` if there are fewer than 3 speakers or not all are known.
    speakers : int or None
        None if not all utterances have a known speaker.
    phones, utterances : int
    """

    low: float | None
    high: float | None
    over: str
    speakers: int | None
    phones: int
    utterances: int

    def to_text(self) -> str:
        """Return the interval and its basis as text, to print with a PER."""
        speakers = "speakers not known" if self.speakers is None else plural(self.speakers, "speaker")
        rests = f"{speakers}, {plural(self.utterances, 'utterance')}, {plural(self.phones, 'phone')}"
        if not self.interval:
            return f"no interval {'from one utterance' if self.phones else 'without phones'}; {rests}"
        return f"95 % interval {self.interval}, drawn over {self.over}; {rests}"

    @property
    def interval(self) -> str:
        """Return the bounds as text; ``""`` where there is none."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f} to {self.high:.1f}"

    @property
    def caution(self) -> str:
        """Return a warning if the PER is based on few phones or speakers; else ``""``."""
        basis = few_of(self.phones, self.speakers)
        if not basis or not self.phones:
            return ""
        return f"not reliable: this PER is based on {basis}; that of other speakers may be far outside the interval"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        return {
            "per_low": self.low,
            "per_high": self.high,
            "interval_over": self.over,
            "speakers": self.speakers,
            "caution": self.caution,
        }


def reliability(counts: Sequence[EditCounts], speakers: Sequence[str]) -> Reliability:
    """Estimate the confidence interval of a PER by the bootstrap.

    Speakers are resampled if there are at least 3, because utterances of one speaker are similar to each other [2]_;
    otherwise utterances. If there is no error, the upper end follows from the rule of three: 3 errors in all phones.

    Parameters
    ----------
    counts : sequence of EditCounts
        The counts of each utterance.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    """
    known = known_speakers(speakers)
    phones = sum(count.reference_phones for count in counts)
    low, high, over = bootstrap([(count.errors, count.reference_phones) for count in counts], speakers)
    return Reliability(low, high, over, known, phones, len(counts))


def bootstrap(sums: Sequence[tuple[float, int]], speakers: Sequence[str]) -> tuple[float | None, float | None, str]:
    """Return the 95 % interval of an error rate, per cent, and what was resampled; see `reliability`.

    Parameters
    ----------
    sums : sequence of (float, int)
        Errors and reference phones of each utterance.
    speakers : sequence of str
    """
    over = groups_of(speakers)
    groups: dict[str | int, list[float]] = {}
    for number, ((errors, phones), speaker) in enumerate(zip(sums, speakers, strict=True)):
        group = groups.setdefault(speaker if over == "speakers" else number, [0, 0])
        group[0] += errors
        group[1] += phones
    if len(groups) < 2 or not sum(phones for _, phones in sums):
        return None, None, over
    return *_interval(np.array(list(groups.values()))), over


def known_speakers(speakers: Sequence[str]) -> int | None:
    """Return the number of speakers; None if not all are known."""
    return len(set(speakers)) if "" not in speakers else None


def few_of(phones: int, speakers: int | None) -> str:
    """Return in words of what a score has too little to be reliable, phones or known speakers; else ``""``."""
    few = [f"{plural(phones, 'phone')} (below {MIN_PHONES})"] if phones < MIN_PHONES else []
    if speakers is None:
        few.append("unknown speakers")
    elif speakers < MIN_SPEAKERS:
        few.append(plural(speakers, "speaker"))
    return " and ".join(few)


def groups_of(speakers: Sequence[str]) -> str:
    """Return what is resampled: ``"speakers"`` if all are known and there are at least 3, else ``"utterances"``."""
    return "speakers" if "" not in speakers and len(set(speakers)) >= MIN_SPEAKERS else "utterances"


def _interval(sums: NDArray[Any]) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of the rate over bootstrap samples of rows (errors, phones)."""
    errors, phones = sums.sum(0)
    if not errors:
        return 0.0, min(300.0 / float(phones), 100.0)
    low, high = np.percentile(draw_rates(sums), [2.5, 97.5])
    return float(low), float(high)


def draw_rates(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rates of bootstrap samples of rows (errors, phones), per cent; without those that have no phones."""
    rng = np.random.default_rng(0)
    drawn = np.stack([sums[rng.integers(len(sums), size=len(sums))].sum(0) for _ in range(DRAWS)])
    drawn = drawn[drawn[:, 1] > 0]
    return np.asarray(100.0 * drawn[:, 0] / drawn[:, 1])


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
    first: NDArray[np.float64], second: NDArray[np.float64], phones: NDArray[np.float64], speakers: Sequence[str]
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
    """
    over = groups_of(speakers)
    groups = np.unique(np.asarray(speakers), return_inverse=True)[1] if over == "speakers" else np.arange(len(first))
    sums = np.stack([np.bincount(groups, weights=each) for each in (second - first, phones)], axis=1)
    differences = draw_rates(sums)
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
