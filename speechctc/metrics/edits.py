"""Alignments of a reference and a hypothesis: which phone was recognised as which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from speechctc.phones.folding import Folding
from speechctc.phones.labels import nfc

EditKind = Literal["right", "substituted", "deleted", "inserted"]


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
