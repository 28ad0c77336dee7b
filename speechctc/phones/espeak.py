"""eSpeak NG through ctypes: its languages, its speech with the time of every phoneme, and its phones in IPA.

The library has one state for the whole process, and some of it is kept between calls, such as the phase of a voice's
flutter. So speech is the same to the bit only from a new process with the same calls in the same order. The library
is not thread-safe.
"""

from __future__ import annotations

import ctypes
import random
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char, c_char_p, c_int, c_long, c_short, c_size_t, c_ubyte, c_uint, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import count, takewhile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError, with_extra
from speechctc.phones.articulation import SOUNDS
from speechctc.phones.inventory import TABLES, TIES, pairs
from speechctc.phones.languages import ALONE, LISTED, Voice, alias_note, find_voice

# of speak_lib.h
_SYNCHRONOUS, _PHONEME_EVENTS, _PHONEME_IPA, _UTF8 = 2, 1, 2, 1
_END_OF_LIST, _WORD, _PHONEME = 0, 1, 7
_RATE, _PITCH = 1, 3
_MAX_CHOICES = 20  # voices in a row without speech: with 28, the queue of the library drops the first phoneme
_STRESS = {False: "',%=", True: "ˈˌ"}  # marks before a name, by `ipa`

_INDIC = map(chr, range(0x900, 0xE00))
_WHOLE = {parts: letter for letter in _INDIC if len(parts := unicodedata.normalize("NFC", letter)) == 2}
_WHOLE |= dict(zip("।॥۔،؛؟", "...,;?", strict=True))
_DOTTED = re.compile("|".join(_WHOLE) + r"|(?<!\S)\.(?=[ؠ-ۓ])")

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

FAST = 400  # words a minute: speech is made only for its phonemes, which do not depend on the rate


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


class _Id(ctypes.Union):
    _fields_ = [("number", c_int), ("name", c_char_p), ("string", c_char * 8)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", c_int), ("unique_identifier", c_uint), ("text_position", c_int), ("length", c_int),
        ("audio_position", c_int), ("sample", c_int), ("user_data", c_void_p), ("id", _Id),
    ]  # fmt: skip


class _Voice(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p), ("languages", c_void_p), ("identifier", c_char_p), ("gender", c_ubyte), ("age", c_ubyte),
        ("variant", c_ubyte), ("reserved", c_ubyte), ("score", c_int), ("spare", c_void_p),
    ]  # fmt: skip


_Callback = ctypes.CFUNCTYPE(c_int, POINTER(c_short), c_int, POINTER(_Event))


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

    # The synthesiser that the library works for: it has one voice and one callback.
    _active: ClassVar[Synthesiser | None] = None
    _choices: ClassVar[int] = 0  # how many voices were chosen since the library spoke

    def __init__(self, ipa: bool = False) -> None:
        self._library, self.data = _load()
        self._options = _PHONEME_EVENTS | (_PHONEME_IPA if ipa else 0)
        self._callback = _Callback(self._receive)  # kept, because the library has only its address
        self._choice: tuple[str, int, int] | None = None
        self.rate = 0
        self._activate()
        self.version = str(self._library.espeak_Info(None).decode()).split()[0]
        self._stress = _STRESS[ipa]
        self._variants = self.data / "voices" / "!v"
        self._blocks: list[NDArray[np.int16]] = []
        self._phonemes: list[Phoneme] = []
        self._words: list[WordStart] = []
        self._keep = True

    def _activate(self) -> None:
        """Take over the library from another synthesiser of this process."""
        if Synthesiser._active is self:
            return
        self.rate = int(self._library.espeak_Initialize(_SYNCHRONOUS, 0, str(self.data).encode(), self._options))
        if self.rate <= 0:
            raise InputError(f"eSpeak NG does not start with its data in {self.data}", "reinstall espeakng-loader")
        self._library.espeak_SetSynthCallback(self._callback)
        Synthesiser._active = self
        if self._choice is not None:
            self._set(*self._choice)

    @staticmethod
    def check() -> None:
        """Raise `InputError` if eSpeak NG is not installed."""
        _load()

    def voices(self) -> list[Voice]:
        """Return the voices of all languages, without variants; without those whose dictionary is not there."""
        listed = self._library.espeak_ListVoices(None)
        found = (each.contents for each in takewhile(bool, (listed[k] for k in count())))
        named = (Voice(each.name.decode(), tuple(_codes(each.languages)), each.identifier.decode()) for each in found)
        return [voice for voice in named if self.dictionary(voice).is_file()]

    def dictionary(self, voice: Voice) -> Path:
        """Return the compiled dictionary of a voice: the one that its file names, or else that of its language."""
        about = (self.data / "lang" / voice.file).read_text(encoding="utf-8")
        named = re.search(r"^dictionary\s+(\S+)", about, re.MULTILINE)
        return self.data / f"{named[1] if named else voice.languages[0].partition('-')[0]}_dict"

    def seed(self, number: int) -> None:
        """Seed the noise of breathy voices."""
        self._library.espeak_ng_SetRandSeed(c_long(number))

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
        self._activate()
        if missing or not self._set(name, words_per_minute, pitch):
            raise InputError(f"eSpeak NG {self.version} has no voice {name}", "install espeakng-loader 0.2.4")
        self._choice = (name, words_per_minute, pitch)
        Synthesiser._choices += 1
        if Synthesiser._choices == _MAX_CHOICES:
            self.speak("", keep=False)

    def _set(self, name: str, words_per_minute: int, pitch: int) -> bool:
        """Set a voice, a rate and a pitch; return whether there is such a voice."""
        if self._library.espeak_SetVoiceByName(name.encode()):
            return False
        self._library.espeak_SetParameter(_RATE, words_per_minute, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)
        return True

    def speak(self, text: str, keep: bool = True) -> Speech:
        """Speak a text without control characters; without `keep`, samples are not kept."""
        self._activate()
        Synthesiser._choices = 0
        self._blocks, self._phonemes, self._words, self._keep = [], [], [], keep
        encoded = text.encode()
        if self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _UTF8, None, None):
            raise RuntimeError(f"eSpeak NG could not speak {text!r}")
        samples = np.concatenate(self._blocks) if self._blocks else np.zeros(0, np.int16)
        return Speech(samples, tuple(self._phonemes), tuple(self._words))

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        """Keep a block of samples and its events; 0 asks for more."""
        if self._keep and samples and count > 0:
            self._blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        k = 0
        while events[k].type != _END_OF_LIST:
            if events[k].type == _PHONEME:
                # a name of more than 8 bytes is cut, perhaps inside a character
                name = bytes(events[k].id.string).decode(errors="ignore").lstrip(self._stress)
                self._phonemes.append(Phoneme(events[k].sample, name))
            elif events[k].type == _WORD:
                self._words.append(WordStart(events[k].text_position - 1, len(self._phonemes)))
            k += 1
        return 0


