"""A run's folder: config, log of epochs, checkpoints, and the link ``runs/latest``.

config.yaml      the config as resolved
run.json         that config, seed, versions, hardware, command lines, data fingerprint
utterances.json  what it trains and is scored on, by id, to say later what changed
metrics.jsonl    one line per epoch
curves.png       the epochs as curves, if matplotlib is installed and train.curves=true
best/ last/      checkpoints: the lowest dev PER, and the last state saved; best/calibration.json is written last
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from speechctc.config.load import read_yaml
from speechctc.config.schema import Config
from speechctc.config.section import with_defaults
from speechctc.core import files, links
from speechctc.core.devices import total_memory
from speechctc.core.errors import RESUME, RUN_OPTION, InputError, first_few
from speechctc.core.files import try_lock
from speechctc.core.latest_run import LATEST, latest_run, point_latest
from speechctc.model.checkpoint import installed, provenance
from speechctc.training.growth import RECORD, UTTERANCES, Marks, changes, read_marks, remember, write_marks

if TYPE_CHECKING:
    import torch

    from speechctc.features.splits import SplitFeatures


MAY_CHANGE = tuple(
    "run train.epochs train.minutes train.patience train.save_minutes train.curves "
    "train.device train.finetune decode score data.dir features.encoder.folder data.workers "
    "data.cluster data.cluster_wait data.time_limit data.chunk_mib".split()
)
# Of these, keys on which the end of a run or the choice of its best epoch depends.
REPORTED_KEYS = tuple("train.epochs train.minutes train.patience train.finetune decode score".split())


LOCK = "lock"  # the file that is locked while a folder is worked in

# Numbers of every epoch of a net's training, in its log.
EPOCH_NUMBERS = ("step", "loss", "dev_loss", "dev_per", "blank_share", "lr")

Draw: TypeAlias = Callable[[Sequence[dict[str, Any]], bool], None]


def draw_nothing(epochs: Sequence[dict[str, Any]], last: bool) -> None:
    """Draw no curves."""


@contextmanager
def locked_folder(folder: Path, work: str) -> Iterator[int]:
    """Make a folder and lock it for one kind of work of this process; yield the handle of the lock.

    The lock ends with the process, even after a crash.

    Raises
    ------
    InputError
        Another process has the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = links.open_plain(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        if (is_held := try_lock(handle)) is False:
            raise InputError(
                f"{folder}: another process is {work} in this folder", "wait for it, or name another folder"
            )
        if is_held is None:
            files.warn_of_no_locks()
        yield handle
    finally:
        os.close(handle)


class Run:
    """The folder of one run.

    Parameters
    ----------
    folder : Path
    draw : callable
        Draws the curves of the epochs logged, whatever was drawn before if its second argument is true.
    """

    def __init__(self, folder: Path, draw: Draw = draw_nothing) -> None:
        self.folder = folder
        self.best = folder / "best"
        self.last = folder / "last"
        self.calibration = self.best / "calibration.json"
        self.config = folder / "config.yaml"
        self.metrics = folder / "metrics.jsonl"
        self.record = folder / RECORD
        self.utterances = folder / UTTERANCES
        self._draw = draw
        self._begun = False
        self._locked: tuple[os.stat_result, int] | None = None  # the folder, and the open file `lock` in it
        self._latest_before: Path | None = None

    def check(self, config: Config, resume: bool) -> str:
        """Check that the folder is free, or holds a run with this config to resume.

        What a session left that was cut off before it saved any state is removed. Returns what is to be said: which
        settings are not those of the session before, or that there is nothing to resume.

        Raises
        ------
        InputError
            The folder holds a run and `resume` is false; or that run has another config, is damaged or lacks last/.
        """
        for checkpoint in (self.best, self.last):
            files.settle_folder(checkpoint)
        self._clear()
        note = ""
        if self.folder.exists() and any(path.name != LOCK for path in self.folder.iterdir()):
            if not resume:
                fix = f"go on with it ({RESUME}), or name another with {RUN_OPTION}"
                raise InputError(f"{self.folder}: this run's folder exists already", fix)
            if self.config.exists():
                note = self._check_same(config, self._stored_config())
            self._stored_record()
            self.epochs(EPOCH_NUMBERS)
            self._check_last()
        return f"{self.folder}: no run there yet: a new one begins" if resume and not self._is_saved() else note

    def _check_last(self) -> None:
        """Check that what was trained can go on: a new beginning would write over best/ and the log of epochs."""
        if not self._is_saved() or (self.last / "checkpoint.json").exists():
            return
        is_there = (self.best / "checkpoint.json").exists()
        left = "best/ is" if is_there else "there is only a log of epochs"
        fix = f"; train.init_from={self.best} begins with its weights" if is_there else ""
        what = f"{self.folder}: last/, from which training goes on, is not there; {left}"
        raise InputError(what, f"restore it, or name another folder with {RUN_OPTION}{fix}")

    def begin(self, config: Config, record: dict[str, Any], marks: Mapping[str, Marks]) -> None:
        """Write the config and the run's record, and point ``runs/latest`` to the folder.

        A resumed run keeps its record; the new session is added. The features' folder notes the run.

        Parameters
        ----------
        config : Config
        record : dict
            Of `run_record`.
        marks : mapping of str to mapping of str to str
            By split, those of `SplitFeatures.marks`.
        """
        whole = {**record, "resumed": []}
        if (stored := self._stored_record()) is not None:
            session = {key: value for key, value in record.items() if key not in ("config", "data")}
            whole = {**stored, "config": record["config"], "resumed": [*stored["resumed"], session]}
        files.write_json(self.record, whole)
        write_marks(self.utterances, marks)
        text = yaml.safe_dump(config.to_dict(), sort_keys=False, allow_unicode=True)
        files.write_text(self.config, text)
        latest = latest_run()
        self._begun, self._latest_before = True, latest if latest != self.folder.resolve() else None
        point_latest(self.folder)
        remember(config, marks["dev"])

    def abandon(self) -> None:
        """Remove what a session left that ended before it saved any state, so that the next one finds the folder free.

        The folder goes too if nothing else is in it, and ``runs/latest`` means again the run that it meant before.
        """
        if not self._is_in_place():
            return
        self.close()
        if self._is_saved():
            return
        self._clear()
        with suppress(OSError):  # something of the user's is in it
            (self.folder / LOCK).unlink(missing_ok=True)
            self.folder.rmdir()
        if self._begun and self._latest_before is not None:
            point_latest(self._latest_before)
        elif self._begun and latest_run() is not None:
            LATEST.unlink()

    def _is_saved(self) -> bool:
        return any(path.exists() for path in (self.best, self.last, self.metrics))

    def _clear(self) -> None:
        """Remove the record of a session that saved no state."""
        if self.record.exists() and not self._is_saved():
            self.record.unlink()
            self.config.unlink(missing_ok=True)
            self.utterances.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for this process; the lock ends with the process, even after a crash.

        Raises
        ------
        InputError
            Another process has the lock, or something in the folder that is written to is a link.
        """
        for own in (self.best, self.last):
            links.refuse_linked_folder(own)
        with locked_folder(self.folder, "training") as handle:
            try:
                self._locked = self.folder.stat(), handle
                yield
            finally:
                self._locked = None

    def check_place(self) -> None:
        """Check, before something is saved, that the folder which was locked still has its name.

        Raises
        ------
        InputError
            It was moved or removed; another training may be at work in a new one of its name.
        """
        if not self._is_in_place():
            what = f"{self.folder}: was moved or removed while it was trained, and nothing more is saved"
            raise InputError(what, f"go on with it where it is now, by {RUN_OPTION} ({RESUME})")

    def _is_in_place(self) -> bool:
        if self._locked is None:
            return True
        place, handle = self._locked
        with suppress(FileNotFoundError):
            lock = self.folder / LOCK
            return os.path.samestat(place, self.folder.stat()) and (not lock.exists() or files.is_at(handle, lock))
        return False

    def log(self, line: dict[str, Any]) -> None:
        """Append an epoch's line; drop earlier lines of epochs that are repeated."""
        self.check_place()
        lines = [entry for entry in self.epochs() if entry["epoch"] < line["epoch"]] + [line]
        text = "".join(json.dumps(entry) + "\n" for entry in lines)
        files.write_text(self.metrics, text)
        self._draw(lines, False)

    def close(self) -> None:
        """Draw the last curves."""
        with suppress(InputError):  # a damaged log was reported before
            self._draw(self.epochs(), True)

    def epochs(self, numbers: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the logged epochs, each with these numbers.

        Raises
        ------
        InputError
            A line is damaged.
        """
        if not self.metrics.exists():
            return []
        lines = files.readable(self.metrics, files.MOST_JSON).read_bytes().splitlines()
        return [self._epoch(number, line, numbers) for number, line in enumerate(lines, start=1)]

    def _epoch(self, number: int, line: bytes, numbers: Sequence[str]) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and type(entry.get("epoch")) is int:
                if all(isinstance(entry.get(key), int | float) for key in numbers):
                    return entry
        what = f"{self.metrics}, line {number}: not an epoch's record"
        raise InputError(what, "mend the line, or move the file away")

    def _stored_config(self) -> dict[str, Any]:
        stored = read_yaml(self.config)
        if not isinstance(stored, dict):
            raise InputError(
                f"{self.config}: not the config of a run", f"restore it, or name another folder with {RUN_OPTION}"
            )
        return stored

    def _stored_record(self) -> dict[str, Any] | None:
        """Return what run.json holds; None where there is none."""
        if not self.record.exists():
            return None
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            record = files.read_json(self.record)
            digests = [each["sha256"] for each in record["data"].values()]
            if isinstance(record["resumed"], list) and all(isinstance(digest, str) for digest in digests):
                return dict(record)
        raise InputError(f"{self.record}: not the record of a run", "restore it, or move it away to have a new one")

    def check_data(self, data: Mapping[str, SplitFeatures]) -> None:
        """Check that a run that is resumed was begun with these features, labels and phones.

        Raises
        ------
        InputError
            It was not; the error says what changed.
        """
        stored = self._stored_record()
        if stored is None or all(
            each["sha256"] == data[split].fingerprint()["sha256"] for split, each in stored["data"].items()
        ):
            return
        marks = read_marks(self.utterances)
        found = {split: changes(marks.get(split, {}), each.marks()) or "as before" for split, each in data.items()}
        told = "; ".join(f"{split}: {each}" for split, each in found.items())
        if {*found.values()} == {"as before"}:
            told = "the phone set is another"
        what = f"{self.folder}: not the corpus that this run was begun with: {told if marks else 'what is not known'}"
        weights = f"begin another run with {RUN_OPTION}; train.init_from={self.best} begins with these weights"
        raise InputError(what, f"{weights}. Or extract the corpus as it was, and go on")

    def _check_same(self, config: Config, stored: dict[str, Any]) -> str:
        """Refuse another config; return which of the settings that may change did, as a line."""
        new, old = _flat(config.to_dict()), _flat(with_defaults(Config, stored))
        if old.get("features.version") is None:
            old["features.version"] = new["features.version"]
        differ = [key for key in sorted({*new, *old}) if new.get(key) != old.get(key)]
        if changed := [key for key in differ if not _is_of(key, MAY_CHANGE)]:
            said = ", ".join(f"{key}={old.get(key)} (now {new.get(key)})" for key in changed[:5])
            same_net = not any(_is_of(key, ("model", "features", "train.init_from")) for key in changed)
            weights = f"; train.init_from={self.last} begins with these weights" if same_net else ""
            fix = f"go on with the config it has, or name another folder with {RUN_OPTION}{weights}"
            raise InputError(f"{self.folder}: this run was begun with another config: {said}", fix)
        course = sorted(
            (key for key in differ if key in new and _is_of(key, REPORTED_KEYS)), key=lambda key: key[:5] != "train"
        )
        told = [f"{key} {old.get(key)} -> {new[key]}" for key in course]
        return f"{self.folder}: not as in the session before: {first_few(told, 5)}" if told else ""


def _is_of(key: str, sections: Sequence[str]) -> bool:
    """Return whether a key is one of these, or in one of them."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


PACKAGES = ("torch", "torchaudio", "numpy", "numba", "safetensors", "soundfile", "rapidfuzz", "pydantic")


def run_record(config: Config, data: Mapping[str, SplitFeatures], device: torch.device, ranks: int) -> dict[str, Any]:
    """Return the resolved config, seed, versions, git revision, hardware, command line and data fingerprint."""
    import torch  # late: a plot of runs needs none

    about = provenance()
    # Features can be trained on where no recording can be read.
    versions = about["versions"] | {name: installed(name) or "not installed" for name in PACKAGES}
    if device.type == "cuda":
        versions |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    return {
        "began": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": sys.argv,
        "folder": os.getcwd(),
        "seed": config.train.seed,
        "ranks": ranks,
        "git": about["git"],
        "versions": versions,
        "hardware": hardware(device),
        "data": {split: features.fingerprint() for split, features in data.items()},
        "config": config.to_dict(),
    }


def hardware(device: torch.device) -> dict[str, Any]:
    """Return the machine: processor, cores, memory, and the GPUs if any are used."""
    import torch

    about: dict[str, Any] = {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(total_memory(torch.device("cpu")) / 2**30, 1),
    }
    if device.type == "cuda":
        about["gpus"] = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return about


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
