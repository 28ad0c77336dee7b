"""Edit counts and phone error rates under a named protocol. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from speechctc.phones import Folding


@dataclass(frozen=True)
class EditCounts:
    """How hypotheses differ from references, in phones; counts of parts add up.

    Attributes
    ----------
    substitutions, deletions, insertions : int
        Of a minimal alignment.
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
        """Return the edits that turn the references into the hypotheses."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def per(self) -> float:
        """Return the phone error rate in per cent; of nothing it is 0, or 100 where phones were inserted."""
        if self.reference_phones == 0:
            return 100.0 if self.insertions else 0.0
        return 100.0 * self.errors / self.reference_phones

    def __add__(self, other: EditCounts) -> EditCounts:
        """Return the counts of both."""
        return EditCounts(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.reference_phones + other.reference_phones,
            self.utterances + other.utterances,
        )


def edit_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
    """Count the edits of one utterance."""
    tags = [edit.tag for edit in Levenshtein.editops(reference, hypothesis)]
    return EditCounts(tags.count("replace"), tags.count("delete"), tags.count("insert"), len(reference), utterances=1)


def score(pairs: Iterable[tuple[Sequence[str], Sequence[str]]], folding: Folding) -> EditCounts:
    """Count the edits over (reference, hypothesis) pairs, both folded first."""
    counts = EditCounts()
    for reference, hypothesis in pairs:
        counts += edit_counts(folding.apply(reference), folding.apply(hypothesis))
    return counts
