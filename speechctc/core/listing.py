"""Names and counts for messages (the first few, and how many more there are), and tables in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def some(names: Sequence[str], most: int = 8) -> str:
    """Return the first `most` names in one line, and the number of the others: ``"a, b and 3 more"``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(counts: Counter[str], most: int = 8) -> str:
    """Return names with their counts in one line, the most frequent first: ``"a (5), b (2)"``."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return some([f"{name} ({count})" for name, count in ranked], most)


def columns(rows: Sequence[Sequence[str]], alignment: str) -> list[str]:
    """Return rows as lines of a table.

    Parameters
    ----------
    rows : sequence of sequences of str
        All with as many cells as `alignment` has letters.
    alignment : str
        A letter for each column: ``l`` or ``r`` for cells at its left or right edge.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(alignment))]
    places = list(zip(alignment, widths, strict=True))
    return [
        "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, (side, width) in zip(row, places, strict=True)
        ).rstrip()
        for row in rows
    ]
