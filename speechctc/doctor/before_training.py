"""The checks that `train` runs: on the labels of the features, threads and disk. They take a part of a second."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from speechctc.core.errors import some
from speechctc.doctor.finding import Finding
from speechctc.doctor.label_checks import check_counts
from speechctc.doctor.machine import check_disk, check_threads
from speechctc.training.batches import TrainingData

NAMED = 4  # places in a line


def check_before_training(data: TrainingData, run: Path, on_cpu: bool) -> list[Finding]:
    """Check what can be checked at once."""
    counts = {split: _counts(data, split) for split in ("train", "dev")}
    return [*check_counts(counts), *check_disk((run,)), *(check_threads() if on_cpu else [])]


def _counts(data: TrainingData, split: str) -> Counter[str]:
    """Count the phones of a split."""
    total = torch.zeros(1 + len(data.inventory.phones), dtype=torch.int64)
    for shard in data.shards[split]:
        total += torch.bincount(shard.labels, minlength=len(total))
        shard.release()
    named = zip(data.inventory.phones, total[1:].tolist(), strict=True)
    return Counter({phone: count for phone, count in named if count})


def in_a_line(finding: Finding) -> str:
    """Return a finding in a line: what and where."""
    return finding.what + (f" ({some(finding.where, NAMED)})" if finding.where else "")
