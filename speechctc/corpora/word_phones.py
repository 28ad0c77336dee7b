"""Phones of utterances that are labelled with words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rapidfuzz.distance import Levenshtein

from speechctc.audio import sound_file
from speechctc.corpora.corpus import Corpus
from speechctc.errors import InputError
from speechctc.listing import counted, some
from speechctc.phones.inventory import FOUND, named_inventory
from speechctc.phones.matching import match_phones
from speechctc.pronunciation.notation import Notation
from speechctc.pronunciation.pronouncer import Pronouncer, Word

if TYPE_CHECKING:
    from speechctc.config.corpus_config import CorpusConfig

MOST = 25.0  # phones a second: nobody speaks faster
FEWEST = 1.5  # phones a second: a recording with fewer has long pauses, or words that are not in its transcript
APART = 0.6  # of the phones: a transcript of phones that differs by more from its words is of another sentence
CLOSE = 0.4  # but only where most are nearer than this, so that both are in one notation
MISSING = "set corpus.language (English: en-us, Welsh: cy, ...), or corpus.dictionary to a pronunciation dictionary"


class WordPhones:
    """Reads words of a corpus as phones, and collects what is to be reported.

    Parameters
    ----------
    config : CorpusConfig
        Its ``dictionary``, ``language``, ``phones`` and ``ignore`` are used.
    """

    def __init__(self, config: CorpusConfig) -> None:
        self._config = config
        self._named = config.phones not in ("auto", FOUND)
        self._read: dict[str, list[Word]] = {}
        self._native: Notation | None = None
        self._unread: Counter[str] = Counter()
        self._sparse: list[str] = []
        self._both: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.words: dict[str, tuple[Word, ...]] = {}
        """By the utterance's id, its words with all their pronunciations."""

    @property
    def possible(self) -> bool:
        """Return whether there is a dictionary or a language."""
        return self._config.dictionary is not None or self._config.language is not None

    @cached_property
    def _pronouncer(self) -> Pronouncer:
        language = self._config.language
        if language is not None and not isinstance(language, str):
            if len(language) != 1:
                raise InputError("corpus.language names several, and words are read in one", "name one language")
            language = language[0]
        phones = named_inventory(self._config.phones) if self._named else None
        return Pronouncer(self._config.dictionary, language, phones)

    def learn(self, texts: Iterable[str]) -> None:
        """Read the texts of the training split, whose native phones become the phone set where none is named.

        Other phones, of words that eSpeak NG reads in another language, are then written as the nearest of these.
        """
        if self._named or self._config.dictionary is not None:
            return
        for text in texts:
            self._all(text)
        native = sorted(self._pronouncer.native)
        self._native = Notation(native) if native else None

    def read(self, id: str, text: str, audio: Path, seconds: float | None = None) -> tuple[str, ...]:
        """Return the phones of an utterance, by the first pronunciation of each word.

        Its duration is that of the recording, unless `seconds` says otherwise.

        Raises
        ------
        InputError
            A word cannot be read, there is none, or there are more than the recording can hold.
        """
        words = [self._written(word) for word in self._all(text)]
        if unread := [word.text for word in words if not word.pronunciations]:
            self._unread.update(unread)
            raise InputError(f"nothing can read {some(unread, 5)}", "add them to a dictionary (corpus.dictionary)")
        if not words:
            raise InputError("no words in it", "for a recording without speech, write [] as its phones")
        phones = tuple(phone for word in words for phone in word.pronunciations[0])
        self._check_rate(id, phones, audio, seconds)
        self.words[id] = tuple(words)
        return phones

    def compare(self, id: str, phones: Sequence[str], text: str) -> None:
        """Keep an utterance that has phones and words, to tell which disagree."""
        words = [self._written(word) for word in self._all(text)]
        if words and all(word.pronunciations for word in words):
            self._both.append((id, tuple(phones), tuple(p for word in words for p in word.pronunciations[0])))

    def notes(self) -> list[str]:
        """Return what the user should know about how words were read."""
        if not self._read:
            return []
        count = sum(len(words) for words in self.words.values())
        source = self._pronouncer.describe()
        near = self._native.nearest if self._native else {}
        notes = [f"words: {count:,} in {len(self.words):,} utterances, {source}"] if self.words else []
        if near:
            pairs = some([f"{phone} as {to}" for phone, to in sorted(near.items())], 20)
            notes.append(f"phones that only foreign words have become the nearest: {pairs}")
        return notes + self._pronouncer.notes()

    def warnings(self) -> list[str]:
        """Return what may be a mistake: words that nothing can read, and transcripts that do not fit."""
        warnings = []
        if self._unread:
            warnings.append(f"words that nothing can read; their utterances are left out: {counted(self._unread, 20)}")
        if self._sparse:
            names = some(self._sparse, 5)
            warnings.append(
                f"utterances with fewer than {FEWEST} phones a second ({len(self._sparse)}): {names}; check that their "
                "transcripts are complete"
            )
        if apart := self._disagreeing():
            warnings.append(
                f"utterances whose phones are not those of their words ({len(apart)}): {some(apart, 5)}; the phones "
                "are used"
            )
        return warnings

    def add_to(self, corpus: Corpus) -> Corpus:
        """Return a corpus with its words, in its phone set."""
        if not self.words:
            return corpus
        notation = Notation(corpus.inventory().phones)
        words = {id: tuple(_rewritten(word, notation) for word in each) for id, each in self.words.items()}
        return dataclasses.replace(corpus, words=words)

    def _all(self, text: str) -> list[Word]:
        if text not in self._read:
            self._read[text] = self._pronouncer.read(text)
        return self._read[text]

    def _written(self, word: Word) -> Word:
        """Return a word in the phone set, without the phones to ignore."""
        ignored = frozenset(self._config.ignore)
        if self._native:
            word = _rewritten(word, self._native)
        kept = (tuple(phone for phone in reading if phone not in ignored) for reading in word.pronunciations)
        return Word(word.text, tuple(dict.fromkeys(reading for reading in kept if reading)))

    def _check_rate(self, id: str, phones: Sequence[str], audio: Path, seconds: float | None) -> None:
        try:
            seconds = sound_file.info(audio).seconds if seconds is None else seconds
        except InputError:  # reported when the recording is read
            return
        if len(phones) > MOST * seconds:
            raise InputError(
                f"its transcript has {len(phones)} phones, too many for {seconds:.2f} s",
                "check that they belong together",
            )
        if len(phones) < FEWEST * seconds:
            self._sparse.append(id)

    def _disagreeing(self) -> list[str]:
        """Return the ids of utterances whose two transcripts differ much more than most."""
        labels = sorted({phone for _, phones, _ in self._both for phone in phones})
        read = sorted({phone for _, _, phones in self._both for phone in phones})
        matches = {phone: match.phone for phone, match in match_phones(read, labels).items()}
        apart = [
            (id, Levenshtein.normalized_distance(phones, tuple(matches.get(phone, phone) for phone in reading)))
            for id, phones, reading in self._both
        ]
        if not apart or median(distance for _, distance in apart) > CLOSE:
            return []
        return [id for id, distance in apart if distance > APART]


def _rewritten(word: Word, notation: Notation) -> Word:
    """Return a word in another notation, without pronunciations that cannot be written in it."""
    written = (notation.write(reading) for reading in word.pronunciations)
    return Word(word.text, tuple(dict.fromkeys(reading for reading in written if reading)))
