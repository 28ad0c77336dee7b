"""Decoding as a user would do it: many files, every format, standard input, and what is wrong with a recording."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text
from speechctc.audio.eaf_writer import eaf_text
from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.model.checkpoint import load_checkpoint, save_checkpoint
from speechctc.stages.open_model import ModelChoice, open_model
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song

SONG = ["low", "mid", "mid", "high", "low", "top"]


def process(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    """Start a command line in a process of its own."""
    command = [sys.executable, "-m", "speechctc", *map(str, arguments)]
    root = str(Path(__file__).parent.parent.parent)
    process: subprocess.Popen[bytes] = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        **options,  # type: ignore[call-overload]
    )
    return process


def wav(phones: list[str], subtype: str = "PCM_16", rate: int = 16000) -> bytes:
    """Return a recording as the bytes of a WAV file."""
    file = io.BytesIO()
    soundfile.write(file, sing(phones, np.random.default_rng(0), rate)[0], rate, format="WAV", subtype=subtype)
    return file.getvalue()


def test_json_has_phones_with_times_and_confidence(speechctc: Command, here: Path) -> None:
    times = write_song(here / "a.wav", SONG)
    done = speechctc("decode", "a.wav", "--format", "json", "--alternatives", 2)
    (entry,) = json.loads(done.out)
    assert done.status == 0 and list(entry) == ["file", "seconds", "phones", "segments"]
    assert entry["phones"] == SONG == [segment["phone"] for segment in entry["segments"]]
    for segment, (start, end) in zip(entry["segments"], times, strict=True):
        assert segment["start"] < (start + end) / 2 < segment["end"] and 0 < segment["confidence"] <= 1
        assert len(segment["alternatives"]) == 2
    assert "not calibrated" in done.err and "speechctc calibrate" in done.err


@pytest.mark.parametrize(
    ("place", "tier"), [("a.TextGrid", "turns"), ("grids/a.TextGrid", "phones"), ("a.eaf", "turns")]
)
def test_inside_the_intervals_of_a_tier_which_is_kept(speechctc: Command, here: Path, place: str, tier: str) -> None:
    times = write_song(here / "a.wav", SONG)
    seconds = soundfile.info(here / "a.wav").duration
    given = [Interval(0.0, times[1][1], "first turn"), Interval(times[4][0], times[5][1], "B")]  # nothing in the middle
    (here / "grids").mkdir()
    text = eaf_text({tier: given}, here / "a.wav") if place.endswith("eaf") else textgrid_text(seconds, {tier: given})
    (here / place).write_text(text)
    where = ("--textgrids", "grids") if "/" in place else ()
    done = speechctc("decode", "a.wav", "--tier", tier, *where, "--format", "textgrid,json,eaf,html", "--out", "out")
    assert done.status == 0, done.err
    kept, phones = (
        read_textgrid(here / "out/a.TextGrid", name)
        for name in ("phones (given)" if tier == "phones" else tier, "phones")
    )
    assert [each.label for each in kept] == ["first turn", "B"]
    assert [each.start for each in kept] == pytest.approx([each.start for each in given], abs=0.002)
    assert [each.label for each in phones] == ["low", "mid", "low", "top"]
    for each, around in zip(phones, (given[0], given[0], given[1], given[1]), strict=True):
        assert around.start - 0.002 <= each.start < each.end <= around.end + 0.002
    entry = json.loads((here / "out/a.json").read_text())
    assert [each["label"] for each in entry["intervals"]] == ["first turn", "B"]
    assert "first turn" in (here / "out/a.eaf").read_text() and "first turn" in (here / "out/a.html").read_text()
    (entry,) = json.loads(speechctc("decode", "a.wav", "--format", "json").out)
    assert entry["phones"] == SONG  # what was left out is there


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--tier", "turns"), "a.wav: no .TextGrid or .eaf file of its name beside a.wav"),
        (("--tier", "turns", "--textgrids", "late.TextGrid"), "an interval ends at 9.00 s, after the recording"),
        (("--tier", "x", "--textgrids", "late.TextGrid"), "no tier 'x', only 'turns'"),
        (("--textgrids", "late.TextGrid"), "give --tier NAME too"),
        (("--tier", "turns", "--cluster", "here"), "--cluster and --tier do not go together"),
    ],
)
def test_tiers_that_do_not_fit_are_told(speechctc: Command, here: Path, given: tuple[str, ...], message: str) -> None:
    write_song(here / "a.wav", SONG)
    (here / "late.TextGrid").write_text(textgrid_text(9.0, {"turns": [Interval(0.0, 9.0, "a")]}))
    done = speechctc("decode", "a.wav", *given)
    assert done.status == 2 and message in done.err


def test_the_silence_detector_can_be_switched_off(speechctc: Command, here: Path) -> None:
    """A steady tone has no modulation: by default no phone is found in it."""
    steady = 0.4 * np.sin(2 * np.pi * 300 * np.arange(32000) / 16000)
    soundfile.write(here / "a.wav", steady, 16000)
    assert speechctc("decode", "a.wav").out.split() == []
    assert set(speechctc("decode", "a.wav", "--min-modulation-db", 0).out.split()) == {"low"}
    assert "decode.min_modulation_db" in one_line_error(speechctc("decode", "a.wav", "--min-modulation-db", 50))


def test_reverberation_is_taken_off_named_and_can_stay(
    speechctc: Command, here: Path, pipe_in: Callable[[bytes], None]
) -> None:
    """As many recordings of a folder, and phone by phone of one; standard input is never worked on in windows."""
    samples, _ = sing(SONG * 2, np.random.default_rng(0))
    tail = np.random.default_rng(1).standard_normal(12800) * 10 ** (-3 * np.arange(12800) / 12800)
    soundfile.write(here / "room.wav", 0.02 * np.convolve(samples, tail)[: len(samples)], 16000)
    taken = "room.wav: reverberation or hum was taken off a copy first"
    alone, raw = speechctc("decode", "room.wav"), speechctc("decode", "room.wav", "--dereverb", "never")
    assert taken in alone.err and taken not in raw.err and alone.out != raw.out
    (found,) = json.loads(speechctc("decode", "room.wav", "--format", "json").out)
    assert found["is_dereverberated"] and found["phones"] == alone.out.split()
    assert taken in speechctc("align", "room.wav", "--phones", "low mid").err
    scoring = ("score-phones", "room.wav", "--phones", "low mid")
    assert taken not in speechctc(*scoring).err and taken in speechctc(*scoring, "--dereverb", "always").err
    pipe_in((here / "room.wav").read_bytes())
    assert speechctc("decode", "-").out == raw.out


@pytest.mark.parametrize("use", [(), ("--format", "json")])
def test_what_has_no_phones_is_said(speechctc: Command, here: Path, use: tuple[object, ...]) -> None:
    noise = np.random.default_rng(0).standard_normal(16000)
    for name, samples in {"a": 0 * noise, "b": 1e-6 * noise}.items():
        soundfile.write(here / f"{name}.wav", samples, 16000, subtype="FLOAT")
    write_song(here / "d.wav", SONG)
    done = speechctc("decode", "a.wav", *use)
    assert done.status == 0 and "a.wav: nothing was recognised: it may be silence" in done.err
    assert "a.wav: nothing was recognised" in (err := speechctc("decode", "a.wav", "b.wav", "d.wav", *use).err)
    assert "(2 times, also for b.wav)" in err and "nothing" not in speechctc("decode", "d.wav", *use).err


def test_folders_and_patterns_keep_their_structure_in_a_folder_out(speechctc: Command, here: Path) -> None:
    for name in ("talks/a/1.wav", "talks/b/1.wav", "talks/b/2.FLAC", "more/3.wav", "more/4.ogg"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        write_song(here / name, ["low", "top"])
    (here / "talks" / "notes.txt").write_text("no recording")
    done = speechctc("decode", "talks", "more/*.wav", "--format", "textgrid", "--out", "grids", "--jobs", 2)
    assert done.status == 0 and done.out == ""
    written = sorted(str(path.relative_to("grids")) for path in Path("grids").rglob("*.TextGrid"))
    assert written == ["3.TextGrid", "a/1.TextGrid", "b/1.TextGrid", "b/2.TextGrid"]
    assert [interval.label for interval in read_textgrid(Path("grids/b/2.TextGrid"), "phones")] == ["low", "top"]
    lines = speechctc("decode", "talks", "more/*", "--jobs", 1).out.splitlines()
    names = ["talks/a/1.wav", "talks/b/1.wav", "talks/b/2.FLAC", "more/3.wav", "more/4.ogg"]
    assert [line.split("\t") for line in lines] == [[name, "low top"] for name in names]


def test_what_does_not_fit_the_output_is_said_before_any_work(speechctc: Command, here: Path) -> None:
    for name in ("a/x.wav", "b/x.wav"):
        (here / name).parent.mkdir()
        write_song(here / name, ["low"])
    said = one_line_error(speechctc("decode", "a", "b", "--format", "textgrid"))
    assert "2 TextGrids do not go into one file" in said
    assert "both a/x.wav and b/x.wav" in one_line_error(speechctc("decode", "a", "b", "--out", "o"))
    assert not Path("o").exists()
    (here / "empty").mkdir()
    assert "no recordings in this folder" in one_line_error(speechctc("decode", "empty"))
    assert "with others" in one_line_error(speechctc("decode", "-", "a"))
    assert "--raw is for standard input" in one_line_error(speechctc("decode", "a", "--raw", 16000))
    assert "--live is for standard input" in one_line_error(speechctc("decode", "a", "--live"))


def test_failures_are_listed_at_the_end(speechctc: Command, here: Path) -> None:
    write_song(here / "good.wav", ["low"])
    (here / "text.wav").write_text("this is text\n")
    (here / "zero.wav").write_bytes(b"")
    done = speechctc("decode", "text.wav", "good.wav", "zero.wav", "gone.wav", "--format", "json")
    assert done.status == 1 and [entry["file"] for entry in json.loads(done.out)] == ["good.wav"]
    lines = done.err.strip().splitlines()[-3:]
    assert "text.wav: text, not audio" in lines[0] and "zero.wav: the file is empty" in lines[1]
    assert "gone.wav: no such file" in lines[2]
    for name in ("none.csv", "none.json", "none.xlsx"):
        assert speechctc("decode", "text.wav", "zero.wav", "--out", name).status == 2 and not (here / name).exists()


@pytest.mark.parametrize("samples", [np.zeros(32000), np.eye(1, 16000, 8000)[0], np.zeros(160), np.zeros(1)])
def test_recordings_without_speech_have_an_answer(speechctc: Command, here: Path, samples: NDArray[np.float64]) -> None:
    soundfile.write(here / "a.wav", samples, 16000)
    for form in ("text", "json", "ctm", "textgrid", "tsv"):
        done = speechctc("decode", "a.wav", "--format", form)
        assert done.status == 0
    (entry,) = json.loads(speechctc("decode", "a.wav", "--format", "json").out)
    assert entry["seconds"] == pytest.approx(len(samples) / 16000, abs=1e-6)
    assert all(0 <= s["start"] < s["end"] <= entry["seconds"] for s in entry["segments"])
    assert len(samples) > 160 or entry["phones"] == []  # shorter than an analysis window


def test_a_model_with_huge_weights_is_refused_in_one_line(tiny_model: Path, here: Path) -> None:
    checkpoint = load_checkpoint(tiny_model / "best")
    checkpoint.weights["convs.0.conv.weight"][:] = 3e38
    save_checkpoint(here / "huge", checkpoint)
    write_song(here / "a.wav", SONG)
    recogniser = open_model(here / "huge", Recogniser, ModelChoice("cpu"))
    with pytest.raises(InputError, match="the model's output is not finite"):
        recogniser.decode(here / "a.wav")


@pytest.fixture
def pipe_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Return a function that makes standard input a pipe from which some bytes come."""
    pipes: list[TextIO] = []

    def send(writing: int, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), open(writing, "wb") as pipe:
            pipe.write(data)

    def pipe_in(data: bytes) -> None:
        reading, writing = os.pipe()
        threading.Thread(target=send, args=(writing, data), daemon=True).start()
        pipes.append(open(reading))
        monkeypatch.setattr(sys, "stdin", pipes[-1])

    yield pipe_in
    for pipe in pipes:
        pipe.close()


