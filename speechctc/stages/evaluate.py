"""Score a model on a split of its corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from speechctc.core.errors import columns, some
from speechctc.core.progress import Reporter
from speechctc.inference.calibration import expected_calibration_error
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.feature_errors import FeatureScore, feature_score
from speechctc.metrics.per import (
    PER_MEANS,
    EditCounts,
    ProtocolScore,
    Reliability,
    protocols_for,
    reliability,
    score_by_protocols,
)
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance, score_split

ERROR_MEANS = "the mean distance between the confidence of phones and the share of them that are right"


class LanguageScore(NamedTuple):
    """The score of the utterances of a language: its name, its edits, and the PER's interval."""

    name: str
    counts: EditCounts
    reliability: Reliability

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        of = self.counts
        numbers = {"per": of.per, "errors": of.errors, "reference_phones": of.reference_phones}
        return {"language": self.name, **numbers, "utterances": of.utterances, **self.reliability.to_dict()}


@dataclass(frozen=True)
class Evaluation:
    """The score of a split.

    Attributes
    ----------
    split : str
    counts : EditCounts
    reliability : Reliability
        The PER's interval, and the numbers it is computed from.
    protocol : str
        How phones were decoded, folded and compared, in words.
    skipped : tuple of (str, str)
        Ids of utterances that could not be scored, and the reasons.
    calibration_error : float
        Expected calibration error of the confidences on this split, from 0 to 1.
    calibrated : bool
        Whether the model is calibrated; if not, confidences are posteriors.
    protocols : tuple of ProtocolScore
        The scores by all protocols that apply; the first is that of `counts`.
    features : FeatureScore or None
        The feature error rate; None where a phone has no known place in the IPA.
    feature_note : str
        Which phones those are, in words.
    notes : tuple of str
        How the corpus was divided and its labels were read, where that is not as in the model's config.
    languages : tuple of LanguageScore
        By name; none where the corpus does not say them, or has one.
    """

    split: str
    counts: EditCounts
    reliability: Reliability
    protocol: str
    skipped: tuple[tuple[str, str], ...]
    calibration_error: float
    calibrated: bool
    protocols: tuple[ProtocolScore, ...]
    features: FeatureScore | None
    feature_note: str
    notes: tuple[str, ...] = ()
    languages: tuple[LanguageScore, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        counts = self.counts
        return {
            "per": counts.per,
            **self.reliability.to_dict(),
            **asdict(counts),
            "protocol": self.protocol,
            "protocols": [score.to_dict() for score in self.protocols],
            "features": self.features.to_dict() if self.features else None,
            "feature_note": self.feature_note,
            "notes": list(self.notes),
            "languages": [score.to_dict() for score in self.languages],
            "split": self.split,
            "calibration_error": self.calibration_error,
            "calibrated": self.calibrated,
            "skipped": [{"id": id, "reason": reason} for id, reason in self.skipped],
        }

    def to_text(self) -> str:
        """Return the report for people."""
        counts = self.counts
        lines = [
            f"PER on {self.split}: {counts.per:.2f} % ({self.reliability.to_text()})",
            *([f"  {self.reliability.caution}"] if self.reliability.caution else []),
            f"  substitutions {counts.substitutions}, deletions {counts.deletions}, insertions {counts.insertions}"
            f" in {counts.reference_phones} phones of {counts.utterances} utterances",
            f"  protocol: {self.protocol}",
            f"  expected calibration error of confidences {100 * self.calibration_error:.1f} %"
            + ("" if self.calibrated else " (the model is not calibrated)"),
        ]
        lines += [f"    {line}" for line in (*self._table(), *self._by_language())]
        lines.append(f"  {self.features.to_text() if self.features else self.feature_note}")
        lines += [f"  not scored: {id}: {reason}" for id, reason in self.skipped]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        """Return the scores by all protocols as the lines of a table."""
        rows = [("protocol", "PER", "95 % interval", "errors", "phones", "what is counted")]
        rows += [(name, *_cells(counts, sure), about) for name, about, counts, sure in self.protocols]
        return columns(rows, "lrrrrl")

    def _by_language(self) -> list[str]:
        """Return the scores of the languages as the lines of a table, and their mean; none without languages."""
        if not self.languages:
            return []
        rows = [("language", "PER", "95 % interval", "errors", "phones")]
        rows += [(name, *_cells(counts, sure)) for name, counts, sure in self.languages]
        mean = sum(score.counts.per for score in self.languages) / len(self.languages)
        return [*columns(rows, "lrrrr"), f"mean of the {len(self.languages)} languages {mean:.2f} %"]


def evaluate(recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter) -> Evaluation:
    """Decode a split of the model's corpus and score it.

    Parameters
    ----------
    recogniser : Recogniser
    split : str
    overrides : sequence of str
        Settings that replace those of the model's config: another corpus, another folding.
    reporter : Reporter

    Raises
    ------
    InputError
        The split is empty, or none of its recordings can be decoded.
    """
    return score(recogniser, split, overrides, reporter)[1]


def score(
    recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter, symbols: str = "own"
) -> tuple[ScoredSplit, Evaluation]:
    """Decode a split as `evaluate` does; return what was recognised too. `symbols` are as of `score_split`."""
    if not reporter.quiet:
        reporter.note(f"{PER_MEANS}; the expected calibration error is {ERROR_MEANS}")
    scored = score_split(recogniser, split, overrides, reporter, "evaluating", symbols)
    return scored, evaluation_of(scored, split, recogniser)


def evaluation_of(scored: ScoredSplit, split: str, recogniser: Recogniser) -> Evaluation:
    """Return the score of a decoded split."""
    error = expected_calibration_error(scored.confidences, scored.right)
    pairs = [(result.utterance.phones, result.phones) for result in scored.results]
    protocols = protocols_for(scored.inventory, scored.folding)
    features = feature_score(pairs, scored.speakers, scored.inventory.phones)
    return Evaluation(
        split,
        scored.counts,
        scored.reliability,
        scored.protocol,
        tuple(scored.skipped),
        error,
        recogniser.calibration.phones > 0,
        tuple(score_by_protocols(protocols, pairs, scored.speakers)),
        features if isinstance(features, FeatureScore) else None,
        "" if isinstance(features, FeatureScore) else f"no feature error rate: not IPA: {some(features)}",
        scored.notes,
        tuple(_languages(scored)),
    )


def _languages(scored: ScoredSplit) -> Iterator[LanguageScore]:
    """Yield the score of each language, if the utterances say several."""
    members: dict[str, list[ScoredUtterance]] = {}
    for result in scored.results:
        members.setdefault(dict(result.utterance.traits).get("language", ""), []).append(result)
    for name, results in sorted(members.items()) if len(members) > 1 else ():
        counts = [result.counts for result in results]
        sure = reliability(counts, [result.utterance.speaker for result in results])
        yield LanguageScore(name or "not known", sum(counts, start=EditCounts()), sure)


def _cells(counts: EditCounts, sure: Reliability) -> tuple[str, str, str, str]:
    """Return the PER, its interval, the errors and the phones as cells of a table."""
    interval = "" if sure.low is None or sure.high is None else f"{sure.low:.1f} to {sure.high:.1f}"
    return f"{counts.per:.2f} %", interval, str(counts.errors), str(counts.reference_phones)
