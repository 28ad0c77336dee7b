"""The doctor's findings and their report; the checks without torch that every extraction and training makes."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from speechctc.core.errors import NEEDS_TORCH, InputError, first_few
from speechctc.core.parallel import cores, threads
from speechctc.core.text_files import read_tables
from speechctc.pages.page import render_text
from speechctc.phones.label_rules import OF_TONES, rare_by_tone

Severity = Literal["stops", "warning", "note"]
NAMES: dict[Severity, str] = {"stops": "training is impossible", "warning": "warning", "note": "note"}
ORDER: tuple[Severity, ...] = ("stops", "warning", "note")
NAMED = 4  # places in a line
SHOWN = 6  # places named in the report for people; JSON has all


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
    texts = read_tables(__file__, "findings.yaml")[kind]
    what, why, fix = (texts[key].format(**{"count": len(places), **values}) for key in ("what", "why", "fix"))
    return Finding(kind, severity, what, places, why, fix)


def listed(kind: str, where: Iterable[object], severity: Severity = "warning", **values: Any) -> list[Finding]:
    """Return the finding on these places; none if there are no places."""
    places = list(where)
    return [finding(kind, places, severity, **values)] if places else []


@dataclass(frozen=True)
class Diagnosis:
    """All findings, and the facts that were measured.

    Attributes
    ----------
    findings : tuple of Finding
    facts : dict of str to str
        What was examined, by subject, in words.
    """

    findings: tuple[Finding, ...]
    facts: dict[str, str]

    @property
    def is_possible(self) -> bool:
        """Return whether training is possible."""
        return all(finding.severity != "stops" for finding in self.findings)

    def to_text(self) -> str:
        """Return the report for people: the facts, then the findings, the gravest first."""
        values: dict[str, Any] = {"facts": self.facts, "findings": in_order(self.findings), "summary": self.summary()}
        values |= {"width": max(map(len, self.facts), default=0) + 2, "names": NAMES, "some": first_few, "shown": SHOWN}
        return render_text("diagnosis.txt", values).strip("\n")

    def summary(self) -> str:
        """Return the number of findings in a line."""
        if not self.findings:
            return "nothing found"
        counts = [sum(each.severity == severity for each in self.findings) for severity in ORDER]
        names = ("that stop training", "warnings", "notes")
        return "findings: " + ", ".join(f"{name} {count}" for count, name in zip(counts, names, strict=True) if count)

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON report."""
        found = [finding.to_dict() for finding in in_order(self.findings)]
        return {"possible": self.is_possible, "facts": self.facts, "findings": found}


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, the gravest first."""
    return sorted(findings, key=lambda finding: ORDER.index(finding.severity))


def cannot_train(error: InputError) -> Finding:
    """Return the finding for an error that ends training before it begins."""
    return finding("cannot-train", severity="stops", what=error.what, fix=error.fix)


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
