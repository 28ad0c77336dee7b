"""IPA symbols as articulatory features, and the distance of two symbols.

A consonant is described by place, manner and voicing, a vowel by height, backness and rounding, as on the chart of the
International Phonetic Association (2020), which ``tables.yaml`` copies.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from speechctc.phones.inventory import EQUIVALENTS, TABLES, TIES, pairs

_PLACES = TABLES["places"].split()
_APPROXIMATIONS = pairs(TABLES["approximations"])
_STRESS = "ˈˌ'."
_MANNERS = {  # closeness, and what else it is
    name: (int(about[0]), dict.fromkeys(about[1:].split(), True)) for name, about in TABLES["manners"].items()
}
_MANNER_TERMS = {"sibilant": "fricative", "lateral-fr": "lateral fricative"} | dict.fromkeys(
    ("glide", "rhotic"), "approximant"
)
# The manners of `describe`, from the most closed to the most open, then other airstreams.
MANNERS = tuple(TABLES["described"].split(", "))
PLACES = (*_PLACES[:7], "labial-palatal", "labial-velar", *_PLACES[7:])
HEIGHTS: tuple[str, ...] = tuple(TABLES["vowels"])
BACKNESSES = ("front", "central", "back")


@dataclass(frozen=True)
class PhoneFeatures:
    """A consonant or a vowel. An affricate or a diphthong consists of two.

    Attributes
    ----------
    vowel : bool
    closeness : float
        How far the mouth is closed: from 0, an open vowel, to 7, a click.
    place : float
        From 0, the lips, to 10, the glottis; for vowels from front to back, in the same unit.
    voiced, rounded, nasal, lateral, rhotic, sibilant, other : bool
        `other`: another airstream than from the lungs, as of clicks, implosives and ejectives.
    """

    vowel: bool
    closeness: float
    place: float
    voiced: bool = True
    rounded: bool = False
    nasal: bool = False
    lateral: bool = False
    rhotic: bool = False
    sibilant: bool = False
    other: bool = False


_WEIGHTS = {"voiced": 1.0, "rounded": 0.7, "nasal": 1.5, "lateral": 1.5, "rhotic": 1.2, "sibilant": 1.2, "other": 0.7}
FAR = 6.0  # the distance from which a phone is no useful start for training another


def _cells() -> Iterator[tuple[str, int, str]]:
    """Yield each symbol of both tables, after the name of its row and the number of its column."""
    for name, row in (TABLES["consonants"] | TABLES["vowels"]).items():
        yield from ((name, column, symbol) for column, symbol in enumerate(row.split()) if symbol != ".")


# Letters without a cell: the letter of a similar sound, in what they differ from it, and their place if it is another.
_OUTSIDE: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("w", "j", {"place": 7, "rounded": True}, "labial-velar"),
    ("ɥ", "j", {"rounded": True}, "labial-palatal"),
    ("ɧ", "ʃ", {"place": 6}, ""),
    ("ɺ", "ɾ", {"lateral": True}, ""),
    ("ǁ", "ǃ", {"lateral": True}, ""),
    ("ʜ", "ħ", {"place": 9.5}, ""),  # epiglottal
    ("ʢ", "ʕ", {"place": 9.5}, ""),
)


def _tables() -> tuple[dict[str, PhoneFeatures], dict[str, dict[str, str]]]:
    """Return each letter of the tables as a sound, and its terms."""
    sounds, names = {}, {}
    for row, column, symbol in _cells():
        second = bool(column % 2)  # of a pair: voiced, or rounded
        if row in _MANNERS:
            close, kinds = _MANNERS[row]
            sounds[symbol] = PhoneFeatures(False, close, column // 2, second, **kinds)
            names[symbol] = {"place": _PLACES[column // 2], "manner": _MANNER_TERMS.get(row, row)}
        else:
            sounds[symbol] = PhoneFeatures(True, 0.5 * (6 - HEIGHTS.index(row)) * 0.9, 6 + column // 2, rounded=second)
            names[symbol] = {"height": row, "backness": BACKNESSES[column // 2]}
    for symbol, near, changes, place in _OUTSIDE:
        sounds[symbol] = replace(sounds[near], **changes)
        names[symbol] = names[near] | ({"place": place} if place else {})
    return sounds, names


SOUNDS, _NAMES = _tables()


def chart() -> list[tuple[str, tuple[str, ...]]]:
    """Return the symbols of the chart of the International Phonetic Association in rows: a name, and what is in it."""
    rows: dict[str, list[str]] = {}
    for name, _, symbol in _cells():
        rows.setdefault(name, []).append(symbol)
    named = {"lateral-fr": "lateral fricative", "glide": "approximant", "rhotic": "rhotic approximant"}
    found = [(named.get(name, name), tuple(dict.fromkeys(symbols))) for name, symbols in rows.items()]
    signs = [(name, tuple(each)) for name, each in TABLES["signs"].items()]
    return [*found[: len(_MANNERS)], ("other", tuple(TABLES["other"])), *found[len(_MANNERS) :], *signs]


_MARKS = {
    sign: {"voiced": False} if name == "voiceless" else {name: True}
    for name, signs in TABLES["marks"].items()
    for sign in signs
}


@lru_cache(maxsize=4096)
def plain(label: str) -> str:
    """Return an IPA label in NFD without stress and ties, in one notation; length and diacritics are kept."""
    letters = unicodedata.normalize("NFD", label).replace("c\u0327", "ç")
    notation = EQUIVALENTS | _APPROXIMATIONS
    return "".join(notation.get(letter, letter) for letter in letters if letter not in _STRESS + TIES)


@lru_cache(maxsize=4096)
def sounds_of(label: str) -> tuple[PhoneFeatures, ...]:
    """Return the first and the last sound of an IPA label; for most labels they are the same.

    The result is empty if a letter is not on the chart, or if there are more than two sounds, as in a word.
    """
    sounds: list[PhoneFeatures] = []
    for letter in plain(label):
        if letter in SOUNDS:
            sounds.append(SOUNDS[letter])
        elif letter in _MARKS and sounds:
            sounds[-1] = replace(sounds[-1], **_MARKS[letter])
        elif unicodedata.category(letter) not in ("Mn", "Lm", "Sk"):
            return ()
    return (sounds[0], sounds[-1]) if 0 < len(sounds) < 3 else ()


@lru_cache(maxsize=4096)
def describe(label: str) -> dict[str, str]:
    """Return the terms of the IPA chart for a label: place, manner and voicing, or height and backness.

    A diphthong has the height and backness of its first vowel. A label of two consonants has the terms of the second,
    and is an affricate if that is a fricative. The result is empty for labels that are not IPA.
    """
    sounds = sounds_of(label)
    if not sounds:
        return {}
    names = [_NAMES[letter] for letter in plain(label) if letter in _NAMES]
    if sounds[0].vowel:
        return {"kind": "vowel", **names[0]}
    consonants = [name for name in names if "manner" in name]
    voiced = sounds[0 if sounds[-1].vowel else -1].voiced
    is_affricate = len(consonants) > 1 and "fricative" in consonants[-1]["manner"]
    manner = {"manner": "affricate"} if is_affricate else {}
    return {"kind": "consonant", **consonants[-1], **manner, "voicing": "voiced" if voiced else "voiceless"}


@lru_cache(maxsize=2**16)  # an inventory of 400 phones is compared with 80 known ones three times
def distance(a: str, b: str, at_first: bool = False) -> float:
    """Return the distance of two IPA labels in their features: 0 if they are the same, infinite if one is not IPA.

    Of a diphthong or an affricate both sounds count, or the first alone.
    """
    first, second = sounds_of(a), sounds_of(b)
    if not first or not second:
        return float("inf")
    apart = [_apart(x, y) for x, y in zip(first, second, strict=True)]
    return apart[0] if at_first else sum(apart) / 2


def is_one_phone(label: str) -> bool:
    """Return whether a label is one sound, a diphthong, or sounds with a tie: others in IPA may be words."""
    return len(set(sounds_of(label))) == 1 or is_diphthong(label) or any(tie in label for tie in TIES)


def is_diphthong(label: str) -> bool:
    """Whether an IPA label is of two vowels."""
    sounds = sounds_of(label)
    return bool(sounds) and sounds[0] != sounds[1] and sounds[0].vowel and sounds[1].vowel


def _apart(a: PhoneFeatures, b: PhoneFeatures) -> float:
    """Return the distance of two sounds; glides are nearer to close vowels than other consonants are."""
    kinds = 3.0 if a.vowel != b.vowel else 0.0
    place = (1.2 if a.vowel and b.vowel else 0.6) * abs(a.place - b.place)
    close = (1.0 if a.vowel and b.vowel else 0.6) * abs(a.closeness - b.closeness)
    return kinds + place + close + sum(w for name, w in _WEIGHTS.items() if getattr(a, name) != getattr(b, name))
