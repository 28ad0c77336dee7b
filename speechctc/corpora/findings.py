"""What may spoil training, and how it is said: how often each phone occurs, whether the disk is full."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from speechctc.core.bundled import bundled_texts
from speechctc.core.errors import first_few
from speechctc.phones.marks import OF_TONES, rare_by_tone

Severity = Literal["stops", "warning", "note"]
NAMES: dict[Severity, str] = {"stops": "training is impossible", "warning": "warning", "note": "note"}
"""The severities as they are printed, the gravest first."""
NAMED = 4  # places in a line


@dataclass(frozen=True)
class Finding:
    """Something that may spoil training.

    Attributes
    ----------
    kind : str
        A fixed name for programs: ``"clipped"``.
    severity : {"stops", "warning", "note"}
        ``"stops"``: training is impossible; ``"warning"``: it may be worse; ``"note"``: it may be intended.
    what : str
        What is wrong, with numbers.
    where : tuple of str
        The recordings, utterances or phones.
    why : str
        Why it matters.
    fix : str
        What to do.
    """

    kind: str
    severity: Severity
    what: str
    where: tuple[str, ...]
    why: str
    fix: str

    def to_line(self) -> str:
        """Return what is wrong, a few of the places, and what to do, in a line."""
        return f"{self.what} ({first_few(self.where, NAMED)}); {self.fix}" if self.where else f"{self.what}; {self.fix}"

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        return {**vars(self), "where": list(self.where)}


def finding(kind: str, where: Iterable[object] = (), severity: Severity = "warning", **values: Any) -> Finding:
    """Return the finding of a kind on these places; its texts are those of findings.yaml, with the values in them."""
    places = tuple(map(str, where))
    texts = bundled_texts(__file__, "findings.yaml")[kind]
    what, why, fix = (texts[key].format(**{"count": len(places), **values}) for key in ("what", "why", "fix"))
    return Finding(kind, severity, what, places, why, fix)


def listed(kind: str, where: Iterable[object], severity: Severity = "warning", **values: Any) -> list[Finding]:
    """Return the finding on these places; none if there are no places."""
    places = list(where)
    return [finding(kind, places, severity, **values)] if places else []


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
    splits = f"train, {MIN_OCCURRENCES} times or more, and neither in dev nor in test"
    why = "no score tells how well they are recognised"
    found += listed("one-split", with_counts(only, train), splits=splits, why=why)
    total = train.total()
    for phone, count in train.most_common(1):
        if total >= MIN_LABELS and count > COMMON * total and len(train) > 2:
            found.append(finding("one-label", [f"{phone} ({count:,} of {total:,})"], share=100 * count / total))
    return found


def with_counts(phones: Iterable[str], counts: Counter[str]) -> tuple[str, ...]:
    """Return phones with how often they occur: ``"a (3)"``."""
    return tuple(f"{phone} ({counts[phone]})" for phone in phones)


def check_disk(folders: Iterable[Path]) -> list[Finding]:
    """Return a finding for each folder, made or not, whose disk is nearly full."""
    found = []
    for folder in folders:
        there = next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path())
        free = shutil.disk_usage(there).free
        if free < MIN_FREE_BYTES:
            found.append(finding("disk", [folder], gib=free / 2**30, folder=folder))
    return found
