"""What changed in a corpus since a run, and which run was the last to train on a folder of features.

Marks are, by the id of an utterance, hashes of what is heard, of its features and of its labels:
`features.splits.SplitFeatures.marks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from speechctc.config.schema import Config
from speechctc.core import files
from speechctc.core.errors import first_few

LAST_RUN = "last-run.json"  # beside the features
UTTERANCES = "utterances.json"  # in a run's folder: the marks of its train and dev
RECORD = "run.json"  # there, too: its config, and what it ran on
LARGEST = 1 << 32  # bytes of a file of marks
NAMED = 3  # utterances
Marks = Mapping[str, str]


def changes(before: Marks, now: Marks, features: bool = True) -> str:
    """Return in words how the utterances differ: ``"100 added (a, b, c and 97 more), 1 relabelled (d)"``; or ``""``.

    Without `features`, those that differ in these alone are the same.
    """
    both = [(id, before[id].split(), now[id].split()) for id in now if id in before]
    groups = {
        "added": [id for id in now if id not in before],
        "removed": [id for id in before if id not in now],
        "with other sound": [id for id, old, new in both if old[:1] != new[:1]],
        "relabelled": [id for id, old, new in both if old[:1] == new[:1] and old[2:] != new[2:]],
        "with other features": [
            id for id, old, new in both if features and old[1:2] != new[1:2] and old[:1] == new[:1]
        ],
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
    """The last run on a corpus: its folder, the share that it held out as dev, and the marks of its dev."""

    run: str
    dev_share: float
    dev: dict[str, str]


def remember(config: Config, dev: Marks) -> None:
    """Note beside the features which run trains on them; not where they may only be read."""
    about = LastRun(str(config.run.absolute()), config.corpus.dev_share, dict(dev))
    with suppress(OSError):
        files.write_json(config.data.dir / LAST_RUN, asdict(about))


def noted_run(folder: Path) -> LastRun | None:
    """Return the last run that trained on these features; None if there was none."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        found = LastRun(**files.read_json(folder / LAST_RUN, LARGEST))
        if isinstance(found.run, str) and all(isinstance(mark, str) for mark in found.dev.values()):
            return found
    return None
