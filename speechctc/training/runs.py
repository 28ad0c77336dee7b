"""A run's folder: its config, its log of epochs, its checkpoints, and the link to the latest.

config.yaml      the config as resolved
run.json         all that the run was made from: that config, seed, versions, hardware, command lines, data fingerprint
metrics.jsonl    a line an epoch
best/ last/      checkpoints: of the lowest dev PER, and of the last state saved
top/             the best few, where train.keep_best asks for more than one
tensorboard/     the lines of metrics.jsonl, where train.tensorboard asks for it
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from speechctc import files
from speechctc.checkpoint import LATEST
from speechctc.config import Config
from speechctc.errors import InputError
from speechctc.yaml_text import read_yaml

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MAY_CHANGE = (
    "run",
    "train.epochs",
    "train.minutes",
    "train.patience",
    "train.save_minutes",
    "train.keep_best",
    "train.average_best",
    "train.tensorboard",
    "train.device",
    "train.finetune",
    "decode",
    "score",
    "data.dir",
    "data.workers",
    "data.chunk_mib",
)


class Run:
    """One run's folder.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.best = folder / "best"
        self.last = folder / "last"
        self.config = folder / "config.yaml"
        self.metrics = folder / "metrics.jsonl"
        self.record = folder / "run.json"
        self.top = folder / "top"
        self._board: SummaryWriter | None = None

    def check(self, config: Config, resume: bool) -> None:
        """See that the folder is free for this config, or holds a run to go on with.

        Raises
        ------
        InputError
            It holds a run already and `resume` is false, or that run has another config.
        """
        for checkpoint in (self.best, self.last):
            files.settle_folder(checkpoint)
        if self.folder.exists() and any(path.name != "lock" for path in self.folder.iterdir()):
            if not resume:
                raise InputError(
                    f"{self.folder}: this run's folder exists already",
                    "go on with it by --resume, or name another with --run DIR",
                )
            if self.config.exists():
                self._check_same(config, read_yaml(self.config))

    def begin(self, config: Config, record: dict[str, Any]) -> None:
        """Note what the run is made from, and make ``runs/latest`` mean it: from here on the folder is a run's.

        A run taken up again keeps its record; the new session is added to it.

        Raises
        ------
        InputError
            It was begun on other data; TensorBoard's log is wanted and tensorboard not installed.
        """
        whole = {**record, "resumed": []}
        if self.record.exists():
            whole = json.loads(self.record.read_text(encoding="utf-8"))
            self._check_data(whole["data"], record["data"])
            session = {key: value for key, value in record.items() if key not in ("config", "data")}
            whole = {**whole, "config": record["config"], "resumed": [*whole["resumed"], session]}
        files.write_json(self.record, whole)
        text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
        files.write_text(self.config, text)
        point_latest(self.folder)
        if config.train.tensorboard:
            self._board = _open_board(self.folder / "tensorboard")

    def keep_top(self, count: int, line: dict[str, Any], save: Callable[[Path], None]) -> None:
        """Save an epoch's checkpoint among the best few if its dev PER belongs there, and drop what is too much.

        One alone is ``best/``, and needs no place here.
        """
        if count == 1:
            return
        new, per = self.top / f"epoch-{line['epoch']:04d}", line["dev_per"]
        kept = [(_dev_per(path), path) for path in self.top_checkpoints() if path != new]
        ranked = sorted([*kept, (per, new)], key=lambda entry: (entry[0], entry[1].name))
        if new in (path for _, path in ranked[:count]):
            save(new)
        for _, path in ranked[count:]:
            shutil.rmtree(path, ignore_errors=True)

    def top_checkpoints(self) -> list[Path]:
        """Return the folders of the best few."""
        return sorted(self.top.glob("epoch-????"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process alone; the lock goes with the process, however it ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as handle:
            _lock(handle.fileno(), self.folder)
            yield

    def log(self, line: dict[str, Any]) -> None:
        """Append an epoch's line; lines of epochs that are being done again are dropped first."""
        lines = [entry for entry in self.epochs() if entry["epoch"] < line["epoch"]] + [line]
        text = "".join(json.dumps(entry) + "\n" for entry in lines)
        files.write_text(self.metrics, text)
        if self._board is not None:
            for name, value in line.items():
                self._board.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """Write what TensorBoard's log still holds back."""
        if self._board is not None:
            self._board.close()

    def epochs(self) -> list[dict[str, Any]]:
        """Return the lines of the epochs done so far."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]

    def _check_data(self, stored: dict[str, Any], new: dict[str, Any]) -> None:
        for split in stored:
            if stored[split]["sha256"] != new[split]["sha256"]:
                raise InputError(
                    f"{self.folder}: the features of {split} are not those this run was begun with",
                    "give the data.dir it had, or name another folder with --run DIR",
                )

    def _check_same(self, config: Config, stored: dict[str, Any]) -> None:
        new, old = _flat(config.to_dict()), _flat(stored)
        changed = [
            key
            for key in sorted({*new, *old})
            if new.get(key) != old.get(key) and not any(key == may or key.startswith(f"{may}.") for may in MAY_CHANGE)
        ]
        if changed:
            said = ", ".join(f"{key}={old.get(key)} (now {new.get(key)})" for key in changed[:5])
            raise InputError(
                f"{self.folder}: this run was begun with another config: {said}",
                "go on with the config it has, or name another folder with --run DIR",
            )


def point_latest(folder: Path) -> None:
    """Make ``runs/latest`` mean this run's folder."""
    LATEST.parent.mkdir(parents=True, exist_ok=True)
    beside = LATEST.with_name(f".speechctc-latest-{secrets.token_hex(8)}")
    try:
        beside.symlink_to(os.path.relpath(folder, LATEST.parent), target_is_directory=True)
        os.replace(beside, LATEST)
    except OSError:  # no links on this file system: the model must then be named
        beside.unlink(missing_ok=True)


def _open_board(folder: Path) -> SummaryWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "train.tensorboard=true: tensorboard is not installed", "pip install 'speechctc[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder))


def _dev_per(checkpoint: Path) -> float:
    """Return a checkpoint's dev PER, infinite for a folder that holds none."""
    try:
        return float(json.loads((checkpoint / "checkpoint.json").read_text(encoding="utf-8"))["dev_per"])
    except (OSError, ValueError, KeyError):
        return math.inf


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: no lock of this kind
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"{folder}: another process is training in this folder", "name another with --run DIR"
        ) from None
