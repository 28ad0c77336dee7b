"""A finding of the doctor: what is wrong, where, why it matters, what to do; and the report of all findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from speechctc.core.errors import InputError, first_few
from speechctc.core.text_files import read_tables
from speechctc.pages.page import render_text

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
