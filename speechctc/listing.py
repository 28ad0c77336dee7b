"""Lists of names and counts for messages: the first few, and how many more there are."""

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
