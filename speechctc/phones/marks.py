"""Marks on IPA labels by class: tone, stress, length and other diacritics; and the symbols of a string of IPA."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from speechctc.phones.articulation import SOUNDS, plain
from speechctc.phones.labels import TIES, nfc
from speechctc.phones.matching import is_arpabet

Kind = Literal["tone", "stress", "length", "diacritics"]
KINDS: tuple[Kind, ...] = ("tone", "stress", "length", "diacritics")

_TONE = "˥˦˧˨˩ꜛꜜ↗↘⁰¹²³⁴⁵⁶⁷⁸⁹\u0300\u0301\u0302\u0304\u030b\u030c\u030f\u1dc4\u1dc5\u1dc6\u1dc7\u1dc8\u1dc9"
_STRESS = "ˈˌ"
_LENGTH = "ːˑ:\u0306"
_BETWEEN = ".‿|‖"  # syllables, linking, groups: between symbols, and not phones
_WITH_DIACRITIC = str.maketrans({"ɫ": "l\u0334", "ɚ": "ə˞", "ɝ": "ɜ˞"})  # letters that Unicode does not decompose
_CEDILLA = "\u0327"  # ç is a letter
_VOWELS = frozenset(symbol for symbol, sound in SOUNDS.items() if sound.vowel) | frozenset("ɚɝᵻᵿ")
_ARPABET = re.compile(r"(aa|ae|ah|ao|aw|ax|ay|eh|er|ey|ih|iy|ow|oy|uh|uw)([012])", re.IGNORECASE)


def kind_of(sign: str) -> Kind | None:
    """Return the class of a character of a label in NFD; None for letters, tie bars and all else."""
    if sign in _TONE:
        return "tone"
    if sign in _STRESS:
        return "stress"
    if sign in _LENGTH:
        return "length"
    if sign in TIES + _CEDILLA:
        return None
    return "diacritics" if unicodedata.category(sign) in ("Mn", "Lm", "Sk") else None


def apply_marks(label: str, choices: Mapping[Kind, str]) -> tuple[str, ...]:
    """Return a label whose marks are kept, stripped or split off, as is chosen for each class of them.

    Parameters
    ----------
    label : str
    choices : mapping of str to str
        For classes of `KINDS`, ``"keep"``, ``"strip"`` or ``"split"``. A stress digit of ARPABET is stress.

    Returns
    -------
    tuple of str
        The label, in NFC; before it the stress and after it the other marks that are split off, neighbours of one class
        together, a mark that needs a letter on a dotted circle. Empty if nothing is left.
    """
    digit = _ARPABET.fullmatch(label)
    if digit is not None:
        choice = choices.get("stress", "keep")
        return {"keep": (label,), "strip": (digit[1],), "split": (digit[2], digit[1])}[choice]
    if len(label) == 1 and kind_of(unicodedata.normalize("NFD", label)[0]) is not None:  # a mark by itself
        return () if choices.get(kind_of(label) or "tone") == "strip" else (label,)
    kept, before, after = "", list[str](), list[str]()
    if choices.get("diacritics") == "strip":
        label = label.translate(_WITH_DIACRITIC)
    for (kind, choice), group in groupby(unicodedata.normalize("NFD", label), key=lambda sign: _choice(sign, choices)):
        signs = "".join(group)
        if choice == "keep":
            kept += signs
        elif choice == "split":
            (before if kind == "stress" else after).append(_alone(signs))
    return tuple(nfc(part) for part in (*before, kept, *after) if part)


def _choice(sign: str, choices: Mapping[Kind, str]) -> tuple[Kind | None, str]:
    kind = kind_of(sign)
    return kind, "keep" if kind is None else choices.get(kind, "keep")


def _alone(signs: str) -> str:
    return f"◌{signs}" if unicodedata.combining(signs[0]) else signs


def segment_ipa(text: str) -> Iterator[str]:
    """Yield the symbols of a string of IPA, in NFC.

    A symbol is a letter with the diacritics, modifiers, length and tones after it. Tie bars join two letters; a stress
    mark belongs to the letter after it, and so does a modifier with no letter before it. Signs between syllables and
    groups (``. ‿ | ‖``) and white space are left out. ``tʃ`` without a tie bar is two symbols.
    """
    symbol, tied, begun = "", False, False  # begun: the symbol has its letter
    for sign in unicodedata.normalize("NFD", text):
        if sign in _BETWEEN or sign.isspace():
            if symbol:
                yield nfc(symbol)
            symbol, tied, begun = "", False, False
        elif sign in _STRESS or (not _belongs(sign) and begun and not tied):
            if symbol:
                yield nfc(symbol)
            symbol, begun = sign, sign not in _STRESS
        else:
            begun = begun or not _belongs(sign)
            symbol += sign
        tied = sign in TIES or (tied and _belongs(sign))
    if symbol:
        yield nfc(symbol)


def _belongs(sign: str) -> bool:
    """Return whether a sign belongs to the letter before it."""
    return sign in TIES + _CEDILLA + "'’" or kind_of(sign) is not None or sign.isdecimal()


def are_strings(counts: Mapping[str, int]) -> bool:
    """Return whether labels, with their counts, look like words or syllables in IPA instead of phones.

    Most of them, counted once and as often as they occur, are several IPA symbols: three or more, or a vowel and a
    consonant. They are not ARPABET, and either more than their symbols or with letters that only IPA has: names of
    classes such as ``low`` and ``high`` are neither.
    """
    symbols = {label: [symbol for symbol in segment_ipa(label) if symbol.strip(_STRESS)] for label in counts}
    strings = {label for label, parts in symbols.items() if _is_string(parts)}
    if 2 * len(strings) <= len(counts) or 2 * sum(counts[each] for each in strings) <= sum(counts.values()):
        return False
    used = {symbol for parts in symbols.values() for symbol in parts}
    return not is_arpabet(list(counts)) and (len(counts) > len(used) or not all(map(str.isascii, strings)))


def _is_string(symbols: Sequence[str]) -> bool:
    letters = [plain(symbol)[:1] for symbol in symbols]
    if not all(letter in SOUNDS or letter in _VOWELS for letter in letters):
        return False
    vowels = sum(letter in _VOWELS for letter in letters)
    return len(letters) > 2 or 0 < vowels < len(letters)


def divide_phone(label: str, diphthongs: bool, affricates: bool) -> tuple[str, ...]:
    """Return the vowels of a diphthong or the consonants of an affricate, if these are to be divided.

    Parameters
    ----------
    label : str
        A phone; one with a vowel and a consonant is returned as it is.
    diphthongs, affricates : bool
        Which of them to divide. Tie bars are left out, and the marks at the end belong to the last part.
    """
    if not (diphthongs or affricates):
        return (label,)
    parts = tuple(segment_ipa("".join(sign for sign in unicodedata.normalize("NFD", label) if sign not in TIES)))
    vowels = sum(part[0] in _VOWELS or unicodedata.normalize("NFD", part)[0] in _VOWELS for part in parts)
    is_divided = (diphthongs and vowels == len(parts)) or (affricates and vowels == 0)
    return parts if is_divided and len(parts) > 1 else (label,)
