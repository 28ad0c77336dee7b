"""One spelling for each phone, and which spellings look alike."""

from __future__ import annotations

import pytest

from speechctc.phones.inventory import Inventory, Spellings, inventory_of, nfc, spelling_variants, with_code_points

ONE, TWO = "\u00e3", "a\u0303"


def test_one_character_and_letter_with_mark_are_one_phone() -> None:
    assert nfc(TWO) == ONE and nfc("n̥") == "n̥" and nfc("aa") == "aa"
    assert inventory_of([ONE, TWO, "a"]).phones == ("a", ONE)
    assert inventory_of([ONE]).encode([TWO, ONE]) == [1, 1]


def test_a_set_of_an_older_model_keeps_its_own_spellings_apart() -> None:
    both = Inventory("found", (TWO, ONE, "e\u0301"))
    assert both.encode([TWO, ONE]) == [1, 2]
    assert both.encode(["\u00e9", "e\u0301"]) == [3, 3]


def test_what_was_written_in_two_ways_is_counted() -> None:
    spellings = Spellings()
    assert spellings.read([TWO, ONE, "x", TWO, "o\u0303"]) == (ONE, ONE, "x", ONE, "\u00f5")
    (note,) = spellings.notes()
    assert note.endswith(f"one character (Unicode NFC): 3 ({ONE}, \u00f5)")
    assert Spellings().notes() == []


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        ("g ɡ k", ["g ɡ"]),
        ("tʃ t͡ʃ ʧ", ["tʃ t͡ʃ ʧ"]),
        ("ʦ m t͡s", ["t͡s ʦ"]),
        ("AA aa Ah ah s S", ["AA aa", "Ah ah"]),
        ("ç c\u0327 c", ["c\u0327 ç"]),
        ("a: aː", ["a: aː"]),
        ("k' kʼ k", ["k' kʼ"]),
        ("ɛ ε", ["ɛ ε"]),
        ("e е", ["e е"]),
        ("ˈa a 'a", ["'a a ˈa"]),
        ("' ˈ", ["' ˈ"]),
        ("kh kʰ k", ["kh kʰ"]),
        ("53 ˥˧ 51", ["53 ˥˧"]),
        ("á a a˥˧ e˥ ó", ["a˥˧ á"]),
        ("Sangpha sangpha", ["Sangpha sangpha"]),
    ],
)
def test_spellings_of_one_phone_are_found(labels: str, groups: list[str]) -> None:
    assert spelling_variants(labels.split()) == [tuple(group.split()) for group in groups]


@pytest.mark.parametrize(
    "labels", [["a", ONE], ["ɣ", "ɤ"], ["t", "tʰ"], ["a", "aː"], ["tS", "ts"], ["s", "ʃ", "S"], ["á", "à", "e˥"]]
)
def test_different_phones_are_not(labels: list[str]) -> None:
    assert spelling_variants(labels) == []


def test_characters_are_named_by_number() -> None:
    assert with_code_points("ɡː") == "ɡː = U+0261 U+02D0"
