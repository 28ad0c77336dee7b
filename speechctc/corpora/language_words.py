"""Words of one language as phones."""

from __future__ import annotations

from collections.abc import Iterable

from speechctc.phones.dictionary import Notation
from speechctc.phones.pronouncer import Pronouncer, Word


class LanguageWords:
    """Reads words of one language; texts that were read once are kept.

    Parameters
    ----------
    pronouncer : Pronouncer

    Attributes
    ----------
    utterances : int
        How many were read, as the caller counts them.
    """

    def __init__(self, pronouncer: Pronouncer) -> None:
        self.pronouncer = pronouncer
        self.utterances = 0
        self._native: Notation | None = None
        self._read: dict[str, list[Word]] = {}

    def learn(self, texts: Iterable[str]) -> None:
        """Read texts whose native phones become the phone set."""
        for text in texts:
            self.words(text)
        native = sorted(self.pronouncer.native)
        self._native = Notation(native) if native else None

    def words(self, text: str) -> list[Word]:
        """Return the words of a text."""
        if text not in self._read:
            self._read[text] = self.pronouncer.read(text)
        return self._read[text]

    def written(self, text: str) -> list[Word]:
        """Return the words of a text; phones that only foreign words have are the nearest of its own."""
        return [rewritten(word, self._native) if self._native else word for word in self.words(text)]

    @property
    def nearest(self) -> dict[str, str]:
        """The phones that only foreign words have, with the own ones that they became."""
        return self._native.nearest if self._native else {}


def rewritten(word: Word, notation: Notation) -> Word:
    """Return a word in another notation, without pronunciations that cannot be written in it."""
    written = (notation.write(reading) for reading in word.pronunciations)
    return Word(word.text, tuple(dict.fromkeys(reading for reading in written if reading)))
