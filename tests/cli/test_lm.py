"""``speechctc lm`` as a user would run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speechctc.phones.pronouncer import Pronouncer
from speechctc.stages.lm_texts import word_texts
from tests.command import Command, one_line_error
from tests.tiny_model import write_song
from tests.train_helpers import Recorder

TEXT = "a b c\n\nb b\r\n  a  c b \n"


@pytest.fixture
def text(here: Path) -> Path:
    (here / "phones.txt").write_text(TEXT, newline="")
    return Path("phones.txt")


def test_an_ngram_of_a_text_and_its_perplexities(speechctc: Command, text: Path) -> None:
    for order, name in ((1, "one.arpa"), (3, "three.arpa.gz")):
        done = speechctc("lm", "train", "--order", order, "--text", text, "--out", name)
        assert done.status == 0 and f"{order}-gram of 8 phones in 3 utterances" in done.out
    lms = ("--lm", "one.arpa", "--lm", "three.arpa.gz")
    score = ("lm", "perplexity", *lms, "--text", text, "--json", "found.json")
    done = speechctc(*score)
    rows = json.loads(Path("found.json").read_text())
    assert done.status == 0 and [row["lm"] for row in rows] == ["one.arpa", "three.arpa.gz"]
    assert rows[0]["phones"] == 8 and rows[1]["perplexity"] < rows[0]["perplexity"] < 4
    assert f"{rows[1]['perplexity']:.2f}" in done.out.splitlines()[2]
    Path("found.json").write_text("mine")
    assert "changed by hand" in one_line_error(speechctc(*score)) and Path("found.json").read_text() == "mine"


def test_a_corpus_gives_its_training_labels_and_its_phones(speechctc: Command, tiny_model: Path, here: Path) -> None:
    (here / "c.yaml").write_text("corpus: {kind: table}\n")
    tables = [f"corpus.tables.{k}={path}" for k, path in _tables(tiny_model).items()]
    done = speechctc("lm", "train", "--config", "c.yaml", *tables, "--order", 2, "--out", "lm.arpa")
    assert done.status == 0 and "24 utterances (train)" in done.out
    done = speechctc("lm", "perplexity", "--lm", "lm.arpa", "--config", "c.yaml", *tables, "--split", "test")
    assert done.status == 0 and done.out.splitlines()[1].split()[1] == "test"


def _tables(tiny_model: Path) -> dict[str, str]:
    about = json.loads((tiny_model / "best" / "checkpoint.json").read_text())
    tables: dict[str, str] = about["config"]["corpus"]["tables"]
    return tables


WORDS = """It was dark. "Who is there?" she said; nobody answered.
The cat sat on the mat. 漢字 is a word that English cannot read.
"""


def test_a_text_in_words_is_read_sentence_by_sentence(speechctc: Command, here: Path) -> None:
    (here / "words.txt").write_text(WORDS)
    (here / "own.dict").write_text("cat K AE1 T\nsat S AE1 T\nthe DH AH0\nmat M AE1 T\non AA1 N\n")
    train = ("lm", "train", "--text", "words.txt", "--order", 3)
    done = speechctc(*train, "--language", "en-us", "--phones", "english", "--out", "read.arpa")
    assert done.status == 0 and "phones in 5 utterances (words.txt)" in done.out
    assert "their sentences are left out: 漢字 (1)" in done.err
    assert "words.txt: 6 sentences in 2 lines, each an utterance of its own" in done.err
    done = speechctc(*train, "--dictionary", "own.dict", "--phones", "cmu39", "--out", "listed.arpa")
    assert done.status == 0 and "3-gram of 15 phones in 1 utterance (words.txt)" in done.out
    lines = Path("listed.arpa").read_text().splitlines()
    assert any(line.split("\t")[1:2] == ["<s> dh ah"] for line in lines)
    assert any(line.split("\t")[1:2] == ["ae t </s>"] for line in lines)
    (here / "phones.txt").write_text("k ae t\n")
    done = speechctc("lm", "perplexity", "--lm", "english", "--lm", "listed.arpa", "--text", "phones.txt")
    assert done.status == 0 and len(done.out.splitlines()) == 3


def test_marks_of_a_transcriber_are_no_words_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "d.dict").write_text("a  low\nb  mid high\n")
    texts = {"plain": "a b\nb a\n", "marked": "SPEAKER 1: a [noise] b\nsp b (0.5) a xxx\n[laughter]\n"}
    read = {}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
        reporter = Recorder()
        (found,) = word_texts([tmp_path / f"{name}.txt"], Pronouncer(tmp_path / "d.dict", None), reporter)
        read[name] = found.utterances
    assert read["marked"] == read["plain"] == [["low", "mid", "high"], ["mid", "high", "low"]]
    assert sum("no words: " in line and "[noise] (1)" in line for line in reporter.said) == 1


def test_narrow_phones_are_written_as_the_nearest_of_the_set(speechctc: Command, here: Path) -> None:
    (here / "t.txt").write_text("kʰ a t\nkʰ a ʈʂʰ\n")
    (here / "w.txt").write_text("cat cat\n")
    (here / "d.dict").write_text("cat\tkʰ a t\n")
    done = speechctc("lm", "train", "--text", "t.txt", "--phones", "ipa", "--out", "t.arpa")
    assert done.status == 0 and "kʰ as k (2), ʈʂʰ as ʈʂ (1)" in done.err
    words = ("lm", "train", "--text", "w.txt", "--dictionary", "d.dict", "--out", "w.arpa", "--phones")
    done = speechctc(*words, "ipa")
    assert done.status == 0 and done.err.count("kʰ as k") == 1
    done = speechctc(*words[:-3], "--out", "own.arpa")
    assert done.status == 0 and "kʰ" in Path("own.arpa").read_text() and "kʰ as k" not in done.err
    (here / "t.txt").write_text("the cat sat\n")
    assert "are not of the" in one_line_error(
        speechctc("lm", "train", "--text", "t.txt", "--phones", "ipa", "--out", "x")
    )


@pytest.mark.parametrize("ending", ["tsv", "csv", "xlsx"])
def test_a_table_is_read_by_its_column_of_words_or_phones(speechctc: Command, here: Path, ending: str) -> None:
    rows = [("id", "audio", "words"), ("1", "cat on.wav", "The cat sat"), ("2", "b.wav", "on mat"), ("3", "c.wav", "")]
    (here / "own.dict").write_text("cat K AE1 T\nsat S AE1 T\nthe DH AH0\nmat M AE1 T\non AA1 N\n")
    train = ("lm", "train", "--text", f"t.{ending}", "--phones", "cmu39")

    def write(rows: list[tuple[str, str, str]]) -> None:
        if ending != "xlsx":
            (here / f"t.{ending}").write_text("".join("\t;"[ending == "csv"].join(row) + "\n" for row in rows))
            return
        book = pytest.importorskip("openpyxl").Workbook()
        for row in rows:
            book.active.append(row)
        book.save(here / "t.xlsx")

    write(rows)
    done = speechctc(*train, "--dictionary", "own.dict", "--out", "w.arpa")
    assert done.status == 0 and f"of 13 phones in 2 utterances (t.{ending})" in done.out, done.err
    assert "words need --language" in one_line_error(speechctc(*train, "--out", "p.arpa"))
    write([("id", "audio", "phones"), ("1", "a.wav", "k ae t"), ("2", "b.wav", "s ae")])
    done = speechctc(*train, "--out", "p.arpa")
    assert done.status == 0 and "of 5 phones in 2 utterances" in done.out


def test_labels_and_texts_count_together_and_rare_strings_may_go(
    speechctc: Command, tiny_model: Path, here: Path
) -> None:
    (here / "c.yaml").write_text("corpus: {kind: table}\n")
    tables = [f"corpus.tables.{k}={path}" for k, path in _tables(tiny_model).items()]
    phones = json.loads((tiny_model / "best" / "checkpoint.json").read_text())["phones"]["list"]
    (here / "more.txt").write_text(" ".join(phones) + "\n")
    train = ("lm", "train", "--config", "c.yaml", *tables, "--text", "more.txt", "--times", 3, "--order", 3)
    whole, pruned = speechctc(*train, "--out", "whole.arpa"), speechctc(*train, "--prune", 0.01, "--out", "pruned.arpa")
    assert whole.status == 0 and "73 utterances (train, more.txt)" in whole.out and pruned.status == 0
    assert 0 < Path("pruned.arpa").stat().st_size < 0.9 * Path("whole.arpa").stat().st_size
    done = speechctc(*train, "--phones", "cmu39", "--out", "new.arpa")
    assert "--phones and --config both name a phone set" in one_line_error(done)


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
    Path("other.txt").write_text("a 7 Q\n7")
    Path("folder").mkdir()
    Path("many.txt").write_text(" ".join(f"w{k}" for k in range(600)))
    Path("odd.txt").write_text("--- ...\n\n???\n")
    train, score = ("lm", "train", "--out", "new.arpa"), ("lm", "perplexity", "--lm", "lm.arpa")
    for arguments, message in (
        (("lm", "train", "--text", text, "--out", "lm.arpa"), "lm.arpa: exists already"),
        ((*train, "--text", "empty.txt"), "empty.txt: no phones in it"),
        ((*train, "--text", text, "--phones", "cmu39"), "4 words are not of the 39 phones (cmu39): a, c"),
        (train, "no text to learn from"),
        ((*train, "--text", text, "a.b=1"), "settings are for a config"),
        ((*train, "--text", text, "--phones", "nowhere"), "there is no phone set 'nowhere'"),
        ((*train, "--text", "many.txt"), "many.txt: 600 different phones, such as w0"),
        ((*train, "--text", "odd.txt", "--language", "en-us"), "odd.txt: no sentence in it that can be read"),
        ((*train, "--text", text, "--kind", "lstm", "--prune", "1"), "--prune is for n-grams"),
        ((*score, "--text", "other.txt"), "other.txt: 3 words are not of the 3 phones (found): 7, Q"),
        (score, "nothing to score"),
        (("lm", "perplexity", "--lm", "folder", "--text", text), "folder: no language model in this folder"),
        (("lm", "sample", "--lm", "lm.arpa", "--prefix", "a q"), "--prefix: 1 words are not of the 3 phones"),
    ):
        assert message in one_line_error(speechctc(*arguments))
    assert Path("lm.arpa").read_bytes() == before and not Path("new.arpa").exists()


@pytest.fixture
def model(tiny_model: Path, here: Path) -> Path:
    """Return a copy of the tiny_model model, with an n-gram that knows but one song, and an LSTM without any sense."""
    import shutil

    shutil.copytree(tiny_model / "best", here / "model")
    write_song(here / "a.wav", SONG)
    (here / "songs.txt").write_text("low mid high top\n" * 9 + "top low\n")
    return Path("model")


SONG = ["low", "mid", "mid", "high", "low", "top"]


def test_tuned_weights_lie_beside_the_model_and_are_used(speechctc: Command, model: Path) -> None:
    speechctc("lm", "train", "--text", "songs.txt", "--phones", "found", "--out", "lm.arpa")
    done = speechctc("lm", "tune", "--model", model, "--lm", "lm.arpa", "--beam", 4)
    assert done.status == 0 and "written: model/tuned.json" in done.out
    assert "not reliable: this choice is based on " in done.out and "phones (below 500)" in done.out
    (entry,) = json.loads((model / "tuned.json").read_text())["entries"]
    assert entry["beam"] == 4 and f"weight {entry['lm_weight']:g}" in done.out and len(entry["tried"]) > 30
    assert entry["per"] == min(tried[-1] for tried in entry["tried"])
    done = speechctc("decode", "a.wav", "--model", model, "--lm", "lm.arpa")
    assert f"language model: weight {entry['lm_weight']:g}, bonus {entry['lm_bonus']:g}, tuned on dev" in done.err
    assert "tuned" not in speechctc("decode", "a.wav", "--model", model).err
    done = speechctc("evaluate", "--model", model, "--split", "dev", "--lm", "lm.arpa")
    assert f"PER on dev: {entry['per']:.2f} %" in done.out and f"weight {entry['lm_weight']:g}," in done.out
    (model / "tuned.json").write_text((model / "tuned.json").read_text().replace('"beam": 4', '"beam": 5'))
    again = speechctc("lm", "tune", "--model", model, "--lm", "lm.arpa")
    assert "tuned.json: was changed by hand" in one_line_error(again)


def test_decoding_with_either_kind_and_both(speechctc: Command, model: Path) -> None:
    speechctc("lm", "train", "--text", "songs.txt", "--out", "lm.arpa")
    small = ("lm.hidden=8", "lm.embedding=4", "lm.layers=1", "lm.dropout=0", "lm.epochs=3", "lm.device=cpu")
    done = speechctc("lm", "train", "--kind", "lstm", "--text", "songs.txt", "--out", "lstm", *small)
    assert done.status == 0 and "1 of the 10 utterances, chosen at random, are held out" in done.err
    done = speechctc("lm", "perplexity", "--lm", "lm.arpa", "--lm", "lstm", "--text", "songs.txt")
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == ["lm.arpa", "lstm"]
    for lms in (("--lm", "lm.arpa"), ("--lm", "lstm"), ("--lm", "lstm", "--lm", "lm.arpa")):
        done = speechctc("decode", "a.wav", "--model", model, *lms, "--lm-weight", 0.01)
        assert done.status == 0 and done.out.split() == SONG
    done = speechctc("lm", "sample", "--lm", "lstm", "--count", 2, "--prefix", "low")
    assert all(line.startswith("low") for line in done.out.splitlines())


def test_language_models_that_will_not_do_are_one_line(speechctc: Command, model: Path) -> None:
    speechctc("lm", "train", "--text", "songs.txt", "--out", "lm.arpa")
    Path("other.txt").write_text("low mid\nzap zip\n")
    speechctc("lm", "train", "--text", "other.txt", "--out", "other.arpa")
    decode = ("decode", "a.wav", "--model", model)
    for arguments, message in (
        ((*decode, "--lm", "other.arpa"), "other.arpa: 2 of its 4 words are not of the 4 phones (found): zap, zip"),
        ((*decode, "--beam", 0), "decode.beam=0 is invalid"),
        ((*decode, "--lm", "lm.arpa", "--lm-weight", -1), "decode.lm_weight=-1.0 is invalid"),
        ((*decode, "--lm-weight", 0.5), "the model has no n-gram; train one"),
        ((*decode, "--lm", "lm.arpa", "--lm", "lm.arpa"), "a second language model of its kind"),
        (("lm", "tune", "--model", model), "the model has no language model to tune for; name one with --lm"),
        (("lm", "train", "--text", "songs.txt", "--out", "x", "lm.hidden=3"), "are for LSTMs; add --kind lstm"),
    ):
        assert message in one_line_error(speechctc(*arguments))
