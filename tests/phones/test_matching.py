"""Phones of one notation in another."""

from __future__ import annotations

import pytest

from speechctc.phones.articulation import SOUNDS, Match, describe, distance, is_arpabet, match_phones, sounds_of
from speechctc.phones.inventory import CMU39, TABLES, TIMIT61


def matched(phone: str, known: tuple[str, ...], beside: str = "ʃ ŋ ə") -> Match | None:
    return match_phones([phone, *beside.split()], known).get(phone)


@pytest.mark.parametrize(
    ("phone", "known"),
    [("i", "iy"), ("iː", "iy"), ("ʃ", "sh"), ("j", "y"), ("ɹ", "r"), ("t͡ʃ", "ch"), ("ʧ", "ch"), ("ɡ", "g"),
     ("oʊ", "ow"), ("ɝ", "er"), ("ɜː", "er"), ("ə", "ah"), ("ŋ", "ng"), ("h", "hh"), ("ˈæ", "ae"), ("n̩", "n"),
     ("ɚ", "er"), ("ʉ", "uw")],
)  # fmt: skip
def test_ipa_is_found_in_cmus_phones_by_table(phone: str, known: str) -> None:
    assert matched(phone, CMU39) == Match(known, "table")


def test_the_same_letter_is_not_the_same_phone_in_ipa_and_arpabet() -> None:
    assert matched("y", CMU39) == Match("iy", "nearness")
    assert match_phones(["y", "sh", "ah", "k"], CMU39)["y"] == Match("y", "name")
    assert matched("b", CMU39) == Match("b", "name")


@pytest.mark.parametrize(
    ("phone", "near"),
    [("ø", {"ey", "er"}), ("ɑ̃", {"aa"}), ("ʂ", {"sh"}), ("ɓ", {"b"}), ("tʼ", {"t"}), ("ɲ", {"n", "ng"}), ("ɯ", {"uw"}),
     ("x", {"hh", "k"}), ("pʰ", {"p"}), ("β", {"v", "b"}), ("ɒ", {"aa", "ao"}), ("a", {"ae", "aa", "ah"})],
)  # fmt: skip
def test_what_english_does_not_have_begins_as_its_neighbour(phone: str, near: set[str]) -> None:
    match = matched(phone, CMU39)
    assert match is not None and match.how == "nearness" and match.phone in near


def test_timits_closures_and_allophones_have_their_phones_in_cmu_and_in_ipa() -> None:
    found = {phone: match.phone for phone, match in match_phones(TIMIT61, CMU39).items()}
    assert set(TIMIT61) - set(found) == {"h#", "pau", "epi"}
    assert {"tcl": "t", "ux": "uw", "axr": "er", "dx": "t", "hv": "hh", "ix": "ih"}.items() <= found.items()
    back = match_phones(TIMIT61, ["t", "ə", "ʃ", "ʊ", "n", "sil", "ʌ"])
    assert [back[phone].phone for phone in ("tcl", "ax", "sh", "en", "h#", "ah")] == ["t", "ə", "ʃ", "n", "sil", "ʌ"]


def test_letters_outside_of_the_tables_of_the_chart_have_sounds_too() -> None:
    assert [letter for letter in TABLES["other"] if not sounds_of(letter)] == []
    assert describe("ɺ") == {"kind": "consonant", "place": "alveolar", "manner": "tap", "voicing": "voiced"}
    assert match_phones(["ɺʲ", "ʜ"], ["ɾ", "l", "ħ", "h", "a"]) == {
        "ɺʲ": Match("ɾ", "nearness"),
        "ʜ": Match("ħ", "nearness"),
    }


def test_distances_are_a_metrics() -> None:
    letters = sorted(SOUNDS)
    assert len(letters) > 100
    for a in letters:
        assert distance(a, a) == 0
        assert all(distance(a, b) == distance(b, a) > 0 for b in letters if b != a and SOUNDS[a] != SOUNDS[b])
    assert distance("p", "b") < distance("p", "d") < distance("p", "ɣ") < distance("p", "a")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [("AH0 sh K", True), ("aa bcl h#", True), ("ʃ a t", False), ("p t k", False), ("a b d i", False), ("", False)],
)
def test_a_notation_is_told_by_its_labels(labels: str, expected: bool) -> None:
    assert is_arpabet(labels.split()) is expected


@pytest.mark.parametrize(
    ("label", "known", "nearest"), [("aʊ", "e a o ʊ", "a"), ("ɔø", "e a ɔ o", "ɔ"), ("ai", "e a aɪ", "aɪ")]
)
def test_a_diphthong_is_most_like_another_or_like_its_first_vowel(label: str, known: str, nearest: str) -> None:
    assert match_phones([label], known.split())[label] == (nearest, "nearness")
