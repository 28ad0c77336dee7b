"""Phone sets, one spelling for each phone, and which spellings look alike."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speechctc.core.errors import InputError
from speechctc.phones.inventory import (
    CMU39,
    TIMIT39,
    TIMIT48,
    TIMIT61,
    Inventory,
    inventory_of,
    named_inventory,
    nfc,
    spelling_variants,
)


def test_the_sets_have_their_published_sizes() -> None:
    assert [len(TIMIT61), len(TIMIT48), len(TIMIT39), len(CMU39)] == [61, 48, 39, 39]
    assert all(len(set(labels)) == len(labels) for labels in (TIMIT61, TIMIT48, TIMIT39, CMU39))


@given(st.lists(st.sampled_from(TIMIT61)))
def test_decoding_undoes_encoding_and_blank_is_never_a_phone(labels: list[str]) -> None:
    numbers = named_inventory("timit61").encode(labels)
    assert all(1 <= number <= 61 for number in numbers)
    assert named_inventory("timit61").decode(numbers) == labels


@pytest.mark.parametrize(
    ("phone_set", "label", "message"),
    [
        ("timit61", "axx", "'axx' is not in the phone set timit61; .*ax"),
        ("timit61", "sil", "corpus.phones to a set that contains it: timit48, timit39"),
        ("timit61", "AH0", "'ah0'"),  # stress digits are those of CMU alone
        ("cmu39", "@@@", "the set: aa ae ah"),
    ],
)
def test_a_label_of_no_phone_says_what_is_near(phone_set: str, label: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        named_inventory(phone_set).encode([label])


def test_cmu_labels_lose_case_and_stress() -> None:
    cmu = named_inventory("cmu39")
    assert cmu.decode(cmu.encode(["HH", "AH0", "L", "OW1", "er2"])) == ["hh", "ah", "l", "ow", "er"]


def test_an_unknown_set_is_named_with_its_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'timit61'"):
        named_inventory("timit-61")


def test_a_found_set_is_in_order_whatever_the_labels_order() -> None:
    assert inventory_of(["b", "a", "b", "ʃ"]) == inventory_of(["ʃ", "a", "b"]) == Inventory("found", ("a", "b", "ʃ"))


def test_labels_and_readers_load_no_torch() -> None:
    source = "import sys, speechctc.phones.inventory, speechctc.audio.sound_file, speechctc.corpora.registry"
    source += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


ONE, TWO = "\u00e3", "a\u0303"


def test_one_character_and_letter_with_mark_are_one_phone() -> None:
    assert nfc(TWO) == ONE and nfc("n̥") == "n̥" and nfc("aa") == "aa"
    assert inventory_of([ONE, TWO, "a"]).phones == ("a", ONE)
    assert inventory_of([ONE]).encode([TWO, ONE]) == [1, 1]


def test_a_set_of_an_older_model_keeps_its_own_spellings_apart() -> None:
    both = Inventory("found", (TWO, ONE, "e\u0301"))
    assert both.encode([TWO, ONE]) == [1, 2]
    assert both.encode(["\u00e9", "e\u0301"]) == [3, 3]


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
        ("o˥˧̃˧˩ õ˥˧˧˩ õ˥˧", ["o˥˧̃˧˩ õ˥˧˧˩"]),
        ("Sangpha sangpha", ["Sangpha sangpha"]),
        ("s s\u200e s\x7f s\ufeff k", ["s s\x7f s\u200e s\ufeff"]),
    ],
)
def test_spellings_of_one_phone_are_found(labels: str, groups: list[str]) -> None:
    assert spelling_variants(labels.split()) == [tuple(group.split()) for group in groups]


@pytest.mark.parametrize(
    "labels", [["a", ONE], ["ɣ", "ɤ"], ["t", "tʰ"], ["a", "aː"], ["tS", "ts"], ["s", "ʃ", "S"], ["á", "à", "e˥"]]
)
def test_different_phones_are_not(labels: list[str]) -> None:
    assert spelling_variants(labels) == []
