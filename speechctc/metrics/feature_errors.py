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
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, TypeVar

from speechctc.core.errors import with_extra
from speechctc.metrics.edits import cheapest_edits
from speechctc.metrics.per import bootstrap
from speechctc.phones.articulation import FAR, distance, sounds_of
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import ipa, is_arpabet

Item = TypeVar("Item")
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
    segments = _panphon_vectors if find_spec("panphon") else None
    unknown = sorted(
        label
        for label, symbol in spelled.items()
        if not sounds_of(symbol) or (segments is not None and not segments(symbol))
    )
    if unknown:
        return unknown
    known = [(_known(ours, spelled), _known(theirs, spelled)) for ours, theirs in pairs]
    if segments:
        name, about = "PFER", "panphon's features; a phone deleted or inserted costs 0.5 to 1, by its features"
        vectors = [(_vectors(ours, segments), _vectors(theirs, segments)) for ours, theirs in known]
        sums = [_cost(ours, theirs, _whole, _substitution) for ours, theirs in vectors]
    else:
        name, about = "feature error rate", f"this package's features, not panphon's ({with_extra('pfer')} gives PFER)"
        sums = [_cost(ours, theirs, lambda label: 1.0, _own_substitution) for ours, theirs in known]
    rate = 100 * sum(cost for cost, _ in sums) / max(sum(count for _, count in sums), 1)
    low, high, _ = bootstrap(sums, speakers)
    return FeatureScore(name, about, rate, low, high)


def _cost(
    reference: Sequence[Item],
    hypothesis: Sequence[Item],
    whole: Callable[[Item], float],
    substitution: Callable[[Item, Item], float],
) -> tuple[float, int]:
    """Return the cost of the cheapest edits, and the number of segments of the reference."""
    deletions, insertions = (list(map(whole, side)) for side in (reference, hypothesis))
    cost, _ = cheapest_edits(deletions, insertions, lambda i, j: substitution(reference[i], hypothesis[j]))
    return cost, len(reference)


@lru_cache(maxsize=1 << 15)
def _own_substitution(a: str, b: str) -> float:
    return min(distance(a, b) / FAR, 1.0)


def _known(labels: Sequence[str], spelled: dict[str, str]) -> list[str]:
    """Return labels in IPA, without silences."""
    return [spelled[label] for label in labels if label in spelled]


def _vectors(symbols: Sequence[str], segments: Segments) -> list[Vector]:
    return [vector for symbol in symbols for vector in segments(symbol)]


@lru_cache(maxsize=1 << 12)
def _whole(vector: Vector) -> float:
    """Return the cost of deleting or inserting a segment: its features, those without a value half, in shares."""
    return sum(1.0 if value else 0.5 for value in vector) / len(vector)


@lru_cache(maxsize=1 << 15)
def _substitution(a: Vector, b: Vector) -> float:
    """Return the share of features that differ; having a value or none differs by half."""
    return sum(abs(x - y) / 2 for x, y in zip(a, b, strict=True)) / len(a)


@lru_cache(maxsize=1 << 12)
def _panphon_vectors(symbol: str) -> tuple[Vector, ...]:
    """Return panphon's vectors of an IPA label."""
    spelled = symbol.replace("g", "ɡ").replace(":", "ː")  # panphon knows the IPA's own letters only
    return tuple(tuple(vector) for vector in _panphon_table().word_to_vector_list(spelled, numeric=True))


@cache
def _panphon_table() -> Any:
    import panphon

    return panphon.FeatureTable()
