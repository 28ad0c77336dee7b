"""Which phones are taken for which: counts of confusions, by phone, by feature, and by context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from speechctc.metrics.edits import Edit
from speechctc.phones.articulation import BACKNESSES, HEIGHTS, MANNERS, PLACES, describe
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import ipa

EDGE = "|"  # the start or the end of an utterance, in contexts
DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "place": PLACES,
    "manner": MANNERS,
    "voicing": ("voiceless", "voiced"),
    "height": HEIGHTS,
    "backness": BACKNESSES,
}
_CLOSURE = "\u031a"  # the IPA's mark of a stop without release


@dataclass
class Confusions:
    """Counts of an alignment, phones as folded.

    Attributes
    ----------
    pairs : Counter of (str, str)
        Phones of the reference and what was recognised; right ones too.
    deleted, inserted : Counter of str
    deletion_contexts, insertion_contexts : Counter of (str, str, str)
        The phone before, the deleted or inserted phone, the phone after: neighbours in the reference for deletions, in
        the hypothesis for insertions.
    """

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    inserted: Counter[str] = field(default_factory=Counter)
    deletion_contexts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    insertion_contexts: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, reference: Sequence[str], hypothesis: Sequence[str], edits: Iterable[Edit]) -> None:
        """Count the edits of an utterance; their indices are those of these two sequences."""
        for kind, ours, theirs in edits:
            if ours is not None and theirs is not None:
                self.pairs[reference[ours], hypothesis[theirs]] += 1
            elif ours is not None:
                self.deleted[reference[ours]] += 1
                self.deletion_contexts[_context(reference, ours)] += 1
            elif theirs is not None:
                self.inserted[hypothesis[theirs]] += 1
                self.insertion_contexts[_context(hypothesis, theirs)] += 1
            del kind

    @property
    def phones(self) -> set[str]:
        """All phones of both sides."""
        return {phone for pair in self.pairs for phone in pair} | set(self.deleted) | set(self.inserted)

    def by_feature(self, arpabet: bool) -> dict[str, Counter[tuple[str, str]]]:
        """Sum the substituted and right phones by feature, where both sides have it.

        Returns
        -------
        dict
            For each key of `DIMENSIONS`, how often a value of the reference was recognised as which value.
        """
        sums: dict[str, Counter[tuple[str, str]]] = {dimension: Counter() for dimension in DIMENSIONS}
        for (ours, theirs), count in self.pairs.items():
            first, second = terms(ours, arpabet), terms(theirs, arpabet)
            for dimension, counter in sums.items():
                if first.get(dimension) and second.get(dimension):
                    counter[first[dimension], second[dimension]] += count
        return sums


def terms(phone: str, arpabet: bool) -> dict[str, str]:
    """Return the terms of the IPA chart for a label of ARPABET or of the IPA; empty for silences and unknown labels."""
    return {} if phone in SILENCES else describe(ipa(phone, arpabet)[0])


def phonetic_order(phones: Iterable[str], arpabet: bool) -> list[str]:
    """Return phones by manner, then place, then voicing; vowels by height and backness; then all others."""

    def rank(phone: str) -> tuple[Any, ...]:
        found = terms(phone, arpabet)
        if not found:
            return 2, phone in SILENCES, phone
        if found["kind"] == "vowel":
            return 1, HEIGHTS.index(found["height"]), BACKNESSES.index(found["backness"]), phone
        manner, place = MANNERS.index(found["manner"]), PLACES.index(found["place"])
        is_closure = _CLOSURE in ipa(phone, arpabet)[0]
        return 0, manner, is_closure, place, found["voicing"] == "voiced", phone

    return sorted(phones, key=rank)


def _context(phones: Sequence[str], place: int) -> tuple[str, str, str]:
    before = phones[place - 1] if place else EDGE
    after = phones[place + 1] if place + 1 < len(phones) else EDGE
    return before, phones[place], after
