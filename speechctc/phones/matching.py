"""Matches the phones of two sets: by name, by a table of notations, or by features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from speechctc.phones.articulation import FAR, distance, is_diphthong, plain
from speechctc.phones.inventory import CMU39, SILENCES, TABLES, TIMIT61, TIMIT_TO_39, pairs

How = Literal["name", "table", "nearness"]

_IPA_OF = {label: tuple(symbols.split()) for label, symbols in TABLES["arpabet"].items()}
ARPABET = frozenset(TIMIT61) | frozenset(CMU39)
_PARTS = pairs(TABLES["parts"])


class Match(NamedTuple):
    """The known phone that a new phone starts from, and how it was found."""

    phone: str
    how: How


def match_phones(phones: Sequence[str], known: Sequence[str]) -> dict[str, Match]:
    """Return for each phone the known phone that is the same, or the most similar one.

    Each set is taken for ARPABET or for IPA by its labels, since ``y`` in IPA is another phone than ``y`` in CMU's set.

    Parameters
    ----------
    phones, known : sequence of str
        Two sets of labels. A diphthong is most similar to another one, or else to the phone like its first vowel.

    Returns
    -------
    dict of str to Match
        Phones without a match are not in it: those that are neither IPA nor ARPABET, or unlike all known phones.
        A silence matches only a silence.
    """
    arpabet, known_arpabet = is_arpabet(phones), is_arpabet(known)
    matches = {phone: _match(phone, known, arpabet, known_arpabet) for phone in phones}
    return {phone: match for phone, match in matches.items() if match is not None}


def is_arpabet(phones: Sequence[str]) -> bool:
    """Return whether at least 80 % of the labels are ARPABET, and some of them have several letters.

    Silences are not counted.
    """
    labels = [_arpabet(phone) for phone in phones if phone not in SILENCES]
    known = [label for label in labels if label in ARPABET]
    return len(known) >= 0.8 * len(labels) and any(len(label) > 1 for label in known)


def _match(phone: str, known: Sequence[str], arpabet: bool, known_arpabet: bool) -> Match | None:
    if phone in known and (arpabet == known_arpabet or _same_in_both(phone)):
        return Match(phone, "name")
    if phone in SILENCES:
        silence = next((label for label in known if label in SILENCES), None)
        return Match(silence, "table") if silence else None
    if (table := _by_table(phone, known, arpabet, known_arpabet)) is not None:
        return Match(table, "table")
    ours = ipa(phone, arpabet)[0]
    others = [label for label in known if label not in SILENCES]
    near = min(others, key=lambda label: distance(ours, ipa(label, known_arpabet)[0]), default=None)
    if near is not None and is_diphthong(ours) and not is_diphthong(ipa(near, known_arpabet)[0]):
        near = min(others, key=lambda label: distance(ours, ipa(label, known_arpabet)[0], at_first=True))
    if near is None or distance(ours, ipa(near, known_arpabet)[0]) >= FAR:
        return None
    return Match(near, "nearness")


def _by_table(phone: str, known: Sequence[str], arpabet: bool, known_arpabet: bool) -> str | None:
    """Return the known phone that the tables give for a phone, or None."""
    if arpabet and known_arpabet:
        label = _arpabet(phone)
        spelled = {_arpabet(each): each for each in known}
        others = (label, TIMIT_TO_39.get(label), _PARTS.get(label))
        return next((spelled[each] for each in others if each in spelled), None)
    if arpabet == known_arpabet and not arpabet:
        return next((label for label in known if plain(label) == plain(phone)), None)
    ours = [plain(each) for each in ipa(phone, arpabet)]
    ranks = {label: _first_shared([plain(each) for each in ipa(label, known_arpabet)], ours) for label in known}
    shared = {label: rank for label, rank in ranks.items() if rank is not None}
    found = min(shared, key=lambda label: shared[label], default=None)
    if found is None and arpabet:  # a closure or syllabic consonant of TIMIT, and a set in IPA
        part = _PARTS.get(_arpabet(phone))
        return _by_table(part, known, arpabet, known_arpabet) if part else None
    return found


def _first_shared(spellings: Sequence[str], ours: Sequence[str]) -> int | None:
    """Return the rank of the most usual spelling that two phones share, or None."""
    shared = [place + ours.index(spelling) for place, spelling in enumerate(spellings) if spelling in ours]
    return min(shared, default=None)


def ipa(label: str, arpabet: bool) -> tuple[str, ...]:
    """Return the spellings of a label in IPA, the most usual first."""
    return _IPA_OF.get(_arpabet(label), (label,)) if arpabet else (label,)


def _same_in_both(label: str) -> bool:
    """Return whether a label is the same phone in ARPABET and in IPA."""
    return plain(label) in {plain(each) for each in _IPA_OF.get(label, ())}


def _arpabet(label: str) -> str:
    """Return an ARPABET label as in the tables: in lower case, without a stress digit."""
    lower = label.lower()
    return lower[:-1] if lower[-1:] in {"0", "1", "2"} else lower
