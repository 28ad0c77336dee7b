"""What decode and align write, and what they leave alone, as a user would meet it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.cli.options import write_utf8
from speechctc.inference.formats import WRITERS, Layout, RecordingName
from speechctc.inference.output import OutputOptions, opened_out
from speechctc.inference.result import Recognition
from tests.cli import test_decode
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song

SONG = ["low", "mid", "high", "low", "top"]

pipe_in = test_decode.pipe_in


def two_speakers(path: Path) -> None:
    """Write a song on the left channel, and its reverse on the right."""
    left, right = (sing(song, np.random.default_rng(k))[0] for k, song in enumerate((SONG, SONG[::-1])))
    both = np.zeros((max(len(left), len(right)), 2), np.float32)
    both[: len(left), 0], both[: len(right), 1] = left, right
    soundfile.write(path, both, 16000)


def test_corrected_textgrids_survive_the_round_trip(speechctc: Command, here: Path) -> None:
    for name in ("one/a.wav", "one/b.wav"):
        Path("one").mkdir(exist_ok=True)
        write_song(here / name, SONG)
    round_trip = ("decode", "one", "--format", "textgrid", "--out", "one")
    assert speechctc(*round_trip).status == 0 and speechctc(*round_trip).status == 0
    corrected = Path("one/a.TextGrid")
    corrected.write_text(corrected.read_text().replace("high", "fixed"))
    Path("one/b.TextGrid").unlink()
    said = one_line_error(speechctc(*round_trip))
    assert "one/a.TextGrid: exists and was made or changed by hand" in said
    assert not Path("one/b.TextGrid").exists() and "fixed" in corrected.read_text()
    done = speechctc(*round_trip, "--skip-existing")
    assert done.status == 0 and "1 recording left out: results are in one" in done.err
    assert Path("one/b.TextGrid").exists() and "fixed" in corrected.read_text()
    assert speechctc(*round_trip, "--overwrite").status == 0 and "fixed" not in corrected.read_text()


def test_drafts_are_done_again_and_what_a_person_made_or_changed_is_kept(speechctc: Command, here: Path) -> None:
    Path("one").mkdir()
    names = ("changed", "draft", "made", "lost")
    for name in names:
        write_song(here / "one" / f"{name}.wav", SONG)
    again = ("decode", "one", "--format", "textgrid", "--out", "one")
    assert speechctc(*again).status == 0
    grids = {name: Path(f"one/{name}.TextGrid") for name in names}
    grids["changed"].write_text(grids["changed"].read_text().replace("high", "fixed"))
    grids["made"].unlink()
    grids["made"] = Path("one/MADE.textgrid")
    grids["made"].write_text(textgrid_text(1.0, {"phones": [Interval(0.0, 1.0, "mine")]}))
    grids["lost"].unlink()
    said = one_line_error(speechctc(*again))
    assert "2 files exist that were made or changed" in said and said.endswith(
        "or --skip-changed to do only the others"
    )
    Path("other.tsv").write_text("low\tother\n")
    done = speechctc(*again, "--skip-changed", "--symbols", "other.tsv")
    assert done.status == 0 and "2 recordings left out: results were made or changed by hand in one" in done.err
    texts = {name: grid.read_text() for name, grid in grids.items()}
    assert {name for name, text in texts.items() if '"other"' in text} == {"draft", "lost"}
    assert "fixed" in texts["changed"] and "mine" in texts["made"] and not Path("one/made.TextGrid").exists()
    Path("one/.speechctc-written").unlink()  # of none it is known that a person has not changed it
    assert "4 recordings left out" in speechctc(*again, "--skip-changed").err
    assert texts == {name: grid.read_text() for name, grid in grids.items()}
    refused = one_line_error(speechctc(*again, "--skip-changed", "--overwrite"))
    assert "--skip-changed keeps what --overwrite replaces; give one of them" in refused
    alone = one_line_error(speechctc("decode", "one/made.wav", "--skip-changed"))
    assert "--skip-changed is for a file for each recording; name a folder with --out FOLDER" in alone


def test_one_file_out_is_kept(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", SONG)
    Path("mine.ctm").write_text("my own work")
    said = one_line_error(speechctc("decode", "a.wav", "--out", "mine.ctm"))
    assert "mine.ctm: exists and was made" in said and Path("mine.ctm").read_text() == "my own work"
    assert speechctc("decode", "a.wav", "--out", "new.ctm").status == 0
    assert Path("new.ctm").read_text().startswith("a 1 0.")


def test_scores_are_not_written_over_a_persons_file(speechctc: Command, here: Path, tiny_model: Path) -> None:
    Path("mine.json").write_text("{}")
    for command in (("evaluate",), ("score-boundaries", "a", "b")):
        assert "mine.json: exists and was made" in one_line_error(speechctc(*command, "--json", "mine.json"))
    shutil.copytree(tiny_model / "best", "kept")
    said = one_line_error(speechctc("export", "kept", "--model", tiny_model, "--overwrite"))
    assert "not an exported model" in said
    assert speechctc("export", "given", "--model", tiny_model).status == 0
    assert "exists already" in one_line_error(speechctc("export", "given", "--model", tiny_model))
    assert speechctc("export", "given", "--model", tiny_model, "--overwrite").status == 0


def test_recordings_of_one_name_stay_apart(speechctc: Command, here: Path) -> None:
    for name in ("x/a.wav", "y/a.wav", "z/b.flac", "z/b.ogg", "z/c d.wav"):
        Path(name).parent.mkdir(exist_ok=True)
        write_song(here / name, ["low"])
    rows = speechctc("decode", "x/a.wav", "y/a.wav", "z", "--format", "ctm", "--channel", 1).out.splitlines()
    assert [row.split()[:2] for row in rows] == [[id, "1"] for id in ("x/a", "y/a", "b.flac", "b.ogg", "c_d")]
    done = speechctc("decode", "z", "--format", "textgrid", "--out", "grids")
    assert done.status == 0 and "2 recordings keep their endings (b.flac.TextGrid)" in done.err
    assert done.err.splitlines()[-1] == "wrote 3 files into grids"
    assert sorted(path.name for path in Path("grids").glob("*.*")) == [
        ".speechctc-written",
        "b.flac.TextGrid",
        "b.ogg.TextGrid",
        "c d.TextGrid",
    ]


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
def test_a_sound_track_of_a_video_is_chosen_and_the_others_are_told(speechctc: Command, here: Path) -> None:
    two_speakers(here / "a.wav")
    maps = "-filter_complex channelsplit=channel_layout=stereo[l][r] -map [l] -map [r] -c:a pcm_s16le".split()
    subprocess.run(["ffmpeg", "-v", "error", "-i", "a.wav", *maps, "two.mkv"], cwd=here, check=True)
    first = speechctc("decode", "two.mkv")
    assert first.out.split() == SONG
    assert "two.mkv: it has 2 sound tracks; the first is read, --track" in first.err
    second = speechctc("decode", "two.mkv", "--track", 2, "--format", "json")
    (entry,) = json.loads(second.out)
    assert entry["phones"] == SONG[::-1] and entry["track"] == 2 and "channel" not in entry
    assert "sound tracks" not in second.err
    assert speechctc("decode", "two.mkv", "--track", 2, "--format", "json", "--shard", "1/1").out == second.out
    assert "two.mkv: no track 3, it has 2 sound tracks" in one_line_error(speechctc("decode", "two.mkv", "--track", 3))


def test_two_speakers_on_two_channels_are_told_and_taken_apart(speechctc: Command, here: Path) -> None:
    two_speakers(here / "a.wav")
    mixed = speechctc("decode", "a.wav")
    assert "a.wav: its channels hold different sounds, which were mixed; --channel 1" in mixed.err
    assert speechctc("decode", "a.wav", "--channel", 1).out.split() == SONG
    done = speechctc("decode", "a.wav", "--channel", 2, "--format", "json")
    (entry,) = json.loads(done.out)
    assert entry["phones"] == SONG[::-1] and entry["channel"] == 2 and "mixed" not in done.err
    done = speechctc("align", "a.wav", "--phones", " ".join(SONG), "--channel", 2, "--format", "ctm")
    assert done.out.splitlines()[1].startswith("a 2 ")
    done = speechctc("decode", "a.wav", "--channel", 3)
    assert "a.wav: no channel 3, it has 2 channels" in one_line_error(done)
    for k in range(5):
        two_speakers(here / f"{k}.wav")
    assert speechctc("decode", *(f"{k}.wav" for k in range(5))).err.count("different sounds") == 3


@pytest.mark.parametrize(("ending", "format"), [("mp3", "MP3"), ("flac", "FLAC"), ("ogg", "OGG")])
def test_other_sound_files_come_through_standard_input(
    speechctc: Command, here: Path, pipe_in: object, ending: str, format: str
) -> None:
    write_song(here / "a.wav", SONG)
    soundfile.write(here / f"a.{ending}", soundfile.read(here / "a.wav")[0], 16000, format=format)
    before = set(Path(tempfile.gettempdir()).glob("speechctc-*"))
    pipe_in(Path(f"a.{ending}").read_bytes())  # type: ignore[operator]
    done = speechctc("decode", "-")
    assert done.status == 0 and done.out.split() == SONG
    assert "it is read to its end before decoding" in done.err
    assert set(Path(tempfile.gettempdir()).glob("speechctc-*")) <= before
    pipe_in(Path(f"a.{ending}").read_bytes()[:60])  # type: ignore[operator]
    assert "standard input" in one_line_error(speechctc("decode", "-"))


def test_a_tier_of_phones_is_a_transcript_and_words_are_no_phones(speechctc: Command, here: Path) -> None:
    Path("in").mkdir()
    for k in range(2):
        times = write_song(here / "in" / f"{k}.wav", SONG, seed=k)
        given = [Interval(s, e, phone) for (s, e), phone in zip(times, SONG, strict=True)]
        words = [Interval(0, 0.5, "hello")]
        Path(f"in/{k}.TextGrid").write_text(textgrid_text(3.0, {"words": words, "sounds": given}))
    done = speechctc("align", "in", "--tier", "sounds", "--format", "json")
    assert [entry["phones"] for entry in json.loads(done.out)] == [SONG, SONG]
    done = speechctc("align", "in/0.wav")
    assert done.status == 2 and "no tier 'phones', only 'words', 'sounds'" in done.err
    assert speechctc("align", "in/0.wav", "--transcripts", "in/0.TextGrid", "--tier", "sounds").status == 0
    Path("in/0.txt").write_text("She had your dark suit in greasy wash water all year.\n")
    said = speechctc("align", "in/0.wav", "--transcripts", "in/0.txt").err
    assert (
        "the label 'She' is not in the phone set" in said
        and "high low mid top; --ignore leaves labels out, and --words reads words" in said
    )


@pytest.mark.parametrize("command", ["decode", "evaluate", "calibrate", "export", "align"])
def test_every_command_names_the_model_it_uses(speechctc: Command, here: Path, tiny_model: Path, command: str) -> None:
    Path("none.wav").touch()
    arguments = {"export": ["given"], "decode": ["none.wav"], "align": ["none.wav", "--phones", "low"]}
    settings = ["corpus.tables.test=none.tsv", "corpus.tables.dev=none.tsv"]
    rest = arguments.get(command, settings)
    said = speechctc(command, *rest).err.splitlines()[0]
    assert said.startswith(f"no --model, so the latest run: using {tiny_model}/best: 4 phones (found), trained")
    shutil.rmtree("given", ignore_errors=True)
    said = speechctc(command, *rest, "--model", tiny_model).err.splitlines()[0]
    assert said.startswith(f"using {tiny_model}/best: 4 phones (found), trained on ")


def test_names_that_are_not_utf8_go_all_the_way(speechctc: Command, here: Path) -> None:
    name = b"caf\xe9\n.wav".decode("utf-8", "surrogateescape")
    (here / "in").mkdir()
    write_song(here / "in" / "plain.wav", ["low"])
    try:
        shutil.copy(here / "in" / "plain.wav", here / "in" / name)
        (here / "in" / name.replace("caf", "bad")).write_bytes(b"no sound")
    except OSError:
        pytest.skip("this file system has no such names")
    for form in ("text", "json"):
        done = speechctc("decode", "in", "--format", form)
        assert done.status == 1 and "caf\ufffd" in done.out and "plain" in done.out
        assert "bad" in done.err and "text, not audio" in done.err and "Traceback" not in done.err
    for _ in range(2):  # the second time known as its own, by name and content
        done = speechctc("decode", "in", "--format", "textgrid", "--out", "out/")
        assert done.status == 1 and "by hand" not in done.err
        assert {"plain.TextGrid", name.replace(".wav", ".TextGrid")} <= set(os.listdir("out"))
    done = speechctc("align", here / "in" / name, "--phones", "low")
    assert done.status == 0 and "caf\ufffd .wav: log probability" in done.out


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONUTF8": "0"}])
def test_standard_output_is_utf8_in_any_locale(locale: dict[str, str], here: Path) -> None:
    code = "from speechctc.cli.options import write_utf8 as write; write(); print('caf' + chr(0xdce9), chr(0x283))"
    coerced = {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    environment = {**os.environ, **coerced, **locale}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=600)
    assert done.stdout == b"caf\xe9 " + "\u0283\n".encode(), done.stderr


@pytest.mark.parametrize(("mode", "says"), [("0", True), ("1", False)])
def test_a_locale_whose_names_of_files_are_not_in_utf8_is_said(mode: str, says: bool, here: Path) -> None:
    """Else tables have other names than the folder, and tables of recordings find none, without a reason."""
    if sys.platform != "linux":
        pytest.skip("names of files are in UTF-8")
    root = str(Path(__file__).parent.parent.parent)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": mode, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-m", "speechctc", "--help"], env=environment, capture_output=True)
    assert done.returncode == 0 and (b"set PYTHONUTF8=1" in done.stderr) == says, done.stderr


def test_standard_output_has_the_lines_of_files_on_windows(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch, open(1, "w", newline="\r\n", closefd=False) as out:  # as there
        patch.setattr(sys, "stdout", out)
        write_utf8()
        out.write("a,b\r\nc\n")
    assert capfdbinary.readouterr().out == b"a,b\r\nc\n"


def test_a_message_is_one_line_and_not_endless(speechctc: Command, here: Path) -> None:
    done = speechctc("decode", "x" * 100_000)
    assert done.status == 2 and len(done.err) < 2500
    said = one_line_error(speechctc("decode", "a\nb/*.wav"))
    assert said.startswith("speechctc: a\\nb/*.wav: no file matches")
    said = one_line_error(speechctc("train", "--config", "x" * 200, "train.lr=" + "1" * 100_000))
    assert len(said) < 2100


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_behind_standard_output_is_said_in_one_line(here: Path, form: str) -> None:
    write_song(here / "a.wav", ["low"])
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "speechctc", "decode", "a.wav", "--format", form]
        root = str(Path(__file__).parent.parent.parent)
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
        )
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[-1]
        == "speechctc: standard output: No space left on device; free space, or write to another disk"
    )
    assert "Exception" not in done.stderr


def test_hidden_folders_are_passed_over(speechctc: Command, here: Path) -> None:
    draft = here / "in" / f".speechctc-{'0' * 12}-{'1' * 16}.partial"
    draft.mkdir(parents=True)
    write_song(draft / "b.wav", ["low"])
    write_song(here / "in" / "a.wav", ["low"])
    assert speechctc("decode", "in").out == "low\n"
    assert speechctc("decode", draft).out == "low\n"  # as the user named it


def test_names_reach_a_terminal_escaped_and_a_pipe_as_they_are(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ESC in a file's name would otherwise be obeyed by the terminal."""
    source = RecordingName("a\x1b[2J.wav", "a")
    said = {}
    for is_terminal in (True, False):
        out = io.StringIO()
        monkeypatch.setattr(out, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(sys, "stdout", out)
        with opened_out(OutputOptions("text", None, None)) as stream:
            WRITERS["text"].write([(source, Recognition("a", 1.0, ()))], stream, Layout(named=True))
        said[is_terminal] = out.getvalue()
    assert said == {True: "a\\x1b[2J.wav\t\n", False: f"{source.file}\t\n"}


def test_several_formats_at_once_are_a_file_each(speechctc: Command, here: Path) -> None:
    Path("talks").mkdir()
    for name in ("a", "b"):
        write_song(here / "talks" / f"{name}.wav", SONG)
    many = ("decode", "talks", "--format", "textgrid,EAF", "--format", "audacity, csv,textgrid", "--out", "new")
    assert speechctc(*many).status == 0
    endings = {".TextGrid", ".eaf", ".labels.txt", ".csv"}
    assert {path.name for path in Path("new").glob("[ab]*")} == {name + each for name in "ab" for each in endings}
    Path("new/a.eaf").write_text("mine")
    assert "new/a.eaf: exists and was made or changed by hand" in one_line_error(speechctc(*many))
    Path("new/b.csv").unlink()
    assert speechctc(*many, "--skip-existing").status == 0
    assert Path("new/b.csv").exists() and Path("new/a.eaf").read_text() == "mine"
    said = one_line_error(speechctc("decode", "talks", "--format", "textgrid,eaf"))
    assert "2 formats at once are for a folder, with a file for each; name a folder" in said
    assert speechctc("decode", "talks/a.wav", "--format", "audacity", "--out", "one.txt").status == 0
    assert [line.split("\t")[2] for line in Path("one.txt").read_text().splitlines()] == SONG


def test_results_of_another_program_with_nothing_in_them_are_named(speechctc: Command, here: Path) -> None:
    Path("talks").mkdir()
    for name in "ab":
        write_song(here / "talks" / f"{name}.wav", SONG)
    Path("out").mkdir()
    Path("out/a.TextGrid").touch()
    Path("out/b.TextGrid").write_text("mine")
    done = speechctc("decode", "talks", "--format", "textgrid", "--out", "out", "--skip-existing")
    assert done.status == 0 and "2 recordings left out" in done.err
    assert "1 file of these, with nothing in it: out/a.TextGrid; without such a file" in done.err
    assert Path("out/a.TextGrid").read_bytes() == b""


def test_symbols_are_shown_and_the_model_keeps_its_own(speechctc: Command, here: Path) -> None:
    write_song(here / "s.wav", SONG)
    Path("mine.tsv").write_text("low\tɡã\nhigh\tt͡ʃ\ntop\tɡã\n", encoding="utf-8")
    shown = speechctc("decode", "s.wav", "--symbols", "mine.tsv")
    assert shown.out.split() == ["ɡã", "mid", "t͡ʃ", "ɡã", "ɡã"]
    assert "1 phones have no symbol in it and stay as they are: mid; several phones are written alike" in shown.err
    placed = speechctc("align", "s.wav", "--phones", " ".join(SONG), "--symbols", "mine.tsv", "--format", "tsv")
    rows = [line.split("\t") for line in placed.out.splitlines() if not line.startswith(("#", "file"))]
    assert [row[3] for row in rows] == ["ɡã", "mid", "t͡ʃ", "ɡã", "ɡã"]
    refused = speechctc("align", "s.wav", "--phones", "ɡã", "--symbols", "mine.tsv")
    assert refused.status == 2 and "'ɡã' is not in the phone set" in refused.err
    assert "--symbols none.tsv: no such file" in one_line_error(speechctc("decode", "s.wav", "--symbols", "none.tsv"))


def test_plugins_are_written_once_and_for_a_model_that_exists(speechctc: Command, here: Path) -> None:
    done = speechctc("plugins", "out")
    assert done.status == 0 and "out/elan-speechctc: copy it into the folder 'extensions' of ELAN" in done.out
    assert "no such model" in one_line_error(speechctc("plugins", "out", "--model", "none"))
    assert speechctc("plugins", "bundled", "--model", "ipa").status == 0
    (script,) = Path("bundled").rglob("recognise.praat")
    assert "sentence Model ipa\n" in script.read_text(encoding="utf-8")
    Path("file").touch()
    assert "file: a file, not a folder" in one_line_error(speechctc("plugins", "file"))


def test_plugins_are_installed_into_the_praats_that_are_found(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pathlib.Path.home", lambda: here / "home")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert "no preferences folder of Praat and no ELAN found" in one_line_error(speechctc("plugins", "--install"))
    assert "either a folder or --install" in one_line_error(speechctc("plugins"))
    assert "either a folder or --install" in one_line_error(speechctc("plugins", "out", "--install"))
    places = [here / "home" / name for name in (".praat-dir", ".config/praat")]
    for place in places:
        place.mkdir(parents=True)
    done = speechctc("plugins", "--install")
    *written, trust = done.out.splitlines()
    assert [line.partition(": written")[0] for line in written] == [f"{place}/plugin_speechctc" for place in places]
    assert all((place / "plugin_speechctc/setup.praat").exists() for place in places)
    assert trust.startswith("Praat 7 asks whether you trust the script")
    shutil.rmtree(places[1])
    places[1].symlink_to(here / "gone")
    assert str(places[1]) not in speechctc("plugins", "--install").out, "a link to nothing is no folder"


@pytest.mark.skipif(os.name == "nt", reason="its shell closes no output")
def test_a_closed_output_is_an_error_in_a_line() -> None:
    code = "from speechctc.cli.app import main; main()"
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" config >&-', sys.executable, code], stderr=subprocess.PIPE)
    assert done.returncode == 2 and done.stderr.startswith(b"speechctc: standard output is closed; ")
    assert done.stderr.count(b"\n") == 1


def test_a_draft_that_is_right_is_marked_so_and_kept(speechctc: Command, here: Path) -> None:
    for name in "ab":
        write_song(here / f"{name}.wav", ["low"])
    again = ("decode", "a.wav", "b.wav", "--format", "textgrid", "--out", ".")
    assert speechctc(*again).status == 0
    assert "checked: 1, and 0 that" in speechctc("mark-checked", "a.TextGrid").out
    assert "a.TextGrid: exists and was made or changed by hand" in one_line_error(speechctc(*again))
    assert "checked: 1, and 1 that" in speechctc("mark-checked", ".").out
    Path("elsewhere").mkdir()
    shutil.copy("a.TextGrid", "elsewhere")
    for unknown in (1, 0):
        said = speechctc("mark-checked", "elsewhere").out
        assert f"checked: {unknown}, and {1 - unknown} that" in said and ("of 1 of them no" in said) == bool(unknown)
    for name, what in {"no.TextGrid": "no such file", "a.wav": "no TextGrid or file of ELAN"}.items():
        assert f"{name}: {what}; name drafts" in one_line_error(speechctc("mark-checked", name))


@pytest.mark.parametrize(("name", "what"), [("a.TextGrid", "not a TextGrid"), ("a.eaf", "not a file of ELAN")])
def test_what_is_no_draft_is_not_marked(speechctc: Command, here: Path, name: str, what: str) -> None:
    (here / name).write_text("a shopping list")
    assert f"{name}: {what}" in one_line_error(speechctc("mark-checked", "."))
    assert not (here / ".speechctc-written").exists()
