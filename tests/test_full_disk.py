"""A disk that is full: each stage says so in one line, keeps what was saved, and finishes when there is space again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from speechctc.audio import sound_file
from speechctc.audio.recordings import Recording
from speechctc.core import files
from speechctc.corpora import synthetic
from speechctc.inference.manifest import Manifest
from speechctc.studio.microphone import recover
from speechctc.studio.sound import Waveform
from tests.command import Command, one_line_error
from tests.studio.folders import client_of
from tests.tiny_model import write_song
from tests.tones import write_config

resource = pytest.importorskip("resource", reason="needs a system that limits the size of files")


SETTINGS = ("model.convs=[4]", "model.dense=[8]")


@contextmanager
def full(size: int = 3000) -> Iterator[None]:
    """Let no file grow beyond so many bytes; it is an `OSError`, as on a full disk."""
    before, cached = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # of modules that are first imported now
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = cached


def contents(folder: Path) -> dict[str, bytes]:
    """Return what every file in a folder holds, by its path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def said(speechctc: Command, *command: object) -> str:
    with full():
        done = speechctc(*command)
    line = one_line_error(done)
    assert "free space, or write to another disk" in line
    return line


def test_extraction(speechctc: Command, tmp_path: Path) -> None:
    config = write_config(tmp_path, 6, 3)
    said(speechctc, "extract", "--config", config)
    assert not list((tmp_path / "features").rglob("*.safetensors"))
    assert not [path for path in (tmp_path / "features").rglob(".*")], "drafts are left"
    assert "extracted" in speechctc("extract", "--config", config).err
    before = contents(tmp_path / "features")
    assert speechctc("extract", "--config", config).status == 0 and contents(tmp_path / "features") == before


def test_training(speechctc: Command, beside_latest: Path, extracted: Path) -> None:
    command = ("train", "--config", extracted, *SETTINGS, "--run", "whole")
    for epochs in (1, 2):
        assert speechctc(*command, f"train.epochs={epochs}", "--resume").status == 0
    command = (*command[:-1], "run")
    said(speechctc, *command, "train.epochs=2")  # before anything was saved
    assert not (beside_latest / "run" / "last").exists()
    assert speechctc(*command, "train.epochs=1").status == 0
    saved = [contents(beside_latest / "run" / name) for name in ("best", "last")]
    said(speechctc, *command, "train.epochs=2", "--resume")
    assert [contents(beside_latest / "run" / name) for name in ("best", "last")] == saved
    assert speechctc(*command, "train.epochs=2", "--resume").status == 0
    for name in ("last/weights.safetensors", "best/weights.safetensors"):
        assert (beside_latest / "run" / name).read_bytes() == (beside_latest / "whole" / name).read_bytes()


def test_decoding(speechctc: Command, beside_latest: Path) -> None:
    (beside_latest / "in").mkdir()
    for k in range(3):
        write_song(beside_latest / "in" / f"{k}.wav", ["low", "mid"] * 20)
    assert speechctc("decode", "in", "--out", "all.json").status == 0
    before = (beside_latest / "all.json").read_bytes()
    said(speechctc, "decode", "in", "--out", "all.json")
    assert (beside_latest / "all.json").read_bytes() == before
    said(speechctc, "decode", "in", "--format", "json", "--out", "out/")
    assert speechctc("decode", "in", "--format", "json", "--out", "out/").status == 0
    done = {path.name: len(json.loads(path.read_text())["phones"]) for path in (beside_latest / "out").glob("*.json")}
    assert done == {"0.json": 40, "1.json": 40, "2.json": 40}


def test_what_is_written_is_named_though_a_write_names_nothing(
    speechctc: Command, beside_latest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full(), pytest.raises(OSError, match="'.*/given'"):
        files.write_folder(beside_latest / "given", lambda draft: (draft / "checkpoint.json").write_bytes(bytes(9999)))
    assert not list(beside_latest.glob("given")) and not list(beside_latest.glob(".speechctc-*"))
    write_song(beside_latest / "a.wav", ["low", "mid"] * 40)
    with open(beside_latest / "out", "w", encoding="utf-8") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        line = said(speechctc, "decode", "a.wav", "--format", "json")
        patch.undo()
    assert line.startswith("speechctc: standard output: ")


def test_a_manifest_is_named_and_has_no_half_lines(beside_latest: Path) -> None:
    write_song(beside_latest / "a.wav", ["low", "mid"] * 20)
    with full(20), pytest.raises(OSError, match="run.jsonl"):
        manifest = Manifest(beside_latest / "run.jsonl")
        manifest.begin([recording := Recording(Path("a.wav"), Path("a"))], lambda each: "", None)
        manifest.add(recording)
    assert (beside_latest / "run.jsonl").read_bytes() == b""  # no half of a line


def test_sound_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "a.ogg", np.zeros(8000), 8000)
    noise = np.random.default_rng(0).integers(-9999, 9999, 8000).astype(np.int16)
    acts: list[Callable[[], object]] = [
        lambda: sound_file.write_wav(tmp_path / "c.wav", noise, 8000),
        lambda: synthetic.write_recording(tmp_path / "c.wav", noise),
        lambda: Waveform(tmp_path / "a.ogg"),
    ]
    for act in acts:
        with full(), pytest.raises(OSError, match="Input/output error"):
            act()
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=0))
    with full(), pytest.raises(OSError, match=r"No space left on device: '.*c.wav'"):
        acts[0]()


def test_a_microphone_that_finds_no_space_leaves_nothing_and_is_named(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", ["low"])
    with client_of(tmp_path) as (client, _):
        with full(10):
            refused = client.post("/api/microphone/start", json={"rate": 8000})
        assert refused.status_code == 507 and "recording-" in refused.json()["error"]
        assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
        assert client.post("/api/microphone/start", json={"rate": 8000}).status_code == 200


@pytest.mark.parametrize("fault", ["no space", "the disk fails"])
def test_what_a_microphone_recorded_needs_no_space_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """And stays as it is if it cannot be flushed."""
    write_song(tmp_path / "a.wav", ["low"])

    def failing(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with client_of(tmp_path) as (client, _):
        name = client.post("/api/microphone/start", json={"rate": 8000}).json()["name"]
        block, headers = np.full(4000, 0.25, "<f4").tobytes(), {"content-type": "application/octet-stream"}
        client.post("/api/microphone/block", content=block, headers=headers)
        with full(8020), monkeypatch.context() as patch:  # the samples are there; not one more byte would fit
            if fault == "the disk fails":
                patch.setattr("os.fsync", failing)
            ended = client.post("/api/microphone/stop")
    if fault == "no space":
        assert ended.json()["name"] == name and recover(tmp_path) == []
    else:
        assert ended.status_code == 400 and "what was recorded stays there as it is" in ended.json()["error"]
        assert [path.name for path in recover(tmp_path)] == [name]
    assert sound_file.info(tmp_path / name).frames == 4000
