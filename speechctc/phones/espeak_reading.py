"""Reads a text as eSpeak NG speaks it: the phones of each of its words, in IPA."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.phones.espeak import Synthesiser, Voice, WordStart
from speechctc.phones.espeak_ipa import pieces
from speechctc.phones.espeak_languages import find_voice, foreign_script

FAST = 400  # words a minute: speech is made only for its phonemes, which do not depend on the rate


class SpokenWord(NamedTuple):
    """A spoken word: the index of its first character in the text, its phones, and whether each is a native one.

    Foreign phones are those of a word that eSpeak NG reads in another language; `languages` are those read in.
    """

    character: int
    phones: tuple[str, ...]
    native: tuple[bool, ...]
    languages: frozenset[str]


class Reader:
    """Reads texts in one language.

    Parameters
    ----------
    language : str
        A code or a name; see `speechctc.phones.espeak_languages.find_voice`.

    Raises
    ------
    InputError
        eSpeak NG is not installed, or does not speak the language.
    """

    def __init__(self, language: str) -> None:
        self._speaker = _speaker()
        self._voice = find_voice(language, _voices())
        self.language = self._voice.languages[0]
        if not self.read("a i u 1 2 3"):
            raise InputError(
                f"eSpeak NG knows the name of the language {language!r}, but has no dictionary of it",
                "choose a related language, or give corpus.dictionary alone",
            )

    def read(self, text: str) -> list[SpokenWord]:
        """Return the words of a text in order; words that eSpeak NG joins ("of the") are one."""
        _choose(self._voice.file)
        speech = self._speaker.speak("".join(map(_visible, text)), keep=False)
        made = pieces([phoneme.name for phoneme in speech.phonemes], self.language)
        starts = speech.words or (WordStart(0, 0),)
        ends = [word.phoneme for word in starts[1:]] + [len(speech.phonemes)]
        words = []
        for start, end in zip(starts, ends, strict=True):
            inside = [piece for piece in made if start.phoneme <= piece.phoneme < end]
            if inside:
                labels = tuple(piece.label for piece in inside)
                native = tuple(piece.language in self._voice.languages for piece in inside)
                words.append(SpokenWord(start.character, labels, native, frozenset(piece.language for piece in inside)))
        return words

    def can_read(self, word: str, languages: frozenset[str]) -> bool:
        """Return False for a word in a script that none of the languages it was read in writes.

        eSpeak NG names the letters of such words, or says "Chinese letter".
        """
        return not any(foreign_script(word, language) for language in languages)


def _visible(letter: str) -> str:
    """Return a character, or a space for a control character; characters without width are left out."""
    category = unicodedata.category(letter)
    return " " if category in ("Cc", "Zl", "Zp") else letter if category not in ("Cf", "Cs", "Co") else ""


@lru_cache(maxsize=1)
def _speaker() -> Synthesiser:
    return Synthesiser(ipa=True)


@lru_cache(maxsize=1)
def _voices() -> tuple[Voice, ...]:
    return tuple(_speaker().voices())


_chosen = [""]  # the voice of the one library of this process


def _choose(voice: str) -> None:
    """Choose a voice, unless it is chosen already: each time eSpeak NG reads its dictionary from disk."""
    if _chosen[0] != voice:
        _speaker().choose("", FAST, 50, voice)
        _chosen[0] = voice