def _codes(address: int) -> Iterator[str]:
    """Yield the codes of a voice's languages: each is preceded by a byte of priority, and a 0 ends the list."""
    while address and ctypes.string_at(address, 1) != b"\0":
        code = ctypes.string_at(address + 1)
        yield code.decode()
        address += len(code) + 2


def is_installed() -> bool:
    """Return whether the package is there that contains eSpeak NG."""
    return find_spec("espeakng_loader") is not None


def _load() -> tuple[ctypes.CDLL, Path]:
    """Return the library and the folder of its data."""
    try:
        import espeakng_loader

        library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = Path(espeakng_loader.get_data_path())
    except (ImportError, OSError, RuntimeError) as error:
        what = f"this needs the synthesiser eSpeak NG, which does not load ({error})"
        raise InputError(what, with_extra("words")) from None
    library.espeak_Info.restype = c_char_p
    library.espeak_Info.argtypes = [c_void_p]
    library.espeak_ListVoices.restype = POINTER(POINTER(_Voice))
    library.espeak_ListVoices.argtypes = [c_void_p]
    library.espeak_ng_SetRandSeed.argtypes = [c_long]
    library.espeak_Synth.argtypes = [c_char_p, c_size_t, c_uint, c_int, c_uint, c_uint, c_void_p, c_void_p]
    return library, data


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
        self._speaker = _speaker()
        self._voice = find_voice(language, voices(), instead)
        self.language = self._voice.languages[0]
        self.note = alias_note(language, self._voice)
        self.dictionary = self._speaker.dictionary(self._voice)

    def read(self, text: str) -> list[SpokenWord]:
        """Return the words of a text in order; words that eSpeak NG joins ("of the") are one.

        Their characters are counted in the text as `readable` returns it.
        """
        _choose(self._voice.file)
        speech = self._speaker.speak(readable(text), keep=False)
        made = ipa_phones([phoneme.name for phoneme in speech.phonemes], self.language)
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


def readable(text: str) -> str:
    """Return a text as eSpeak NG reads it best.

    Letters with a dot below, which Unicode's NFC takes apart, are one: eSpeak NG spells words with two, or loses their
    vowels. Dandas and the marks of Arabic's script become those of Latin's, and a dot before a word written from the
    right a space: eSpeak NG says the names of some.
    """
    return _DOTTED.sub(lambda found: _WHOLE.get(found[0], " "), "".join(map(_visible, text)))


def _visible(letter: str) -> str:
    """Return a character, or a space for a control character; characters without width are left out."""
    category = unicodedata.category(letter)
    return " " if category in ("Cc", "Zl", "Zp") else letter if category not in ("Cf", "Cs", "Co") else ""


@lru_cache(maxsize=1)
def _speaker() -> Synthesiser:
    return Synthesiser(ipa=True)


@lru_cache(maxsize=1)
def voices() -> tuple[Voice, ...]:
    """Return the voices of all languages, without variants."""
    return tuple(_speaker().voices())


_chosen = [""]  # the voice of the one library of this process


def _choose(voice: str) -> None:
    """Choose a voice, unless it is chosen already: each time eSpeak NG reads its dictionary from disk."""
    if _chosen[0] != voice:
        _speaker().choose("", FAST, 50, voice)
        _chosen[0] = voice


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
