"""The phone error rate: the fewest edits between phones as labelled and as recognised."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

PER_MEANS = "PER, the phone error rate: substituted, deleted and inserted phones, in per cent of the phones labelled"


@dataclass(frozen=True)
class EditCounts:
    """The edits between references and hypotheses, in phones. Counts can be added.

    Attributes
    ----------
    substitutions, deletions, insertions : int
        Edits of an alignment with the fewest edits.
    reference_phones : int
    utterances : int
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    reference_phones: int = 0
    utterances: int = 0

    @property
    def errors(self) -> int:
        """Return the number of all edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def per(self) -> float:
        """Return the phone error rate, per cent; not a number where the references have no phones."""
        return 100.0 * self.errors / self.reference_phones if self.reference_phones else math.nan

    @property
    def per_or_none(self) -> float | None:
        """Return the phone error rate for JSON: None where there is none."""
        return self.per if self.reference_phones else None

    @property
    def rank(self) -> float:
        """Return what scores are ordered by: the PER; for no reference phones 0, or 100 if phones were inserted."""
        return self.per if self.reference_phones else 100.0 * bool(self.insertions)

    def to_text(self, digits: int = 2) -> str:
        """Return the phone error rate with its sign; where there is none, the number of phones inserted."""
        return f"{self.per:.{digits}f} %" if self.reference_phones else f"none ({self.insertions} inserted)"

    def __add__(self, other: EditCounts) -> EditCounts:
        """Return the sum of two counts."""
        return EditCounts(*map(operator.add, vars(self).values(), vars(other).values()))


def edit_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
    """Count the edits of one utterance."""
    tags = [edit.tag for edit in Levenshtein.editops(reference, hypothesis)]
    return EditCounts(tags.count("replace"), tags.count("delete"), tags.count("insert"), len(reference), utterances=1)
