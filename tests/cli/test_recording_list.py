"""Recordings of a list, in parts, and at addresses of stores."""

import functools
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from speechctc.audio import fetching
from speechctc.audio.addresses import address_of, name_of_address
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.recording_list import Shard
from speechctc.audio.recordings import Listed, find_recordings
from speechctc.core import files
from speechctc.core.errors import InputError
from tests.command import Command, one_line_error
from tests.forked import ROOT
from tests.tiny_model import write_song

SONGS = {"a/1": ["low"], "a/2": ["mid", "top"], "b/1": ["top"], "b/2": ["low", "mid"], "b/3": ["mid"]}


@pytest.fixture
def talks(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with recordings in two folders; what is fetched goes into another."""
    for name, phones in SONGS.items():
        (here / "talks" / name).parent.mkdir(parents=True, exist_ok=True)
        write_song(here / f"talks/{name}.wav", phones)
    monkeypatch.setenv("SPEECHCTC_CACHE", str(here / "cache"))
    return here / "talks"


def phones_of(text: str) -> dict[str, list[str]]:
    return {name: phones.split() for name, phones in (line.split("\t") for line in text.splitlines())}


def test_a_list_names_recordings_and_its_results_keep_their_folders(
    speechctc: Command, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"talks/{name}.wav" for name in SONGS]
    for content in (
        "\n".join(names),
        "\r\n".join([*names, "", names[0]]),
        "\ufeff" + "\n".join(names),
        "\0".join(names),
    ):
        Path("list.txt").write_bytes(content.encode())
        done = speechctc("decode", "--recordings", "list.txt")
        assert phones_of(done.out) == {f"talks/{name}.wav": phones for name, phones in SONGS.items()}
        assert ("1 line left out that name a recording again" in done.err) == (content.count(names[0]) == 2)
    assert speechctc("decode", "--recordings", "list.txt", "--format", "textgrid", "--out", "out/").status == 0
    assert {str(each.relative_to("out"))[:-9] for each in Path("out").rglob("*.TextGrid")} == {*SONGS}
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"talks/b/2.wav\ntalks/gone.wav\n")))
    done = speechctc("decode", "--recordings", "-")
    assert done.status == 1 and phones_of(done.out) == {"talks/b/2.wav": SONGS["b/2"]} and "gone.wav" in done.err
    assert "list.txt" not in one_line_error(speechctc("decode", "--recordings", "gone.txt"))
    Path("none.txt").write_text("\n\n")
    assert "no recording is named" in one_line_error(speechctc("decode", "--recordings", "none.txt"))


def test_shards_are_all_recordings_once_with_the_same_names(speechctc: Command, talks: Path) -> None:
    found: dict[str, list[str]] = {}
    for number in (1, 2, 3):
        done = speechctc("decode", "talks", "--shard", f"{number}/3", "--format", "tsv")
        rows = [line.split("\t") for line in done.out.splitlines()[1:]]
        for row in rows:
            assert number == [f"talks/{name}.wav" for name in SONGS].index(row[0]) % 3 + 1
            found.setdefault(row[0], []).append(row[3])
        assert (
            speechctc("decode", "talks", "--shard", f"{number}/3", "--format", "textgrid", "--out", "out/").status == 0
        )
    assert found == {f"talks/{name}.wav": phones for name, phones in SONGS.items()}
    assert {str(each.relative_to("out"))[:-9] for each in Path("out").rglob("*.TextGrid")} == {*SONGS}
    for wrong in ("0/3", "4/3", "3", "a/b", "1/2/3"):
        assert "--shard" in one_line_error(speechctc("decode", "talks", "--shard", wrong))
    assert "no recording is in this part" in one_line_error(speechctc("decode", "talks", "--shard", "9/9"))


@pytest.mark.parametrize("command", ["decode", "align", "score-phones", "measure"])
def test_parts_do_not_replace_each_others_table(speechctc: Command, talks: Path, command: str) -> None:
    for name in ("all.tsv", "part10.tsv", "of3.tsv"):
        error = one_line_error(speechctc(command, "talks", "--shard", "1/3", "--out", name))
        assert f"--out {name}: each of the 3 parts" in error and f"name {name[:-4]}-1.tsv" in error
    assert speechctc("decode", "talks", "--shard", "1/1", "--out", "all.tsv").status == 0
    assert speechctc("decode", "talks", "--shard", "1/3", "--out", "part01.tsv").status == 0


@pytest.mark.parametrize("changes", [True, False])
def test_a_recording_that_changes_while_it_is_read_is_an_error(
    talks: Path, monkeypatch: pytest.MonkeyPatch, changes: bool
) -> None:
    """Its pieces would be of two recordings. That a store says something else of the same one is none."""
    pytest.importorskip("fsspec")
    place, address = talks / "a/1.wav", f"file://{talks / 'a/1.wav'}"
    whole, keep = place.read_bytes(), files.put_in_place

    def changed(*given: Any) -> None:
        keep(*given)
        place.write_bytes(whole[::-1] if changes else whole)
        os.utime(place, (time.time(), time.time() + 9))

    monkeypatch.setattr(files, "put_in_place", changed)
    found = fetching.fetch([address], lambda steps: None)[address]
    if changes:
        assert isinstance(found, InputError) and f"{address}: cannot be read: it changed meanwhile" in str(found)
    assert any(each.suffix == ".address" for each in fetching.cache_folder().iterdir()) != changes


@pytest.mark.parametrize("command", ["align", "score-phones"])
def test_tables_have_shards_too(speechctc: Command, talks: Path, command: str) -> None:
    lines = [f"{name.replace('/', '-')}\ttalks/{name}.wav\t{' '.join(phones)}" for name, phones in SONGS.items()]
    Path("table.tsv").write_text("id\taudio\tphones\n" + "\n".join(lines) + "\n", encoding="utf-8")
    for number in (1, 2):
        given = ("--transcripts", "table.tsv", "--shard", f"{number}/2", "--format", "json", "--out", "out/")
        assert speechctc(command, *given).status in (0, 3)
    assert {each.stem for each in Path("out").glob("*.json")} == {name.replace("/", "-") for name in SONGS}
    listed = [f"talks/{name}.wav" for name in ("a/1", "b/3")]
    Path("list.txt").write_text("\n".join(listed))
    done = speechctc(command, "--recordings", "list.txt", "--transcripts", "table.tsv", "--format", "json")
    assert [entry["file"] for entry in json.loads(done.out)] == listed


@pytest.mark.parametrize("ending", ["tsv", "tab", "xlsx"])
def test_each_kind_of_table_that_is_measured_has_shards(speechctc: Command, talks: Path, ending: str) -> None:
    pytest.importorskip("parselmouth")
    openpyxl = pytest.importorskip("openpyxl")
    rows = [["id", "audio", "phones"], *([name.replace("/", "-"), f"talks/{name}.wav", "low"] for name in SONGS)]
    for name in SONGS:
        grid = textgrid_text(0.1, {"phones": [Interval(0.02, 0.08, "low")]})
        Path(f"{name.replace('/', '-')}.TextGrid").write_text(grid, encoding="utf-8")
    if ending == "xlsx":
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save("table.xlsx")
    else:
        Path(f"table.{ending}").write_text("".join("\t".join(row) + "\n" for row in rows))
    found = list[str]()
    for number in (1, 2):
        given = ("--textgrids", ".", "--shard", f"{number}/2", "--format", "tsv")
        done = speechctc("measure", f"table.{ending}", *given)
        assert done.status == 0, done.err
        found.append(" ".join(line.split("\t")[0] for line in done.out.splitlines()[1:]))
    names = [f"talks/{name}.wav" for name in SONGS]
    assert found == [" ".join(names[::2]), " ".join(names[1::2])]


def test_addresses() -> None:
    for text, address in {
        "s3://bucket/a b.wav": "s3://bucket/a b.wav",
        "s3:/bucket/a.wav": "",
        "file:///tmp/a.wav": "file:///tmp/a.wav",
        "talks/a.wav": "",
        "C:/talks/a.wav": "",
        "ssh://host/a.wav": "",
        "s3:a.wav": "",
    }.items():
        assert address_of(text) == address
    for text in ("s3://bucket/a.wav", "https://host/a.wav?x=1", "file:///tmp/a.wav"):
        assert address_of(Path(text)) == text
    assert str(name_of_address("https://host/x/a.wav?k=/b.wav#c")) == "host/x/a.wav"
    assert str(name_of_address("s3://bucket/a#1?.wav")) == "bucket/a#1?.wav"
    same = Listed.of(["https://h/a.wav?n=1", "https://h/a.wav?n=2", "https://h/../../b.wav"])
    found = find_recordings([same])
    assert len({each.name for each in found}) == 3 and not any(".." in each.name.parts for each in found)
    assert Shard(2, 3).take(range(8)) == [1, 4, 7]


@pytest.mark.skipif(os.name == "nt", reason="has other variables")
def test_recordings_are_never_kept_in_the_working_folder_by_itself(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.delenv("SPEECHCTC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(here / "home"))
    assert fetching.cache_folder() == here / "home/.cache/speechctc/recordings"
    monkeypatch.setenv("HOME", "somewhere")
    with pytest.raises(InputError, match="no home folder.*SPEECHCTC_CACHE"):
        fetching.cache_folder()
    monkeypatch.delenv("HOME")
    with monkeypatch.context() as who:
        who.setattr(os, "getuid", lambda: 987654)  # who is in no list of users
        with pytest.raises(InputError, match="no home folder.*SPEECHCTC_CACHE"):
            fetching.cache_folder()
    assert {each.name for each in here.iterdir()} == {"home", "runs"}


@pytest.fixture
def memory(talks: Path) -> Iterator[None]:
    """Put the recordings into fsspec's memory."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name in SONGS:
        system.pipe_file(f"/store/{name}.wav", (talks / f"{name}.wav").read_bytes())
    yield
    system.rm("/store", recursive=True)


def test_a_store_is_read_as_files_are_and_named_by_its_addresses(speechctc: Command, talks: Path, memory: None) -> None:
    names = [f"memory://store/{name}.wav" for name in SONGS]
    Path("list.txt").write_text("\n".join([*names, "memory://store/gone.wav"]))
    done = speechctc("decode", "--recordings", "list.txt", "--format", "json", "--manifest", "run.jsonl")
    assert done.status == 1 and done.err.count("memory://store/gone.wav: cannot be read: no such file; check") == 1
    assert {each["file"]: each["phones"] for each in json.loads(done.out)} == dict(
        zip(names, SONGS.values(), strict=True)
    )
    lines = [json.loads(line) for line in Path("run.jsonl").read_text().splitlines()]
    assert [line["input"] for line in lines] == [*names, "memory://store/gone.wav"]
    assert lines[-1]["error"].startswith("memory://store/gone.wav: cannot be read")
    assert speechctc("decode", *names[:2], "--format", "textgrid", "--out", "out/").status == 0
    assert sorted(str(each.relative_to("out")) for each in Path("out").rglob("*.TextGrid")) == [
        "1.TextGrid",
        "2.TextGrid",
    ]
    assert speechctc("decode", names[0]).out.split() == SONGS["a/1"]


def test_what_is_said_of_a_recording_in_a_store_names_its_address(speechctc: Command, talks: Path) -> None:
    """Not the file that is kept of it, in messages, results and the manifest."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    whole, rate = (talks / "a/2.wav").read_bytes(), 16000
    sound = np.random.default_rng(0).uniform(-0.3, 0.3, (rate, 2))
    for name, samples in {"silent": np.zeros(rate), "stereo": sound}.items():
        soundfile.write(talks / f"{name}.wav", samples, rate)
    made = {name: (talks / f"{name}.wav").read_bytes() for name in ("silent", "stereo")}
    for name, content in {**made, "cut": whole[:-2000], "text": b"no sound", "empty": b""}.items():
        system.pipe_file(f"/odd/{name}.wav", content)
    odd = {name: f"memory://odd/{name}.wav" for name in ("silent", "stereo", "cut", "text", "empty")}
    said = {name: [f"{address}: "] for name, address in odd.items()}
    Path("texts").mkdir()
    for name in odd:
        Path(f"texts/{name}.txt").write_text("mid top low")
    rows = [f"{name}\t{name}.wav\tmid top low\n" for name in odd]
    Path("table.tsv").write_text("".join(["id\taudio\tphones\n", *rows]))
    labels, table = ("--transcripts", "texts"), ("--transcripts", "table.tsv")
    for command, more in {"decode": (), "align": labels, "score-phones": table, "measure": ()}.items():
        manifest = ("--manifest", f"{command}.jsonl")
        done = speechctc(
            command, *odd.values(), *more, "--format", "csv" if command == "measure" else "json", *manifest
        )
        kept = str(talks.parent / "cache")
        for text in (done.out, done.err, Path(f"{command}.jsonl").read_text()):
            assert kept not in text and not re.search("[0-9a-f]{40}\\.", text), (command, text)
        wanted = {"text", "empty"} if command == "measure" else {"text", "empty", "cut", "stereo"}
        wanted |= {"silent"} if command == "decode" else set()
        missing = [name for name in wanted if not all(each in done.err for each in said[name])]
        assert not missing, (command, missing, done.err)
    for name in ("text", "empty"):
        assert f"speechctc: {odd[name]}: " in one_line_error(speechctc("decode", odd[name]))
    system.rm("/odd", recursive=True)


def test_a_file_has_the_name_that_its_address_stands_for(speechctc: Command, talks: Path) -> None:
    pytest.importorskip("fsspec")
    for name in ("my talk ü.wav", "100%.wav", "a%20b.wav", "both%20.wav", "both .wav"):
        (talks / name).write_bytes((talks / "a/2.wav").read_bytes())
    (talks / "both .wav").write_bytes((talks / "b/1.wav").read_bytes())
    for name, stem in {
        "my%20talk%20%C3%BC": "my talk ü",
        "my talk ü": "my talk ü",
        "100%25": "100%",
        "100%": "100%",
        "a%20b": "a%20b",  # there is no "a b.wav"
        "both%20": "both ",
        "both%2520": "both%20",
    }.items():
        address = f"file://{talks}/{name}.wav"
        done = speechctc("decode", address, "--format", "textgrid,json", "--out", f"of {name}/")
        assert done.status == 0, done.err
        assert {each.name for each in Path(f"of {name}").iterdir()} >= {f"{stem}.TextGrid", f"{stem}.json"}
        result = json.loads(Path(f"of {name}/{stem}.json").read_text())
        assert result["phones"] == (SONGS["b/1"] if stem == "both " else SONGS["a/2"]) and result["file"] == address
    assert "cannot be read" in one_line_error(speechctc("decode", f"file://{talks}/a%00.wav"))
    said = one_line_error(speechctc("decode", f"file://localhost{talks}/none.wav"))
    assert f"file://{talks}/none.wav: cannot be read: No such file or directory; check" in said


def test_labels_of_several_recordings_are_found_by_the_names_of_their_addresses(
    speechctc: Command, talks: Path
) -> None:
    pytest.importorskip("fsspec")
    addresses = [f"file://localhost{talks}/{name}.wav" for name in ("a/2", "b/1")]
    Path("list.txt").write_text("\n".join([*addresses, f"file://{talks}/none.wav"]))
    Path("phones.ctm").write_text(f"2 1 0 0.1 {SONGS['a/2'][0]}\n1 1 0 0.1 {SONGS['b/1'][0]}\n")
    done = speechctc("align", "--recordings", "list.txt", "--transcripts", "phones.ctm", "--format", "json")
    assert [each["phones"] for each in json.loads(done.out)] == [SONGS["a/2"][:1], SONGS["b/1"][:1]]
    assert done.status == 1 and "none.wav: cannot be read" in done.err


def test_a_recording_is_read_again_only_if_it_changed(talks: Path) -> None:
    pytest.importorskip("fsspec")
    place, address = talks / "a/1.wav", f"file://{talks / 'a/1.wav'}"

    def fetched() -> Path:
        found = fetching.fetch([address], lambda steps: None)[address]
        assert isinstance(found, Path) and found.read_bytes() == place.read_bytes()
        return found

    first = fetched()
    number = first.stat().st_ino
    assert first.suffix == ".wav" and fetched() == first and first.stat().st_ino == number  # not read again
    first.write_bytes(b"damaged")
    assert fetched() == first and first.stat().st_ino != number
    write_song(place, ["top"])
    assert fetched() != first
    (talks.parent / "cache/recordings").chmod(0o777)
    with pytest.raises(InputError, match="others may write to it"):
        fetching.fetch([address], lambda steps: None)


def test_a_server_is_read(speechctc: Command, talks: Path) -> None:
    pytest.importorskip("aiohttp")
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(talks))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        done = speechctc("decode", f"{address}/a/2.wav", f"{address}/none.wav", "--format", "json")
        server.shutdown()
    assert done.status == 1 and f"{address}/none.wav: cannot be read" in done.err
    assert [(each["file"], each["phones"]) for each in json.loads(done.out)] == [(f"{address}/a/2.wav", SONGS["a/2"])]


def test_no_table_and_no_manifest_leads_to_an_address(
    speechctc: Command, talks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be a stranger's: what they name is a path, whatever it looks like."""

    def never(*given: object) -> None:
        raise AssertionError("a store was asked")

    monkeypatch.setattr(fetching, "system_of", never)
    Path("table.tsv").write_text("id\taudio\tphones\na\tfile:///etc/passwd\tlow\nb\ts3://bucket/a.wav\tlow\n")
    done = speechctc("align", "--transcripts", "table.tsv")
    assert done.status == 2 and "not there" in done.err
    Path("table.jsonl").write_text('{"id": "a", "audio": "https://host/a.wav", "phones": ["low"]}\n')
    assert speechctc("align", "--transcripts", "table.jsonl").status == 2
    assert speechctc("measure", "table.tsv").status == 2
    Path("https:/host").mkdir(parents=True)
    write_song(Path("https:/host/a.wav"), ["low"])
    assert speechctc("decode", "https:/host/a.wav").out == "low\n"
    Path("list.txt").write_text("https:/host/a.wav\n")  # as find prints it
    assert speechctc("decode", "--recordings", "list.txt").out == "low\n"


def test_the_script_for_arrays_of_slurm_does_each_recording_once(speechctc: Command, talks: Path) -> None:
    text = (ROOT / "docs/guide/decoding.md").read_text(encoding="utf-8")
    (script,) = [block for block in text.split("\n\n") if "#SBATCH --array" in block]
    size = int(script.partition("--array=1-")[2].split()[0])
    Path("list.txt").write_text("\n".join(f"talks/{name}.wav" for name in SONGS))
    told = 'speechctc() { printf "%s\\n" "$@"; }\n' + script
    for task in range(1, len(SONGS) + 1):
        environment = os.environ | {"SLURM_ARRAY_TASK_ID": str(task)}
        words = subprocess.run(["bash", "-c", told], env=environment, capture_output=True, text=True, check=True).stdout
        given = words.splitlines()
        at = given.index("--model")
        assert given[given.index("--shard") + 1] == f"{task}/{size}"
        assert speechctc(*given[:at], *given[at + 2 :]).status == 0  # the model of these tests
    assert {str(each.relative_to("results"))[:-9] for each in Path("results").rglob("*.TextGrid")} == {*SONGS}
    assert len([*Path().glob("done-*.jsonl")]) == len(SONGS)
