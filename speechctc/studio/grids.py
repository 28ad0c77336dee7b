"""The TextGrid of a recording: its phones with confidences, and the other tiers, which are kept as they are."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path

from speechctc.audio.textgrid_text import long_text
from speechctc.audio.textgrids import read_tiers
from speechctc.audio.tiers import Entry, Tier, choose_tier, tier_key
from speechctc.corpora.phone_tier import phone_tier
from speechctc.phones.labels import nfc
from speechctc.studio.phones import DIGITS, Phone

PHONES, CONFIDENCE = "phones", "confidence"
COPY = ".original"  # ending of the copy of a TextGrid that is replaced
_RANKED = re.compile(r"alternative (\d+)")
_CLOSE = 0.0002  # seconds between the same interval of two tiers


@dataclass
class Grid:
    """The tiers of a TextGrid.

    Attributes
    ----------
    name : str
        The tier of phones.
    phones : list of Phone
        With the confidences and alternatives of the tiers that `speechctc decode` writes.
    tiers : list of Tier
        All tiers in the order of the file; those that are written anew have no entries here.
    """

    name: str = PHONES
    phones: list[Phone] = field(default_factory=list)
    tiers: list[Tier] = field(default_factory=lambda: [Tier(PHONES, False, []), Tier(CONFIDENCE, False, [])])

    @property
    def others(self) -> list[Tier]:
        """Return the tiers that are kept as they are."""
        return [tier for tier in self.tiers if not _is_own(tier, self.name)]

    def text(self, seconds: float, phones: Sequence[Phone]) -> str:
        """Return the TextGrid with these phones, in Praat's long text format."""
        ends = [entry.end for tier in self.others for entry in tier.entries]
        end = max([seconds, *ends, *(phone.end for phone in phones[-1:])])
        return long_text(end, [self._with_phones(tier, phones) for tier in self.tiers])

    def _with_phones(self, tier: Tier, phones: Sequence[Phone]) -> Tier:
        own = _is_own(tier, self.name)
        return tier._replace(entries=_own_entries(tier.name, self.name, phones)) if own else tier


def read_grid(path: Path) -> Grid:
    """Read a TextGrid.

    The phones are in the tier ``phones``, or in the one whose labels look like phones; else there is a new tier.

    Raises
    ------
    InputError
        It cannot be read, or its phones overlap.
    """
    grid = read_tiers(path)
    taken = {tier_key(tier.name) for tier in grid.tiers}
    names = {tier_key(tier.name): tier.name for tier in reversed(grid.tiers) if not tier.points}
    name = names.get(PHONES) or phone_tier([path])[0]
    if not name:
        name = next(free for k in count(1) if tier_key(free := PHONES if k == 1 else f"{PHONES} {k}") not in taken)
        grid.tiers.append(Tier(name, False, []))
    chosen = choose_tier(grid, path, name)
    phones = [_phone(entry) for entry in chosen.entries if entry.end - entry.start > _CLOSE]
    by_name = {tier_key(tier.name): tier for tier in grid.tiers if not tier.points}
    confidences = _by_start(by_name.get(CONFIDENCE))
    ranks = [by_name[key] for key in sorted(filter(_RANKED.fullmatch, by_name), key=_rank)]
    alternatives = [_by_start(tier) for tier in ranks]
    phones = [_with_model(phone, confidences, alternatives) for phone in phones]
    tiers = [tier._replace(entries=[]) if _is_own(tier, chosen.name) else tier for tier in grid.tiers]
    return Grid(chosen.name, phones, tiers)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; ``""`` if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def keep_copy(path: Path) -> Path:
    """Keep a second name for the content of a file that is about to be replaced, or a link as it is; return it."""
    for number in count(1):
        copy = path.with_name(f"{path.name}{COPY}{'' if number == 1 else f'-{number}'}")
        if os.path.lexists(copy):
            if not copy.is_symlink() and digest(copy) == digest(path):
                return copy
            continue
        try:
            if path.is_symlink():
                os.symlink(os.readlink(path), copy)
            else:
                os.link(path, copy)
        except FileExistsError:
            continue
        except OSError:  # no links on this file system
            shutil.copy2(path, copy)
        return copy
    raise AssertionError("count has no end")


def _is_own(tier: Tier, name: str) -> bool:
    """Return whether a tier is written from the phones."""
    key = tier_key(tier.name)
    return not tier.points and (tier.name == name or key == CONFIDENCE or _RANKED.fullmatch(key) is not None)


def _own_entries(tier: str, name: str, phones: Sequence[Phone]) -> list[Entry]:
    if tier == name:
        return [Entry(phone.start, phone.end, phone.label) for phone in phones]
    rank = _RANKED.fullmatch(tier_key(tier))
    entries = []
    for phone in phones:
        label = ""
        if rank is None and phone.confidence is not None:
            label = f"{phone.confidence:.2f}"
        elif rank is not None and len(phone.alternatives) >= int(rank[1]):
            label = "{} {:.2f}".format(*phone.alternatives[int(rank[1]) - 1])
        entries.append(Entry(phone.start, phone.end, label))
    return entries


def _phone(entry: Entry) -> Phone:
    return Phone(round(max(entry.start, 0.0), DIGITS), round(entry.end, DIGITS), nfc(entry.label))


def _by_start(tier: Tier | None) -> dict[int, Entry]:
    """Return labelled entries by their start in steps of 0.1 ms."""
    return {round(entry.start * 10**DIGITS): entry for entry in (tier.entries if tier else ()) if entry.label}


def _rank(key: str) -> int:
    match = _RANKED.fullmatch(key)
    return int(match[1]) if match else 0


def _with_model(phone: Phone, confidences: Mapping[int, Entry], alternatives: Sequence[Mapping[int, Entry]]) -> Phone:
    """Return a phone with the confidence and the alternatives that other tiers have for the same interval."""
    key = round(phone.start * 10**DIGITS)

    def text(entries: Mapping[int, Entry]) -> str:
        entry = entries.get(key)
        return entry.label if entry is not None and abs(entry.end - phone.end) < _CLOSE else ""

    others = tuple(found for entries in alternatives if (found := _alternative(text(entries))) is not None)
    return phone._replace(confidence=_number(text(confidences)), alternatives=others)


@lru_cache(1 << 16)  # an hour has 200,000 alternatives, and most of them again and again
def _alternative(text: str) -> tuple[str, float] | None:
    """Return the label and the posterior of an interval such as ``aa 0.12``."""
    label, _, posterior = text.partition(" ")
    return (nfc(label), number) if label and (number := _number(posterior)) is not None else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
