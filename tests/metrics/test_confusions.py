"""Confusions of a few alignments, counted by hand."""

from __future__ import annotations

from collections import Counter

from speechctc.metrics.edits import Confusions, align, phonetic_order
from speechctc.phones.folding import parse_folding
from speechctc.phones.inventory import TIMIT61

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
    assert (
        order.index("ch")
        < order.index("f")
        < order.index("s")
        < order.index("m")
        < order.index("r")
        < order.index("iy")
    )
    assert order.index("iy") < order.index("ih") < order.index("eh") < order.index("aa")
    assert phonetic_order("ɲ ʘ a p 7 sil ts ju".split(), arpabet=False) == "p ts ɲ ju ʘ a 7 sil".split()
