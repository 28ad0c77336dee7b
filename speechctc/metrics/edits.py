"""Alignments of a reference and a hypothesis: which phone was recognised as which, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from speechctc.phones.articulation import BACKNESSES, HEIGHTS, MANNERS, PLACES, describe, ipa
from speechctc.phones.folding import Folding
from speechctc.phones.inventory import SILENCES, nfc

EditKind = Literal["right", "substituted", "deleted", "inserted"]

EDGE = "|"  # the start or the end of an utterance, in contexts
DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "place": PLACES,
    "manner": MANNERS,
    "voicing": ("voiceless", "voiced"),
    "height": HEIGHTS,
    "backness": BACKNESSES,
}
_CLOSURE = "\u031a"  # the IPA's mark of a stop without release


class Edit(NamedTuple):
    """A phone of the reference, of the hypothesis, or one of each.

    Attributes
    ----------
    kind : str
    reference, hypothesis : int or None
        The index of the phone in the sequence; None: there is no phone on this side.
    """

    kind: EditKind
    reference: int | None
    hypothesis: int | None


def align(reference: Sequence[str], hypothesis: Sequence[str], folding: Folding) -> list[Edit]:
    """Return an alignment with the fewest edits after folding, in order; phones that the folding drops are not in it.

    Parameters
    ----------
    reference, hypothesis : sequence of str
        Before the folding; the indices of the result are theirs.
    folding : Folding
    """
    kept = [
        [k for k, phone in enumerate(phones) if nfc(phone) not in folding.dropped] for phones in (reference, hypothesis)
    ]
    edits: list[Edit] = []
    for block in Levenshtein.opcodes(folding.apply(reference), folding.apply(hypothesis)):
        ours = kept[0][block.src_start : block.src_end]
        theirs = kept[1][block.dest_start : block.dest_end]
        if block.tag == "delete":
            edits += [Edit("deleted", k, None) for k in ours]
        elif block.tag == "insert":
            edits += [Edit("inserted", None, k) for k in theirs]
        else:
            kind: EditKind = "right" if block.tag == "equal" else "substituted"
            edits += [Edit(kind, *pair) for pair in zip(ours, theirs, strict=True)]
    return edits


def right_phones(reference: Sequence[str], hypothesis: Sequence[str], folding: Folding) -> list[bool | None]:
    """Return for each phone of a hypothesis whether it is right in an alignment of minimal edit distance.

    Returns
    -------
    list of bool or None
        As long as `hypothesis`; None for a phone that the folding excludes from scoring.
    """
    right: list[bool | None] = [None] * len(hypothesis)
    for edit in align(reference, hypothesis, folding):
        if edit.hypothesis is not None:
            right[edit.hypothesis] = edit.kind == "right"
    return right


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
        for _, ours, theirs in edits:
            if ours is not None and theirs is not None:
                self.pairs[reference[ours], hypothesis[theirs]] += 1
            elif ours is not None:
                self.deleted[reference[ours]] += 1
                self.deletion_contexts[_context(reference, ours)] += 1
            elif theirs is not None:
                self.inserted[hypothesis[theirs]] += 1
                self.insertion_contexts[_context(hypothesis, theirs)] += 1

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


def cheapest_edits(
    deletions: Sequence[float], insertions: Sequence[float], substitution: Callable[[int, int], float]
) -> tuple[float, list[tuple[int | None, int | None]]]:
    """Return the cost of the cheapest alignment of two sequences, and its pairs of indices.

    Parameters
    ----------
    deletions, insertions : sequence of float
        The cost of deleting each item of the first sequence, and of inserting each of the second.
    substitution : callable
        The cost of pairing two items, by index; 0 for equal ones.

    Returns
    -------
    cost : float
    pairs : list of (int or None, int or None)
        None: no item on this side. Of alignments with the same cost, one that pairs items is preferred.
    """
    rows = [[0.0]]
    for cost in insertions:
        rows[0].append(rows[0][-1] + cost)
    for i, deletion in enumerate(deletions):
        above, row = rows[-1], [rows[-1][0] + deletion]
        for j, insertion in enumerate(insertions):
            row.append(min(above[j] + substitution(i, j), above[j + 1] + deletion, row[j] + insertion))
        rows.append(row)
    return rows[-1][-1], [*_way_back(rows, deletions, substitution)][::-1]


def _way_back(
    rows: list[list[float]], deletions: Sequence[float], substitution: Callable[[int, int], float]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the pairs of the cheapest alignment, the last first."""
    i, j = len(rows) - 1, len(rows[0]) - 1
    while i or j:
        if i and j and rows[i][j] == rows[i - 1][j - 1] + substitution(i - 1, j - 1):
            i, j = i - 1, j - 1
            yield i, j
        elif i and rows[i][j] == rows[i - 1][j] + deletions[i - 1]:
            i -= 1
            yield i, None
        else:
            j -= 1
            yield None, j
