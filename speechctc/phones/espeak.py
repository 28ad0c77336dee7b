"""eSpeak NG: its languages, its speech with the time of every phoneme, and its phones in IPA."""

from __future__ import annotations

import ctypes
import random
import re
import struct
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError, with_extra
from speechctc.phones.articulation import SOUNDS
from speechctc.phones.espeak_library import Library
from speechctc.phones.espeak_process import EspeakProcess
from speechctc.phones.inventory import TABLES, TIES, pairs
from speechctc.phones.languages import ALONE, LISTED, Voice, alias_note, find_voice

_INDIC = map(chr, range(0x900, 0xE00))
_WHOLE = {parts: letter for letter in _INDIC if len(parts := unicodedata.normalize("NFC", letter)) == 2}
_WHOLE |= dict(zip("।॥۔،؛؟", "...,;?", strict=True))
# From and to which characters Unicode has forms of others: digraphs of Dutch, Afrikaans and Croatian, Roman numbers,
# ligatures, wide and mathematical letters.
_FORMS = [
    *("\u0132\u0133", "\u0149\u0149", "\u01c4\u01cc", "\u01f1\u01f3", "\u2160\u217f"),
    *("\ufb00\ufb17", "\uff01\uff5e", "\U0001d400\U0001d7ff"),
]
# Letters of Arabic's script that a language writes otherwise, and of which eSpeak NG leaves words' beginnings out.
_SAME_LETTERS = {"ar": str.maketrans("کی", "كي"), "ur": str.maketrans("كيىه", "کییہ")}
_APOSTROPHE = re.compile("ʼ|(?<=\\w)[`´′](?=\\w)")
_DOTTED = re.compile("|".join(_WHOLE) + r"|(?<!\S)\.(?=[ؠ-ۓ])")

LONGEST = 2000  # characters that eSpeak NG reads at once
_SENTENCE = re.compile(r"[.?!。？！।۔][\"'”’)]*\s+")

LATIN = "LATIN"
_READERS = {script: frozenset(languages.split()) for script, languages in TABLES["scripts"].items()}
_NAMES = pairs(TABLES["espeak"])
_OWN_NAMES = {language: pairs(names) for language, names in TABLES["own_espeak"].items()}
_UNRELEASED = {"pʰ": "p", "tʰ": "t", "kʰ": "k"}
_VOWELS = "".join(symbol for symbol, sound in SOUNDS.items() if sound.vowel) + "ɚɝ"
_CONSONANTS = "".join(symbol for symbol, sound in SOUNDS.items() if not sound.vowel) + "ɡɫ"
# One or two vowels with their modifiers, or anything before the next vowel.
_PHONE = re.compile(f"(?:[{_VOWELS}][^{_VOWELS}{_CONSONANTS}]*){{1,2}}|[^{_VOWELS}]+")
_LENGTH_MARKS = re.compile("[:ː]+")
_UNNAMED = re.compile("[0-9`]+")  # tones, and a mark on vowels of Cherokee and Latvian
_LANGUAGE = re.compile(r"\((.*)\)")
_MODIFIERS = ("Lm", "Mn", "Sk")  # Unicode's categories of length, aspiration, diacritics


class Phoneme(NamedTuple):
    """The sample at which a phoneme starts, and its name in eSpeak NG without stress marks."""

    sample: int
    name: str


class WordStart(NamedTuple):
    """The start of a spoken word: the index of its first character in the text, and of its first phoneme."""

    character: int
    phoneme: int


@dataclass(frozen=True)
class Speech:
    """A spoken sentence.

    Attributes
    ----------
    samples : ndarray, int16, shape = (n,)
        At the rate `Synthesiser.rate`.
    phonemes : tuple of Phoneme
        Each lasts until the start of the next one, and the last until the end.
    words : tuple of WordStart
        Words that eSpeak NG joins ("of the") count as one, and a number may be several.
    """

    samples: NDArray[np.int16]
    phonemes: tuple[Phoneme, ...]
    words: tuple[WordStart, ...] = ()


