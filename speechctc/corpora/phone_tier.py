"""Chooses the tier of TextGrids and of ELAN's files that holds the phones, by its labels and its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speechctc.audio import eaf
from speechctc.audio.annotations import Interval, tier_key
from speechctc.audio.textgrids import read_tiers
from speechctc.core.errors import InputError

MAX_TEXTGRIDS = 60  # TextGrids that are read
_NAMES = re.compile(r"phon|phn|segm|^mau$|^seg$", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.,%+-]+")
MAX_MEAN_DURATION = 0.3  # longest mean duration of the labels of a tier of phones, s


@dataclass
class TierLabels:
    """The labels of all tiers of one name in several files.

    Attributes
    ----------
    name : str
    paths : set of Path
        Files with such a tier.
    labels : list of str
    seconds : float
        Duration of all labelled intervals.
    """

    name: str
    paths: set[Path] = field(default_factory=set)
    labels: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, path: Path, entries: Iterable[Interval]) -> None:
        """Add the labelled intervals of one file."""
        labelled = [entry for entry in entries if entry.label]
        self.paths.add(path)
        self.labels += [entry.label for entry in labelled]
        self.seconds += sum(entry.end - entry.start for entry in labelled)

    @property
    def mean_seconds(self) -> float:
        """Return the mean duration of a label, s."""
        return self.seconds / max(len(self.labels), 1)

    @property
    def may_be_phones(self) -> bool:
        """Return whether the labels look like phones: without spaces, short, of short duration, and not numbers."""
        count = len(self.labels)
        if not count:
            return False
        words = sum(label.split() != [label] for label in self.labels)
        numbers = sum(_NUMBER.fullmatch(label) is not None for label in self.labels)
        letters = sum(map(len, self.labels)) / count
        return (
            words <= 0.02 * count
            and numbers < 0.5 * count
            and letters <= 3.5
            and self.mean_seconds <= MAX_MEAN_DURATION
        )

    def to_text(self) -> str:
        """Return a short description."""
        examples = " ".join(self.labels[:4])[:30]
        return f"{self.name!r} ({len(self.labels)} labels, mean duration {self.mean_seconds:.2f} s: {examples} ...)"


def phone_tier(grids: Sequence[Path]) -> tuple[str, str]:
    """Choose the tier whose labels look like phones.

    Parameters
    ----------
    grids : sequence of Path
        TextGrids or files of ELAN, of which at most about 60 are read, spread over all.

    Returns
    -------
    name : str
        A name, or a pattern where the tiers of several speakers look like phones, or names in place of each other
        where files differ; empty if no tier does.
    note : str
        The tiers found and the one chosen, for the user.
    """
    tiers: dict[str, TierLabels] = {}
    problem = ""
    for path in grids[:: max(len(grids) // MAX_TEXTGRIDS, 1)]:
        try:
            tiers_of = eaf.read_eaf(path).tiers if path.suffix.lower() == eaf.ENDING else read_tiers(path).tiers
            found = {tier_key(tier.name): tier for tier in reversed(tiers_of) if not tier.points}
        except InputError as error:
            problem = problem or f"; {error}"
            continue
        for key in reversed(found):
            tiers.setdefault(key, TierLabels(found[key].name)).add(path, found[key].entries)
    kind = "files of ELAN" if grids and grids[0].suffix.lower() == eaf.ENDING else "TextGrids"
    if not tiers:
        return "", f"not used: {len(grids)} {kind} without a tier of intervals{problem}"
    described = "; ".join(tier.to_text() for tier in tiers.values())
    fit = [tier for tier in tiers.values() if tier.may_be_phones]
    if not fit:
        return "", f"not used: {len(grids)} {kind}, none of whose tiers looks like phones: {described}"
    best = min(fit, key=lambda tier: (_NAMES.search(tier.name) is None, -len(tier.paths), tier.mean_seconds))
    name = _pattern([tier.name for tier in fit], best.name)
    if name == best.name:
        apart = [tier.name for tier in fit if tier is not best and best.paths.isdisjoint(tier.paths)]
        name = "|".join([name, *(each for each in apart if _NAMES.search(each))])
    return name, f"tiers of the {kind}: {described}; {name!r} is taken for the phones (corpus.tier)"


def _pattern(names: Sequence[str], best: str) -> str:
    """Return a pattern for the tiers of several speakers, such as ``*-phones``; the best name where it is the only one.

    What `best` has before or after a word like *phones* and a sign is taken for a speaker.
    """
    for pattern, place in ((r"(.+)([ \-_.:/@]\w+)", 2), (r"(\w+[ \-_.:/@])(.+)", 1)):
        match = re.fullmatch(pattern, best)
        if match is None or _NAMES.search(match[place]) is None:
            continue
        like = [name for name in names if (name.endswith(match[2]) if place == 2 else name.startswith(match[1]))]
        if len(like) > 1:
            return f"*{match[2]}" if place == 2 else f"{match[1]}*"
    return best
