import random

import pytest

from speechctc.phones import folding
from speechctc.score import EditCounts, edit_counts, score


def distance_by_hand(a: list[str], b: list[str]) -> int:
    """Wagner and Fischer's table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def test_counts_of_a_known_pair() -> None:
    counts = edit_counts("sh iy hh ae d".split(), "sh ix hh ae d y".split())
    assert (counts.substitutions, counts.deletions, counts.insertions) == (1, 0, 1)
    assert counts.per == pytest.approx(40.0)


def test_errors_are_the_edit_distance() -> None:
    rng = random.Random(1)
    for _ in range(200):
        a, b = ([rng.choice("aa b ch d".split()) for _ in range(rng.randrange(12))] for _ in range(2))
        counts = edit_counts(a, b)
        assert counts.errors == distance_by_hand(a, b)
        assert len(b) == len(a) - counts.deletions + counts.insertions


def test_counts_add_up_over_utterances() -> None:
    pairs = [(["a", "b"], ["a"]), (["a"], ["a", "c"]), ([], [])]
    total = score(pairs, folding("none"))
    assert total == EditCounts(0, 1, 1, 3, 3)
    assert total.per == pytest.approx(200 / 3)


def test_both_sides_are_folded() -> None:
    pairs = [("h# sh ix q axr pau".split(), "pau zh ih er h#".split())]
    assert score(pairs, folding("timit39")).errors == 0
    assert score(pairs, folding("none")).errors > 0


def test_nothing_to_find_has_no_errors_unless_something_was_heard() -> None:
    assert edit_counts([], []).per == 0.0
    assert edit_counts([], ["a"]).per == 100.0
