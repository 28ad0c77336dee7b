"""Chooses the tier of phones in TextGrids or files of ELAN by its labels, and how these are divided into phones."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from speechctc.audio.annotations import Interval, read_tiers, tier_key
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import read_eaf
from speechctc.core.errors import InputError, counted, first_few, plural
from speechctc.phones.articulation import is_arpabet
from speechctc.phones.label_rules import Segment, are_ipa_words, are_strings, segment_ipa
from speechctc.phones.nonspeech_labels import kind_of_phone

MAX_FILES = 400  # files that are read to choose a tier
MAX_MEAN_DURATION = 0.3  # longest mean duration of the labels of a tier of phones, s
MAX_SLOW = 1.0  # the same of a tier that is called one of phones, whose labels are each a phone, s
MAX_SPACED = 0.02  # share of labels with a space that a tier of phones may have by mistake
_NAMES = re.compile(r"phon|phn|segm|^mau$|^seg$|\bipa\b|(?<![a-z])ph(?![a-z])", re.IGNORECASE)
_WORDS = re.compile(r"word|ort|text|sent|gloss|transl|utter|phrase|note|comment", re.IGNORECASE)
_WORD = re.compile(r"(?<![a-z])(words?|ort-mau)(?![a-z])", re.IGNORECASE)
# What is the same in the names of speakers' tiers: what is after the speaker, or before, or on both sides.
_OF_SPEAKERS = (
    r"(?P<first>).+(?P<last>[ \-_.:/@]\w+)",
    r"(?P<first>\w+ ?[(\[{<]).+(?P<last>[)\]}>])",
    r"(?P<first>\w+[ \-_.:/@]).+(?P<last>)",
)
_NUMBER = re.compile(r"[\d.,%+-]+")


class PhoneTier(NamedTuple):
    """The tier of phones.

    Attributes
    ----------
    name : str
        A name, or a pattern where the tiers of several speakers look like phones, or names in place of each other where
        files differ; empty if no tier does.
    note : str
        The tiers found and the one chosen, for the user.
    segment : str
        How labels are divided into phones, as of `speechctc.phones.label_rules.LabelRules`.
    to_mend : bool
        Labels do not look like phones because of a few with a space, which the note names.
    words : str
        The tiers of words, if they are not simply called *words*; or ``""``.
    """

    name: str
    note: str
    segment: Segment = "labels"
    to_mend: bool = False
    words: str = ""


@dataclass
class TierLabels:
    """The labels of all tiers of one name in several files, by these files."""

    name: str
    labels: dict[Path, list[Interval]] = field(default_factory=dict)

    @property
    def paths(self) -> set[Path]:
        """Return the files."""
        return set(self.labels)

    @property
    def entries(self) -> list[Interval]:
        """Return the labels of all files."""
        return [entry for entries in self.labels.values() for entry in entries]

    @property
    def is_named(self) -> bool:
        """Return whether the name says that the tier has phones."""
        return _NAMES.search(self.name) is not None

    @cached_property
    def segment(self) -> Segment | None:
        """Return how the labels are divided into phones; None if they do not look like phones.

        Each file has phones, or strings or rows of them: a tier may have both, in different files.
        """
        files = list(map(_spoken, self.labels.values()))
        whole = [entry for entries in files if _are_long(entries) for entry in entries]
        others = [entry for entries in files if not _are_long(entries) for entry in entries]
        divided = self._segment(whole) if whole else None
        if divided in ("spaces", "ipa") and (not others or self._segment(others) in ("labels", divided)):
            return divided
        return self._segment([entry for entries in files for entry in entries])

    def _segment(self, entries: Sequence[Interval]) -> Segment | None:
        if not spaced_phones(entries) and _may_be_phones(entries):
            return "labels"
        counts = Counter(part for entry in entries for part in entry.label.split())
        several = sum(len(entry.label.split()) > 1 for entry in entries)
        is_ipa = self.is_named or (are_ipa_words(counts) and not _WORDS.search(self.name))
        short = sum(_symbols(part) <= 2 for part in counts)
        if 2 * several > len(entries) and short > 0.9 * len(counts) and (is_ipa or is_arpabet([*counts])):
            return "spaces"
        if is_ipa and are_strings(counts):
            return "ipa"
        is_slow = self.is_named and short > 0.9 * len(counts) and _may_be_phones(entries, MAX_SLOW)
        return "labels" if is_slow and not spaced_phones(entries) else None

    def to_text(self) -> str:
        """Return a short description."""
        entries = self.entries
        examples = " ".join(entry.label for entry in entries[:4])[:30]
        return f"{self.name!r} ({plural(len(entries), 'label')}, mean duration {_mean(entries):.2f} s: {examples} ...)"


@lru_cache(maxsize=2**14)
def _symbols(label: str) -> int:
    """Return how many symbols of IPA a label is."""
    return len([*segment_ipa(label)])


def _mean(entries: Sequence[Interval]) -> float:
    """Return the mean duration of labels, s."""
    return sum(entry.end - entry.start for entry in entries) / max(len(entries), 1)


def _are_long(entries: Sequence[Interval]) -> bool:
    """Return whether labels last too long for phones, or most have too many symbols."""
    many = sum(_symbols(entry.label) > 2 for entry in entries)
    return _mean(entries) > MAX_MEAN_DURATION or 2 * many > len(entries)


def _spoken(entries: Sequence[Interval]) -> list[Interval]:
    """Return labels without those of pauses and noise, whose length says nothing of the others."""
    return [entry for entry in entries if not kind_of_phone(entry.label)]


def _may_be_phones(entries: Sequence[Interval], longest: float = MAX_MEAN_DURATION) -> bool:
    """Return whether labels look like phones, but for spaces in them: short, of short duration, and not numbers."""
    labels, count = [entry.label for entry in entries], len(entries)
    numbers = sum(_NUMBER.fullmatch(label) is not None for label in labels)
    are_short = sum(map(len, labels)) <= 3.5 * count and _mean(entries) <= longest
    return are_short and 2 * sum(label.split() != [label] for label in labels) < count and numbers < 0.5 * count


def spaced_phones(entries: Sequence[Interval]) -> Counter[str]:
    """Return the labels with a space that keep others from looking like phones; nothing where these are few."""
    spaced = Counter(entry.label for entry in entries if entry.label.split() != [entry.label])
    return spaced if spaced.total() > MAX_SPACED * len(entries) else Counter()


def phone_tier(files: Sequence[Path]) -> PhoneTier:
    """Choose the tier whose labels look like phones, or like strings or rows of them.

    Parameters
    ----------
    files : sequence of Path
        TextGrids or files of ELAN, of which at most `MAX_FILES` or little more are read, spread over all.
    """
    tiers, problem = _read(files)
    kind = "ELAN file" if files and files[0].suffix.lower() == EAF else "TextGrid"
    if not tiers:
        return PhoneTier("", f"not used: {plural(len(files), kind)} without a tier of intervals{problem}")
    described = "; ".join(tier.to_text() for tier in tiers.values())
    fit = [tier for tier in tiers.values() if tier.segment is not None]
    if not fit:
        why = "".join(_why_not(tier) for tier in tiers.values())
        what = f"not used: {plural(len(files), kind)}, none of whose tiers looks like phones: {described}{why}{problem}"
        return PhoneTier("", what, to_mend=bool(why))
    chosen = _in_place(min(fit, key=_rank), fit, tiers.get(tier_key("confidence")))
    name = "|".join(dict.fromkeys(pattern for pattern, _ in chosen))
    found = {tier.segment for _, like in chosen for tier in like}
    segment: Segment = "ipa" if "ipa" in found else "spaces" if "spaces" in found else "labels"
    others = [tier.name for tier in fit if not any(tier in like for _, like in chosen)]
    divided = "" if segment == "labels" else f", and divided into phones (corpus.segment: {segment})"
    note = f"tiers of the {kind}s: {described}; {name!r} is taken for the phones (corpus.tier){divided}"
    if others:
        note += f"; not taken, though they look like phones: {first_few(list(map(repr, others)))}"
    return PhoneTier(name, note, segment, words=_words([*tiers.values()]))


def _read(files: Sequence[Path]) -> tuple[dict[str, TierLabels], str]:
    """Return the tiers of intervals by their names, and the first error and the tiers of points, in words."""
    tiers: dict[str, TierLabels] = {}
    points = Counter[str]()
    problem = ""
    for path in files[:: max(len(files) // MAX_FILES, 1)]:
        try:
            found = (read_eaf if path.suffix.lower() == EAF else read_tiers)(path).tiers
        except InputError as error:
            problem = problem or f"; {error}"
            continue
        alike = defaultdict[str, set[str]](set)
        for tier in found:
            alike[tier_key(tier.name)].add(tier.name.strip())
        points.update(tier.name for tier in found if tier.points and tier.entries)
        for tier in (tier for tier in found if not tier.points):
            key = tier_key(tier.name) if len(alike[tier_key(tier.name)]) == 1 else tier.name
            of_name = tiers.setdefault(key, TierLabels(tier.name)).labels
            of_name.setdefault(path, []).extend(entry for entry in tier.entries if entry.label)
    if points:
        problem += f"; tiers of points, which corpus.tier=NAME reads without times: {counted(points)}"
    return tiers, problem


def _why_not(tier: TierLabels) -> str:
    """Return what keeps a tier from being one of phones, if that is spaces in a few labels."""
    entries = tier.entries
    if not _may_be_phones(entries) or not (spaced := spaced_phones(entries)):
        return ""
    few = counted(Counter({repr(label): count for label, count in spaced.items()}), 5)
    what = f"the labels of {tier.name!r} do but for {spaced.total()} of {len(entries)} with a space: {few}"
    return f"; {what}; write one phone in each, or set corpus.tier and corpus.segment=spaces to read several"


def _rank(tier: TierLabels) -> tuple[bool, bool, int, float]:
    return tier.segment != "labels", not tier.is_named, -len(tier.paths), _mean(tier.entries)


def _in_place(
    best: TierLabels, fit: Sequence[TierLabels], drafts: TierLabels | None
) -> list[tuple[str, list[TierLabels]]]:
    """Return the names or patterns of tiers of phones, each with its tiers: the best one's, then what others have."""
    first, same = _pattern(fit, best)
    paths = set[Path]().union(*(tier.paths for tier in same))
    apart = [tier for tier in fit if paths.isdisjoint(tier.paths)]
    if apart and drafts and paths <= drafts.paths:  # decode's name is not what people call their own tier
        apart = [min(apart, key=_rank)]
    else:
        apart = [tier for tier in apart if tier.is_named or tier.segment != "labels"]
    return [(first, same), *(_pattern(apart, tier) for tier in apart)]


def _words(tiers: Sequence[TierLabels]) -> str:
    """Return the names or patterns of tiers of words, if another one than *words* is among them."""
    found = [tier for tier in tiers if _WORD.search(tier.name) and tier.entries]
    names = dict.fromkeys(_pattern(found, tier, _WORD)[0] for tier in found)
    return "" if {tier_key(name) for name in names} <= {"words"} else "|".join(names)


def _pattern(
    tiers: Sequence[TierLabels], best: TierLabels, names: re.Pattern[str] = _NAMES
) -> tuple[str, list[TierLabels]]:
    """Return a pattern for the tiers of several speakers, such as ``*-phones``, and these tiers.

    What `best` has before or after one of `names` and a sign is taken for a speaker. Where it is the only one, that is
    its name.
    """
    for pattern in _OF_SPEAKERS:
        match = re.fullmatch(pattern, best.name)
        if match is None or names.search(match["first"] + match["last"]) is None:
            continue
        first, last = match["first"], match["last"]
        like = [each for each in tiers if each.name.startswith(first) and each.name.endswith(last)]
        if len(like) > 1:
            return f"{first}*{last}", like
    return best.name, [best]
