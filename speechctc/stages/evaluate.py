"""Score a model on a split of its corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speechctc.core.errors import columns, counted_alike, first_few
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
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
from speechctc.pages.page import render_text
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance, score_split

ERROR_MEANS = "the mean distance between the confidence of phones and the share of them that are right"


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
    languages : tuple of ProtocolScore
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
    languages: tuple[ProtocolScore, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        counts, keys = self.counts, ("per", "errors", "reference_phones", "utterances")
        languages = [
            {"language": name, **{key: getattr(of, key) for key in keys}, **sure.to_dict()}
            for name, _, of, sure in self.languages
        ]
        return {
            "per": counts.per,
            **self.reliability.to_dict(),
            **asdict(counts),
            "protocol": self.protocol,
            "protocols": [score.to_dict() for score in self.protocols],
            "features": asdict(self.features) if self.features else None,
            "feature_note": self.feature_note,
            "notes": list(self.notes),
            "languages": languages,
            "split": self.split,
            "calibration_error": self.calibration_error,
            "calibrated": self.calibrated,
            "skipped": [{"id": id, "reason": reason} for id, reason in self.skipped],
        }

    def to_text(self) -> str:
        """Return the report for people."""
        rows = [("protocol", "PER", "95 % interval", "errors", "phones", "what is counted")]
        rows += [(name, *_cells(counts, sure), about) for name, about, counts, sure in self.protocols]
        spoken = [("language", "PER", "95 % interval", "errors", "phones")]
        spoken += [(name, *_cells(counts, sure)) for name, _, counts, sure in self.languages]
        tables = {"protocols": columns(rows, "lrrrrl"), "languages": columns(spoken, "lrrrr")}
        tables["skipped"] = counted_alike([(Path(id), f"{id}: {reason}") for id, reason in self.skipped])
        return render_text("evaluation.txt", {"of": self, **tables}).rstrip()


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
    error = expected_calibration_error(*scored.marks[:2])
    pairs = [(result.utterance.phones, result.phones) for result in scored.results]
    protocols = protocols_for(scored.inventory, scored.folding)
    features = feature_score(pairs, scored.speakers, scored.inventory.phones)
    languages = scores_by(scored.results, lambda utterance: utterance.trait("language"))
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
        "" if isinstance(features, FeatureScore) else f"no feature error rate: not IPA: {first_few(features)}",
        scored.notes,
        tuple(languages if len(languages) > 1 else ()),
    )


def scores_by(results: Sequence[ScoredUtterance], group: Callable[[Utterance], str]) -> list[ProtocolScore]:
    """Return the score of each group of utterances, in the order of their names."""
    members: defaultdict[str, list[ScoredUtterance]] = defaultdict(list)
    for result in results:
        members[group(result.utterance)].append(result)
    return [score_of(name or "not known", members[name]) for name in sorted(members)]


def score_of(name: str, results: Sequence[ScoredUtterance]) -> ProtocolScore:
    """Return the score of some utterances, which have a name together; the interval is over speakers if possible."""
    counts = [result.counts for result in results]
    sure = reliability(counts, [result.utterance.speaker for result in results])
    return ProtocolScore(name, "", sum(counts, start=EditCounts()), sure)


def _cells(counts: EditCounts, sure: Reliability) -> tuple[str, str, str, str]:
    """Return the PER, its interval, the errors and the phones as cells of a table."""
    return f"{counts.per:.2f} %", sure.interval, str(counts.errors), str(counts.reference_phones)
