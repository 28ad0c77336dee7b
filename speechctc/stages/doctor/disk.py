"""Checks of a machine that need no torch: what recognises, and room on its disks."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from speechctc.core.cores import cores, threads
from speechctc.core.errors import NEEDS_TORCH
from speechctc.stages.doctor.finding import Diagnosis, Finding, finding

MIN_FREE_BYTES = 2 * 2**30  # bytes; checkpoints and features of a small corpus


def check_without_torch(folders: tuple[Path, ...] = ()) -> Diagnosis:
    """Check a machine that recognises, and cannot train, as torch is not installed."""
    memory = psutil.virtual_memory().total / 2**30
    facts = {
        "torch": "not installed: recognition does without",
        "processor": f"{cores()} cores, {threads()} threads, {memory:.1f} GiB of memory",
    }
    return Diagnosis((finding("no-torch", severity="note", fix=NEEDS_TORCH), *check_disk(folders)), facts)


def check_disk(folders: tuple[Path, ...]) -> list[Finding]:
    """Return a finding for each folder, made or not, whose disk is nearly full."""
    found = []
    for folder in folders:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path())
        free = shutil.disk_usage(there).free
        if free < MIN_FREE_BYTES:
            found.append(finding("disk", [folder], gib=free / 2**30, folder=folder))
    return found
