"""Progress of a run, all that resuming it needs, and what `run.json` has to repeat it."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speechctc.config.schema import Config
from speechctc.core.devices import total_memory
from speechctc.features.shards import Shard
from speechctc.model.checkpoint import installed, provenance
from speechctc.training.epoch_plan import EpochPlan, Indices, Limits

LATER = ("rate",)  # counters of `Progress` that earlier versions did not save
MAX_RANKS = 1 << 16  # more than any run has; a damaged state can name any number

PACKAGES = ("torch", "torchaudio", "numpy", "numba", "safetensors", "soundfile", "rapidfuzz", "pydantic")


@dataclass
class Progress:
    """How far a run is; equal on all ranks, except for the sums.

    Attributes
    ----------
    epoch, batch, step : int
        The epoch (from 0), the next batch in its plan, and the steps taken since the start of the run.
    stage_step : int
        Steps taken in the current stage.
    stale : int
        Epochs of this stage since the last new minimum of dev PER.
    loss, phones : float
        Sums of losses and labels over the epoch so far.
    frames, seconds, waited : float
        Frames trained on in this epoch, the seconds it took, and the seconds of them spent waiting for data.
    elapsed : float
        Seconds of the whole run, over all its sessions.
    best_per : float
    scored : int
        Value of `step` when dev was last scored.
    rate : float
        Learning rate of the last step; 0: there was none.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    stage_step: int = 0
    stale: int = 0
    loss: float = 0.0
    phones: float = 0.0
    frames: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0
    elapsed: float = 0.0
    best_per: float = math.inf
    scored: int = 0
    rate: float = 0.0

    def next_step(self, batches: int, phones: float, frames: float, rate: float) -> None:
        """Count one step with this many batches, labels and frames, at this learning rate."""
        self.rate = rate
        self.batch, self.step, self.stage_step = self.batch + batches, self.step + 1, self.stage_step + 1
        self.phones, self.frames = self.phones + phones, self.frames + frames

    def next_epoch(self) -> None:
        """Move to the start of the next epoch."""
        self.epoch, self.batch = self.epoch + 1, 0
        self.loss = self.phones = self.frames = self.seconds = self.waited = 0.0

    def score(self, per: float) -> bool:
        """Record an epoch's dev PER; return whether it is the lowest so far."""
        better = per < self.best_per
        self.best_per, self.stale = min(self.best_per, per), 0 if better else self.stale + 1
        self.scored = self.step
        return better

    def is_out_of_time(self, minutes: float) -> bool:
        """Return whether the run has taken this many minutes; 0 stands for no limit."""
        return bool(minutes) and self.elapsed >= 60 * minutes

    def to_tensors(self) -> dict[str, Tensor]:
        """Return each counter as a float64 scalar, ``progress.<name>``."""
        return {f"progress.{name}": torch.tensor(value, dtype=torch.float64) for name, value in vars(self).items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Progress:
        """Undo `to_tensors`; ignore counters that only earlier versions had, default those that they lacked."""
        counters = [each for each in vars(cls()).items() if each[0] not in LATER or f"progress.{each[0]}" in tensors]
        return cls(**{name: type(default)(tensors[f"progress.{name}"].item()) for name, default in counters})


@dataclass(frozen=True)
class ResumeState:
    """What resuming a run needs besides the state of the train step.

    Attributes
    ----------
    progress : Progress
    stage : int
    remaining : ndarray
        Utterances that the current epoch's plan covers: all, or, if the number of ranks or the size of chunks changed
        within the epoch, those that were not done then.
    limits : Limits
    ranks : int
        Number of ranks and batch limits that the plan was made with.
    """

    progress: Progress
    stage: int
    remaining: Indices
    limits: Limits
    ranks: int

    def not_done(self, frames: Indices, seed: int) -> Indices:
        """Return the utterances of the epoch that are still to be trained on."""
        plan = EpochPlan(frames, self.remaining, self.limits, seed, self.ranks)
        return np.setdiff1d(self.remaining, plan.done(self.progress.batch))

    def to_tensors(self, utterances: int) -> dict[str, Tensor]:
        """Return the state as tensors; `utterances` is the size of the split."""
        left = torch.zeros(utterances, dtype=torch.uint8)
        left[torch.from_numpy(self.remaining)] = 1
        numbers = vars(self.limits) | {"ranks": self.ranks}
        plan = {f"plan.{name}": torch.tensor(value) for name, value in numbers.items()}
        return self.progress.to_tensors() | {"stage": torch.tensor(self.stage), "left": left, **plan}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], utterances: int) -> ResumeState:
        """Undo `to_tensors`.

        Raises
        ------
        LookupError, ValueError, TypeError, RuntimeError, ArithmeticError
            The tensors are not the state of a run on a split with this many utterances.
        """
        plan = {name: int(tensors[f"plan.{name}"]) for name in _PLAN}
        ranks = plan.pop("ranks")
        left = np.flatnonzero(tensors["left"].numpy()).astype(np.int64)
        if tensors["left"].shape != (utterances,):
            raise ValueError(f"its plan has {len(tensors['left'].flatten())} utterances, the split {utterances}")
        progress, stage = Progress.of(tensors), int(tensors["stage"])
        counters = [value for name, value in vars(progress).items() if name != "loss"]
        are_counters = all(value >= 0 for value in [*counters, stage])  # false of NaN
        if not are_counters or min(plan.values()) < 1 or not 1 <= ranks <= MAX_RANKS:
            raise ValueError("its counters are out of range")
        return cls(progress, stage, left, Limits(**plan), ranks)


_PLAN = ("batch_size", "batch_frames", "chunk_frames", "ranks")


def run_record(
    config: Config, shards: Mapping[str, Sequence[Shard]], device: torch.device, ranks: int
) -> dict[str, Any]:
    """Return the resolved config, seed, versions, git revision, hardware, command line and data fingerprint."""
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
        "data": {split: fingerprint(parts) for split, parts in shards.items()},
        "config": config.to_dict(),
    }


def fingerprint(shards: Sequence[Shard]) -> dict[str, Any]:
    """Return a checksum of a split's features and labels, with their amount."""
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(f"{shard.path.name} {shard.checksum}\n".encode())
    return {
        "sha256": digest.hexdigest(),
        "utterances": sum(len(shard.ids) for shard in shards),
        "hours": round(sum(shard.seconds for shard in shards) / 3600, 4),
    }


def hardware(device: torch.device) -> dict[str, Any]:
    """Return the machine: processor, cores, memory, and the GPUs if any are used."""
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