class Synthesiser:
    """eSpeak NG in this process.

    Parameters
    ----------
    ipa : bool
        Name phonemes in IPA, and not as eSpeak NG's own mnemonics.

    Raises
    ------
    InputError
        The package espeakng-loader, which contains the library and its voices, is not installed or does not load.
    """

    def __init__(self, ipa: bool = False) -> None:
        library, self.data = _paths()
        self._library = Library(library, str(self.data), ipa)
        self.version, self.rate = self._library.version, self._library.rate
        if not self.rate:
            raise InputError(f"eSpeak NG does not start with its data in {self.data}", "reinstall espeakng-loader")
        self._variants = self.data / "voices" / "!v"

    @staticmethod
    def check() -> None:
        """Raise `InputError` if eSpeak NG is not installed."""
        _paths()

    def voices(self) -> list[Voice]:
        """Return the voices of all languages, without variants; without those whose dictionary is not there."""
        return _voices(self._library.voices(), self.data)

    def seed(self, number: int) -> None:
        """Seed the noise of breathy voices."""
        self._library.seed(number)

    def choose(self, variant: str, words_per_minute: int, pitch: int, voice: str = "en-us") -> None:
        """Choose how to speak.

        Parameters
        ----------
        variant : str
            The part after the plus sign, as in ``en-us+f3``; empty for the voice without a variant.
        words_per_minute : int
            80 to 450.
        pitch : int
            0 to 99; 50 is the default of the variant.
        voice : str
            A language or a voice's file: American English, if not given.
        """
        name = f"{voice}+{variant}" if variant else voice
        # eSpeak NG ignores a variant that does not exist
        missing = variant and not (self._variants / variant).is_file()
        if missing or not self._library.choose(name, words_per_minute, pitch):
            raise InputError(f"eSpeak NG {self.version} has no voice {name}", "install espeakng-loader 0.2.4")

    def speak(self, text: str, keep: bool = True) -> Speech:
        """Speak a text without control characters; without `keep`, samples are not kept."""
        self._library.speak(text, keep)
        samples = np.frombuffer(bytearray().join(self._library.samples), np.int16)
        return Speech(
            samples, tuple(starmap(Phoneme, self._library.phonemes)), tuple(starmap(WordStart, self._library.words))
        )


def is_installed() -> bool:
    """Return whether the package is there that contains eSpeak NG."""
    return find_spec("espeakng_loader") is not None


def _paths() -> tuple[str, Path]:
    """Return the library and the folder of its data.

    Raises
    ------
    InputError
        It is not installed, or does not load.
    """
    try:
        import espeakng_loader

        library, data = str(espeakng_loader.get_library_path()), Path(espeakng_loader.get_data_path())
        ctypes.CDLL(library)
    except (ImportError, OSError, RuntimeError) as error:
        what = f"this needs the synthesiser eSpeak NG, which does not load ({error})"
        raise InputError(what, with_extra("words")) from None
    return library, data


def _voices(listed: Iterable[tuple[str, Iterable[str], str]], data: Path) -> list[Voice]:
    named = (Voice(name, tuple(codes), file) for name, codes, file in listed)
    return [voice for voice in named if _dictionary(voice, data).is_file()]


def _dictionary(voice: Voice, data: Path) -> Path:
    """Return the compiled dictionary of a voice: the one that its file names, or else that of its language."""
    about = (data / "lang" / voice.file).read_text(encoding="utf-8")
    named = re.search(r"^dictionary\s+(\S+)", about, re.MULTILINE)
    return data / f"{named[1] if named else voice.languages[0].partition('-')[0]}_dict"


def foreign_script(text: str, language: str) -> bool:
    """Return whether a text has a letter that a language does not write: of a script that is neither its own nor Latin.

    Parameters
    ----------
    text : str
    language : str
        Its code, with or without an accent.
    """
    base = language.partition("-")[0]
    return any(base not in _READERS[script] for script in _scripts(text) if script in _READERS)


def in_own_script(text: str, language: str) -> bool:
    """Return whether some letters of a text are of a script that a language writes: its own, or else Latin."""
    return not _scripts(text).isdisjoint(scripts_of(language) or {LATIN})


def _scripts(text: str) -> set[str]:
    """Return the scripts of a text's letters, by the first words of their names."""
    return {unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha()}


def scripts_of(language: str) -> set[str]:
    """Return the scripts that a language writes, if it is one of those not in Latin letters."""
    base = language.partition("-")[0]
    return {script for script, languages in _READERS.items() if base in languages}


class IpaPhone(NamedTuple):
    """A phone made from a phoneme of eSpeak NG.

    Attributes
    ----------
    label : str
        In IPA.
    phoneme, last : int
        The indices of its first and last phoneme: a modifier is a phoneme of eSpeak NG, and part of the phone before.
    part, parts : int
        It is part number `part` of `parts` equal parts of that phoneme: a vowel with r is two phones.
    language : str
        The language that the phoneme belongs to.
    """

    label: str
    phoneme: int
    last: int
    part: int
    parts: int
    language: str


