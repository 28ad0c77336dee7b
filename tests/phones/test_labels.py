"""One spelling for each phone, and which spellings look alike."""

from __future__ import annotations

import pytest

from speechctc.phones.inventory import Inventory, folding, found
from speechctc.phones.labels import Spellings, look_alikes, nfc, spelt_out

ONE, TWO = "\u00e3", "a\u0303"


def test_one_character_and_letter_with_mark_are_one_phone() -> None:
    assert nfc(TWO) == ONE and nfc("n̥") == "n̥" and nfc("aa") == "aa"
    assert found([ONE, TWO, "a"]).phones == ("a", ONE)
    assert found([ONE]).encode([TWO, ONE]) == [1, 1]


def test_a_set_of_an_older_model_keeps_its_own_spellings_apart() -> None:
    both = Inventory("found", (TWO, ONE, "e\u0301"))
    assert both.encode([TWO, ONE]) == [1, 2]
    assert both.encode(["\u00e9", "e\u0301"]) == [3, 3]


def test_what_was_written_in_two_ways_is_counted() -> None:
    spellings = Spellings()
    assert spellings.read([TWO, ONE, "x", TWO, "o\u0303"]) == (ONE, ONE, "x", ONE, "\u00f5")
    first, second = spellings.notes()
    assert first.startswith("2 labels were written in two ways") and f": {ONE};" in first
    assert second.startswith("1 labels were written as letter and mark") and second.endswith("\u00f5")
    assert Spellings().notes() == []


@pytest.mark.parametrize(
    ("left", "right"), [("ɡ", "g"), ("a:", "aː"), ("k'", "kʼ"), ("ʦ", "t͡s"), ("ts", "ʦ"), ("ɛ", "ε"), ("e", "е")]
)
def test_labels_that_look_alike_are_found(left: str, right: str) -> None:
    assert look_alikes([left, "m", right]) == [tuple(sorted((left, right)))]


@pytest.mark.parametrize("labels", [["a", ONE], ["ɣ", "ɤ"], ["t", "tʰ"], ["a", "aː"], ["AH", "ah"], ["s", "ʃ"]])
def test_labels_that_differ_to_the_eye_are_not(labels: list[str]) -> None:
    assert look_alikes(labels) == []


def test_characters_are_named_by_number() -> None:
    assert spelt_out("ɡː") == "ɡː = U+0261 U+02D0"


def test_foldings_are_read_in_the_same_form() -> None:
    fold = folding({TWO: "a", "o\u0303": None})
    assert fold.apply([ONE, TWO, "\u00f5", "x"]) == ["a", "a", "x"]
