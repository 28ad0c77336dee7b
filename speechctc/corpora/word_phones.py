"""Phones of utterances that are labelled with words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.core.errors import InputError, counted, first_few, plural
from speechctc.core.parallel import attempt
from speechctc.corpora.corpus import Corpus, note_text
from speechctc.phones.espeak import Reader, voices
from speechctc.phones.inventory import FOUND, Word, named_inventory
from speechctc.phones.label_rules import LabelRules
from speechctc.phones.languages import plain_code
from speechctc.phones.nonspeech import NonSpeech
from speechctc.phones.pronouncer import PhoneMapper, Pronouncer, check_length

if TYPE_CHECKING:
    from speechctc.config.schema import CorpusConfig

MAX_PHONE_RATE = 25.0  # phones a second: nobody speaks faster
MIN_PHONE_RATE = 1.5  # phones a second: a recording with fewer has long pauses, or words that are not in its transcript
# Codes in corpora that name no region, and how they are read: eSpeak NG alone would take en for British English, and
# English, its name, for American.
FEWEST = 10  # words of a corpus, by which it is told whether they are letters
_OF_REGION = {"en": "en-us"}
MISSING = "set corpus.language (English: en-us, Welsh: cy, ...), or corpus.dictionary to a pronunciation dictionary"


class WordPhones:
    """Reads words of a corpus as phones, and collects what is to be reported.

    Words are read in the one language of ``corpus.language``. Where it is not set, or is a mapping, each utterance has
    its own. A language that nothing reads is reported with the utterances that are in it.

    Parameters
    ----------
    config : CorpusConfig
        Its ``dictionary``, ``language``, ``phones`` and ``ignore`` are used.

    Raises
    ------
    InputError
        Several languages are named without the names that the corpus has for them.
    """

    def __init__(self, config: CorpusConfig) -> None:
        language = config.language
        if isinstance(language, tuple):
            if len(language) != 1:
                what = "corpus.language is a list, and words are read in one language, or each row's in its own"
                raise InputError(what, "name one language; or leave it out, and name each row's in a column language")
            language = language[0]
        self._config, self._language = config, language
        self._named = config.phones not in ("auto", FOUND)
        self._key = cache(self._key_of)
        self._languages: dict[str, LanguageWords | InputError] = {}
        self._unknown: Counter[str] = Counter()
        self._foreign: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self._sparse: list[str] = []
        self._nonspeech = NonSpeech(config.ignore)
        self._of_region: set[str] = set()
        self.words: dict[str, tuple[Word, ...]] = {}
        """By the utterance's id, its words with all their pronunciations."""

    @property
    def met(self) -> set[str]:
        """The labels of ``corpus.ignore`` that were met among words."""
        return {*self._config.ignore} - {*self._nonspeech.absent()}

    def spoken(self, text: str) -> str:
        """Return the words of a text, without what is no speech, which is counted."""
        return self._nonspeech.spoken(text)

    @property
    def possible(self) -> bool:
        """Return whether there is a dictionary or a language."""
        return self._config.dictionary is not None or self._language is not None

    def language_of(self, *names: str) -> str:
        """Return the language of an utterance that has these names of languages, tiers or folders, the nearest first.

        It is the one of ``corpus.language``, what this says of a name, or the first name itself. It is ``""`` where
        words are read by one dictionary, or no language is known.
        """
        if isinstance(self._language, str):
            return self._language
        patterns = self._language or {}
        for name in names:
            for pattern, language in patterns.items():
                if fnmatchcase(name.lower(), pattern.lower()):
                    return language
        own = "" if isinstance(self._config.dictionary, Path) else next(iter(names), "")
        given = self._config.dictionary if isinstance(self._config.dictionary, Mapping) else {}
        if own.lower() in _OF_REGION and own not in given:
            self._of_region.add(own)
            return _OF_REGION[own.lower()]
        return own

    def can_read(self, language: str) -> bool:
        """Return whether words without phones can be read: there is a language, or one dictionary for all."""
        return bool(language) or isinstance(self._config.dictionary, Path)

    def _in(self, language: str) -> LanguageWords:
        """Return the reader of a language.

        Raises
        ------
        InputError
            eSpeak NG does not read it, and there is no dictionary of it.
        """
        key = self._key(language)
        if key not in self._languages:
            self._languages[key] = attempt(lambda name: LanguageWords(self._pronouncer(name)), language)
        found = self._languages[key]
        if isinstance(found, InputError):
            raise found
        return found

    def _key_of(self, name: str) -> str:
        """Return what stands for all names of a language: the one in ``corpus.dictionary``, or eSpeak NG's code."""
        given = self._config.dictionary if isinstance(self._config.dictionary, Mapping) else {}
        if name in given or not name:
            return name
        code = attempt(_code, name)
        if isinstance(code, InputError) or not code:  # without eSpeak NG no name is known
            return name
        return next((key for key in given if _code(key) == code), code)

    def _pronouncer(self, language: str) -> Pronouncer:
        phones = named_inventory(self._config.phones) if self._named else None
        dictionary = self._config.dictionary
        if isinstance(dictionary, Mapping):
            dictionary = dictionary.get(self._key(language))
        try:
            return Pronouncer(dictionary, language or None, phones)
        except InputError:
            is_spoken = bool(language) and isinstance(attempt(Reader, language), Reader)
            if dictionary is None or isinstance(self._language, str) or not language or is_spoken:
                raise
            return Pronouncer(dictionary, None, phones)  # a language that eSpeak NG lacks

    def learn(self, texts: Iterable[tuple[str, str]]) -> None:
        """Read pairs of a language and a text of the training split.

        The native phones of a language and those of its dictionary become its phone set where none is named: others,
        of words that eSpeak NG reads in another language, are then written as the nearest of these.
        """
        by_language: dict[str, list[str]] = {}
        nonspeech = NonSpeech(self._config.ignore)  # its counts would be those of texts that are read again
        for language, text in texts:
            by_language.setdefault(language, []).append(nonspeech.spoken(text))
        for language, own in by_language.items():
            try:
                self._in(language).pronouncer.detect_ipa(own)
                if not self._named:
                    self._in(language).learn(own)
            except InputError:  # reported for each utterance
                if isinstance(self._language, str):
                    raise

    def read(
        self, id: str, text: str, audio: Path, seconds: float | None, language: str, is_spoken: bool = False
    ) -> tuple[str, ...]:
        """Return the phones of an utterance, by the first pronunciation of each word.

        Its duration is that of the recording, unless it is given in `seconds`. `is_spoken`: `spoken` gave the text.

        Raises
        ------
        InputError
            Nothing reads the language or a word, there is no word, or there are more than the recording can hold.
        """
        try:
            reader = self._in(language)
        except InputError:
            self._unknown[language] += 1
            raise
        if (seconds := _seconds(audio, seconds)) is not None:
            check_length(text, seconds)
        text = text if is_spoken else self.spoken(text)
        if reader.pronouncer.is_foreign(text):
            self._foreign[language] += 1
            what = f"its words are in a script that {reader.pronouncer.language} does not write"
            raise InputError(what, "correct its words, or its language")
        words = [self._without_ignored(word) for word in reader.written(text)]
        if unread := [word.text for word in words if not word.pronunciations]:
            self._unread.update(unread)
            here = f" in {language}" if len(self._languages) > 1 else ""
            what = f"nothing can read {first_few(unread, 5)}{here}"
            raise InputError(what, "add them to a dictionary (corpus.dictionary)")
        if not words:
            raise InputError("no words in it", "for a recording without speech, write [] as its phones")
        phones = tuple(phone for word in words for phone in word.pronunciations[0])
        if seconds is not None:
            self._check_rate(id, phones, seconds)
        self.words[id] = tuple(words)
        reader.utterances += 1
        return phones

    def notes(self) -> list[str]:
        """Return what the user should know about how words were read."""
        readers = {name: each for name, each in self._languages.items() if isinstance(each, LanguageWords)}
        used = Counter({name: reader.utterances for name, reader in readers.items() if reader.utterances})
        count, several = sum(len(words) for words in self.words.values()), len(used) > 1
        how = f"read in {len(used)} languages: {counted(used, len(used))}" if several else ""
        how = how or next((readers[name].pronouncer.describe() for name in used), "")
        notes = [note_text("of region", name=name, read=_OF_REGION[name.lower()]) for name in sorted(self._of_region)]
        notes += [f"words: {count:,} in {plural(len(self.words), 'utterance')}, {how}"] if used else []
        notes += self._nonspeech.notes("words")
        for name, reader in readers.items():
            here = f"{name}: " if len(readers) > 1 else ""
            if several and name in used and reader.pronouncer.has_dictionary:
                notes.append(f"{here}{reader.pronouncer.describe()}")
            if reader.nearest:
                pairs = first_few([f"{phone} as {to}" for phone, to in sorted(reader.nearest.items())], 20)
                notes.append(f"{here}phones that only foreign words have become the nearest: {pairs}")
            notes += [f"{here}{note}" for note in reader.pronouncer.notes()]
        return notes

    def warnings(self) -> list[str]:
        """Return what may be a mistake: words that nothing can read, and transcripts that do not fit."""
        warnings = []
        if self._unknown:
            warnings.append(note_text("unknown language", languages=counted(self._unknown, 20)))
        if self._foreign:
            warnings.append(note_text("foreign script", languages=counted(self._foreign, 20)))
        if self._unread:
            warnings.append(note_text("unread", words=counted(self._unread, 20)))
        if self._sparse:
            names = first_few(self._sparse, 5)
            warnings.append(note_text("sparse", fewest=MIN_PHONE_RATE, count=len(self._sparse), names=names))
        words = [word for each in self.words.values() for word in each]
        named = Counter(word.text for word in words if _is_letter(word))
        if len(words) >= FEWEST and named.total() > len(words) / 2:
            warnings.append(note_text("single letters", labels=counted(named, 5)))
        return warnings

    def add_to(self, corpus: Corpus, rules: LabelRules) -> Corpus:
        """Return a corpus with its words, read by the rules of its labels and in its phone set."""
        if not self.words:
            return corpus
        mapper = PhoneMapper(corpus.inventory().phones, None)
        words = {id: tuple(_in_set(word, mapper, rules) for word in each) for id, each in self.words.items()}
        return dataclasses.replace(corpus, words=words)

    def _without_ignored(self, word: Word) -> Word:
        ignored = frozenset(self._config.ignore)
        kept = (tuple(phone for phone in reading if phone not in ignored) for reading in word.pronunciations)
        return Word(word.text, tuple(dict.fromkeys(reading for reading in kept if reading)))

    def _check_rate(self, id: str, phones: Sequence[str], seconds: float) -> None:
        if len(phones) > MAX_PHONE_RATE * seconds:
            what = f"its transcript has {len(phones)} phones, too many for {seconds:.2f} s"
            raise InputError(what, "check that they belong together")
        if len(phones) < MIN_PHONE_RATE * seconds:
            self._sparse.append(id)


