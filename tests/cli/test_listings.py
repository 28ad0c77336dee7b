"""A command lists a folder as often for many recordings as for few: work grows with them, not with their square."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from speechctc.audio.annotations import Interval, textgrid_text
from tests.command import Command
from tests.tiny_model import write_song

SONG = ["low", "mid", "high", "top"]
listed: list[str] = []
_watching = False


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in ("os.listdir", "os.scandir"):
        listed.append(os.path.abspath(os.fsdecode(arguments[0] or ".")) if not isinstance(arguments[0], int) else "")


@pytest.fixture(scope="module")
def listings() -> Iterator[Callable[[Path], int]]:
    """Return a function that counts how often a folder was listed since it was last called."""
    global _watching
    sys.addaudithook(_hear)  # it stays for the process, and does nothing after this module
    _watching = True

    def count(folder: Path) -> int:
        found = listed.count(str(folder.resolve()))
        listed.clear()
        return found

    yield count
    _watching = False


def write_pairs(folder: Path, count: int) -> None:
    """Write recordings and their TextGrids, most of them links."""
    folder.mkdir()
    times = write_song(folder / "000.wav", SONG)
    phones = [Interval(start, end, label) for (start, end), label in zip(times, SONG, strict=True)]
    (folder / "000.TextGrid").write_text(textgrid_text(times[-1][1] + 0.04, {"phones": phones}))
    for number in range(1, count):
        for ending in ("wav", "TextGrid"):
            os.link(folder / f"000.{ending}", folder / f"{number:03d}.{ending}")


CONFIG = ["--config", "demo", "corpus.kind=textgrid", "corpus.phones=found", "features.mels=20", "model.time_stride=1"]
COMMANDS = {
    "start": ("start", "ROOT", "--out", "OUT.yaml"),
    "extract": ("extract", *CONFIG, "corpus.root=ROOT", "data.dir=OUT"),
    "doctor": ("doctor", *CONFIG, "corpus.root=ROOT", "data.dir=OUT"),
    "decode": ("decode", "ROOT", "--format", "textgrid", "--out", "OUT/"),
    "align from a folder": ("align", "ROOT", "--transcripts", "ROOT", "--format", "textgrid", "--out", "OUT/"),
    "check-labels": ("check-labels", *CONFIG, "corpus.root=ROOT", "--model", "runs/latest", "--out", "OUT.tsv"),
    "score-boundaries": ("score-boundaries", "ROOT", "ROOT"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_lists_a_folder_as_often_for_many(
    name: str, speechctc: Command, here: Path, listings: Callable[[Path], int]
) -> None:
    counts = []
    for pairs in (8, 24):
        root, out = here / f"in{pairs}", f"out{pairs}"
        write_pairs(root, pairs)
        arguments = [each.replace("ROOT", str(root)).replace("OUT", out) for each in COMMANDS[name]]
        listings(root)
        done = speechctc(*arguments)
        assert done.status in (0, 1 if name == "doctor" else 0), done.err
        counts.append(listings(root))
    assert counts[0] == counts[1] and counts[0] < 20, counts
