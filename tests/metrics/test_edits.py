"""Alignments against brute force and against their own definition; confusions counted by hand."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import cache

import pytest

from speechctc.metrics.edits import Confusions, align, cheapest_edits, phonetic_order
from speechctc.phones.folding import parse_folding
from speechctc.phones.inventory import TIMIT61

FOLDING = parse_folding("timit39")


def test_indices_are_those_before_the_folding() -> None:
    reference, hypothesis = "q sh ix q d s".split(), "sh ih q t aa".split()
    assert [tuple(edit) for edit in align(reference, hypothesis, FOLDING)] == [
        ("right", 1, 0), ("right", 2, 1), ("substituted", 4, 3), ("substituted", 5, 4)
    ]  # fmt: skip


def test_every_kept_phone_is_in_the_alignment_once_and_in_order() -> None:
    rng = random.Random(5)
    for _ in range(50):
        ours, theirs = ([rng.choice("aa b q sh".split()) for _ in range(rng.randint(0, 12))] for _ in range(2))
        edits = align(ours, theirs, FOLDING)
        for side, phones in ((1, ours), (2, theirs)):
            found = [edit[side] for edit in edits if edit[side] is not None]
            assert found == [k for k, phone in enumerate(phones) if phone != "q"]
        assert all(
            (e.kind == "right") == (ours[e.reference or 0] == theirs[e.hypothesis or 0]) for e in edits if None not in e
        )


def test_cheapest_edits_against_all_alignments() -> None:
    rng = random.Random(7)
    for n, m in itertools.product(range(4), range(4)):
        deletions, insertions = ([rng.choice((0.5, 1.0, 2.0)) for _ in range(k)] for k in (n, m))
        table = [[rng.choice((0.0, 0.25, 1.5)) for _ in range(m)] for _ in range(n)]

        @cache
        def least(i: int, j: int, n: int = n, m: int = m) -> float:
            ways = [least(i + 1, j + 1) + table[i][j]] if i < n and j < m else []  # noqa: B023
            ways += [least(i + 1, j) + deletions[i]] if i < n else []  # noqa: B023
            return min([*ways, least(i, j + 1) + insertions[j]] if j < m else ways, default=0.0)  # noqa: B023

        cost, pairs = cheapest_edits(deletions, insertions, lambda i, j: table[i][j])  # noqa: B023
        assert cost == pytest.approx(least(0, 0))
        paid = [deletions[i] if j is None else insertions[j] if i is None else table[i][j] for i, j in pairs]  # type: ignore[index]
        assert sum(paid) == pytest.approx(cost)
        assert [i for i, _ in pairs if i is not None] == [*range(n)] and [j for _, j in pairs if j is not None] == [
            *range(m)
        ]


NONE = parse_folding("none")


def confusions(*pairs: tuple[str, str]) -> Confusions:
    found = Confusions()
    for reference, hypothesis in pairs:
        ours, theirs = reference.split(), hypothesis.split()
        found.add(ours, theirs, align(ours, theirs, NONE))
    return found


def test_pairs_deletions_insertions_and_their_contexts() -> None:
    found = confusions(("s t iy", "sh t iy n"), ("t iy", "iy"), ("s", "s"))
    assert found.pairs == Counter({("s", "sh"): 1, ("t", "t"): 1, ("iy", "iy"): 2, ("s", "s"): 1})
    assert found.deleted == {"t": 1} and found.inserted == {"n": 1} and found.phones == set("s sh t iy n".split())
    assert found.deletion_contexts == {("|", "t", "iy"): 1} and found.insertion_contexts == {("iy", "n", "|"): 1}


def test_sums_by_feature() -> None:
    by = confusions(("b s iy aa", "p sh ih eh"), ("t iy", "t uw"), ("sil v", "sil ah")).by_feature(arpabet=True)
    assert by["voicing"] == {("voiced", "voiceless"): 1, ("voiceless", "voiceless"): 2}
    assert by["place"] == {("bilabial", "bilabial"): 1, ("alveolar", "postalveolar"): 1, ("alveolar", "alveolar"): 1}
    assert by["manner"] == {("plosive", "plosive"): 2, ("fricative", "fricative"): 1}
    assert by["height"] == {("close", "near-close"): 1, ("open", "open-mid"): 1, ("close", "close"): 1}
    assert by["backness"] == {("front", "front"): 1, ("back", "front"): 1, ("front", "back"): 1}


def test_phones_are_ordered_by_manner_and_place_then_vowels_by_height() -> None:
    order = phonetic_order(TIMIT61, arpabet=True)
    assert order[:8] == "p b t d k g q pcl".split() and order[-3:] == "epi h# pau".split()
    places = [order.index(phone) for phone in "ch f s m r iy ih eh aa".split()]
    assert places == sorted(places)
    assert phonetic_order("ɲ ʘ a p 7 sil ts ju".split(), arpabet=False) == "p ts ɲ ju ʘ a 7 sil".split()