def _is_letter(word: Word) -> bool:
    """Return whether a word is a single letter that is read by its name, and not as a phone."""
    is_one = len(word.text) == 1 and word.text.lower() != word.text.upper()
    return is_one and word.pronunciations[:1] != ((word.text,),)


def _seconds(audio: Path, seconds: float | None) -> float | None:
    """Return the duration of a recording, unless it is given; None if it cannot be read, which is reported later."""
    try:
        return sound_file.info(audio).seconds if seconds is None else seconds
    except InputError:
        return None


def _code(name: str) -> str:
    return plain_code(name, voices())


def _in_set(word: Word, mapper: PhoneMapper, rules: LabelRules) -> Word:
    """Return a word read by the rules of labels, in a phone set."""
    if not rules.is_plain:
        by_rules = (tuple(p for phone in reading for p in rules.phones(phone)) for reading in word.pronunciations)
        word = Word(word.text, tuple(dict.fromkeys(by_rules)))
    return map_word(word, mapper)


class LanguageWords:
    """Reads words of one language; texts that were read once are kept.

    Parameters
    ----------
    pronouncer : Pronouncer

    Attributes
    ----------
    utterances : int
        How many were read, as the caller counts them.
    nearest : dict of str to str
        The phones that only foreign words have, with the own ones that they became.
    """

    def __init__(self, pronouncer: Pronouncer) -> None:
        self.pronouncer = pronouncer
        self.utterances = 0
        self.nearest: dict[str, str] = {}
        self._learned = False
        self._mapper = cache(PhoneMapper)
        self.words = cache(pronouncer.read)
        """Returns the words of a text."""

    def learn(self, texts: Iterable[str]) -> None:
        """Read texts whose native phones become the phone set, as do those of all texts read later."""
        for text in texts:
            with suppress(InputError):  # reported for its utterance
                self.words(text)
        self._learned = True

    def written(self, text: str) -> list[Word]:
        """Return the words of a text; phones that only foreign words have are the nearest of its own."""
        words = self.words(text)
        if not self._learned or not self.pronouncer.native:
            return words
        mapper = self._mapper(tuple(sorted(self.pronouncer.native)))
        written = [map_word(word, mapper) for word in words]
        self.nearest |= mapper.nearest
        return written


def map_word(word: Word, mapper: PhoneMapper) -> Word:
    """Return a word in another mapper, without pronunciations that cannot be written in it."""
    written = (mapper.map(reading) for reading in word.pronunciations)
    return Word(word.text, tuple(dict.fromkeys(reading for reading in written if reading)))
