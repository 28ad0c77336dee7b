"""Labels read as phones by a map, and what is wrong with maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.phones.label_rules import LabelRules, read_map


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
    assert [rules.phones(label) for label in ("xa", "xar", "kar r", "_")] == [
        ("!",),
        ("x", "ɑ", "ɹ", "ə"),
        ("k", "ɑ", "ɹ", "ə", "ɹ", "ə"),
        (),
    ]
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
