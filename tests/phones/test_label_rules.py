"""Labels read as phones (beside panphon's segmentation), and foldings (the published ones)."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.phones.folding import choose_folding, parse_folding
from speechctc.phones.inventory import CMU39, TIMIT39, TIMIT48, TIMIT61, inventory_of, named_inventory
from speechctc.phones.label_rules import LabelRules, are_strings, divide_phone, segment_ipa
from speechctc.phones.marks import apply_marks, kind_of
from speechctc.phones.notations import read_map


@pytest.mark.parametrize("text", ["r\tɹ\r\ntʃ\tt ʃ\n\nsp\t\n", "\ufeffr;ɹ\ntʃ;t ʃ\nsp;\n", "r,ɹ\ntʃ,t ʃ\nsp\n"])
def test_a_map_is_a_table_of_two_columns_as_spreadsheets_save_it(tmp_path: Path, text: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / "map").write_bytes(text.encode(encoding))
        assert read_map(tmp_path / "map").phones == {"r": ("ɹ",), "tʃ": ("t", "ʃ"), "sp": ()}
    (tmp_path / "map").write_text("aa ɑ\nsil\n# <p>\n")
    assert read_map(tmp_path / "map").phones == {"aa": ("ɑ",), "sil": (), "#": ("<p>",)}, "# is a label of pauses"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\tb\tc\n", "line 1: 'a\\\\tb\\\\tc' is not two"),
        ("a\tb\n\na\tc", "line 3: 'a' stands for two"),
        ("\n", "no labels"),
    ],
)
def test_a_wrong_map_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "map.tsv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_map(tmp_path / "map.tsv")


def test_whole_labels_are_looked_up_first_and_then_their_symbols() -> None:
    rules = LabelRules({"xa": ("!",), "r": ("ɹ", "ə"), "a": ("ɑː",), "_": ()}, "ipa", {"length": "strip"})
    found = [rules.phones(label) for label in ("xa", "xar", "kar r", "_")]
    assert found == [("!",), ("x", "ɑ", "ɹ", "ə"), ("k", "ɑ", "ɹ", "ə", "ɹ", "ə"), ()]
    assert rules.notes() == ["labels read as corpus.map says: r as ɹ ə (3), a as ɑː (2), xa as ! (1), _ as nothing (1)"]
    assert not rules.unused() and LabelRules({"q": ("k",)}).unused() == ["q"]


def test_a_corpus_is_read_by_its_map_and_its_switches(tmp_path: Path) -> None:
    rows = ["id\taudio\tphones\tspeaker"] + [f"u{k}\ta.wav\tAH0 r̃ sil kʰãt\ts{k}" for k in range(3)]
    (tmp_path / "t.tsv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "a.wav").write_bytes(b"")
    (tmp_path / "map.tsv").write_text("r̃\tɹ\nzz\tz\n", encoding="utf-8")
    config = CorpusConfig(
        kind="table",
        tables=TablesConfig(train=tmp_path / "t.tsv"),
        map=tmp_path / "map.tsv",
        ignore=("sil",),
        segment="ipa",
        diacritics="strip",
        stress="strip",
    )
    corpus = read_corpus(config)
    assert {u.phones for part in corpus.splits.values() for u in part} == {("A", "H0", "ɹ", "k", "a", "t")}
    plain = read_corpus(config.model_copy(update={"segment": "labels", "map": None}))
    assert {u.phones for part in plain.splits.values() for u in part} == {("AH", "r", "kat")}
    assert "labels left out, as corpus.ignore says: sil (3)" in corpus.notes
    assert "labels read as corpus.map says: r̃ as ɹ (3)" in corpus.notes
    assert "corpus.map names labels that do not occur: zz" in corpus.warnings


@pytest.mark.parametrize(
    ("label", "choices", "phones"),
    [
        ("ˈãː˥˩", {}, ["ˈãː˥˩"]),
        ("ˈãː˥˩", {"tone": "strip"}, ["ˈãː"]),
        ("ˈãː˥˩", {"tone": "split", "stress": "split"}, ["ˈ", "ãː", "˥˩"]),
        ("ˈãː˥˩", {"tone": "strip", "stress": "strip", "length": "strip", "diacritics": "strip"}, ["a"]),
        ("ã", {"diacritics": "split"}, ["a", "◌̃"]),
        ("á", {"tone": "split", "diacritics": "strip"}, ["a", "◌\u0301"]),
        ("á", {"diacritics": "strip"}, ["á"]),
        ("ç", {"diacritics": "strip"}, ["ç"]),
        ("t͡ɕʰʷ", {"diacritics": "strip"}, ["t͡ɕ"]),
        ("a:", {"length": "strip"}, ["a"]),
        ("o˥˧̃˧˩", {"tone": "split"}, ["õ", "˥˧˧˩"]),
        ("AH0", {"stress": "split"}, ["0", "AH"]),
        ("AH0", {"stress": "strip"}, ["AH"]),
        ("AH0", {"tone": "strip"}, ["AH0"]),
        ("ˈ", {"stress": "strip"}, []),
        ("ː", {"length": "split"}, ["ː"]),
        ("sil", {"diacritics": "strip", "tone": "strip"}, ["sil"]),
    ],
)
def test_marks_are_kept_stripped_or_split(label: str, choices: dict[str, str], phones: list[str]) -> None:
    assert list(apply_marks(label, choices)) == phones  # type: ignore[arg-type]
    decomposed = unicodedata.normalize("NFD", label)
    assert list(apply_marks(decomposed, choices)) == phones or not choices  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("kæt", "k æ t"),
        ("ˈt͡ʃiːz", "ˈt͡ʃ iː z"),
        ("pʰa˥˩.ma55", "pʰ a˥˩ m a55"),
        ("ⁿdã t͜ʃʼ", "ⁿd ã t͜ʃʼ"),
        ("aːˈba ‖ ˌlʲi", "aː ˈb a ˌlʲ i"),
        ("k͡pʷ", "k͡pʷ"),
        ("n̩ɹ̩ɚ", "n̩ ɹ̩ ɚ"),
        ("", ""),
        ("ç̞ç", "ç̞ ç"),
        ("/ˈka.ta/", "ˈk a t a"),
        ("[ka ˈta]", "k a ˈt a"),
        ("ka-ti=ma+pu#ʃu–ko", "k a t i m a p u ʃ u k o"),
    ],
)
def test_a_symbol_is_a_letter_with_its_marks(text: str, symbols: str) -> None:
    wanted = [unicodedata.normalize("NFC", symbol) for symbol in symbols.split()]
    assert list(segment_ipa(text)) == wanted
    assert list(segment_ipa(unicodedata.normalize("NFD", text))) == wanted


def test_segments_are_those_of_panphon() -> None:
    panphon = pytest.importorskip("panphon", reason="panphon is not installed")
    table = panphon.FeatureTable()
    words = "kæt t͡ʃiːz pʰat bãd n̥a tʷi n̩ ɡʲul sʼa d͡ʒoʊ mʊʁ ɸe ɬoq l̪a bʰi ʈʂa kʰɯ".split()
    for word in words:
        ours = [unicodedata.normalize("NFD", symbol) for symbol in segment_ipa(word)]
        assert ours == table.ipa_segs(unicodedata.normalize("NFD", word)), word


def test_letters_with_a_diacritic_lose_it_too() -> None:
    assert [apply_marks(each, {"diacritics": "strip"}) for each in "ɫɚɝ"] == [("l",), ("ə",), ("ɜ",)]
    assert [apply_marks(each, {"length": "strip"}) for each in "ɫɚɝ"] == [("ɫ",), ("ɚ",), ("ɝ",)]


def test_classes_are_those_of_unicodes_names() -> None:
    assert {kind_of(sign) for sign in "˥˩³\u0301\u0300"} == {"tone"}
    assert {kind_of(sign) for sign in "ʰʲʼ˞\u0303\u0329"} == {"diacritics"}
    assert {kind_of(sign) for sign in "aɡʔǃʘ\u0361\u0327"} == {None}


@pytest.mark.parametrize(
    ("label", "diphthongs", "affricates"),
    [
        ("aɪ", ["a", "ɪ"], ["aɪ"]),
        ("iɑu", ["i", "ɑ", "u"], ["iɑu"]),
        ("ɐ̃ʊ", ["ɐ̃", "ʊ"], ["ɐ̃ʊ"]),
        ("eːɪ̯", ["eː", "ɪ̯"], ["eːɪ̯"]),
        ("t͡ʃʰ", ["t͡ʃʰ"], ["t", "ʃʰ"]),
        ("ʈʂ", ["ʈʂ"], ["ʈ", "ʂ"]),
        ("aɹ", ["aɹ"], ["aɹ"]),
        ("ãː", ["ãː"], ["ãː"]),
        ("kʼ", ["kʼ"], ["kʼ"]),
    ],
)
def test_diphthongs_and_affricates_are_divided(label: str, diphthongs: list[str], affricates: list[str]) -> None:
    assert list(divide_phone(label, diphthongs=True, affricates=False)) == diphthongs
    assert list(divide_phone(label, diphthongs=False, affricates=True)) == affricates
    assert divide_phone(label, diphthongs=False, affricates=False) == (label,)


PHONES = {
    "ARPABET": CMU39,
    "TIMIT": TIMIT61,
    "ARPABET with stress": [f"{phone.upper()}{k}" for phone in CMU39 if phone[0] in "aeiou" for k in range(3)],
    "IPA": "a b d e f ɡ h i j k l m n o p r s t u v z ə ɛ ɔ ʃ ʒ".split(),
    "diphthongs and affricates": "aɪ aʊ eɪ oʊ ɔɪ ɪə eə ʊə aɪə tʃ dʒ t͡s d͡z pf ts kp ɡb ndʒ a k s ə".split(),
    "tones": "a˥ a˧˥ a˨˩˦ a˥˩ i˥ i˧˥ u˥˩ iau˥ uai˧˥ ʈʂʰ tɕʰ ʂ ɕ m n ŋ".split(),
    "pinyin": "b p m f d t n l g k h j q x zh ch sh r z c s a o e ai ei ao ou an en ang eng ong i ia".split(),
    "SAMPA": "a a: E I i: o: U Y 2: 9 @ 6 aI aU OY p b t d k g f v s z S Z C x h m n N l R j ts tS pf".split(),
    "names of classes": ["low", "mid", "high"],
    "none": [],
}


@pytest.mark.parametrize("name", PHONES)
def test_phones_are_not_strings(name: str) -> None:
    assert not are_strings(Counter(PHONES[name]))


@pytest.mark.parametrize(
    "labels",
    ["səkvɯ ʔut͡ɕʰiboɹa a kʰu", "sə˥˧kvɯ˥˩ ʔu˧˩t͡ɕʰi˧˩bo˧˩ɹa˧˩", "ˈɡuːtən taːk", "kata tapa pata taka paka kapa patapa"],
)
def test_words_in_ipa_are_strings(labels: str) -> None:
    assert are_strings(Counter(labels.split()))


# The 39 classes as the literature prints them: those of more than one label; q belongs to none.
CLASSES = """
    aa: aa ao | ah: ah ax ax-h | er: er axr | hh: hh hv | ih: ih ix | l: l el | m: m em | n: n en nx | ng: ng eng
    | sh: sh zh | uw: uw ux | sil: pcl tcl kcl bcl dcl gcl h# pau epi
