"""Commands that are asked to stop say what they leave and how to go on, and leave nothing half written."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.core.errors import DRAFT
from tests.command import run_command
from tests.forked import Forked
from tests.tiny_model import write_song
from tests.tones import write_config
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
COUNT = 6  # short recordings before the long one


@pytest.fixture
def talks(here: Path) -> Path:
    """Return a folder of short recordings and then one that takes seconds, with their labels."""
    folder = here / "talks"
    folder.mkdir()
    for number in range(COUNT):
        write_song(folder / f"{number}.wav", ["low", "mid"])
    soundfile.write(folder / "long.wav", np.random.default_rng(0).normal(0, 0.05, 16000 * 1200), 16000)
    for file in folder.glob("*.wav"):
        file.with_suffix(".lab").write_text("low mid")
    return folder


def stopped(here: Path, begun: Callable[[], object], *words: str) -> str:
    """Run a command, ask it to stop as soon as it has begun; return the line that it ends with."""
    for file in ("printed", "said"):
        (here / file).unlink(missing_ok=True)
    with Forked("speechctc", *words, cwd=here, log=here / "printed", errors=here / "said") as process:
        wait_for(lambda: begun() or process.returncode is not None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 128 + signal.SIGTERM, (here / "said").read_text()
    lines = (here / "said").read_text().splitlines()
    assert not [each for each in here.rglob("*") if DRAFT.search(each.name)]
    told = [line for line in lines if line.startswith("speechctc: ") and "compiling" not in line]
    assert len(told) == 1 and told[0].startswith("speechctc: stopped: ") and lines[-1] == told[0], lines
    return told[0].removeprefix("speechctc: stopped: ")


def test_a_manifest_has_what_is_done_and_the_rest_is_done_later(here: Path, talks: Path) -> None:
    words = ("decode", "talks", "--out", "out.tsv", "--manifest", "m.jsonl", "--jobs", "1")
    manifest = here / "m.jsonl"
    said = stopped(here, lambda: manifest.exists() and manifest.read_text().count("\n") == COUNT, *words)
    assert said == "m.jsonl has what is done: the same command goes on with --resume"
    assert [json.loads(line)["name"] for line in manifest.read_text().splitlines()] == [*map(str, range(COUNT))]
    assert not (here / "out.tsv").exists()
    assert run_command(*words, "--resume") == 0
    assert run_command("decode", "talks", "--out", "whole.tsv") == 0
    assert (here / "out.tsv").read_bytes() == (here / "whole.tsv").read_bytes()
    assert manifest.read_text().count("\n") == COUNT + 1


@pytest.mark.parametrize("command", ["align", "score-phones"])
def test_a_folder_has_whole_files(here: Path, talks: Path, command: str) -> None:
    words = (command, "talks", "--out", "out/", "--format", "textgrid", "--jobs", "1")
    said = stopped(here, lambda: (here / f"out/{COUNT - 1}.TextGrid").exists(), *words)
    assert said == "out/ has what is done: the same command goes on with --skip-existing"
    assert {each.stem for each in (here / "out").glob("*.TextGrid")} == {*map(str, range(COUNT))}
    assert run_command(*words, "--skip-existing") in (0, 3)
    assert (here / "out/long.TextGrid").exists()


def test_a_file_is_whole_or_as_it_was(here: Path, talks: Path) -> None:
    (here / "all.csv").write_text("by hand")
    words = ("decode", "talks", "--out", "all.csv", "--overwrite", "--jobs", "1")
    said = stopped(here, lambda: any(DRAFT.search(each.name) for each in here.iterdir()), *words)
    assert said == "nothing is written to all.csv: run it again; with --manifest FILE, --resume goes on"
    assert (here / "all.csv").read_text() == "by hand"
    printed = here / "printed"
    said = stopped(here, lambda: printed.exists() and printed.stat().st_size, "decode", "talks", "--jobs", "1")
    assert said == "what is printed is not all: run it again; with --manifest FILE, --resume goes on"


def test_a_measurement_says_it_too(here: Path, talks: Path) -> None:
    pytest.importorskip("parselmouth")
    for file in talks.glob("*.wav"):
        grid = textgrid_text(0.3, {"phones": [Interval(0.02, 0.08, "low")]})
        file.with_suffix(".TextGrid").write_text(grid, encoding="utf-8")
    words = ("measure", "talks", "--out", "tables/")
    said = stopped(here, lambda: (here / f"tables/{COUNT - 1}.csv").exists(), *words)
    assert said == "tables/ has what is done: the same command goes on with --skip-existing"


def test_an_extraction_keeps_whole_shards(here: Path) -> None:
    config, long = write_config(here, COUNT, 1), here / "audio/0-005.wav"
    noise = np.random.default_rng(0).normal(0, 0.05, 16000 * 60)
    soundfile.write(here / "audio/0-000.wav", noise, 16000)  # a shard of its own
    soundfile.write(long, np.tile(noise, 20), 16000)
    settings = ("data.shard_mib=1", "data.dtype=float32", "features.shift_ms=1", "data.workers=1")
    words = ("extract", "--config", os.fspath(config), *settings)
    said = stopped(here, lambda: [*(here / "features").rglob("*.safetensors")], *words)
    assert said == f"{here}/features has the shards that are whole: the same command goes on"
    there = {each: each.stat().st_mtime_ns for each in (here / "features").rglob("*.safetensors")}
    assert run_command(*words) == 0
    assert (
        there
        and there.items()
        <= {each: each.stat().st_mtime_ns for each in (here / "features").rglob("*.safetensors")}.items()
    )