def ipa_phones(names: Sequence[str], language: str) -> list[IpaPhone]:
    """Return the phones of phonemes that eSpeak NG named in IPA.

    Pauses are left out. A phoneme that is only a modifier, such as ``ʲ``, is joined to the phone before it. A vowel and
    a consonant in one phoneme (``ɔːɹ``), or more than two vowels (``aɪɚ``), are divided.

    Parameters
    ----------
    names : sequence of str
        Without stress marks. ``(en)`` says that what follows is in another language.
    language : str
        The language of the first.
    """
    made: list[IpaPhone] = []
    joined = False  # whether the phoneme before was a phone
    for k, name in enumerate(names):
        if switch := _LANGUAGE.fullmatch(name):
            language = switch.group(1)
            continue
        labels = _labels(name, language.partition("-")[0])
        if labels and joined and _only_modifiers(labels[0]):
            made[-1] = made[-1]._replace(label=_with_modifier(made[-1].label, labels[0]), last=k)
            continue
        if labels and not _only_modifiers(labels[0]):
            made += [IpaPhone(label, k, k, part, len(labels), language) for part, label in enumerate(labels)]
        joined = bool(labels and made)
    return [*map(_in_coda, made, [*made[1:], None])]


def _in_coda(piece: IpaPhone, after: IpaPhone | None) -> IpaPhone:
    """Return a phone of Cantonese, whose stops are aspirated only before a vowel; those of others as they are."""
    if piece.language != "yue" or piece.label not in _UNRELEASED or (after and after.label[0] in _VOWELS):
        return piece
    return piece._replace(label=_UNRELEASED[piece.label])


@lru_cache(maxsize=4096)
def _labels(name: str, language: str) -> tuple[str, ...]:
    """Return the labels of one name: usually one, and none for a pause or a tone."""
    name = _OWN_NAMES.get(language, {}).get(name) or _NAMES.get(name, name)
    name = _UNNAMED.sub("", name.replace("nɡ", "ŋ").replace("?", "ʔ")).strip("_ˈˌ")
    name = _LENGTH_MARKS.sub("ː", name)
    letters = unicodedata.normalize("NFD", name).replace("c\u0327", "ç")
    letters = "".join(letter for letter in letters if letter not in TIES)  # most of its languages have none
    return tuple(unicodedata.normalize("NFC", part) for part in _PHONE.findall(letters))


def _with_modifier(label: str, modifier: str) -> str:
    """Return a label with a modifier after it; one that it has already is not doubled."""
    return label if label.endswith(modifier) else unicodedata.normalize("NFC", label + modifier)


def _only_modifiers(label: str) -> bool:
    return all(unicodedata.category(letter) in _MODIFIERS for letter in label)


class SpokenWord(NamedTuple):
    """A spoken word: the index of its first character in the text, its phones, and whether each is a native one.

    Foreign phones are those of a word that eSpeak NG reads in another language; `languages` are those read in.
    """

    character: int
    phones: tuple[str, ...]
    native: tuple[bool, ...]
    languages: frozenset[str]

    @property
    def own(self) -> list[str]:
        """The native phones."""
        return [phone for phone, native in zip(self.phones, self.native, strict=True) if native]


