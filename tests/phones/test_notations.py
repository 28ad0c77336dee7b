"""Phones in IPA, X-SAMPA and ARPABET, and by a table of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.core.errors import InputError
from speechctc.phones.articulation import SOUNDS
from speechctc.phones.inventory import CMU39, TIMIT61, nfc
from speechctc.phones.label_rules import choose_symbols, from_xsampa, mixed_notations, notation_of, to_xsampa

KNOWN = {  # from Wells (1995)
    "p": "p", "ʈ": "t`", "ɟ": "J\\", "ɢ": "G\\", "ʔ": "?", "ɱ": "F", "ŋ": "N", "ʙ": "B\\", "ɾ": "4", "ɸ": "p\\",
    "θ": "T", "ð": "D", "ʃ": "S", "ʒ": "Z", "ç": "C", "ɣ": "G", "χ": "X", "ʁ": "R", "ħ": "X\\", "ɬ": "K", "ɹ": "r\\",
    "ɻ": "r\\`", "ɰ": "M\\", "ʎ": "L", "ɨ": "1", "ʉ": "}", "ɯ": "M", "ɪ": "I", "ø": "2", "ə": "@", "ɜ": "3", "ʌ": "V",
    "æ": "{", "ɐ": "6", "ɑ": "A", "ɒ": "Q", "t͡ʃ": "t_S", "kʰ": "k_h", "aː": "a:", "ã": "a~", "n̩": "n=", "pʼ": "p_>",
    "ɓ": "b_<", "ǃ": "!\\", "ǁ": "|\\|\\", "ˈe": '"e', "t̪": "t_d", "ɝ": "3`",
}  # fmt: skip


def test_symbols_are_those_of_the_standard_both_ways() -> None:
    assert {ipa: to_xsampa(ipa) for ipa in KNOWN} == KNOWN
    assert {from_xsampa(xsampa) for xsampa in KNOWN.values()} == {nfc(ipa) for ipa in KNOWN}


def test_every_symbol_of_the_chart_goes_there_and_back() -> None:
    without = [symbol for symbol in SOUNDS if to_xsampa(symbol) is None]
    assert set(without) <= {"ⱱ", "ᶑ"}, without
    chart = [symbol for symbol in SOUNDS if symbol not in without and symbol != "g"]
    assert [from_xsampa(to_xsampa(symbol) or "") for symbol in chart] == chart


def test_the_notation_of_a_set_is_told_by_its_labels() -> None:
    assert notation_of(CMU39) == notation_of(TIMIT61) == "arpabet"
    assert notation_of(("t_S", "a~", "@", "sil")) == "xsampa"
    assert notation_of(("tʃ", "ã", "ə")) == notation_of(("a", "b", "sil")) == "ipa"


@pytest.mark.parametrize("phones", [CMU39, TIMIT61, tuple(KNOWN)])
@pytest.mark.parametrize("choice", ["ipa", "xsampa"])
def test_whole_sets_are_written_and_told_apart(phones: tuple[str, ...], choice: str) -> None:
    symbols = choose_symbols(phones, choice)
    shown = [symbols.written.get(phone, phone) for phone in phones]
    assert len(set(shown)) == len(phones) and not symbols.note
    if choice == "xsampa":
        assert all(symbol.isascii() for symbol in shown)


def test_ipa_is_written_as_arpabet_where_that_has_it() -> None:
    symbols = choose_symbols(("t͡ʃ", "ɡ", "iː", "i", "ɹ", "y", "sil"), "arpabet")
    assert symbols.written == {"t͡ʃ": "ch", "ɡ": "g", "iː": "iy", "i": "iy", "ɹ": "r"}
    assert symbols.note == (
        "--symbols arpabet: 1 phones have no symbol in it and stay as they are: y; several phones are written alike: "
        "iː and i as iy"
    )
    back = choose_symbols(CMU39, "ipa").written
    assert {phone: choose_symbols((back[phone],), "arpabet").written[back[phone]] for phone in CMU39} == {
        p: p for p in CMU39
    }


def test_a_table_of_the_user_replaces_all(tmp_path: Path) -> None:
    table = tmp_path / "mine.tsv"
    table.write_text("sh\tš\nã\tan\n", encoding="utf-8")
    symbols = choose_symbols(("sh", "ã", "x"), str(table))
    assert symbols.written == {"sh": "š", "ã": "an"} and "stay as they are: x" in symbols.note
    assert choose_symbols(("sh",), "own") == ({}, "")
    table.write_text("sh\ts h\n")
    with pytest.raises(InputError, match="not one symbol for sh"):
        choose_symbols(("sh",), str(table))
    with pytest.raises(InputError, match="--symbols klingon: no such file; choose one of own, ipa"):
        choose_symbols(("sh",), "klingon")


@pytest.mark.parametrize(
    ("labels", "pairs"),
    [
        ("a E @ S t ɛ ə ʃ", "@ ə, E ɛ, S ʃ"),
        ("t_S A: n@ tʃ ɑː a: O ɔ", "A: ɑː, O ɔ, t_S tʃ"),  # a: and aː are two spellings, of which others tell
        ("AE1 ih0 SH t æ ɪ ʃ", "AE1 æ, SH ʃ, ih0 ɪ"),
        ("ng nd E ŋ ɛ", ""),  # prenasalised stops, an archiphoneme: two are no notation
        ("sil h# pau SIL", ""),
    ],
)
def test_labels_in_two_notations_are_found(labels: str, pairs: str) -> None:
    assert ", ".join(map(" ".join, mixed_notations(labels.split()))) == pairs


def test_one_notation_is_not_taken_for_two() -> None:
    chart = [*SOUNDS, *(f"{symbol}{mark}" for symbol in SOUNDS for mark in ("ʰ", "ʲ", "ː", "̃"))]
    for labels in (CMU39, TIMIT61, chart, [to_xsampa(symbol) or "sil" for symbol in chart]):
        assert mixed_notations(labels) == []
