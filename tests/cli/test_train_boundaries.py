"""The command train-boundaries, on tones whose times are known, and what align and export make of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.inference.boundary_model import FILE
from tests.command import Command, one_line_error
from tests.tiny_model import write_song
from tests.tones import PHONES

SETTINGS = ("corpus.kind=textgrid", "corpus.root=corpus", "corpus.tables={}")


def write_timed(folder: Path, count: int, wider: float = 0.0) -> Path:
    """Write a corpus of TextGrids of tones; labels are so much wider than their tones, in seconds, at both ends."""
    rng = np.random.default_rng(8)
    for split in ("train", "dev"):
        (folder / split).mkdir(parents=True)
        for k in range(count):
            song = [PHONES[j] for j in rng.integers(4, size=7)]
            song = [phone for a, phone in enumerate(song) if a == 0 or phone != song[a - 1]]
            times = write_song(folder / split / f"{k}.wav", song, seed=k)
            labels = [Interval(s - wider, e + wider, phone) for (s, e), phone in zip(times, song, strict=True)]
            (folder / split / f"{k}.TextGrid").write_text(textgrid_text(2.0, {"phones": labels}))
    return folder


@pytest.fixture
def corpus(here: Path) -> Path:
    return write_timed(here / "corpus", 16)


def test_boundaries_are_learned_kept_and_used(speechctc: Command, corpus: Path, here: Path, tiny_model: Path) -> None:
    shutil.copytree(tiny_model / "best", "model")
    done = speechctc("train-boundaries", "--model", "model", "--fresh", *SETTINGS)
    assert done.status == 0 and "boundaries of dev\n  between spikes: median error" in done.out
    *told, where = done.out.splitlines()[1:]
    before, after = (float(line.split("median error ")[1].split()[0]) for line in told)
    assert where == f"written: {Path('model', FILE)}"
    assert after < 5 and after < before / 2
    for grid in (corpus / "train").glob("*.TextGrid"):  # labels that are wrong by half a tone are learned, not kept
        labels = [Interval(0.1 * k, 0.1 * k + 0.1, phone) for k, phone in enumerate(PHONES)]
        grid.write_text(textgrid_text(2.0, {"phones": labels}))
    known = Path("model", FILE).read_bytes()
    worse = speechctc("train-boundaries", "--model", "model", "--fresh", *SETTINGS)
    assert worse.status == 2 and "become worse, by the boundary model so far: median error" in worse.err
    assert Path("model", FILE).read_bytes() == known
    assert speechctc("export", "exported", "--model", "model").status == 0
    assert Path("exported", FILE).read_bytes() == Path("model", FILE).read_bytes()
    song = ["low", "high", "mid", "top"]
    times = write_song(here / "a.wav", song, seed=99)
    found = {}
    for way in ("--refine", "--no-refine"):
        done = speechctc("align", "a.wav", "--phones", " ".join(song), "--model", "exported", way, "--format", "json")
        (entry,) = json.loads(done.out)
        found[way] = np.abs([each["start"] - start for each, (start, _) in zip(entry["segments"], times, strict=True)])
    assert found["--refine"].max() < 0.012 < found["--no-refine"].max()
    command = ("align", "a.wav", "--phones", " ".join(song), "--model", "exported")
    (entry,) = json.loads(speechctc(*command, "--format", "json").out)
    for each, (start, _) in zip(entry["segments"], times, strict=True):
        assert each["start_interval"][0] <= each["start"] <= each["start_interval"][1]
        assert each["start_interval"][0] - 0.01 <= start <= each["start_interval"][1] + 0.01
    done = speechctc(*command, "--format", "textgrid", "--intervals")
    assert done.status == 0 and '"TextTier"' in done.out and 'name = "boundaries"' in done.out
    assert "TextTier" not in speechctc(*command, "--format", "textgrid").out
    assert "none is written" in one_line_error(speechctc(*command, "--format", "json", "--intervals"))
    without = speechctc(*command, "--format", "textgrid", "--intervals", "--no-refine")
    assert "needs a boundary model" in one_line_error(without)


def test_a_corpus_without_times_is_refused(speechctc: Command, here: Path, tiny_model: Path) -> None:
    shutil.copytree(tiny_model / "best", "model")
    done = speechctc("train-boundaries", "--model", "model")
    assert "no utterance of the corpus's training split has the times of its phones" in one_line_error(done)
    assert not Path("model", FILE).exists()