"""


def published_classes() -> dict[str, str]:
    classes = (entry.split(":") for entry in CLASSES.split("|"))
    return {member: name.strip() for name, members in classes for member in members.split()}


def test_61_labels_fold_to_the_published_39_classes() -> None:
    expected = {label: published_classes().get(label, label) for label in TIMIT61 if label != "q"}
    fold = parse_folding("timit39")
    assert {label: fold.apply([label])[0] for label in expected} == expected
    assert set(expected.values()) == set(TIMIT39)
    assert fold.apply(["q"]) == []


def test_48_lies_between_61_and_39() -> None:
    by_48 = [parse_folding("timit48").apply([label]) for label in TIMIT61]
    assert [parse_folding("timit39").apply(labels) for labels in by_48] == [
        parse_folding("timit39").apply([label]) for label in TIMIT61
    ]
    assert {label for labels in by_48 for label in labels} == set(TIMIT48)


@given(st.lists(st.sampled_from(TIMIT61)), st.sampled_from(["none", "timit48", "timit39", "cmu37"]))
def test_folding_twice_is_folding_once(labels: list[str], name: str) -> None:
    fold = parse_folding(name)
    assert fold.apply(fold.apply(labels)) == fold.apply(labels)


def test_a_mapping_of_the_users_folds_and_drops() -> None:
    fold = parse_folding({"a:": "a", "sil": None})
    assert fold.apply(["sil", "a:", "b", "a"]) == ["a", "b", "a"]
    assert "a: as a" in fold.protocol and "sil dropped" in fold.protocol


@pytest.mark.parametrize("mapping", [{"a": "b", "b": "c"}, {"a": "b", "b": None}])
def test_a_mapping_that_chains_is_refused(mapping: dict[str, str | None]) -> None:
    with pytest.raises(InputError, match="'a' to 'b', which is folded itself"):
        parse_folding(mapping)


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [("auto", "timit61", "timit39"), ("auto", "cmu39", "none"), ("auto", "found", "none"), ("cmu37", "cmu39", "cmu37")],
)
def test_auto_chooses_the_folding_of_the_set(spec: str, name: str, expected: str) -> None:
    phones_of_it = inventory_of(["a"]) if name == "found" else named_inventory(name)
    assert choose_folding(spec, phones_of_it).name == expected


def test_a_named_folding_of_another_phone_set_is_refused() -> None:
    with pytest.raises(InputError, match="score.fold=cmu37 does not fit: 2 of the 3 phones .*ɑ, ʃ.*score.fold=auto"):
        choose_folding("cmu37", inventory_of(["ɑ", "ʃ", "k"]))
    with pytest.raises(InputError, match="does not fit"):
        choose_folding("timit39", inventory_of(["x"]))
    for name in ("timit61", "timit48", "timit39"):
        assert choose_folding("timit39", named_inventory(name)).name == "timit39"
    assert choose_folding("cmu37", inventory_of(["aa", "k", "sil"])).name == "cmu37"
    assert choose_folding({"ɑ": "a"}, inventory_of(["ɑ", "ʃ"])).name == "custom"


def test_marks_can_be_left_out_of_a_score_by_class() -> None:
    phones = inventory_of(("a", "aː", "ã˥", "ã", "˥", "t"))
    fold = choose_folding("strip:tone,length", phones)
    assert fold.apply(["aː", "ã˥", "˥", "t", "a"]) == ["a", "ã", "t", "a"]
    assert fold.protocol == "phones that differ only in tone and length counted as one"
    for wrong in ("strip:", "strip:tone,colour"):
        with pytest.raises(InputError, match=r"name classes of marks: strip:tone,stress,length,diacritics"):
            choose_folding(wrong, phones)
