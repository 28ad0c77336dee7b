"""What changed in a corpus since a run, and which run was the last to train on a folder of features.

Marks tell by the id of an utterance whether its features and its labels are the same: `features.SplitFeatures.marks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from speechctc.core import files
from speechctc.core.errors import first_few

LAST_RUN = "last-run.json"  # beside the features
LARGEST = 1 << 32  # bytes of a file of marks
NAMED = 3  # utterances
Marks = Mapping[str, str]


def changes(before: Marks, now: Marks) -> str:
    """Return in words how the utterances differ: ``"100 added (a, b, c and 97 more), 1 relabelled (d)"``; or ``""``."""
    both = [(id, before[id].split(), now[id].split()) for id in now if id in before]
    groups = {
        "added": [id for id in now if id not in before],
        "removed": [id for id in before if id not in now],
        "with other sound or settings": [id for id, old, new in both if old[:1] != new[:1]],
        "relabelled": [id for id, old, new in both if old[:1] == new[:1] and old != new],
    }
    return ", ".join(f"{len(ids):,} {what} ({first_few(ids, NAMED)})" for what, ids in groups.items() if ids)


def write_marks(path: Path, marks: Mapping[str, Marks]) -> None:
    """Write the marks of each split."""
    files.write_json(path, {split: dict(each) for split, each in marks.items()})


def read_marks(path: Path) -> dict[str, dict[str, str]]:
    """Return what `write_marks` wrote; nothing where that is not there or damaged."""
    with suppress(OSError, ValueError, AttributeError):
        found = files.read_json(path, LARGEST)
        if all(isinstance(mark, str) for each in found.values() for mark in each.values()):
            return dict(found)
    return {}


@dataclass(frozen=True)
class LastRun:
    """The last run that trained on a folder of features: its folder, and the marks of its dev."""

    run: str
    dev: dict[str, str]


def remember(folder: Path, run: Path, dev: Marks) -> None:
    """Note beside the features which run trains on them; not where they may only be read."""
    with suppress(OSError):
        write_marks(folder / LAST_RUN, {str(run.absolute()): dev})


def last_run(folder: Path) -> LastRun | None:
    """Return the last run that trained on these features; None if there was none."""
    for run, dev in read_marks(folder / LAST_RUN).items():
        return LastRun(run, dev)
    return None
