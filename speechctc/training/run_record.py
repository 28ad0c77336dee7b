"""What is written to ``run.json``: everything needed to repeat the run."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

import torch

from speechctc.config.schema import Config
from speechctc.core.devices import total_memory
from speechctc.features.shards import Shard
from speechctc.model.checkpoint import provenance

PACKAGES = ("torch", "torchaudio", "numpy", "numba", "safetensors", "soundfile", "rapidfuzz", "pydantic")


def run_record(
    config: Config, shards: Mapping[str, Sequence[Shard]], device: torch.device, ranks: int
) -> dict[str, Any]:
    """Return the resolved config, seed, versions, git revision, hardware, command line and data fingerprint."""
    about = provenance()
    versions = about["versions"] | {name: _version(name) for name in PACKAGES}
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


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # features can be trained on where no recording can be read
        return "not installed"


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
