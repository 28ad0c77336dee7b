"""Notations: X-SAMPA (Wells), ARPABET, Praat's symbols (beside Praat's own conversion), and which one labels are in."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.phones import praat as praat_symbols
from speechctc.phones.articulation import SOUNDS
from speechctc.phones.inventory import CMU39, TIMIT61, nfc
from speechctc.phones.label_rules import LabelRules
from speechctc.phones.notations import (
    choose_symbols,
    from_xsampa,
    is_xsampa,
    mixed_notations,
    notation_of,
    to_xsampa,
    xsampa_in_ipa,
)
from speechctc.phones.praat import from_praat

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


def test_labels_in_other_spellings_have_the_symbols_of_their_sounds() -> None:
    own = ("g", "ʧ", "ε", "ꭧ", "kʼ")
    assert choose_symbols(own, "xsampa").written == dict(zip(own, ("g", "tS", "E", "ts`", "k_>"), strict=True))
    arpabet = choose_symbols(own, "arpabet")
    assert arpabet.written == {"g": "g", "ʧ": "ch", "ε": "eh"}
    assert "2 phones have no symbol" in arpabet.note


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


# Phones of languages in the SAMPA of their pages by Wells, or as WebMAUS writes them.
XSAMPA = {
    "English": "p b t d k g tS dZ f v T D s z S Z h m n N r l w j I e { Q V U @ i: eI aI OI u: @U aU I@ e@ U@ 3: A: O:",
    "German": "p b t d k g pf ts tS f v s z S C j x h m n N l R I E a O U Y 9 i: e: E: a: o: u: y: 2: aU OY @ 6 <p:>",
    "Spanish": "p b t d k g tS jj f B T D s x G m n J l L r rr j w i e a o u",
    "French": "p b t d k g f v s z S Z j m n J N l R w H i e E a A O o u y 2 9 @ e~ a~ o~ 9~",
    "Italian": "p b t d k g ts dz tS dZ f v s z S m n J r l L i e E a O o u j w bb ttS",
    "X-SAMPA": "p t` d` r\\ r\\` 4 N n` S s` Z @ @` { } 1 M 7 8 O: a_~ t_h k_w",
}
OTHERS = {
    "ARPABET": "AA1 AE0 AH0 IY1 UW2 B CH D DH K S SH T Z NG",
    "IPA": "p t k s n m l a e i o u ʃ ŋ ə",
    "ASCII": "p t k b d g m n N s h l r w j a e i o u",
    "Pinyin": "b p m f d t n l a1 a2 a3 a4 o1 i1 i2 e3 e4 u2 N zh ch sh",
    "mrpa": "@ @@ a aa ai au b ch d dh e e@ ei f g h i i@ ii jh k l m n ng o oi oo ou p r s sh t th u u@ uh uu v w z",
    "Japanese": "a i u e o a: i: N q k s t n h m y r w g z d b p ky sy ts ch sh",
    "DISC": "p b t d k g N m n l r f v T D s z S Z j h w J _ I E { V Q U @ i u 1 2 4 5 6 7 8 9 3 # $",
    "Kirshenbaum": "p b t d k g tS dZ f v T D s z S Z h m n N r l w j I E & A V U @ i u R eI aI OI oU aU",
    "capitals": "A B D E G I K L M N O P S T U",
    "words": "the cat sat on a mat",
}


@pytest.mark.parametrize("name", [*XSAMPA, *OTHERS])
def test_xsampa_and_no_other_notation_is_told_by_its_labels(name: str) -> None:
    assert is_xsampa({**XSAMPA, **OTHERS}[name].split()) == (name in XSAMPA)


def test_labels_in_xsampa_are_read_as_ipa_where_asked() -> None:
    rules = LabelRules({"Q": ("ʔ",)}, notation="xsampa", marks={"length": "strip"})
    said = [rules.phones(label) for label in ("aI", "i:", "tS", "=n", "Q", "<p:>", "ʃ", "n=", "#x")]
    assert said == [("aɪ",), ("i",), ("tʃ",), ("n̩",), ("ʔ",), ("<p:>",), ("ʃ",), ("n̩",), ("#x",)]
    assert "tS as tʃ" in rules.notes()[0]


def test_labels_that_look_like_xsampa_are_told_and_read_where_asked() -> None:
    labels = XSAMPA["German"].split()

    def read(**settings: object) -> tuple[tuple[str, ...], list[str]]:
        builder = CorpusBuilder.for_config(CorpusConfig(kind="textgrid", **settings))
        phones, _ = builder.labels(labels)
        return tuple(phones), [*builder.to_corpus(0.1, False).warnings]

    assert read()[0] == tuple(labels)
    assert read(notation="xsampa")[0][-4:] == ("ɔʏ", "ə", "ɐ", "<p:>")


def test_few_labels_are_xsampa_where_all_can_be_and_one_is_no_ipa() -> None:
    assert xsampa_in_ipa("h @ l oU".split()) == {"h": "h", "@": "ə", "l": "l", "oU": "oʊ"}
    assert not xsampa_in_ipa("h ə l oʊ".split()) and not xsampa_in_ipa("h a l o".split())
    assert not xsampa_in_ipa("hh ah l ow".split()) and not xsampa_in_ipa("h @ #l".split())


def test_praats_symbols_are_what_praat_shows() -> None:
    praat = pytest.importorskip("parselmouth.praat")
    grid = praat.call("Create TextGrid", 0, 1, "a", "")
    assert len(praat_symbols._praat()) > 400
    for signs in praat_symbols._praat():
        praat.call(grid, "Set interval text", 1, 1, f"a\\{signs}e")
        praat.call(grid, "Convert to Unicode")
        assert list(from_praat([f"a\\{signs}e"])) == [praat.call(grid, "Get label of interval", 1, 1)]


def test_praats_symbols_are_read_all_or_none_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    praat_symbols.tell_of_praat.cache_clear()
    assert list(from_praat(["i\\:f", "d\\zh", "a", "t\\li\\sh"])) == ["iː", "dʒ", "a", "t͡ʃ"]
    assert list(from_praat(["\\ae"])) == ["æ"]
    xsampa = ["r\\", "h\\u:l", "a"]
    assert from_praat(xsampa) == xsampa
    assert caplog.messages == ["labels with Praat's backslash symbols are read as Praat shows them (\\sh as ʃ)"]
