"""IPA symbols as articulatory features, the distance of two symbols, and the phones of two sets that are alike.

A consonant is described by place, manner and voicing, a vowel by height, backness and rounding, as on the chart of the
International Phonetic Association (2020), which ``tables.yaml`` copies.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from speechctc.phones.inventory import CMU39, EQUIVALENTS, SILENCES, TABLES, TIES, TIMIT61, TIMIT_TO_39, pairs, seen

_PLACES = TABLES["places"].split()
_APPROXIMATIONS = pairs(TABLES["approximations"])
_STRESS = "ˈˌ'."
_APOSTROPHES = "'’ʹ"  # before a letter they are stress, after it an ejective
_CORONAL = (3, 6)  # places from alveolar to palatal, in which an affricate has its closure where it is released
_MANNERS = {  # closeness, and what else it is
    name: (int(about[0]), dict.fromkeys(about[1:].split(), True)) for name, about in TABLES["manners"].items()
}
_MANNER_TERMS = {"sibilant": "fricative", "lateral-fr": "lateral fricative"} | dict.fromkeys(
    ("glide", "rhotic"), "approximant"
)
PLOSIVE, FRICATIVE = _MANNERS["plosive"][0], _MANNERS["fricative"][0]
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
NEARLY = 0.5  # farther than the nearest phone, to take one that no other phone of a list is heard as
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
    """Return the features of each letter in the tables, and its terms on the IPA chart."""
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


def _one_spelling() -> dict[str, str]:
    """Return the signs that are read as others: look-alikes that are of no alphabet's words, and apostrophes."""
    found = {sign: to for sign, to in pairs(TABLES["look_alikes"]).items() if to not in _APOSTROPHES}
    shapes = {sign: to for sign, to in found.items() if not (sign.isascii() or "CYRILLIC" in unicodedata.name(sign))}
    return shapes | dict.fromkeys(_APOSTROPHES, "ʼ") | {"\u0331": "\u0320"}


_ONE_SPELLING = str.maketrans(_one_spelling())
_TRADITIONS = {unicodedata.normalize("NFD", sign): to for sign, to in pairs(TABLES["traditions"]).items()}
_PALATALISED = pairs(TABLES["palatalised"])
_NEAREST = pairs(TABLES["nearest"])
_ACCOMPANIED = re.compile("^[kgɡŋqɢɴ](?=[ʘǀǁǃǂ])")
_CLOSURE = re.compile("([tʈc]|[dɖɟ])[\u032a\u033a\u033b\u031f\u0320]*(?=[szʃʒʂʐɕʑ])")


@lru_cache(maxsize=4096)
def spelling(label: str) -> str:
    """Return an IPA label in one spelling, which is the same for labels that are meant as one phone.

    It is that of `plain`, and look-alikes (Greek ``ε``) and symbols of other traditions (``š``) are those of IPA, an
    apostrophe after a letter is an ejective, and the closure of an affricate has no place of its own: that of ``tʂ``
    is retroflex as in ``ʈʂ``, that of ``t̠ʃ`` postalveolar as in ``tʃ``.
    """
    letters = unicodedata.normalize("NFD", seen(label))
    letters = letters.lstrip(_STRESS + _APOSTROPHES) or letters
    for sign, to in _TRADITIONS.items():
        letters = letters.replace(sign, to)
    return _CLOSURE.sub(lambda found: "t" if found[1] in "tʈc" else "d", plain(letters.translate(_ONE_SPELLING)))


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


_SIGNS = {sign: name for signs in TABLES["signs"].values() for sign, name in signs.items()}
KEY_WORDS: dict[str, str] = TABLES["key words"]


def term(symbol: str) -> str:
    """Return what a symbol of the IPA chart is called: ``voiced velar plosive``, ``nasalised``; ``""`` for others."""
    about, name = describe(symbol), ""
    if is_diphthong(symbol):
        name = "diphthong"
    elif about.get("kind") == "vowel":
        rounding = "rounded" if sounds_of(symbol)[0].rounded else "unrounded"
        name = f"{about['height']} {about['backness']} {rounding} vowel"
    elif about:
        name = f"{about['voicing']} {about['place']} {about['manner']}"
    signs = [sign for sign in unicodedata.normalize("NFD", symbol) if sign in _SIGNS and not (about and sign in TIES)]
    return ", ".join(filter(None, [name, *(_SIGNS[sign] for sign in signs)]))


def in_words(label: str, arpabet: bool) -> str:
    """Return what a label means: ``[ʃ] as in shoe`` of ARPABET, else the `term` of the IPA chart."""
    if not arpabet:
        return term(label)
    word = KEY_WORDS.get(label, "")
    return f"[{ipa(label, True)[0]}]{f' as in {word}' if word else ''}"


@lru_cache(maxsize=2**16)  # an inventory of 400 phones is compared with 80 known ones three times
def distance(a: str, b: str, at_first: bool = False) -> float:
    """Return the distance of two IPA labels in their features: 0 if they are the same, infinite if one is not IPA.

    Of a diphthong or an affricate both sounds count, or the first alone.
    """
    first, second = _released(sounds_of(a)), _released(sounds_of(b))
    if not first or not second:
        return float("inf")
    apart = [_apart(x, y) for x, y in zip(first, second, strict=True)]
    return apart[0] if at_first else sum(apart) / 2


def _released(sounds: tuple[PhoneFeatures, ...]) -> tuple[PhoneFeatures, ...]:
    """Return the sounds of a coronal affricate with its closure where it is released; others as they are."""
    if not all(_CORONAL[0] <= each.place <= _CORONAL[1] and not each.lateral for each in sounds):
        return sounds
    is_affricate = [each.closeness for each in sounds] == [PLOSIVE, FRICATIVE]
    return (replace(sounds[0], place=sounds[1].place), sounds[1]) if is_affricate else sounds


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


