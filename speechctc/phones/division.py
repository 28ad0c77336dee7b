"""Divides the phones of joined words among them, by how each is read alone."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein


def divide(phones: Sequence[str], alone: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Divide a sequence of phones into parts with the fewest edits to those that are expected.

    Parameters
    ----------
    phones : sequence of str
        Of all the words together.
    alone : sequence of sequence of str
        The phones of each word by itself.

    Returns
    -------
    list of tuple of str
        A part for each word, in order; a part may be empty.
    """
    # by the number of phones used so far: the least number of edits, and where the words end
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0, ())}
    for number, expected in enumerate(alone, start=1):
        ends = [len(phones)] if number == len(alone) else range(len(phones) + 1)
        best = {
            end: min(
                (cost + Levenshtein.distance(tuple(phones[start:end]), tuple(expected)), (*cuts, end))
                for start, (cost, cuts) in best.items()
                if start <= end
            )
            for end in ends
        }
    cuts = best[len(phones)][1] if alone else ()
    return [tuple(phones[start:end]) for start, end in zip((0, *cuts), cuts, strict=False)]
