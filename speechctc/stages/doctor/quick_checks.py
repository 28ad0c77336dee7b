"""Checks without torch that every extraction and training makes: counts of phones, and room on the disk."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from speechctc.core.cores import cores, threads
from speechctc.core.errors import NEEDS_TORCH
from speechctc.phones.label_rules import OF_TONES, rare_by_tone
from speechctc.stages.doctor.finding import Diagnosis, Finding, finding, listed

MIN_OCCURRENCES = 5  # a phone with fewer occurrences in training is hardly learned
COMMON = 0.4  # share of all labels, from which one label is suspicious
MIN_LABELS = 100  # labels; of fewer, shares say nothing
MIN_FREE_BYTES = 2 * 2**30  # bytes; checkpoints and features of a small corpus


def check_counts(counts: Mapping[str, Counter[str]]) -> list[Finding]:
    """Check how often each phone occurs in each split (``"train"`` and others)."""
    train = counts["train"]
    others = sum((count for split, count in counts.items() if split != "train"), Counter[str]())
    rare = sorted((phone for phone in train if train[phone] < MIN_OCCURRENCES), key=lambda phone: train[phone])
    tonal = len(rare_by_tone(train, MIN_OCCURRENCES))
    more = f"; {tonal} of them are rare by their tones: {OF_TONES}" if tonal else ""
    found = listed("rare-phones", with_counts(rare, train), rare=MIN_OCCURRENCES, more=more)
    unseen = sorted(set(others) - set(train))
    only = sorted(phone for phone in set(train) - set(others) if train[phone] >= MIN_OCCURRENCES and others)
    splits, why = "dev or test and not in train", "the model never recognises them"
    found += listed("one-split", with_counts(unseen, others), splits=splits, why=why)
    splits, why = "train and neither in dev nor in test", "no score tells how well they are recognised"
    found += listed("one-split", with_counts(only, train), splits=splits, why=why)
    total = train.total()
    for phone, count in train.most_common(1):
        if total >= MIN_LABELS and count > COMMON * total and len(train) > 2:
            found.append(finding("one-label", [f"{phone} ({count:,} of {total:,})"], share=100 * count / total))
    return found


def with_counts(phones: Iterable[str], counts: Counter[str]) -> tuple[str, ...]:
    """Return phones with how often they occur: ``"a (3)"``."""
    return tuple(f"{phone} ({counts[phone]})" for phone in phones)


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
