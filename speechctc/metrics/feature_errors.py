"""The phone feature error rate: edits that cost as much as the features of the phones differ.

References
----------
.. [1] D. R. Mortensen et al., "PanPhon: a resource for mapping IPA segments to articulatory feature vectors", COLING
   2016; the costs are those of its ``feature_edit_distance``, and the rate that of its ``feature_error_rate``.
.. [2] C. Taguchi et al., "Universal automatic phonetic transcription into the International Phonetic Alphabet",
   Interspeech 2023: the phone feature error rate, PFER.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

from speechctc.core.errors import first_few, with_extra
from speechctc.metrics.edits import cheapest_edits
from speechctc.metrics.reliability import bootstrap
from speechctc.phones.articulation import ipa, is_arpabet, sounds_of
from speechctc.phones.inventory import SILENCES

Vector = tuple[int, ...]


@dataclass(frozen=True)
class FeatureScore:
    """The feature errors of utterances.

    Attributes
    ----------
    rate : float
        Per cent of the reference's segments.
    low, high : float or None
        Its 95 % interval, as of a PER.
    name, about : str
        The rate, and the features and costs, in words.
    """

    rate: float
    low: float | None
    high: float | None
    name: str = "PFER"
    about: str = "panphon's features; a phone deleted or inserted costs 0.5 to 1, by its features"

    def to_text(self) -> str:
        """Return the rate, its interval and its meaning in a line."""
        interval = "" if self.low is None else f" (95 % interval {self.low:.1f} to {self.high:.1f})"
        return f"{self.name} {self.rate:.2f} %{interval}: {self.about}"


def feature_score(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], speakers: Sequence[str], phones: Sequence[str]
) -> FeatureScore | str:
    """Score utterances by panphon's features [1]_ [2]_; silences are left out.

    Parameters
    ----------
    pairs : sequence of (sequence of str, sequence of str)
        References and hypotheses, as labelled.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    phones : sequence of str
        The phone set; it decides whether labels are read as ARPABET or IPA.

    Returns
    -------
    FeatureScore or str
        Why there is none: panphon is not installed, or labels have no known place in the IPA.
    """
    if not find_spec("panphon"):
        return f"no PFER: {with_extra('pfer')}"
    arpabet = is_arpabet(phones)
    labels = {*phones, *(label for reference, _ in pairs for label in reference)} - SILENCES
    spelled = {label: ipa(label, arpabet)[0] for label in labels}
    unknown = sorted(label for label, symbol in spelled.items() if not (sounds_of(symbol) and _vectors(symbol)))
    if unknown:
        return f"no PFER: not IPA: {first_few(unknown)}"
    sums = []
    for pair in pairs:
        ours, theirs = ([v for label in side if label in spelled for v in _vectors(spelled[label])] for side in pair)
        costs = [list(map(_whole, side)) for side in (ours, theirs)]
        cost, _ = cheapest_edits(costs[0], costs[1], lambda i, j, a=ours, b=theirs: _substitution(a[i], b[j]))  # type: ignore[misc]
        sums.append((cost, len(ours)))
    if not any(count for _, count in sums):
        return "no PFER: no phones are labelled"
    rate = 100 * sum(cost for cost, _ in sums) / sum(count for _, count in sums)
    low, high, _ = bootstrap(sums, speakers)
    return FeatureScore(rate, low, high)


@lru_cache(maxsize=1 << 12)
def _whole(vector: Vector) -> float:
    """Return the cost of deleting or inserting a segment: its features, those without a value half, in shares."""
    return sum(1.0 if value else 0.5 for value in vector) / len(vector)


@lru_cache(maxsize=1 << 15)
def _substitution(a: Vector, b: Vector) -> float:
    """Return the share of features that differ; having a value or none differs by half."""
    return sum(abs(x - y) / 2 for x, y in zip(a, b, strict=True)) / len(a)


@lru_cache(maxsize=1 << 12)
def _vectors(symbol: str) -> tuple[Vector, ...]:
    """Return panphon's vectors of an IPA label."""
    spelled = symbol.replace("g", "ɡ").replace(":", "ː")  # panphon knows the IPA's own letters only
    return tuple(tuple(vector) for vector in _panphon_table().word_to_vector_list(spelled, numeric=True))


@cache
def _panphon_table() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its source, where no installer compiled it
        import panphon

    return panphon.FeatureTable()
