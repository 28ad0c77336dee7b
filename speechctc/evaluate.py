"""The evaluation stage: a split's recordings decoded as a user's would be, and scored against their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speechctc.config import override, parse_config
from speechctc.corpora import read_corpus
from speechctc.errors import InputError
from speechctc.phones import choose_folding
from speechctc.progress import Reporter
from speechctc.recogniser import Recogniser
from speechctc.score import EditCounts, edit_counts


@dataclass(frozen=True)
class Evaluation:
    """The score of a split.

    Attributes
    ----------
    split : str
    counts : EditCounts
    protocol : str
        How phones were folded and aligned, in words.
    skipped : tuple of (str, str)
        Utterances that could not be scored, and why.
    """

    split: str
    counts: EditCounts
    protocol: str
    skipped: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the JSON report has them."""
        counts = self.counts
        return {
            "per": counts.per,
            "substitutions": counts.substitutions,
            "deletions": counts.deletions,
            "insertions": counts.insertions,
            "reference_phones": counts.reference_phones,
            "utterances": counts.utterances,
            "protocol": self.protocol,
            "split": self.split,
            "skipped": [{"id": id, "reason": reason} for id, reason in self.skipped],
        }

    def to_text(self) -> str:
        """Return the report for people."""
        counts = self.counts
        lines = [
            f"PER on {self.split}: {counts.per:.2f} %",
            f"  substitutions {counts.substitutions}, deletions {counts.deletions}, insertions {counts.insertions}"
            f" in {counts.reference_phones} phones of {counts.utterances} utterances",
            f"  protocol: {self.protocol}",
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
        Laid over the model's own config: another corpus, another folding.
    reporter : Reporter

    Raises
    ------
    InputError
        The split is empty, or nothing of it can be decoded.
    """
    config = parse_config(override(recogniser.config.to_dict(), overrides), "the model's config with these settings")
    corpus = read_corpus(config.corpus)
    folding = choose_folding(config.score.fold, recogniser.inventory)
    utterances = corpus.splits[split]
    skipped = [(entry.id, entry.reason) for entry in corpus.rejected.get(split, ())]
    if not utterances:
        raise InputError(f"the corpus has no {split} split, or nothing usable in it", "name another with --split")
    counts = EditCounts()
    with reporter.progress(f"evaluating {split}", len(utterances)) as advance:
        for utterance in utterances:
            try:
                hypothesis = recogniser.decode(utterance.audio).phones
            except InputError as error:
                skipped.append((utterance.id, error.what))
                continue
            counts += edit_counts(folding.apply(utterance.phones), folding.apply(hypothesis))
            advance(1, f"PER {counts.per:.2f} %")
    if not counts.utterances:
        raise InputError(f"none of the {len(utterances)} recordings of {split} can be decoded", skipped[-1][1])
    protocol = f"{folding.protocol}; best path; minimal edit distance, every phone counted alike"
    return Evaluation(split, counts, protocol, tuple(skipped))
