"""Phones of one notation in another."""

from __future__ import annotations

import pytest

from speechctc.core.bundled import MODELS
from speechctc.model.checkpoint import read_inventory
from speechctc.phones.articulation import (
    SOUNDS,
    Match,
    describe,
    distance,
    is_arpabet,
    match_apart,
    match_phones,
    sounds_of,
    spelling,
)
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


AFFRICATES = "ts tɕ tʃ ʈʂ dz dʑ dʒ"
MARKS = "ː ʰ ʱ ʷ ʲ ˠ ˤ ʼ ̪ ̺ ̻ ̠ ̟ ̝ ̞ ̃ ̥ ̊ ̬ ̤ ̰ ̩ ̯ ̈ ̽ ̹ ̜ ̆ ˞ ̚ ̘ ⁿ ˡ ̪ʰ ̠ʷ ʷʼ".split()


@pytest.mark.parametrize(
    ("label", "phone"),
    [("tʂ", "ʈʂ"), ("t͡ʂ", "ʈʂ"), ("t̠ʂ", "ʈʂ"), ("ꭧ", "ʈʂ"), ("t̠ʃ", "tʃ"), ("d̠ʒ", "dʒ"), ("ȶɕ", "tɕ"), ("cɕ", "tɕ"),
     ("ɟʑ", "dʑ"), ("t̪s", "ts"), ("č", "tʃ"), ("š", None)],
)  # fmt: skip
def test_an_affricate_is_told_by_its_sibilant(label: str, phone: str | None) -> None:
    match = match_phones([label, "ŋ"], AFFRICATES.split()).get(label)
    assert (match.phone if match and match.how == "table" else None) == phone


@pytest.mark.parametrize(("label", "phone"), [("tʂʰ", "ʈʂ"), ("ʈʂʼ", "ʈʂ"), ("tʃʰ", "tʃ"), ("t̪s̪ʰ", "ts"), ("tç", "tɕ")])
def test_the_nearest_affricate_has_the_place_of_the_release(label: str, phone: str) -> None:
    assert match_phones([label, "ŋ"], AFFRICATES.split())[label] == Match(phone, "nearness")


def test_each_phone_of_ipa_with_a_mark_is_heard_as_itself() -> None:
    own = read_inventory(MODELS["ipa"].folder).phones
    labels = {label: phone for phone in own for mark in MARKS for label in (phone + mark, phone[0] + mark + phone[1:])}
    found = match_phones([*labels, "ʃ"], own)
    assert {label: found[label].phone for label in labels if found[label].phone != labels[label]} == {"n\u0303": "ɲ"}


def test_labels_that_mean_one_phone_have_one_spelling() -> None:
    for labels in (
        "g ɡ",
        "ʧ tʃ t͡ʃ t͜ʃ t̠ʃ č",
        "aː a: ˈaː",
        "kʼ k' k’",
        "ɛ ε",
        "ɲ ȵ n̠ʲ ñ",
        "ã a\u0303",
        "ɚ ə˞",
        "ʦ ts t̪s",
        "t t\u200b \ufefft t\u200e t\u180e",
    ):
        assert len({spelling(label) for label in labels.split()}) == 1, labels
    for labels in ("k kʼ", "t tʲ", "s sʼ", "a aː", "c tɕ", "n nʲ ɲ", "ʈ t", "р p", "у y", "? ʔ", "| ǀ"):
        assert len({spelling(label) for label in labels.split()}) == len(labels.split()), labels


@pytest.mark.parametrize(("label", "near"), [("ɦ", "h"), ("ʜ", "ħ"), ("ɡǀ", "ǀ"), ("ŋǃ", "ǀ"), ("ɮ", "ɬ"), ("ɢ", "ɡ")])
def test_letters_that_ipa_lacks_are_heard_as_their_kin(label: str, near: str) -> None:
    assert match_phones([label, "ʃ"], read_inventory(MODELS["ipa"].folder).phones)[label] == Match(near, "nearness")


@pytest.mark.parametrize(
    ("labels", "known", "heard"),
    [
        ("dʐ dʑ", "dʑ dʒ", "dʒ dʑ"),  # another, nearly as near
        ("b b̥", "b p", "b p"),  # another that is the same sound
        ("b b̥ p", "b p", "b b p"),  # it is that of another label
        ("p pʰ", "p b", "p p"),  # another is no better
        ("a aː", "a ɐ", "a a"),
        ("n nʲ l lʲ", "n ɲ l ʎ", "n ɲ l ʎ"),
        ("n nʲ ɲ", "n ɲ", "n n ɲ"),
        ("ə ɘ", "ə ɵ e", "ə ɵ"),
        ("ɡ ɢ", "ɡ q", "ɡ q"),
        ("ɘ", "ə ɵ e", "ə"),  # nothing to tell it from
    ],
)
def test_phones_of_a_list_are_told_apart_where_the_model_tells_them_apart(labels: str, known: str, heard: str) -> None:
    found = match_apart(labels.split(), known.split())
    assert [found[label].phone for label in labels.split()] == heard.split()