How = Literal["name", "table", "nearness"]

_IPA_OF = {label: tuple(symbols.split()) for label, symbols in TABLES["arpabet"].items()}
ARPABET = frozenset(TIMIT61) | frozenset(CMU39)
_PARTS = pairs(TABLES["parts"])


class Match(NamedTuple):
    """The known phone that a new phone starts from, and how it was found."""

    phone: str
    how: How


def match_phones(phones: Sequence[str], known: Sequence[str], arpabet: bool | None = None) -> dict[str, Match]:
    """Return for each phone the known phone that is the same, or the most similar one.

    Each set is taken for ARPABET or for IPA by its labels, since ``y`` in IPA is another phone than ``y`` in CMU's set.

    Parameters
    ----------
    phones, known : sequence of str
        Two sets of labels. A diphthong is most similar to another one, or else to the phone like its first vowel.
    arpabet : bool, optional
        Whether `phones` are ARPABET, where that is known: a few may look like it.

    Returns
    -------
    dict of str to Match
        Phones without a match are not in it: those that are neither IPA nor ARPABET, or unlike all known phones.
        A silence matches only a silence.
    """
    arpabet, known_arpabet = is_arpabet(phones) if arpabet is None else arpabet, is_arpabet(known)
    matches = {phone: _match(phone, known, arpabet, known_arpabet) for phone in phones}
    return {phone: match for phone, match in matches.items() if match is not None}


def match_apart(phones: Sequence[str], known: Sequence[str]) -> dict[str, Match]:
    """As `match_phones`, of phones that are to be told apart.

    Where the nearest phone is that of another label of the list, another that no label has is taken, if it is the same
    sound, as ``p`` for ``b̥``, or nearly as near to a letter that `known` lacks: of ``dʐ dʑ`` and a model with
    ``dʑ dʒ``, ``dʐ`` is ``dʒ``.
    """
    matches = match_phones(phones, known)
    arpabet, known_arpabet = is_arpabet(phones), is_arpabet(known)
    ranked = {
        phone: _ranked(phone, known, arpabet, known_arpabet)
        for phone, match in matches.items()
        if match.how == "nearness"
    }
    taken = {match.phone for phone, match in matches.items() if phone not in ranked}
    for phone in sorted(ranked, key=lambda phone: ranked[phone][matches[phone].phone]):
        nearest = matches[phone].phone
        if nearest in taken:
            within = 0.0 if _letters(phone) == _letters(nearest) else ranked[phone][nearest] + NEARLY
            free = {other: far for other, far in ranked[phone].items() if other not in taken and far <= within}
            palatal = _PALATALISED.get(spelling(phone))
            other = palatal if palatal in ranked[phone].keys() - taken else min(free, key=free.__getitem__, default="")
            matches[phone] = Match(other or nearest, "nearness")
        taken.add(matches[phone].phone)
    return matches


def _ranked(phone: str, known: Sequence[str], arpabet: bool, known_arpabet: bool) -> dict[str, float]:
    """Return the distances of the known phones, but of silences, from a phone."""
    ours = _on_chart(ipa(phone, arpabet)[0])
    others = {label: ipa(label, known_arpabet)[0] for label in known if label not in SILENCES}
    return {label: distance(ours, _on_chart(symbol)) for label, symbol in others.items()}


def _on_chart(label: str) -> str:
    """Return a label with the symbols of the chart, if it has others; of a click with an accompaniment, the click."""
    return _ACCOMPANIED.sub("", label if sounds_of(label) else spelling(label))


@lru_cache(maxsize=4096)
def _letters(label: str) -> str:
    """Return the letters of a label, without its marks."""
    return "".join(sign for sign in spelling(label) if unicodedata.category(sign) not in ("Mn", "Lm", "Sk"))


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
    apart = _ranked(phone, known, arpabet, known_arpabet)
    ours = _on_chart(ipa(phone, arpabet)[0])
    ours = _NEAREST.get(_letters(ours), ours)
    symbols = {label: ipa(label, known_arpabet)[0] for label in apart}
    of_letter = [label for label in apart if _letters(symbols[label]) == _letters(ours)]
    others = [label for label in apart if not of_letter or _letters(symbols[label]) != spelling(symbols[label])]
    near = min(
        (*of_letter, *others), key=lambda label: (apart[label], _marks_apart(ours, symbols[label])), default=None
    )
    if near is not None and is_diphthong(ours) and not is_diphthong(symbols[near]):
        near = min(apart, key=lambda label: distance(ours, symbols[label], at_first=True))
    return Match(near, "nearness") if near is not None and apart[near] < FAR else None


def _marks_apart(a: str, b: str) -> int:
    """Return how many marks only one of two labels has."""
    of = [Counter(spelling(label)) for label in (a, b)]
    return ((of[0] - of[1]) + (of[1] - of[0])).total()


def _by_table(phone: str, known: Sequence[str], arpabet: bool, known_arpabet: bool) -> str | None:
    """Return the known phone that the tables give for a phone, or None."""
    if arpabet and known_arpabet:
        label = _arpabet(phone)
        spelled = {_arpabet(each): each for each in known}
        others = (label, TIMIT_TO_39.get(label), _PARTS.get(label))
        return next((spelled[each] for each in others if each in spelled), None)
    if arpabet == known_arpabet and not arpabet:
        same = [label for label in known if spelling(label) == spelling(phone)]
        return min(same, key=lambda label: plain(label) != plain(phone), default=None)
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
