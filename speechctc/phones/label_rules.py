"""How labels are read as phones.

Labels are replaced by a map, read from another notation, divided into symbols; their marks are stripped or split off.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Literal

from speechctc.core.errors import first_few
from speechctc.phones.articulation import SOUNDS, is_arpabet, is_one_phone, plain, sounds_of
from speechctc.phones.inventory import (
    SILENCES,
    TIES,
    nfc,
)
from speechctc.phones.marks import CEDILLA, STRESS, Kind, apply_marks, kind_of, without_marks
from speechctc.phones.notations import from_xsampa

Segment = Literal["labels", "spaces", "ipa"]


# Between symbols, and not phones: edges of syllables, morphemes and words, linking, groups.
_BETWEEN = ".‿|‖-‐‑–—=+#"
_VOWELS = frozenset(symbol for symbol, sound in SOUNDS.items() if sound.vowel) | frozenset("ɚɝᵻᵿ")
_ALSO_SPELLING = frozenset("æçðøħŋœəɛɔɓɗǀǁǂǃβθχ")  # signs of IPA that words of some languages are spelled with
_ONLY_IPA = {sign for sign in SOUNDS if not sign.isascii()} - _ALSO_SPELLING | set(STRESS + "ː˥˦˧˨˩ʰʷʲˠˤ")


class LabelRules:
    """Read labels as phones.

    Parameters
    ----------
    replaced : mapping of str to tuple of str
        What labels are read as. A whole label is looked up first, then each of its symbols.
    segment : str
        ``"labels"``: a label is one phone; ``"spaces"``: it is divided at spaces; ``"ipa"``: also into IPA symbols.
    marks : mapping of str to str
        As for `apply_marks`.
    divided : collection of str
        ``"diphthongs"`` and ``"affricates"``, if these are divided; see `divide_phone`. Phones of the map are not.
    notation : str
        ``"own"``, or ``"xsampa"``: labels that are not in the map are read as IPA.

    Attributes
    ----------
    segment : str
    is_plain : bool
        Each label is one phone, as it is.
    """

    def __init__(
        self,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        segment: Segment = "labels",
        marks: Mapping[Kind, str] | None = None,
        divided: Collection[str] = (),
        notation: str = "own",
    ) -> None:
        self._map, self.segment = dict(replaced or {}), segment
        self._marks = {kind: choice for kind, choice in (marks or {}).items() if choice != "keep"}
        self._known: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._replaced: Counter[str] = Counter()
        self._divided = "diphthongs" in divided, "affricates" in divided
        self._is_xsampa, self._in_ipa = notation == "xsampa", dict[str, str]()
        is_changed = self._map or self._marks or any(self._divided) or self._is_xsampa
        self.is_plain = not is_changed and segment == "labels"

    def phones(self, label: str) -> tuple[str, ...]:
        """Return the phones of a label in NFC; none where it is mapped to nothing, or nothing of it is left."""
        if label not in self._known:
            self._known[label] = self._read(label)
        phones, used = self._known[label]
        self._replaced.update(used)
        return phones

    def _read(self, label: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the phones of a label, and the labels of the map that were used."""
        if label in self._map:
            return self._unmarked(self._map[label]), (label,)
        parts = [label] if self.segment == "labels" else label.split()
        if self._is_xsampa:
            parts = [part if part in self._map else self._from_xsampa(part) for part in parts]
        if self.segment == "ipa":
            parts = [symbol for part in parts for symbol in ([part] if part in self._map else segment_ipa(part))]
        used = tuple(part for part in parts if part in self._map)
        phones = (self._map[part] if part in self._map else divide_phone(part, *self._divided) for part in parts)
        return self._unmarked(tuple(chain.from_iterable(phones))), used

    def _from_xsampa(self, label: str) -> str:
        """Return a label in IPA; one that is not X-SAMPA as it is."""
        if label in SILENCES or not label.isascii() or (sound := from_xsampa(label)) is None:
            return label
        self._in_ipa[label] = sound
        return sound

    def _unmarked(self, phones: tuple[str, ...]) -> tuple[str, ...]:
        if not self._marks:
            return tuple(map(nfc, phones))
        return tuple(part for phone in phones for part in apply_marks(phone, self._marks))

    def notes(self) -> list[str]:
        """Return in words which labels are read from X-SAMPA, and which the map replaced and how often."""
        spelled = [f"{label} as {sound}" for label, sound in sorted(self._in_ipa.items()) if label != sound]
        xsampa = [
            f"labels read from X-SAMPA as IPA (corpus.notation): {first_few(spelled) or 'none'}"
        ] * self._is_xsampa
        if not self._map:
            return xsampa
        shown = {label: " ".join(phones) or "nothing" for label, phones in self._map.items()}
        counts = [f"{label} as {shown[label]} ({count})" for label, count in self._replaced.most_common()]
        return [*xsampa, f"labels read as corpus.map says: {first_few(counts) or 'none'}"]

    def unused(self) -> list[str]:
        """Return the labels of the map that did not occur."""
        return sorted(set(self._map) - set(self._replaced))


