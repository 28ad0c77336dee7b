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

from speechctc.audio.textgrids import long_text, read_tiers
from speechctc.audio.tiers import Entry, Tier, in_order, tier_key
from speechctc.corpora.phone_tier import phone_tier
from speechctc.phones.labels import nfc
from speechctc.studio.phones import DIGITS, Phone

PHONES, CONFIDENCE = "phones", "confidence"
COPY = ".original"  # ending of the copy of a TextGrid that is replaced
_RANKED = re.compile(r"alternative ([1-9][0-9]{0,3})")
_CONFIDENCE = re.compile(r"[01]\.[0-9]{2}")
_ALTERNATIVE = re.compile(r"\S+ [01]\.[0-9]{2}")
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
    own : dict of int to int
        The places in `tiers` of those: of the phones (0), their confidences (-1), and their alternatives by rank.
    """

    name: str = PHONES
    phones: list[Phone] = field(default_factory=list)
    tiers: list[Tier] = field(default_factory=lambda: [Tier(PHONES, False, []), Tier(CONFIDENCE, False, [])])
    own: dict[int, int] = field(default_factory=lambda: {0: 0, 1: -1})

    @property
    def others(self) -> list[Tier]:
        """Return the tiers that are kept as they are."""
        return [tier for place, tier in enumerate(self.tiers) if place not in self.own]

    def text(self, seconds: float, phones: Sequence[Phone]) -> str:
        """Return the TextGrid with these phones, in Praat's long text format."""
        ends = [entry.end for tier in self.others for entry in tier.entries]
        end = max([seconds, *ends, *(phone.end for phone in phones[-1:])])
        new = {place: _own_entries(what, phones) for place, what in self.own.items()}
        return long_text(end, [tier._replace(entries=new.get(k, tier.entries)) for k, tier in enumerate(self.tiers)])


def read_grid(path: Path) -> Grid:
    """Read a TextGrid.

    The phones are in the tier ``phones``, or in the one whose labels look like phones; else there is a new tier.

    Raises
    ------
    InputError
        It cannot be read, or its phones overlap.
    """
    tiers = list(read_tiers(path).tiers)
    place = _place_of_phones(tiers, path)
    phones = [_phone(each) for each in in_order(tiers[place], path).entries if each.end - each.start > _CLOSE]
    spans = {_key(phone.start): phone.end for phone in phones}
    own = {place: 0}
    for k, tier in enumerate(tiers):
        what = _written_by_decode(tier, spans)
        if what and what not in own.values() and k != place:
            own[k] = what
    entries = {what: _by_start(tiers[k]) for k, what in own.items()}
    alternatives = [entries[rank] for rank in sorted(rank for rank in entries if rank > 0)]
    phones = [_with_model(phone, entries.get(-1, {}), alternatives) for phone in phones]
    kept = [tier._replace(entries=[]) if k in own else tier for k, tier in enumerate(tiers)]
    return Grid(tiers[place].name, phones, kept, own)


def _place_of_phones(tiers: list[Tier], path: Path) -> int:
    """Return the place of the tier of phones, which is added at the end if there is none."""
    backwards = [(k, tier) for k, tier in reversed(list(enumerate(tiers))) if not tier.points]
    places = {tier_key(tier.name): k for k, tier in backwards} | {tier.name: k for k, tier in backwards}
    name = PHONES if PHONES in places else phone_tier([path])[0]
    if name in places:
        return places[name]
    taken = {tier_key(tier.name) for tier in tiers}
    free = next(free for k in count(1) if tier_key(free := PHONES if k == 1 else f"{PHONES} {k}") not in taken)
    tiers.append(Tier(free, False, []))
    return len(tiers) - 1


def _written_by_decode(tier: Tier, spans: Mapping[int, float]) -> int:
    """Return -1 for a tier of confidences that `speechctc decode` wrote, the rank of one of alternatives, 0 for others.

    A person's tier of such a name has other labels, or most of them elsewhere than the phones: it is kept as it is.
    """
    if tier.points:
        return 0
    named = -1 if tier.name == CONFIDENCE else _rank(tier.name)
    labelled = [entry for entry in tier.entries if entry.label]
    form = _CONFIDENCE if named < 0 else _ALTERNATIVE
    if not named or not all(form.fullmatch(entry.label) for entry in labelled):
        return 0
    beside = sum(abs(spans.get(_key(entry.start), -1.0) - entry.end) < _CLOSE for entry in labelled)
    return named if 2 * beside >= len(labelled) else 0


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


def _own_entries(what: int, phones: Sequence[Phone]) -> list[Entry]:
    """Return the entries of a tier that is written from the phones; see `Grid.own`."""
    if what == 0:
        return [Entry(phone.start, phone.end, phone.label) for phone in phones]
    entries = []
    for phone in phones:
        label = ""
        if what < 0 and phone.confidence is not None:
            label = f"{phone.confidence:.2f}"
        elif 0 < what <= len(phone.alternatives):
            label = "{} {:.2f}".format(*phone.alternatives[what - 1])
        entries.append(Entry(phone.start, phone.end, label))
    return entries


def _phone(entry: Entry) -> Phone:
    return Phone(round(max(entry.start, 0.0), DIGITS), round(entry.end, DIGITS), nfc(entry.label))


def _by_start(tier: Tier) -> dict[int, Entry]:
    """Return labelled entries by their start."""
    return {_key(entry.start): entry for entry in tier.entries if entry.label}


def _key(start: float) -> int:
    """Return a start in steps of 0.1 ms."""
    return int(round(start * 10**DIGITS))


def _rank(name: str) -> int:
    match = _RANKED.fullmatch(name)
    return int(match[1]) if match else 0


def _with_model(phone: Phone, confidences: Mapping[int, Entry], alternatives: Sequence[Mapping[int, Entry]]) -> Phone:
    """Return a phone with the confidence and the alternatives that other tiers have for the same interval."""
    key = _key(phone.start)

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
