"""Which tier of TextGrids holds the phones, told by its labels and by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speechctc.audio.textgrids import read_tiers
from speechctc.errors import InputError

MOST = 60  # TextGrids that are looked at
_NAMES = re.compile(r"phon|phn|segm|^mau$|^seg$", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.,%+-]+")
LONGEST = 0.3  # seconds a phone lasts, in the mean of a tier


@dataclass
class Tier:
    """What a tier of some name holds, in all TextGrids together."""

    name: str
    files: int = 0
    labels: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, entries: Iterable[tuple[float, float, str]]) -> None:
        """Take in the intervals of one more TextGrid: starts, ends and labels."""
        labelled = [(float(end) - float(start), label.strip()) for start, end, label in entries if label.strip()]
        self.files += 1
        self.labels += [label for _, label in labelled]
        self.seconds += sum(seconds for seconds, _ in labelled)

    @property
    def mean_seconds(self) -> float:
        """How long a label lasts."""
        return self.seconds / max(len(self.labels), 1)

    @property
    def may_be_phones(self) -> bool:
        """Tell whether labels are single, short and soon over, and not numbers."""
        count = len(self.labels)
        if not count:
            return False
        words = sum(label.split() != [label] for label in self.labels)
        numbers = sum(_NUMBER.fullmatch(label) is not None for label in self.labels)
        letters = sum(map(len, self.labels)) / count
        return words <= 0.02 * count and numbers < 0.5 * count and letters <= 3.5 and self.mean_seconds <= LONGEST

    def to_text(self) -> str:
        """Describe it in a few words."""
        some = " ".join(self.labels[:4])
        return f"{self.name!r} ({len(self.labels)} labels of {self.mean_seconds:.2f} s in the mean: {some[:30]} ...)"


def phone_tier(grids: Sequence[Path]) -> tuple[str, str]:
    """Choose the tier that looks like phones.

    Parameters
    ----------
    grids : sequence of Path
        At most 60 of them are looked at, spread over all.

    Returns
    -------
    name : str
        Empty where no tier looks like phones.
    said : str
        What there is and what was chosen, for the user.
    """
    tiers: dict[str, Tier] = {}
    problem = ""
    for grid in grids[:: max(len(grids) // MOST, 1)]:
        try:
            for name, entries in _interval_tiers(grid).items():
                tiers.setdefault(name.lower(), Tier(name)).add(entries)
        except InputError as error:
            problem = problem or str(error)
    if not tiers:
        return "", f"not used: {len(grids)} TextGrids, none with a tier of intervals" + (
            f"; {problem}" if problem else ""
        )
    fit = [tier for tier in tiers.values() if tier.may_be_phones]
    told = "; ".join(tier.to_text() for tier in tiers.values())
    if not fit:
        return "", f"not used: {len(grids)} TextGrids, none of whose tiers looks like phones: {told}"
    best = min(fit, key=lambda tier: (_NAMES.search(tier.name) is None, -tier.files, tier.mean_seconds))
    return best.name, f"tiers of the TextGrids: {told}; {best.name!r} is taken for the phones (corpus.tier)"


def _interval_tiers(path: Path) -> Mapping[str, Iterable[tuple[float, float, str]]]:
    """Return the entries of a TextGrid's tiers of intervals, by name; of several of one name, the first."""
    return {tier.name: tier.entries for tier in reversed(read_tiers(path).tiers) if not tier.points}
