"""A manifest of what was done, and a run that goes on by it: into a folder, and into one file."""

import json
from pathlib import Path
from typing import Any

import pytest

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.recordings import Recording
from speechctc.audio.tracks import Channel, Track
from speechctc.core.errors import InputError
from speechctc.core.files import sha256
from speechctc.inference import output
from speechctc.inference.decoder import Decoder
from speechctc.inference.manifest import Manifest
from speechctc.inference.recogniser import Recogniser
from tests.command import Command, one_line_error
from tests.tiny_model import write_song

SONGS = {"a": ["low"], "b": ["mid", "top"], "c": ["top"], "d": ["low", "mid"]}
ROWS = {"text": "txt", "tsv": "tsv", "csv": "csv", "ctm": "ctm", "json": "json"}


def lines(manifest: str = "run.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(manifest).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def talks(here: Path) -> Path:
    """Return a folder with four recordings."""
    (here / "talks").mkdir()
    for name, phones in SONGS.items():
        write_song(here / f"talks/{name}.wav", phones)
    return here / "talks"


@pytest.fixture
def worked_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the recordings that were really decoded or aligned, in some order."""
    seen: list[str] = []
    decode, place = Decoder.decode_one, Recogniser.place

    def decode_one(self: Decoder, each: Any, *more: Any) -> Any:
        seen.append(Path(each).stem)
        return decode(self, each, *more)

    def place_one(self: Recogniser, each: Any, *more: Any, **named: Any) -> Any:
        seen.append(Path(each).stem)
        return place(self, each, *more, **named)

    monkeypatch.setattr(Decoder, "decode_one", decode_one)
    monkeypatch.setattr(Recogniser, "place", place_one)
    return seen


def test_a_line_says_what_was_done_of_a_recording(speechctc: Command, talks: Path) -> None:
    (talks / "b.wav").write_bytes(b"RIFF")
    done = speechctc(
        "decode", "talks", "--format", "textgrid,csv", "--out", "out", "--manifest", "run.jsonl", "--beam", 4
    )
    assert done.status == 1
    found = lines()
    assert [each["input"] for each in found] == [f"talks/{name}.wav" for name in "abcd"]
    first, bad = found[0], found[1]
    assert first["sha256"] == sha256(talks / "a.wav") and first["bytes"] == (talks / "a.wav").stat().st_size
    assert first["settings"] == {"beam": 4, "forms": ["textgrid,csv"]} and len(first["model"]["sha256"]) == 16
    assert [(Path(each["path"]).name, each["sha256"]) for each in first["outputs"]] == [
        (name, sha256(Path("out") / name)) for name in ("a.TextGrid", "a.csv")
    ]
    assert first["seconds"] > 0 and first["machine"] and first["duration"] > 0.1 and "error" not in first
    assert "outputs" not in bad and "talks/b.wav" in bad["error"]


@pytest.mark.parametrize("form", ROWS)
def test_one_file_is_continued_wherever_a_run_was_killed(
    speechctc: Command, talks: Path, worked_on: list[str], form: str
) -> None:
    given, file = ("decode", "talks", "--format", form, "--jobs", 1), Path(f"all.{ROWS[form]}")
    assert speechctc(*given, "--out", "whole." + ROWS[form]).status == 0
    assert speechctc(*given, "--out", file, "--manifest", "run.jsonl").status == 0
    whole, manifest = Path("whole." + ROWS[form]).read_bytes(), Path("run.jsonl").read_bytes()
    assert file.read_bytes() == whole
    rows = Path("run.jsonl.rows").read_bytes()
    cuts = [0, *(k + 1 for k, letter in enumerate(manifest) if letter == 10)]
    for kept, beyond in ((1, 10), (3, 0), (4, 0)):  # lines that are whole, and bytes of a line that is not
        file.unlink()
        worked_on.clear()
        Path("run.jsonl").write_bytes(manifest[: cuts[kept] + beyond])
        end = max(line["rows"]["start"] + line["rows"]["bytes"] for line in lines_of(manifest[: cuts[kept]]))
        Path("run.jsonl.rows").write_bytes(rows[:end] + b"half a ro")
        done = speechctc(*given, "--out", file, "--manifest", "run.jsonl", "--resume")
        assert done.status == 0 and f"{kept} recording" in done.err and "done already" in done.err
        assert file.read_bytes() == whole and sorted(worked_on) == list("abcd")[kept:]
        same = [{key: value for key, value in each.items() if key not in ("seconds", "rows")} for each in lines()]
        first = lines_of(manifest)
        assert same == [{key: value for key, value in each.items() if key not in ("seconds", "rows")} for each in first]


def lines_of(manifest: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in manifest.splitlines()]


def test_a_folder_is_continued_and_what_changed_is_done_again(
    speechctc: Command, talks: Path, worked_on: list[str]
) -> None:
    run = ("decode", "talks", "--format", "textgrid", "--out", "out", "--manifest", "run.jsonl")
    (talks / "b.wav").write_bytes(b"RIFF")
    assert speechctc(*run).status == 1
    assert "give --resume to go on by it" in one_line_error(speechctc(*run))
    write_song(talks / "b.wav", SONGS["b"])
    Path("out/c.TextGrid").unlink()
    corrected = textgrid_text(1.0, {"phones": [Interval(0.0, 1.0, "mine")]})
    Path("out/d.TextGrid").write_text(corrected, encoding="utf-8")
    worked_on.clear()
    done = speechctc(*run, "--resume")
    assert done.status == 0 and sorted(worked_on) == ["b", "c"] and "2 recordings done already" in done.err
    assert Path("out/d.TextGrid").read_text(encoding="utf-8") == corrected
    worked_on.clear()
    (talks / "a.wav").touch()  # another time, the same content
    assert speechctc(*run, "--resume").status == 0 and worked_on == []
    write_song(talks / "a.wav", ["top", "low"])
    assert speechctc(*run, "--resume").status == 0 and worked_on == ["a"]
    assert [each["input"] for each in lines()] == [f"talks/{name}.wav" for name in "abcdbca"]


def test_a_run_of_which_only_failures_are_left_says_what_it_wrote(speechctc: Command, talks: Path) -> None:
    (talks / "b.wav").write_bytes(b"RIFF")
    run = ("decode", "talks", "--out", "all.tsv", "--manifest", "run.jsonl")
    assert speechctc(*run).status == 1
    Path("all.tsv").unlink()
    done = speechctc(*run, "--resume")
    assert done.status == 1 and "wrote all.tsv" in done.err and "warning: talks/b.wav" in done.err
    assert "1 of 4 recordings failed:" in done.err
    assert {line.split("\t")[0] for line in Path("all.tsv").read_text().splitlines()[1:]} == {
        f"talks/{name}.wav" for name in "acd"
    }


def test_what_is_done_with_a_warning_is_counted_when_a_run_goes_on(speechctc: Command, talks: Path) -> None:
    whole = (talks / "b.wav").read_bytes()
    (talks / "b.wav").write_bytes(whole[: len(whole) * 3 // 4])
    run = ("decode", "talks", "--out", "all.tsv", "--manifest", "run.jsonl")
    assert speechctc(*run).status == 0
    assert [bool(each.get("warnings")) for each in lines()] == [False, True, False, False]
    assert "4 recordings done already, by run.jsonl, which has warnings of 1 of them" in speechctc(*run, "--resume").err


def test_what_was_done_with_other_settings_or_another_place_is_done_again(
    speechctc: Command, talks: Path, worked_on: list[str]
) -> None:
    run = ("decode", "talks", "--manifest", "run.jsonl", "--resume")
    assert speechctc(*run, "--out", "all.tsv").status == 0
    worked_on.clear()
    done = speechctc(*run, "--out", "all.tsv", "--beam", 3)
    assert sorted(worked_on) == list("abcd") and "4 recordings of run.jsonl done again" in done.err
    worked_on.clear()
    assert speechctc(*run, "--out", "all.tsv", "--beam", 3, "--jobs", 1).status == 0 and worked_on == []
    assert speechctc(*run, "--out", "folder/", "--beam", 3).status == 0 and sorted(worked_on) == list("abcd")


def test_results_that_cannot_be_put_together_again_are_all_done_again(
    speechctc: Command, talks: Path, worked_on: list[str]
) -> None:
    run = ("decode", "talks", "--out", "all.html", "--manifest", "run.jsonl", "--resume")
    assert speechctc(*run).status == 0
    worked_on.clear()
    assert speechctc(*run).status == 0 and sorted(worked_on) == list("abcd") and len(lines()) == 8


@pytest.mark.parametrize("command", ["decode", "align", "score-phones"])
def test_a_run_of_which_all_is_done_needs_no_cluster(speechctc: Command, talks: Path, command: str) -> None:
    for name, phones in SONGS.items():
        (talks / f"{name}.txt").write_text(" ".join(phones), encoding="utf-8")
    run = (command, "talks", "--out", "all.tsv", "--manifest", "run.jsonl")
    assert speechctc(*run).status == 0
    whole = Path("all.tsv").read_bytes()
    done = speechctc(*run, "--resume", "--cluster", "tcp://127.0.0.1:1")
    assert done.status == 0 and "4 recordings done already" in done.err, done.err
    assert Path("all.tsv").read_bytes() == whole


def test_a_transcript_that_changed_is_placed_again(speechctc: Command, talks: Path, worked_on: list[str]) -> None:
    for name, phones in SONGS.items():
        (talks / f"{name}.txt").write_text(" ".join(phones), encoding="utf-8")
    run = ("align", "talks", "--out", "all.tsv", "--manifest", "run.jsonl", "--resume")
    assert speechctc(*run).status == 0
    worked_on.clear()
    (talks / "b.txt").write_text("mid", encoding="utf-8")
    done = speechctc(*run)
    assert done.status in (0, 3) and worked_on == ["b"]
    assert speechctc("align", "talks", "--out", "whole.tsv").status == done.status
    assert Path("all.tsv").read_bytes() == Path("whole.tsv").read_bytes()


def test_what_another_command_did_is_done_again(speechctc: Command, talks: Path, worked_on: list[str]) -> None:
    """Alignments and scores have rows of their own, in files of the same name, of the same transcripts."""
    for name, phones in SONGS.items():
        (talks / f"{name}.txt").write_text(" ".join(phones), encoding="utf-8")
    assert speechctc("align", "talks", "--out", "all.tsv", "--manifest", "run.jsonl").status in (0, 3)
    worked_on.clear()
    done = speechctc("score-phones", "talks", "--out", "all.tsv", "--manifest", "run.jsonl", "--resume")
    assert sorted(worked_on) == list("abcd") and "4 recordings of run.jsonl done again: of another command" in done.err
    assert speechctc("score-phones", "talks", "--out", "whole.tsv").status == done.status
    assert Path("all.tsv").read_bytes() == Path("whole.tsv").read_bytes()


def test_how_phones_are_written_is_told_by_all_transcripts_also_where_some_are_done(
    speechctc: Command, here: Path
) -> None:
    for name, phones in (("a", "D @ S"), ("b", "s a")):  # of the second alone, nothing says so
        write_song(here / f"{name}.wav", ["low", "mid"])
        (here / f"{name}.txt").write_text(phones, encoding="utf-8")
    run = ("score-phones", "a.wav", "b.wav", "--model", "ipa", "--jobs", 1)
    whole = speechctc(*run, "--out", "whole.tsv")
    assert whole.status in (0, 3) and "labels read as X-SAMPA" in whole.err
    assert speechctc(*run, "--out", "all.tsv", "--manifest", "run.jsonl").status == whole.status
    manifest = Path("run.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("run.jsonl").write_text(manifest[0], encoding="utf-8")
    rest = speechctc(*run, "--out", "all.tsv", "--manifest", "run.jsonl", "--resume")
    assert "1 recording done already" in rest.err and "labels read as X-SAMPA" in rest.err
    assert Path("all.tsv").read_bytes() == Path("whole.tsv").read_bytes()


def test_measures_are_continued(speechctc: Command, talks: Path) -> None:
    pytest.importorskip("parselmouth")
    for name in "abc":
        grid = textgrid_text(0.1, {"phones": [Interval(0.02, 0.08, "low")]})
        (talks / f"{name}.TextGrid").write_text(grid, encoding="utf-8")
    run = ("measure", "talks", "--out", "all.csv", "--manifest", "run.jsonl")
    assert speechctc(*run).status == 1
    whole = Path("all.csv").read_bytes()
    Path("all.csv").unlink()
    assert speechctc(*run, "--resume").status == 1  # all that is left has no TextGrid
    assert Path("all.csv").read_bytes() == whole
    assert [("error" in each) for each in lines()] == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("form", "file"), [("csv", "m.csv"), ("csv-bom", "m.csv"), ("tsv", "m.tsv"), ("xlsx", "m.xlsx")]
)
def test_measures_in_each_format_are_continued(speechctc: Command, talks: Path, form: str, file: str) -> None:
    pytest.importorskip("parselmouth")
    for name in SONGS:
        grid = textgrid_text(0.1, {"phones": [Interval(0.02, 0.08, "low")]})
        (talks / f"{name}.TextGrid").write_text(grid, encoding="utf-8")
    rows = [f"{name}\ttalks/{name}.wav\t{name}\tf\tlow\n" for name in SONGS]
    table = Path("t.tsv")
    table.write_text("id\taudio\tspeaker\tsex\tphones\n" + "".join(rows))
    run = ("measure", table, "--textgrids", "talks", "--maximum-formant", "sex", "--format", form)
    kept = (*run, "--out", file, "--manifest", "run.jsonl", "--resume")
    assert speechctc(*kept).status == 0 and len(lines()) == 4
    table.write_text(table.read_text().replace("\tc\tf\t", "\tc\tm\t"))  # what was a woman's is a man's
    Path(file).unlink()
    assert speechctc(*kept).status == 0
    assert [each["name"] for each in lines()[4:]] == (list("abcd") if form == "xlsx" else ["c"])
    assert speechctc(*run, "--out", f"whole{Path(file).suffix}").status == 0
    assert values_of(Path(file)) == values_of(Path(f"whole{Path(file).suffix}"))


def values_of(table: Path) -> Any:
    """Return what is in a table: the bytes of a text, the rows of a workbook."""
    if table.suffix != ".xlsx":
        return table.read_bytes()
    openpyxl = pytest.importorskip("openpyxl")
    return [*openpyxl.load_workbook(table)["phones"].iter_rows(values_only=True)]


def test_a_manifest_tells_sound_tracks_and_channels_apart(here: Path) -> None:
    write_song(here / "a.wav", ["low"])
    channels: list[Channel | None] = [None, 1, Track(1), Track(2), Track(2, 1)]
    recordings = [Recording(Path("a.wav"), Path("a"), channel) for channel in channels]
    written, read = Manifest(Path("run.jsonl")), Manifest(Path("run.jsonl"), resume=True)
    written.begin(recordings, lambda each: "", None)
    for recording in recordings[1::2]:
        written.add(recording, rows="a row")
    written.end()
    read.begin(recordings, lambda each: "", None)
    assert [read.is_done(each) for each in recordings] == [False, True, False, True, False]
    assert read.kept(recordings[3]).text == "a row"
    read.end()


def test_two_runs_do_not_write_one_manifest_and_others_files_are_no_manifests(
    speechctc: Command, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("decode", "talks", "--out", "all.tsv", "--manifest", "run.jsonl", "--resume")
    second: list[str] = []
    decode = Decoder.decode_one

    def decode_one(self: Decoder, *given: Any) -> Any:
        if not second:
            second.append("")
            with pytest.raises(InputError, match="another run writes this manifest"):
                output.check_out([], output.OutputOptions(manifest=Manifest(Path("run.jsonl"), True)))
        return decode(self, *given)

    monkeypatch.setattr(Decoder, "decode_one", decode_one)
    assert speechctc(*run).status == 0 and second
    Path("mine.jsonl").write_text('{"id": "a", "phones": ["low"]}\n', encoding="utf-8")
    said = one_line_error(speechctc("decode", "talks", "--manifest", "mine.jsonl", "--resume"))
    assert "mine.jsonl, line 1: not of a manifest" in said and Path("mine.jsonl").read_text().startswith('{"id"')
    before_the_model = speechctc("decode", "talks", "--model", "none", "--resume")
    assert "--manifest FILE too" in one_line_error(before_the_model)
    assert "standard input" in one_line_error(speechctc("decode", "-", "--manifest", "new.jsonl"))


def test_who_interrupts_a_run_is_told_how_it_goes_on(
    speechctc: Command, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["decode", "talks", "--format", "tsv", "--out", "all.tsv", "--manifest", "run.jsonl"]
    add = Manifest.add

    def interrupted(self: Manifest, recording: Recording, *more: Any, **named: Any) -> None:
        add(self, recording, *more, **named)
        if recording.name.name == "b":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "add", interrupted)
        done = speechctc(*words)
    assert done.status == 130 and "speechctc: run.jsonl has what is done" in done.err and "--resume" in done.err
    assert speechctc(*words, "--resume").status == 0
    assert [each["name"] for each in lines()] == [*"abcd"]
