"""Aligning words and imperfect transcripts as a user would do it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text
from tests.command import Command, one_line_error
from tests.stages.test_scored_corpus import renamed
from tests.tiny_model import write_song

DICTIONARY = """SCALE  low mid high
SCALE(2)  low high
DROP  top low
DROP  top mid low
HUM  mid high mid top
BUZZ  top high top high
"""
SPOKEN = {"scale": "low mid high", "drop": "top low", "hum": "mid high mid top"}


def write_words(file: str, said: list[str], seed: int = 0) -> list[tuple[float, float]]:
    """Write a recording of words; return from when to when each word sounds."""
    Path("d.dict").write_text(DICTIONARY)
    phones = [phone for word in said for phone in SPOKEN[word].split()]
    times = write_song(Path(file), phones, seed)
    ends = np.cumsum([len(SPOKEN[word].split()) for word in said])
    return [
        (times[end - len(SPOKEN[word].split())][0], times[end - 1][1]) for end, word in zip(ends, said, strict=True)
    ]


def test_words_in_phones_out(speechctc: Command, here: Path) -> None:
    times = write_words("a.wav", ["scale", "drop", "hum", "drop"])
    Path("a.words").write_text("Scale, drop, hum, drop.")
    Path("a.txt").write_text("Scale, drop, hum, drop.")
    done = speechctc("align", "a.wav", "--words", "a.txt", "--dictionary", "d.dict", "--out", "a.TextGrid")
    assert done.status == 0, done.err
    words = read_textgrid(here / "a.TextGrid", "words")
    assert [word.label.lower() for word in words] == ["scale", "drop", "hum", "drop"]
    for word, (start, end) in zip(words, times, strict=True):
        assert abs(word.start - start) < 0.08 and abs(word.end - end) < 0.12
    phones = read_textgrid(here / "a.TextGrid", "phones")
    assert [phone.label for phone in phones] == "low mid high top low mid high mid top top low".split()
    (entry,) = json.loads(
        speechctc("align", "a.wav", "--words", "a.txt", "--dictionary", "d.dict", "--format", "json").out
    )
    assert len(entry["words"]) == 4 and all(-1 < word["log_ratio"] <= 0 for word in entry["words"])
    assert "misfits" not in entry


@pytest.mark.parametrize(
    ("said", "given", "kind", "text"),
    [
        ("scale drop hum scale hum drop", "scale drop scale hum drop", "extra", ""),
        ("scale drop scale hum drop", "scale drop hum scale hum drop", "missing", "hum"),
        ("scale drop scale hum", "scale buzz scale hum", "differs", "buzz"),
        ("hum drop scale drop hum", "drop scale drop hum", "extra", ""),
        ("drop scale drop", "drop scale drop hum hum", "missing", "hum hum"),
    ],
)
def test_what_does_not_fit_is_found(
    speechctc: Command, here: Path, said: str, given: str, kind: str, text: str
) -> None:
    times = write_words("a.wav", said.split(), seed=len(said))
    (here / "a.txt").write_text(given)
    words = ("align", "a.wav", "--words", "a.txt", "--dictionary", "d.dict")
    done = speechctc(*words, "--misfits", "--format", "json")
    (entry,) = json.loads(done.out)
    (misfit,) = entry["misfits"]
    assert done.status == 3 and (misfit["kind"], misfit["text"].lower()) == (kind, text)
    for word in entry["words"]:  # all words that were said are where they were said
        middle = (word["start"] + word["end"]) / 2
        assert any(s < middle < e and w == word["word"].lower() for (s, e), w in zip(times, said.split(), strict=True))
    assert "a.wav: " in done.err and ("; not found, " in done.err or ": not found, " in done.err) == bool(text)
    assert speechctc(*words).status == 0, "every word is placed"


def test_a_star_stands_for_any_stretch(speechctc: Command, here: Path) -> None:
    times = write_song(here / "a.wav", "low mid high top low mid top high low".split())
    done = speechctc("align", "a.wav", "--phones", "low mid * (top|mid) (high|low high) (low|)", "--format", "json")
    assert done.status == 0, done.err
    (entry,) = json.loads(done.out)
    assert entry["phones"] == "low mid top high low".split()
    starts = [segment["start"] for segment in entry["segments"]]
    for start, time in zip(starts, [times[k] for k in (0, 1, 6, 7, 8)], strict=True):
        assert abs(start - time[0]) < 0.08
    done = speechctc("align", "a.wav", "--phones", "low ( mid")
    assert done.status == 2 and "a ( without a ) after it" in done.err


def test_phones_that_decode_wrote_are_no_words(speechctc: Command, here: Path) -> None:
    (here / "in").mkdir()
    for name in "abc":
        write_words(f"in/{name}.wav", ["hum"])
    assert speechctc("decode", "in", "--out", "in/").status == 0
    assert (here / "in/c.txt").read_text().split() == SPOKEN["hum"].split()
    (here / "in/a.txt").write_text("hum")
    (here / "in/b.TextGrid").write_text(textgrid_text(1.0, {"words": [Interval(0.1, 0.9, "hum")]}))
    (here / "d.dict").write_text(DICTIONARY + "".join(f"{phone}  {phone}\n" for phone in ("low", "mid", "high", "top")))
    asked = ("align", "in", "--words", "in", "--dictionary", "d.dict", "--format", "json")
    done = speechctc(*asked)
    assert done.status == 1 and "c.wav: no .lab, .txt, .TextGrid or .eaf file of its name" in done.err, done.err
    assert "since speechctc wrote phones into them: 2 (in/b.txt" in done.err
    assert [[word["word"] for word in each["words"]] for each in json.loads(done.out)] == [["hum"], ["hum"]]
    assert speechctc("align", "in/c.wav", "--transcripts", "in", "--format", "tsv").status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("a.wav", "--words", "a.txt"),
            "give --language en-us or another, --dictionary FILE, or a table with the language of each row",
        ),
        (("a.wav", "--phones", "low", "--dictionary", "d.dict"), "give the words with --words"),
        (("a.wav", "--words", "a.txt", "--phones", "low"), "--words are given, and phones too"),
        (("a.wav", "--words", "a.txt", "--dictionary", "d.dict", "--silence", "pau"), "pau: not a phone of the model"),
    ],
)
def test_what_is_wrong_with_words_is_said(
    speechctc: Command, here: Path, arguments: tuple[str, ...], said: str
) -> None:
    write_words("a.wav", ["hum"])
    (here / "a.txt").write_text("hum")
    assert said in one_line_error(speechctc("align", *arguments))


def test_words_without_a_pronunciation_are_named(speechctc: Command, here: Path) -> None:
    write_words("a.wav", ["hum"])
    (here / "a.txt").write_text("hum whistle")
    done = speechctc("align", "a.wav", "--words", "a.txt", "--dictionary", "d.dict")
    assert done.status == 2 and "a.wav: no pronunciation for whistle in a.txt" in done.err
    (here / "t.tsv").write_text("id\taudio\twords\na\ta.wav\thum\n")
    assert speechctc("align", "--words", "t.tsv", "--dictionary", "d.dict").status == 0


def test_words_of_a_table_are_read_in_the_language_of_their_row(
    speechctc: Command, here: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """``sa`` is /za:/ in German and /ʃɑ/ in Hungarian; --language is that of all rows."""
    model = renamed(tiny_model, tmp_path / "ipa", {"low": "z", "mid": "ɑː", "high": "ʃ", "top": "ɑ"})
    write_song(Path("a.wav"), ["low", "mid"])
    for name in "bcd":
        write_song(Path(f"{name}.wav"), ["high", "top"])
    rows = "id\taudio\twords\tlanguage\na\ta.wav\tsa\tde\nb\tb.wav\tsa\thu\n"

    def phones(table: str, *more: str) -> dict[str, list[str]]:
        Path("t.tsv").write_text(table)
        done = speechctc("align", "--words", "t.tsv", "--model", str(model), "--format", "json", *more)
        assert done.out and ("the column language is not used: --language hu" in done.err) == bool(more), done.err
        return {each["file"]: [one["phone"] for one in each["segments"]] for each in json.loads(done.out)}

    own = {"a.wav": ["z", "ɑː"], "b.wav": ["ʃ", "ɑ"]}
    assert phones(rows) == own
    assert set(map(tuple, phones(rows, "--language", "hu").values())) == {("ʃ", "ɑ")}
    Path("t.tsv").write_text(rows + "c\tc.wav\tsa\t\n")
    done = speechctc("align", "--words", "t.tsv", "--model", str(model))
    assert done.status == 1 and "c.wav: its row names no language" in done.err and "b.wav" in done.out
    for text in (rows + "d\td.wav\tsa\txx\n", rows.replace("\na", "\nd\td.wav\tsa\txx\na")):
        Path("t.tsv").write_text(text)
        done = speechctc("align", "--words", "t.tsv", "--model", str(model))
        assert done.status == 1 and "d.wav" in done.err and "xx" in done.err and "b.wav" in done.out, done.err


def test_other_languages_than_english_have_the_model_of_any_language_where_there_is_no_run(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_song(Path("a.wav"), ["low", "mid"])
    Path("a.txt").write_text("sa")
    with_run = speechctc("align", "a.wav", "--words", "a.txt", "--language", "cy")
    assert "bundled" not in with_run.err
    (here / "runs" / "latest").unlink()
    table = "id\taudio\twords\tlanguage\na\ta.wav\tsa\tcy\n"
    Path("t.tsv").write_text(table)
    given = (
        ("--words", "a.txt", "--language", "Welsh"),
        ("--words", "t.tsv"),
        ("--words", "a.txt", "--language", "en-us"),
    )
    said = [speechctc("align", "a.wav", *each).err for each in given]
    assert ["the bundled model ipa" in each for each in said] == [True, True, False], said
    assert "using the bundled model english" in said[2]
    assert "the bundled model ipa" in speechctc("decode", "a.wav", "--language", "cy").err


def test_words_in_ipa_are_their_own_pronunciation(speechctc: Command, here: Path) -> None:
    for name, words in {"a": "kʰan ʔuɬ xupi", "b": "xupi"}.items():
        write_song(here / f"{name}.wav", "low mid high low mid high top low mid high".split())
        (here / f"{name}.txt").write_text(words, encoding="utf-8")
    said = speechctc(
        "align", ".", "--model", "ipa", "--words", ".", "--language", "en-us", "--format", "textgrid", "--out", "placed"
    )
    assert "words in IPA, read as they are written: 3 (kʰan, ʔuɬ, xupi)" in said.err
    assert [phone.label for phone in read_textgrid(here / "placed/b.TextGrid", "phones")] == list("xupi")


def test_words_that_end_espeak_are_an_error_of_their_recording(speechctc: Command, here: Path) -> None:
    for name, words in (("a", "scale drop"), ("b", "'s" * 80), ("c", "<break/>" * 4000)):
        write_words(f"{name}.wav", ["scale", "drop"])
        Path(f"{name}.txt").write_text(words)
    given = ("--words", ".", "--dictionary", "d.dict", "--language", "en-us", "--format", "json", "--out", "out/")
    done = speechctc("align", "a.wav", "b.wav", "c.wav", *given)
    assert done.status == 1 and (here / "out" / "a.json").exists() and not (here / "out" / "b.json").exists()
    assert "b.wav: eSpeak NG failed at" in done.err and "c.wav: its words have 32,000 characters" in done.err