class Reader:
    """Reads texts in one language.

    Parameters
    ----------
    language : str
        A code or a name; see `speechctc.phones.languages.find_voice`.
    instead : str
        What to do without the language, for the message.

    Raises
    ------
    InputError
        eSpeak NG is not installed, or does not speak the language.
    """

    def __init__(self, language: str, instead: str = ALONE) -> None:
        self._process = _process()
        self._voice = find_voice(language, voices(), instead)
        self.language = self._voice.languages[0]
        self.note = alias_note(language, self._voice)
        self.dictionary = _dictionary(self._voice, _paths()[1])

    def read(self, text: str) -> list[SpokenWord]:
        """Return the words of a text in order; words that eSpeak NG joins ("of the") are one.

        Their characters are counted in the text as `readable` returns it.

        Raises
        ------
        InputError
            eSpeak NG fails at the text.
        """
        words, start = list[SpokenWord](), 0
        for piece in _pieces(readable(text).translate(_SAME_LETTERS.get(self.language.partition("-")[0], {}))):
            words += [word._replace(character=word.character + start) for word in self._read(piece)]
            start += len(piece)
        return words

    def _read(self, text: str) -> Iterator[SpokenWord]:
        names, found = self._process.read(self._voice.file, text)
        made = ipa_phones(names, self.language)
        starts = [WordStart(*each) for each in found] or [WordStart(0, 0)]
        ends = [word.phoneme for word in starts[1:]] + [len(names)]
        for start, end in zip(starts, ends, strict=True):
            inside = [piece for piece in made if start.phoneme <= piece.phoneme < end]
            if inside:
                labels = tuple(piece.label for piece in inside)
                native = tuple(piece.language in self._voice.languages for piece in inside)
                yield SpokenWord(start.character, labels, native, frozenset(piece.language for piece in inside))

    def can_read(self, word: str, languages: frozenset[str]) -> bool:
        """Return False for a word in a script that none of the languages it was read in writes.

        eSpeak NG names the letters of such words, or says "Chinese letter".
        """
        return not any(foreign_script(word, language) for language in languages)


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that eSpeak NG reads at once, as its time grows as the square of a text's length.

    A piece ends with a sentence if it can, else with a word.
    """
    while len(text) > LONGEST:
        ends = [*_SENTENCE.finditer(text, 0, LONGEST)]
        end = ends[-1].end() if ends else text.rfind(" ", 1, LONGEST) + 1 or LONGEST
        yield text[:end]
        text = text[end:]
    yield text


def readable(text: str) -> str:
    """Return a text as eSpeak NG reads it best.

    Letters with a dot below, which Unicode's NFC takes apart, are one: eSpeak NG spells words with two, or loses their
    vowels. Dandas and the marks of Arabic's script become those of Latin's, and a dot before a word written from the
    right a space. An apostrophe that is a letter, and accents between letters, become the plain one. Digraphs, wide
    letters and the ligatures of texts from PDF become letters. eSpeak NG says the names of some, and leaves some out.
    """
    if text.isascii() and text.isprintable():  # most words of a dictionary
        return _APOSTROPHE.sub("'", text) if "`" in text else text
    text = "".join(map(_plain, text))
    return _DOTTED.sub(lambda found: _WHOLE.get(found[0], " "), _APOSTROPHE.sub("'", text))


@lru_cache(maxsize=2**14)  # dictionaries have a million words of few letters
def _plain(letter: str) -> str:
    """Return a character that can be read: of ligatures, wide and mathematical letters the plain ones."""
    if any(each[0] <= letter <= each[1] for each in _FORMS):
        letter = unicodedata.normalize("NFKC", letter)
    return letter if len(letter) > 1 else _visible(letter)


def _visible(letter: str) -> str:
    """Return a character, or a space for a control character; characters without width are left out."""
    category = unicodedata.category(letter)
    return " " if category in ("Cc", "Zl", "Zp") else letter if category not in ("Cf", "Cs", "Co") else ""


@lru_cache(maxsize=1)
def _process() -> EspeakProcess:
    library, data = _paths()
    return EspeakProcess(library, str(data))


@lru_cache(maxsize=1)
def voices() -> tuple[Voice, ...]:
    """Return the voices of all languages, without variants."""
    return tuple(_voices(_process().voices(), _paths()[1]))


# Words of random letters to read: they have 98.5 % or more of the phones of transcripts, in each of 37 languages.
WORDS = 2000
NUMBERS = 120  # numbers are written in words that are real
AT_ONCE = 20  # words of a text
_MAX_LETTERS = 200  # of an alphabet; more are syllables or words
_MAX_NAME_PHONES = 10  # phones of the names of two letters; of a letter that a language lacks, a description is read
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
        A code or a name; see `speechctc.phones.languages.find_voice`.

    Returns
    -------
    tuple of str
        In alphabetical order.

    Raises
    ------
    InputError
        eSpeak NG is not installed, or does not speak the language.
    """
    reader = Reader(language, LISTED)
    words = [*map(str, range(NUMBERS)), *_words(_letters(reader))]
    found: set[str] = set()
    for k in range(0, len(words), AT_ONCE):
        for word in reader.read(" ".join(words[k : k + AT_ONCE])):
            found.update(word.own)
    return tuple(sorted(found))


def _words(letters: list[str]) -> Iterator[str]:
    """Yield each letter, and random words of four."""
    yield from letters
    if len(letters) > _MAX_LETTERS:
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
    ruled = _letters_with_rules(reader.dictionary)
    return sorted({*_LATIN, *(letter for letter in ruled if unicodedata.name(letter, "").startswith("LATIN"))})


def _letters_with_rules(dictionary: Path) -> set[str]:
    """Return the letters that a compiled dictionary of eSpeak NG has groups of rules for."""
    raw = dictionary.read_bytes()
    rules = raw[struct.unpack_from("<i", raw, 4)[0] :]
    return {letter.lower() for group in _GROUP.findall(rules) for letter in group.decode("utf-8", "ignore")}


def _is_read(reader: Reader, letter: str) -> bool:
    """Return whether a letter has a sound; one that the language does not have is named or spelt."""
    phones = [own for word in reader.read(letter * 2) for own in word.native]
    return 0 < len(phones) <= _MAX_NAME_PHONES and all(phones)