@cache
def base_phone(label: str) -> str:
    """Return a label without its marks, in one notation."""
    return plain(without_marks(label))


def may_be_phone(label: str, phones: Collection[str]) -> bool:
    """Return whether a label is one phone, or but for its marks one of a set's; others in IPA may be words."""
    return is_one_phone(label) or base_phone(label) in map(base_phone, phones)


_ENCLOSED = re.compile(r"/[^/]+/|\[[^\[\]]+\]")


def unenclosed(text: str) -> str:
    """Return a transcription without the slashes or square brackets around it, as phonemes and phones are written."""
    text = text.strip()
    return text[1:-1] if _ENCLOSED.fullmatch(text) else text


def segment_ipa(text: str) -> Iterator[str]:
    """Yield the symbols of a string of IPA, in NFC.

    A symbol is a letter with the diacritics, modifiers, length and tones after it. Tie bars join two letters; a stress
    mark belongs to the letter after it, and so does a modifier with no letter before it. Signs between syllables,
    morphemes, words and groups (``. - = + # ‿ | ‖``), white space, and slashes or square brackets around the string are
    left out. ``tʃ`` without a tie bar is two symbols.
    """
    text = unenclosed(text)
    symbol, tied, begun = "", False, False  # begun: the symbol has its letter
    for sign in unicodedata.normalize("NFD", text):
        if sign in _BETWEEN or sign.isspace():
            if symbol:
                yield nfc(symbol)
            symbol, tied, begun = "", False, False
        elif sign in STRESS or (not _belongs(sign) and begun and not tied):
            if symbol:
                yield nfc(symbol)
            symbol, begun = sign, sign not in STRESS
        else:
            begun = begun or not _belongs(sign)
            symbol += sign
        tied = sign in TIES or (tied and _belongs(sign))
    if symbol:
        yield nfc(symbol)


def _belongs(sign: str) -> bool:
    """Return whether a sign belongs to the letter before it."""
    return sign in TIES + CEDILLA + "'’" or kind_of(sign) is not None or sign.isdecimal()


def symbols_of_word(word: str) -> tuple[str, ...]:
    """Return the symbols of a word in IPA, without stress; none where one is not on the chart."""
    symbols = tuple(filter(None, (symbol.strip(STRESS) for symbol in segment_ipa(word))))
    return symbols if all(map(sounds_of, symbols)) else ()


def is_surely_ipa(word: str) -> bool:
    """Return whether a word is in IPA, and has a letter or sign that hardly any language is spelled with."""
    return not _ONLY_IPA.isdisjoint(word) and symbols_of_word(word) != ()


def are_ipa_words(words: Collection[str]) -> bool:
    """Return whether different words are in IPA: nearly all can be, and of every ten one surely is."""
    can_be = sum(symbols_of_word(word) != () for word in words)
    return can_be > 0.95 * len(words) and sum(map(is_surely_ipa, words)) > 0.1 * len(words)


def are_strings(counts: Mapping[str, int]) -> bool:
    """Return whether labels, with their counts, look like words or syllables in IPA instead of phones.

    Most of them, counted once and as often as they occur, are several IPA symbols: three or more, or a vowel and a
    consonant. They are not ARPABET, and either more than their symbols or with letters that only IPA has: names of
    classes such as ``low`` and ``high`` are neither.
    """
    symbols = {label: _symbols(label) for label in counts}
    strings = {label for label, parts in symbols.items() if _is_string(parts)}
    if 2 * len(strings) <= len(counts) or 2 * sum(counts[each] for each in strings) <= sum(counts.values()):
        return False
    used = {symbol for parts in symbols.values() for symbol in parts}
    return not is_arpabet(list(counts)) and (len(counts) > len(used) or not all(map(str.isascii, strings)))


def _symbols(label: str) -> list[str]:
    return [symbol for symbol in segment_ipa(label) if symbol.strip(STRESS)]


@cache
def is_syllable(label: str) -> bool:
    """Return whether a label is a syllable or word in IPA: at least three symbols, vowels and consonants."""
    symbols = _symbols(label)
    vowels = sum(plain(symbol)[:1] in _VOWELS for symbol in symbols)
    return len(symbols) > 2 and 0 < vowels < len(symbols) and _is_string(symbols)


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


def phones_of_row(label: str) -> tuple[str, ...]:
    """Return the phones of a label of several in IPA without a tie, vowels beside each other as one; else none."""
    parts = symbols_of_word(label)
    groups = groupby(parts, key=lambda part: sounds_of(part)[0].vowel)
    phones = (["".join(group)] if is_vowel else group for is_vowel, group in groups)
    return tuple(chain.from_iterable(phones))
