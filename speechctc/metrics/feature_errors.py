"""Feature error rates: a wrong phone counts by how many articulatory features are wrong.

References
----------
.. [1] D. R. Mortensen et al., "PanPhon: a resource for mapping IPA segments to articulatory feature vectors", COLING
   2016; the costs are those of its ``feature_edit_distance``, and the rate that of its ``feature_error_rate``.
.. [2] C. Taguchi et al., "Universal automatic phonetic transcription into the International Phonetic Alphabet",
   Interspeech 2023: the phone feature error rate, PFER.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

from speechctc.metrics.edits import cheapest_edits
from speechctc.metrics.per import bootstrap
from speechctc.phones.articulation import FAR, distance, sounds_of
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import ipa, is_arpabet

Vector = tuple[int, ...]
Segments = Callable[[str], tuple[Vector, ...]]


@dataclass(frozen=True)
class FeatureScore:
    """The feature errors of utterances.

    Attributes
    ----------
    name : str
        ``"PFER"`` with panphon's features, else ``"feature error rate"``.
    about : str
        The features and costs, in words.
    rate : float
        Per cent of the reference's segments.
    low, high : float or None
        Its 95 % interval, as of a PER.
    """

    name: str
    about: str
    rate: float
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        return asdict(self)

    def to_text(self) -> str:
        """Return the rate, its interval and its meaning in a line."""
        interval = "" if self.low is None else f" (95 % interval {self.low:.1f} to {self.high:.1f})"
        return f"{self.name} {self.rate:.2f} %{interval}: {self.about}"


def feature_score(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], speakers: Sequence[str], phones: Sequence[str]
) -> FeatureScore | list[str]:
    """Score utterances by features; silences are left out.

    panphon's features are used where it is installed; otherwise the distances of `articulation`, whose rates are not
    comparable with those of papers.

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
    FeatureScore or list of str
        The labels without a known place in the IPA, if there are any.
    """
    arpabet = is_arpabet(phones)
    labels = {*phones, *(label for reference, _ in pairs for label in reference)} - SILENCES
    spelled = {label: ipa(label, arpabet)[0] for label in labels}
    segments = _panphon_segments()
    unknown = sorted(
        label
        for label, symbol in spelled.items()
        if not sounds_of(symbol) or (segments is not None and not segments(symbol))
    )
    if unknown:
        return unknown
    if segments:
        name, about = "PFER", "panphon's features; a phone deleted or inserted costs 0.5 to 1, by its features"
        sums = [_panphon_cost(*(_vectors(side, spelled, segments) for side in pair)) for pair in pairs]
    else:
        name, about = "feature error rate", "this package's features, not panphon's (pip install panphon gives PFER)"
        sums = [_own_cost(*([spelled[label] for label in side if label in spelled] for side in pair)) for pair in pairs]
    rate = 100 * sum(cost for cost, _ in sums) / max(sum(count for _, count in sums), 1)
    low, high, _ = bootstrap(sums, speakers)
    return FeatureScore(name, about, rate, low, high)


def _own_cost(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[float, int]:
    cost, _ = cheapest_edits(
        [1.0] * len(reference), [1.0] * len(hypothesis), lambda i, j: _own_substitution(reference[i], hypothesis[j])
    )
    return cost, len(reference)


@lru_cache(maxsize=1 << 15)
def _own_substitution(a: str, b: str) -> float:
    return min(distance(a, b) / FAR, 1.0)


def _vectors(labels: Sequence[str], spelled: dict[str, str], segments: Segments) -> list[Vector]:
    return [vector for label in labels if label in spelled for vector in segments(spelled[label])]


def _panphon_cost(reference: Sequence[Vector], hypothesis: Sequence[Vector]) -> tuple[float, int]:
    cost, _ = cheapest_edits(
        [_whole(vector) for vector in reference],
        [_whole(vector) for vector in hypothesis],
        lambda i, j: _substitution(reference[i], hypothesis[j]),
    )
    return cost, len(reference)


@lru_cache(maxsize=1 << 12)
def _whole(vector: Vector) -> float:
    """Return the cost of deleting or inserting a segment: its features, those without a value half, in shares."""
    return sum(1.0 if value else 0.5 for value in vector) / len(vector)


@lru_cache(maxsize=1 << 15)
def _substitution(a: Vector, b: Vector) -> float:
    """Return the share of features that differ; having a value or none differs by half."""
    return sum(abs(x - y) / 2 for x, y in zip(a, b, strict=True)) / len(a)


def _panphon_segments() -> Segments | None:
    """Return the function that gives panphon's vectors of an IPA label; None where panphon is not installed."""
    return None if find_spec("panphon") is None else _panphon_vectors


@lru_cache(maxsize=1 << 12)
def _panphon_vectors(symbol: str) -> tuple[Vector, ...]:
    spelled = symbol.replace("g", "ɡ").replace(":", "ː")  # panphon knows the IPA's own letters only
    return tuple(tuple(vector) for vector in _panphon_table().word_to_vector_list(spelled, numeric=True))


@cache
def _panphon_table() -> Any:
    import panphon

    return panphon.FeatureTable()
