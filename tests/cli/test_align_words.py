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
SPOKEN = {"scale": "low mid high", "drop": "top low", "hum": "mid high mid top", "buzz": "top high top high"}


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
    done = speechctc(*words)
    assert done.status == 0, "every word is placed"
    assert "1 of 1 recording may not be as in the transcript" in done.err and "--misfits marks" in done.err
    assert "a.wav: " in done.err and ("not found, " in done.err) == bool(text)
    assert "may not be" not in speechctc(*words, "--no-misfits").err


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
    assert done.status == 1 and "c.wav: no .lab, .txt, .TextGrid, .eaf or .WRD file of its name" in done.err, done.err
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


def test_no_silence_is_asked_for_by_an_empty_value(speechctc: Command, here: Path) -> None:
    write_words("a.wav", ["hum"])
    (here / "a.txt").write_text("hum")
    (here / "d.dict").write_text(DICTIONARY)
    asked = ("align", "a.wav", "--words", "a.txt", "--dictionary", "d.dict", "--format", "json")
    found = [speechctc(*asked, *none) for none in ((), ("--silence", ""), ("--silence=",))]
    assert [each.status for each in found] == [0, 0, 0], found[1].err
    assert found[0].out == found[1].out == found[2].out  # the model has no label of silence
    assert "--out is empty" in one_line_error(speechctc(*asked, "--silence", "", "--out", ""))


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
    for name, words in (("a", "scale drop"), ("b", "'s" * 80), ("c", "scale " * 5334)):
        write_words(f"{name}.wav", ["scale", "drop"])
        Path(f"{name}.txt").write_text(words)
    given = ("--words", ".", "--dictionary", "d.dict", "--language", "en-us", "--format", "json", "--out", "out/")
    done = speechctc("align", "a.wav", "b.wav", "c.wav", *given)
    assert done.status == 1 and (here / "out" / "a.json").exists() and not (here / "out" / "b.json").exists()
    assert "b.wav: eSpeak NG failed at" in done.err and "c.wav: its words have 26,670 characters" in done.err


def placed(speechctc: Command, *given: str) -> tuple[list[tuple[str, float, float]], str]:
    """Return the words with their times, without stars, and standard error."""
    done = speechctc("align", "a.wav", "--format", "json", *given)
    assert done.status == 0, done.err
    (entry,) = json.loads(done.out)
    return [(word["word"], word["start"], word["end"]) for word in entry["words"] if word["word"] != "*"], done.err


@pytest.mark.parametrize(
    ("marked", "said"),
    [
        ("scale [noise] drop (laughs) hum <unk> drop", "(laughs) (1), <unk> (1), [noise] (1)"),
        ("SPEAKER 1: scale (0.5) drop sp hum\nSPEAKER 2: (.) drop", "left out: (.) (1), (0.5) (1), sp (1)"),
        ("uhm scale {BR} drop &-uh hum ((unclear)) drop xxx", "uhm (1)"),
        ("scale drop (hum|buzz) [door slams] drop", "[door slams] (1)"),
    ],
)
def test_marks_move_no_word(speechctc: Command, here: Path, marked: str, said: str) -> None:
    times = write_words("a.wav", ["scale", "drop", "hum", "drop"])
    (here / "plain.txt").write_text("scale drop hum drop")
    (here / "a.txt").write_text(marked)
    (here / "t.tsv").write_text(f"audio\twords\na.wav\t{' '.join(marked.replace('SPEAKER 2:', '').split())}\n")
    read = ("--dictionary", "d.dict")
    plain, _ = placed(speechctc, *read, "--words", "plain.txt")
    for file in ("a.txt", "t.tsv"):
        found, err = placed(speechctc, *read, "--ignore", "uhm,absent", "--words", file)
        assert [word for word, *_ in found] == [word for word, *_ in plain]
        assert np.allclose([each[1:] for each in found], [each[1:] for each in plain], atol=0.03)
        assert err.count("no words: ") == 1 and said in err and "do not occur: absent" in err, err
    assert np.allclose([start for _, start, _ in plain], [start for start, _ in times], atol=0.08)


def test_a_noise_that_sounds_is_a_star(speechctc: Command, here: Path) -> None:
    times = write_words("a.wav", ["scale", "hum", "drop"])
    (here / "a.TextGrid").write_text(
        textgrid_text(
            9.0, {"words": [Interval(k, k + 1, label) for k, label in enumerate(["Scale", "<noise>", "drop"])]}
        )
    )
    found, _ = placed(speechctc, "--dictionary", "d.dict", "--words", "a.TextGrid")
    assert [word for word, *_ in found] == ["Scale", "drop"]
    assert abs(found[1][1] - times[2][0]) < 0.08 and abs(found[0][2] - times[0][1]) < 0.12


def test_pauses_and_noise_among_phones_are_no_phones(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", "low mid high top".split())
    for command in ("align", "score-phones"):
        plain = speechctc(command, "a.wav", "--phones", "low mid high top")
        done = speechctc(command, "a.wav", "--phones", "sil low mid (laugh) sp high ? top")
        assert (done.status, done.out) == (0, plain.out), done.err
        assert "no phones: pauses, left out: sil (1), sp (1); noise and unclear speech, placed as *" in done.err
    assert "'gone' is not in the phone set" in one_line_error(speechctc("align", "a.wav", "--phones", "low gone"))


def test_a_folder_of_kaldi_is_a_table_of_words_and_its_last_segment_lasts_to_the_end(
    speechctc: Command, here: Path
) -> None:
    times = write_words("a.wav", ["scale", "drop", "hum", "drop"])
    (here / "data").mkdir()
    middle = (times[1][1] + times[2][0]) / 2
    files = {
        "wav.scp": "r a.wav\n",
        "segments": f"u1 r 0 {middle:.3f}\nu2 r {middle:.3f} -1\n",
        "text": "u1 scale drop\nu2 hum drop\n",
    }
    for name, text in files.items():
        (here / "data" / name).write_text(text)
    done = speechctc("align", "--words", "data", "--dictionary", "d.dict", "--format", "json")
    assert done.status == 0, done.err
    (entry,) = json.loads(done.out)
    assert [word["word"] for word in entry["words"]] == ["scale", "drop", "hum", "drop"]
    for word, (start, end) in zip(entry["words"], times, strict=True):
        assert abs(word["start"] - start) < 0.08 and abs(word["end"] - end) < 0.12


def test_rows_of_other_recordings_and_perturbed_copies_are_named(speechctc: Command, here: Path) -> None:
    write_words("a.wav", ["scale", "drop"])
    write_words("b.wav", ["hum"])
    rows = [
        {
            "id": f"c{k}",
            "start": 0.0,
            "supervisions": [{"id": f"{name}{speed}", "start": 0.0, "duration": 0.7, "channel": 0, "text": text}],
            "recording": {
                "sources": [{"type": "file", "channels": [0], "source": f"{name}.wav"}],
                "transforms": [{"name": "Speed", "kwargs": {"factor": speed}}] if speed else None,
            },
        }
        for k, (name, text, speed) in enumerate((("a", "scale drop", ""), ("b", "hum", ""), ("a", "scale drop", 1.1)))
    ]
    (here / "cuts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = speechctc("align", "a.wav", "--words", "cuts.jsonl", "--dictionary", "d.dict", "--format", "json")
    assert done.status == 0, done.err
    assert len(json.loads(done.out)[0]["words"]) == 2
    assert "cuts.jsonl: perturbed copies of recordings are left out (1)" in done.err
    assert "cuts.jsonl: rows of recordings that are not named here (1): b" in done.err
