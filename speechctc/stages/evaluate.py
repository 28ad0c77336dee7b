"""Score a model on a split of its corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speechctc.inference.calibration import expected_calibration_error
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.per import PER_MEANS, EditCounts, Reliability
from speechctc.progress import Reporter
from speechctc.stages.split_scoring import score_split

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
    """

    split: str
    counts: EditCounts
    reliability: Reliability
    protocol: str
    skipped: tuple[tuple[str, str], ...]
    calibration_error: float
    calibrated: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        counts = self.counts
        return {
            "per": counts.per,
            **self.reliability.to_dict(),
            "substitutions": counts.substitutions,
            "deletions": counts.deletions,
            "insertions": counts.insertions,
            "reference_phones": counts.reference_phones,
            "utterances": counts.utterances,
            "protocol": self.protocol,
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
        lines += [f"  not scored: {id}: {reason}" for id, reason in self.skipped]
        return "\n".join(lines)


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
    if not reporter.quiet:
        reporter.note(f"{PER_MEANS}; the expected calibration error is {ERROR_MEANS}")
    scored = score_split(recogniser, split, overrides, reporter, "evaluating")
    error = expected_calibration_error(scored.confidences, scored.right)
    calibrated = recogniser.calibration.phones > 0
    return Evaluation(
        split, scored.counts, scored.reliability, scored.protocol, tuple(scored.skipped), error, calibrated
    )