@pytest.mark.parametrize("options", [(), ("--live",)])
def test_raw_samples_come_out_as_phones_while_they_come_in(here: Path, options: tuple[str, ...]) -> None:
    samples, _ = sing(SONG, np.random.default_rng(0), 8000)
    data = (np.concatenate([samples] * 4) * 32767).astype("<i2").tobytes()
    with process("decode", "-", "--raw", 8000, "--format", "tsv", *options, stdin=subprocess.PIPE) as running:
        assert running.stdin and running.stdout
        watchdog = threading.Timer(60, running.kill)
        watchdog.start()
        running.stdin.write(data[: len(data) // 2])
        running.stdin.flush()
        early = [running.stdout.readline().decode().split("\t") for _ in range(3)]  # the input is still open
        running.stdin.write(data[len(data) // 2 :])
        running.stdin.close()
        late = running.stdout.read().decode().splitlines()
        watchdog.cancel()
    assert early[0] == ["file", "start", "end", "phone", "confidence\n"] and early[1][0] == "-"
    assert float(late[-1].split("\t")[2]) <= 4 * len(samples) / 8000 and len(late) > 6


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT"])
def test_standard_input_gives_what_the_file_gives(
    speechctc: Command, here: Path, pipe_in: Callable[[bytes], None], subtype: str
) -> None:
    (here / "a.wav").write_bytes(wav(SONG, subtype, rate=22050))
    (expected,) = json.loads(speechctc("decode", "a.wav", "--format", "json").out)
    pipe_in((here / "a.wav").read_bytes())
    assert speechctc("decode", "-", "--format", "json", "--out", "out.x").out == ""
    (found,) = json.loads(Path("out.x").read_text())
    assert found["file"] == "-" and found["seconds"] == expected["seconds"]
    starts, wanted = ([segment["start"] for segment in each["segments"]] for each in (found, expected))
    assert starts == pytest.approx(wanted, abs=2e-4)


@pytest.mark.parametrize(
    ("given", "said", "more"),
    [
        (b"these are words, not samples", "standard input: not WAV", ()),
        (b"", "standard input: empty; check the program", ()),
        (b"", "standard input: empty; check the program", ("--raw", "16000", "--live")),
    ],
)
def test_what_is_not_wav_on_standard_input_is_said(
    speechctc: Command, here: Path, pipe_in: Callable[[bytes], None], given: bytes, said: str, more: tuple[str, ...]
) -> None:
    pipe_in(given)
    assert said in one_line_error(speechctc("decode", "-", *more))


def test_a_reader_that_goes_away_ends_it_quietly(here: Path) -> None:
    write_song(here / "a.wav", ["low", "top"])
    with process("decode", *["a.wav", "./a.wav", "../" + here.name + "/a.wav"]) as running:
        assert running.stdout and running.stderr
        running.stdout.close()
        err = running.stderr.read()
        running.wait(timeout=600)
    assert running.returncode != 0 and len(err.splitlines()) == 1 and b"using " in err


def test_decoding_and_aligning_load_nothing_they_do_not_need(here: Path) -> None:
    write_song(here / "a.wav", ["low"])
    code = "import sys\nfrom speechctc.cli.app import main\n"
    code += "for rest in (['decode', 'a.wav'], ['align', 'a.wav', '--phones', 'low', '--format', 'ctm']):\n"
    code += "    sys.argv = ['speechctc', *rest]\n    try:\n        main()\n    except SystemExit:\n        pass\n"
    code += "    loaded = {'numba', 'scipy', 'praatio', 'rapidfuzz', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
    code += "    print(rest[0], 'loads', *sorted(loaded))"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("low\ndecode loads\n;; a.wav") and done.stdout.endswith(
        "align loads numba rapidfuzz\n"
    )


def test_recordings_that_are_not_there_are_named_before_a_model_is_loaded(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speechctc.cli.options.open_model", lambda *_, **__: pytest.fail("loaded a model"))
    result = speechctc("decode", "absent.wav", "gone/*.wav")
    assert (result.status, result.out) == (2, "")
    assert result.err == "speechctc: gone/*.wav: no file matches this pattern; check the path, and where you are\n"
    assert "absent.wav: no such file" in speechctc("decode", "absent.wav").err


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 9 GiB"), RuntimeError("can't allocate memory")])
def test_out_of_memory_is_one_line(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def load(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("speechctc.cli.options.open_model", load)
    result = speechctc("decode", Path(__file__))
    assert result.status == 2
    assert result.err.startswith("speechctc: out of memory (") and result.err.count("\n") == 1
