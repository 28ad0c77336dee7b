"""Aligning, calibrating and scoring boundaries as a user would do it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from speechctc.audio.annotations import read_textgrid
from speechctc.config.schema import CorpusConfig
from speechctc.core import files
from speechctc.core.bundled import MODELS
from speechctc.corpora.registry import read_corpus
from speechctc.inference.boundary_model import FILE
from speechctc.inference.segmenter import Calibration
from speechctc.model.checkpoint import find_checkpoint
from speechctc.stages import calibrate as stage
from speechctc.stages.split_scoring import score_split
from tests.cli.test_train_boundaries import write_timed
from tests.command import Command, one_line_error
from tests.stages.test_scored_corpus import renamed
from tests.tiny_model import write_song
from tests.tones import PHONES

SONG = ["low", "mid", "mid", "high", "low", "top"]


def test_phones_named_on_the_command_line(speechctc: Command, here: Path) -> None:
    times = write_song(here / "a.wav", SONG)
    done = speechctc("align", "a.wav", "--phones", " ".join(SONG), "--format", "json")
    (entry,) = json.loads(done.out)
    assert done.status == 0 and entry["phones"] == SONG and -1 < entry["log_probability"] <= 0
    for segment, (start, end) in zip(entry["segments"], times, strict=True):
        assert segment["start"] < (start + end) / 2 < segment["end"] and segment["confidence"] > 0.5
    text = speechctc("align", "a.wav", "--phones", " ".join(SONG)).out
    assert text.startswith("a.wav: log probability -") and len(text.splitlines()) == 7


def test_a_folder_with_phones_beside_each_recording(speechctc: Command, here: Path) -> None:
    for k, (ending, content) in enumerate(
        {".txt": "low top", ".lab": "low\ntop\n", ".PHN": "0 800 low\n800 1600 top\n"}.items()
    ):
        (here / "in").mkdir(exist_ok=True)
        write_song(here / "in" / f"{k}.wav", ["low", "top"])
        (here / "in" / f"{k}{ending}").write_text(content)
    (here / "in" / "2.txt").write_text("The words, as TIMIT has them beside its .PHN.")
    done = speechctc("align", "in", "--format", "textgrid", "--out", "grids", "--jobs", 2)
    assert done.status == 0, done.err
    for k in range(3):
        assert [i.label for i in read_textgrid(here / "grids" / f"{k}.TextGrid", "phones")] == ["low", "top"]
        assert len(read_textgrid(here / "grids" / f"{k}.TextGrid", "log probability")) == 1
    write_song(here / "in" / "9.wav", ["low"])
    done = speechctc("align", "in", "--format", "tsv")
    said = "9.wav: no .PHN, .lab, .txt, .TextGrid or .eaf file of its name beside 9.wav"
    assert done.status == 1 and said in done.err
    assert done.out.count("low") == 3
    assert "none.wav: no such file; check the path" in speechctc("align", "none.wav").err


def test_transcripts_of_a_folder_that_are_not_read_are_named(speechctc: Command, here: Path) -> None:
    (here / "in").mkdir()
    (here / "labels").mkdir()
    for name in "xy":
        write_song(here / "in" / f"{name}.wav", ["low", "top"])
    for name in ("x.lab", "x.txt", "y.txt", "z.txt", "w.TextGrid"):
        (here / "labels" / name).write_text("low top")
    done = speechctc("align", "in", "--transcripts", "labels", "--format", "tsv")
    assert done.status == 0 and "recording of their name: 2 (labels/w.TextGrid, labels/z.txt)" in done.err
    assert "as others of their names are: 1 (labels/x.txt)" in done.err
    assert "of their name" not in speechctc("align", "in/x.wav", "--transcripts", "labels", "--format", "tsv").err


def test_a_table_of_transcripts(speechctc: Command, here: Path) -> None:
    (here / "audio").mkdir()
    for name in "xy":
        write_song(here / "audio" / f"{name}.wav", SONG)
    rows = "".join(f"id-{name}\taudio/{name}.wav\t{' '.join(SONG)}\n" for name in "xy")
    (here / "t.tsv").write_text("id\taudio\tphones\n" + rows)
    done = speechctc("align", "--transcripts", "t.tsv", "--format", "ctm")
    assert done.status == 0 and done.out.count(";;") == 2 and done.out.count("mid") == 4
    one = speechctc("align", "audio/y.wav", "--transcripts", "t.tsv", "--format", "ctm")
    assert one.out == done.out[done.out.index(";; audio/y.wav") :] if one.out in done.out else one.out.count("mid") == 2
    write_song(here / "audio" / "z.wav", SONG)
    done = speechctc("align", "audio", "--transcripts", "t.tsv")
    assert done.status == 1 and "z.wav: t.tsv has no row of its name" in done.err
    (here / "t.tsv").write_text(f"id\taudio\tphones\n{rows}id-z\taudio/z.wav\t\n")
    for named in ((), ("audio",)):
        more = speechctc("align", *named, "--transcripts", "t.tsv", "--format", "ctm")
        assert more.status == 1 and more.out.count(";;") == 2 and more.err.count("t.tsv, line 4: no phones") == 1


def test_phones_with_marks_that_the_model_does_not_write_are_kept(speechctc: Command, here: Path) -> None:
    """They are placed as the nearest, a diphthong as its vowels, two phones as both; words and others are refused."""
    write_song(here / "a.wav", ["low", "mid", "high", "top", "mid"])
    names = {"low": "h", "mid": "a", "high": "ʊ", "top": "ts"}
    renamed(find_checkpoint(None).parent, here / "model", names)

    def aligned(phones: str) -> tuple[str, list[tuple[str, float, float]]]:
        done = speechctc("align", "a.wav", "--model", "model", "--phones", phones, "--format", "json")
        segments = json.loads(done.out)[0]["segments"] if not done.status else []
        return done.err, [(each["phone"], each["start"], each["end"]) for each in segments]

    said, (h, a, u, ts, last) = aligned("h a ʊ ts a")
    assert "labels are kept" not in said
    said, marked = aligned("h aːʊ tsʰ ã")
    assert "labels are kept; the model hears aːʊ as a ʊ, tsʰ as ts, ã as a" in said
    assert marked == [h, ("aːʊ", a[1], u[2]), ("tsʰ", *ts[1:]), ("ã", *last[1:])]
    said, row = aligned("haʊ ts a")
    assert "haʊ as h a ʊ" in said and row == [("haʊ", h[1], u[2]), ts, last]
    for unlike in ("hats", "QQ"):
        assert f"the label {unlike!r} is not in the phone set" in aligned(f"h aː {unlike} ts a")[0]


def test_labels_in_xsampa_are_heard_as_ipa_and_kept(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", ["low", "mid", "high", "top", "mid"])
    renamed(find_checkpoint(None).parent, here / "model", {"low": "h", "mid": "ə", "high": "ʃ", "top": "iː"})
    results = []
    for phones in ("h ə ʃ iː ə", "h @ S i: @"):
        done = speechctc("align", "a.wav", "--model", "model", "--phones", phones, "--format", "json")
        segments = json.loads(done.out)[0]["segments"]
        assert [each["phone"] for each in segments] == phones.split()
        results.append([(each["start"], each["end"]) for each in segments])
    assert results[0] == results[1] and "labels read as X-SAMPA: i: as iː, @ as ə, S as ʃ" in done.err


def test_labels_in_xsampa_name_as_written_what_a_score_does_not_tell_apart(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", ["low", "top", "mid", "high", "top"])
    renamed(find_checkpoint(None).parent, here / "model", {"low": "h", "mid": "ə", "high": "ʃ", "top": "i"})
    for phones in ("h i ə ʃ iː", "h i @ S i:"):
        done = speechctc("score-phones", "a.wav", "--model", "model", "--phones", phones, "--format", "json")
        segments = json.loads(done.out)[0]["segments"]
        _, short, *_, long = phones.split()
        assert [each["phone"] for each in segments] == phones.split() and all("score" in each for each in segments)
        assert [each.get("not_told_from", []) for each in segments] == [[], [long], [], [], [short]]
        assert f"as the model hears them as one sound: {short} {long}." in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("a.wav", "--phones", "low hgih"),
            "a.wav: the label 'hgih' is not in the phone set found; the model's are: high low mid top",
        ),
        (
            ("a.wav", "--phones", "low " * 50),
            "50 phones and 49 blanks between repeated ones need 99 frames, and its 0.2",
        ),
        (("a.wav", "--phones", " "), "no phones"),
    ],
)
def test_phones_that_cannot_be_there(speechctc: Command, here: Path, arguments: tuple[str, ...], said: str) -> None:
    write_song(here / "a.wav", ["low"])
    done = speechctc("align", *arguments)
    assert done.status == 2 and said in done.err and len(done.err.strip().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.wav", "b.wav", "--phones", "low"), "--phones are of one recording, and 2 are named"),
        (("a.wav", "--phones", "low", "--transcripts", "t.tsv"), "both --phones and --transcripts"),
        ((), "no recording to align"),
        (("--transcripts", "none.tsv"), "none.tsv: no such file"),
        (("a.wav", "--words", "Haus", "--language", "de"), "Haus: no such file; --words takes a table, a folder"),
        (("a.wav", "--phones", "low", "--model", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(
    speechctc: Command, here: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in one_line_error(speechctc("align", *arguments))


def test_calibrating_is_kept_and_used(
    speechctc: Command, here: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helpful = Calibration(0.9, 0.1, 0.0, 60, 0.08, 0.05, 0.5, "dev")  # the tiny model is always right
    monkeypatch.setattr("speechctc.stages.calibrate.calibration_of", lambda *_: helpful)
    shutil.copytree(tiny_model / "best", "model")
    write_song(here / "a.wav", SONG)
    (before,) = json.loads(speechctc("decode", "a.wav", "--model", "model", "--format", "json").out)
    done = speechctc("calibrate", "--model", "model")
    assert done.status == 0 and "expected calibration error" in done.out and "before" in done.out
    kept = json.loads(Path("model/calibration.json").read_text())
    assert kept["phones"] > 50 and 0 <= kept["error_after"] <= 1 and kept["shift"] == 0  # tables have no times
    done = speechctc("decode", "a.wav", "--model", "model", "--format", "json")
    (after,) = json.loads(done.out)
    assert done.err.startswith("using model: 4 phones (found), trained on ") and done.err.count("\n") == 1
    assert [s["start"] for s in before["segments"]] == [s["start"] for s in after["segments"]]
    assert [s["confidence"] for s in before["segments"]] != [s["confidence"] for s in after["segments"]]
    evaluated = speechctc("evaluate", "--model", "model", "--split", "dev", "--json", "e.json")
    score = json.loads(Path("e.json").read_text())
    assert evaluated.status == 0 and score["calibrated"] is True and 0 <= score["calibration_error"] < 0.2


def test_a_model_that_training_replaced_meanwhile_is_not_calibrated(
    speechctc: Command, here: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_model / "best", "model")

    def and_replace(*arguments: object) -> object:
        scored = score_split(*arguments)  # type: ignore[arg-type]

        def copy(draft: Path) -> None:
            shutil.copytree(tiny_model / "best", draft, dirs_exist_ok=True)

        files.write_folder(Path("model"), copy)
        return scored

    monkeypatch.setattr(stage, "score_split", and_replace)
    assert "training saved another model there meanwhile" in one_line_error(speechctc("calibrate", "--model", "model"))
    assert not Path("model/calibration.json").exists()


def test_boundaries_are_learned_from_times_and_scored(speechctc: Command, here: Path, tiny_model: Path) -> None:
    """The round trip: TextGrids are a corpus, its times calibrate the model, and its alignments score against them."""
    write_timed(here / "corpus", 12, wider=0.01)
    assert len(read_corpus(CorpusConfig(kind="textgrid", root=here / "corpus")).splits["dev"]) == 12
    shutil.copytree(tiny_model / "best", "model")
    settings = ("corpus.kind=textgrid", "corpus.root=corpus", "corpus.tables={}")
    assert speechctc("calibrate", "--model", "model", *settings).status == 0
    kept = json.loads(Path("model/calibration.json").read_text())
    assert 0 < abs(kept["shift"]) <= 0.0125
    for grid in Path("corpus").rglob("*.TextGrid"):
        grid.with_suffix(".lab").write_text(" ".join(each.label for each in read_textgrid(grid, "phones")))
    assert speechctc("align", "corpus", "--model", "model", "--format", "textgrid", "--out", "grids").status == 0
    done = speechctc("score-boundaries", "corpus", "grids", "--json", "score.json")
    score = json.loads(Path("score.json").read_text())
    assert done.status == 0 and "24 pairs of files" in done.out
    assert score["boundaries"] == score["reference_boundaries"] > 100
    assert score["median_error_ms"] < 25 and score["within_50_ms"] > 0.9


def test_without_the_shift_times_are_those_of_a_boundary_model_that_has_none(speechctc: Command, here: Path) -> None:
    song = ["low", "mid", "high", "top", "mid"]
    write_song(here / "a.wav", song)
    renamed(find_checkpoint(None).parent, here / "model", {"low": "m", "mid": "a", "high": "s", "top": "i"})
    whole = load_file(MODELS["english"].folder / FILE)
    with safe_open(MODELS["english"].folder / FILE, "np") as file:
        about = file.metadata()
    found = {}
    for kept in (whole, {name: each for name, each in whole.items() if name != "shift"}):
        save_file(kept, here / "model" / FILE, about)
        for way in ("--shift", "--no-shift"):
            for command in ("align", "score-phones"):
                done = speechctc(command, "a.wav", "--model", "model", "--phones", "m a s i a", way, "--format", "json")
                segments = json.loads(done.out)[0]["segments"]
                found["shift" in kept, way, command] = [(each["start"], each["end"]) for each in segments]
    for command in ("align", "score-phones"):
        assert found[True, "--no-shift", command] == found[False, "--shift", command]
        assert found[True, "--no-shift", command] == found[False, "--no-shift", command]
        assert found[True, "--shift", command] != found[True, "--no-shift", command]


def test_a_transcript_with_more_phones_than_the_sound_keeps_them_all(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", ["low", "top"])
    said = ["low", "high", "mid", "high", "mid", "low", "mid", "top", "high", "low"]
    done = speechctc("align", "a.wav", "--phones", " ".join(said), "--format", "json,textgrid", "--out", "found")
    assert done.status == 3 and "its transcript does not fit" in done.err
    entry = json.loads((here / "found" / "a.json").read_text())
    times = [(each["start"], each["end"]) for each in entry["segments"]]
    assert all(end - start > 0.0048 for start, end in times) and times[-1][1] <= entry["seconds"]
    assert all(right[0] >= left[1] for left, right in zip(times, times[1:], strict=False))
    assert [each.label for each in read_textgrid(here / "found" / "a.TextGrid", "phones")] == said


def test_boundaries_beside_an_open_stretch_are_those_of_what_is_heard_there(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", "low mid high top low high".split())
    found = []
    for phones in ("low mid high top low high", "low mid * low high"):
        done = speechctc("align", "a.wav", "--phones", phones, "--format", "json")
        assert done.status == 0, done.err
        segments = json.loads(done.out)[0]["segments"]
        found.append([(each["start"], each["end"]) for each in (*segments[:2], *segments[-2:])])
    assert np.array(found[1]) == pytest.approx(np.array(found[0]), abs=0.002)


def test_a_transcript_of_another_recording_is_named_without_misfits(speechctc: Command, here: Path) -> None:
    rng = np.random.default_rng(5)
    (here / "in").mkdir()
    songs = [[PHONES[k] for k in rng.integers(len(PHONES), size=14)] for _ in range(4)]
    songs += [[PHONES[k] for k in rng.integers(first, first + 2, size=14)] for first in (0, 2)]
    for k, song in enumerate(songs):
        write_song(here / "in" / f"r{k}.wav", song)
        (here / "in" / f"r{k}.txt").write_text(" ".join(songs[k] if k < 4 else songs[9 - k]))  # 4 and 5 are swapped
    done = speechctc("align", "in", "--format", "textgrid", "--out", "grids/")
    assert done.status == 3 and len(list((here / "grids").glob("*.TextGrid"))) == 6
    (said,) = [line for line in done.err.splitlines() if "does not fit" in line]
    assert said.endswith("(2 times, also for in/r5.wav)") and "r4.wav: its transcript does not fit" in said
    for song in (["mid"] * 12, ["low", "top"] * 8):  # no order of these is another
        write_song(here / "one.wav", song)
        assert speechctc("align", "one.wav", "--phones", " ".join(song)).status == 0
    half = [*songs[0], *songs[2]]
    write_song(here / "long.wav", [*half, *songs[3], *songs[1]])
    assert speechctc("align", "long.wav", "--phones", " ".join(half)).status == 3
    part = [*songs[0][:7], "*", *songs[1][7:]]
    write_song(here / "open.wav", [*songs[0], *songs[2], *songs[3], *songs[1]])
    assert speechctc("align", "open.wav", "--phones", " ".join(part)).status == 0
    assert speechctc("align", "open.wav", "--phones", "top low mid").status == 0, "too few phones to tell"


@pytest.mark.shared
@pytest.mark.slow
def test_real_speech_fits_its_transcripts_and_not_those_of_others(
    speechctc: Command, here: Path, shared_data: Path
) -> None:
    folder = shared_data / "speechocean-adults/dev"
    rows = [line.split("\t") for line in (folder / "utterances.tsv").read_text().splitlines()]
    at = {name: rows[0].index(name) for name in ("id", "audio", "phones")}
    long = [row for row in rows[1:] if len(row[at["phones"]].split()) >= 16][::10]
    right = [row[at["phones"]].split() for row in long]
    given = {"right": right, "of others": [*right[1:], right[0]], "twice": [each * 2 for each in right]}
    given["half"] = [each[: len(each) // 2] for each in right]
    for kind, least, most in (("right", 0, 0), ("of others", 0.85, 1.0), ("twice", 0.85, 1.0), ("half", 0.6, 1.0)):
        lines = [f"{row[at['id']]}\t{folder / row[at['audio']]}\t" for row in long]
        told = "".join(f"{line}{' '.join(phones)}\n" for line, phones in zip(lines, given[kind], strict=True))
        (here / "t.tsv").write_text(f"id\taudio\tphones\n{told}")
        done = speechctc("align", "--transcripts", "t.tsv", "--model", "english", "--format", "json", "--out", "a.json")
        count = re.search(r"does not fit.* \((\d+) times", done.err)
        assert least * len(long) <= (int(count[1]) if count else 0) <= most * len(long), (kind, done.err)
        Path("a.json").unlink()


@pytest.mark.parametrize("more", [(), ("--skip-existing",)])
def test_a_name_too_long_for_its_result_stops_no_other(speechctc: Command, here: Path, more: tuple[str, ...]) -> None:
    (here / "in").mkdir()
    for name in ("a" * 248, "b"):
        write_song(here / "in" / f"{name}.wav", SONG)
    done = speechctc("decode", "in", "--out", "found", "--format", "textgrid", *more)
    assert done.status == 1 and [each.name for each in (here / "found").glob("*.TextGrid")] == ["b.TextGrid"]
    assert f"{'a' * 248}.wav: left out: its name is too long for a file of results; rename it" in done.err
