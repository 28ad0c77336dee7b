"""``speechctc lm`` as a user would run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import test_cli
from tests.test_cli import Command, one_line_error

speechctc = test_cli.speechctc

TEXT = "a b c\n\nb b\r\n  a  c b \n"


@pytest.fixture
def text(here: Path) -> Path:
    (here / "phones.txt").write_text(TEXT, newline="")
    return Path("phones.txt")


def test_an_ngram_of_a_text_and_its_perplexities(speechctc: Command, text: Path) -> None:
    for order, name in ((1, "one.arpa"), (3, "three.arpa.gz")):
        done = speechctc("lm", "train", "--order", order, "--text", text, "--out", name)
        assert done.status == 0 and f"{order}-gram of 8 phones in 3 utterances" in done.out
    done = speechctc(
        "lm", "perplexity", "--lm", "one.arpa", "--lm", "three.arpa.gz", "--text", text, "--json", "found.json"
    )
    rows = json.loads(Path("found.json").read_text())
    assert done.status == 0 and [row["lm"] for row in rows] == ["one.arpa", "three.arpa.gz"]
    assert rows[0]["phones"] == 8 and rows[1]["perplexity"] < rows[0]["perplexity"] < 4
    assert f"{rows[1]['perplexity']:.2f}" in done.out.splitlines()[2]


def test_a_corpus_gives_its_training_labels_and_its_phones(speechctc: Command, taught: Path, here: Path) -> None:
    (here / "c.yaml").write_text("corpus: {kind: table}\n")
    tables = [f"corpus.tables.{k}={path}" for k, path in _tables(taught).items()]
    done = speechctc("lm", "train", "--config", "c.yaml", *tables, "--order", 2, "--out", "lm.arpa")
    assert done.status == 0 and "24 utterances (train)" in done.out
    done = speechctc("lm", "perplexity", "--lm", "lm.arpa", "--config", "c.yaml", *tables, "--split", "test")
    assert done.status == 0 and done.out.splitlines()[1].split()[1] == "test"


def _tables(taught: Path) -> dict[str, str]:
    about = json.loads((taught / "best" / "checkpoint.json").read_text())
    tables: dict[str, str] = about["config"]["corpus"]["tables"]
    return tables


def test_samples_repeat_and_go_on_from_a_prefix(speechctc: Command, text: Path) -> None:
    speechctc("lm", "train", "--text", text, "--out", "lm.arpa")
    draw = ("lm", "sample", "--lm", "lm.arpa", "--count", 4, "--prefix", "c b", "--seed", 3)
    done = speechctc(*draw)
    assert done.status == 0 and done == speechctc(*draw)
    assert [line[:3] for line in done.out.splitlines()] == ["c b"] * 4


def test_what_is_wrong_is_one_line_and_nothing_is_overwritten(speechctc: Command, text: Path) -> None:
    speechctc("lm", "train", "--text", text, "--out", "lm.arpa")
    before = Path("lm.arpa").read_bytes()
    Path("empty.txt").write_text(" \n\n")
    Path("bytes.txt").write_bytes(b"\xff\xfea")
    Path("other.txt").write_text("a x y\nx")
    Path("folder").mkdir()
    train, score = ("lm", "train", "--out", "new.arpa"), ("lm", "perplexity", "--lm", "lm.arpa")
    for arguments, message in (
        (("lm", "train", "--text", text, "--out", "lm.arpa"), "lm.arpa: exists already"),
        ((*train, "--text", "empty.txt"), "empty.txt: no phones in it"),
        ((*train, "--text", "bytes.txt"), "bytes.txt: cannot be read as a UTF-8 text"),
        ((*train, "--text", "none.txt"), "none.txt: cannot be read as a UTF-8 text (No such file"),
        ((*train, "--text", text, "--phones", "cmu39"), "4 words are not of the 39 phones (cmu39): a c"),
        (train, "give either --config or --text"),
        ((*train, "--text", text, "--config", "demo"), "give either --config or --text"),
        ((*score, "--text", "other.txt"), "other.txt: 3 words are not of the 3 phones (found): x y"),
        (score, "nothing to score"),
        (("lm", "perplexity", "--lm", "folder", "--text", text), "folder: no language model in this folder"),
        (("lm", "sample", "--lm", "none.arpa"), "none.arpa: no such language model"),
        (("lm", "sample", "--lm", "lm.arpa", "--prefix", "a q"), "--prefix: 1 words are not of the 3 phones"),
        (("lm", "sample", "--lm", "lm.arpa", "--count", "0"), "--count 0"),
    ):
        assert message in one_line_error(speechctc(*arguments))
    assert Path("lm.arpa").read_bytes() == before and not Path("new.arpa").exists()
