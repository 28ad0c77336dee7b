"""The phones of a language, as eSpeak NG reads its letters."""

from __future__ import annotations

import random
import re
import struct
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from speechctc.phones.espeak import Reader, scripts_of

WORDS = 2000
"""Words of random letters to read: they have 98.5 % or more of the phones of transcripts, in each of 37 languages."""
NUMBERS = 120  # numbers are written in words that are real
AT_ONCE = 20  # words of a text
_MOST_LETTERS = 200  # of an alphabet; more are syllables or words
_LONGEST = 10  # phones of the names of two letters; of a letter that a language lacks, a description is read
_LETTERS = ("Lu", "Ll", "Lo", "Mn", "Mc")
_GROUP = re.compile(b"[\x06\x07\x00]\x06([^\x00-\x20]{1,12})\x00")  # the letters that a group of rules is for
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_LAST_OF_ALPHABETS = 0x1A00  # the first code after the blocks of alphabets and syllabaries of few letters
_LARGE = {  # scripts of syllables and words: each so many characters is read
    "CJK": range(0x4E00, 0x9FA6, 17),
    "HANGUL": range(0xAC00, 0xD7A4, 13),
    "HIRAGANA": range(0x3041, 0x3097),
    "KATAKANA": range(0x30A1, 0x30FB),
}


@lru_cache(maxsize=16)
def phones_of_language(language: str) -> tuple[str, ...]:
    """Return the phones that eSpeak NG reads random words of a language's letters with, and its numbers.

    The words are the same each time. Phones that it reads in another language are left out. Their context makes the
    phones that no letter has alone: final consonants, nasals before velars.

    Parameters
    ----------
    language : str
        A code or a name; see `speechctc.phones.espeak.find_voice`.

    Returns
    -------
    tuple of str
        In alphabetical order.

    Raises
    ------
    InputError
        eSpeak NG is not installed, or does not speak the language.
    """
    reader = Reader(language)
    words = [*map(str, range(NUMBERS)), *_words(_letters(reader))]
    found: set[str] = set()
    for k in range(0, len(words), AT_ONCE):
        for word in reader.read(" ".join(words[k : k + AT_ONCE])):
            found.update(phone for phone, own in zip(word.phones, word.native, strict=True) if own)
    return tuple(sorted(found))


def _words(letters: list[str]) -> Iterator[str]:
    """Yield each letter, and random words of four."""
    yield from letters
    if len(letters) > _MOST_LETTERS:
        return
    rng = random.Random(0)
    for _ in range(WORDS):
        yield "".join(rng.choices(letters, k=4))


def _letters(reader: Reader) -> list[str]:
    """Return the letters of a language: those of its rules, or of its scripts where these are not Latin."""
    scripts = scripts_of(reader.language)
    large = [chr(code) for script in sorted(scripts & _LARGE.keys()) for code in _LARGE[script]]
    small = {
        chr(code).lower()
        for code in range(0x370, _LAST_OF_ALPHABETS)
        if unicodedata.category(chr(code)) in _LETTERS
        and unicodedata.name(chr(code), "").split(" ")[0] in scripts
        and unicodedata.is_normalized("NFKC", chr(code))  # not a form of another letter
    }
    found = large + [letter for letter in sorted(small) if _is_read(reader, letter)]
    if found:
        return found
    ruled = _ruled(reader.data / f"{reader.language.partition('-')[0]}_dict")
    return sorted({*_LATIN, *(letter for letter in ruled if unicodedata.name(letter, "").startswith("LATIN"))})


def _ruled(dictionary: Path) -> set[str]:
    """Return the letters that a compiled dictionary of eSpeak NG has groups of rules for."""
    if not dictionary.is_file():
        return set()
    raw = dictionary.read_bytes()
    rules = raw[struct.unpack_from("<i", raw, 4)[0] :]
    return {letter.lower() for group in _GROUP.findall(rules) for letter in group.decode("utf-8", "ignore")}


def _is_read(reader: Reader, letter: str) -> bool:
    """Return whether a letter has a sound; one that the language does not have is named or spelt."""
    phones = [own for word in reader.read(letter * 2) for own in word.native]
    return 0 < len(phones) <= _LONGEST and all(phones)
