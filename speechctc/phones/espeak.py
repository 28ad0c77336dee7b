"""eSpeak NG through ctypes: speaks text in any of its languages and gives the time of every phoneme.

The library has one state for the whole process, and some of it is kept between calls, such as the phase of a voice's
flutter. So speech is the same to the bit only from a new process with the same calls in the same order. The library
is not thread-safe.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, c_char, c_char_p, c_int, c_long, c_short, c_size_t, c_ubyte, c_uint, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError

# of speak_lib.h
_SYNCHRONOUS, _PHONEME_EVENTS, _PHONEME_IPA, _UTF8 = 2, 1, 2, 1
_END_OF_LIST, _WORD, _PHONEME = 0, 1, 7
_RATE, _PITCH = 1, 3
_MOST_CHOICES = 20  # voices in a row without speech: with 28, the queue of the library drops the first phoneme
_STRESS = {False: "',%=", True: "ˈˌ"}  # marks before a name, by `ipa`


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
        ("type", c_int),
        ("unique_identifier", c_uint),
        ("text_position", c_int),
        ("length", c_int),
        ("audio_position", c_int),
        ("sample", c_int),
        ("user_data", c_void_p),
        ("id", _Id),
    ]


class _Voice(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("languages", c_void_p),
        ("identifier", c_char_p),
        ("gender", c_ubyte),
        ("age", c_ubyte),
        ("variant", c_ubyte),
        ("reserved", c_ubyte),
        ("score", c_int),
        ("spare", c_void_p),
    ]


class Voice(NamedTuple):
    """A voice of eSpeak NG: its name, the codes of its languages, the best first, and its file."""

    name: str
    languages: tuple[str, ...]
    file: str


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

    _active: ClassVar[Synthesiser | None] = None
    """The synthesiser that the library works for: it has one voice and one callback."""
    _choices: ClassVar[int] = 0
    """How many voices were chosen since the library spoke."""

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
        """Return the voices of all languages, without variants."""
        return list(self._voices())

    def _voices(self) -> Iterator[Voice]:
        listed = self._library.espeak_ListVoices(None)
        k = 0
        while listed[k]:
            voice = listed[k].contents
            yield Voice(voice.name.decode(), tuple(_codes(voice.languages)), voice.identifier.decode())
            k += 1

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
        if Synthesiser._choices == _MOST_CHOICES:
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


def _load() -> tuple[ctypes.CDLL, Path]:
    """Return the library and the folder of its data."""
    try:
        import espeakng_loader

        library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = Path(espeakng_loader.get_data_path())
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"this needs the synthesiser eSpeak NG, which does not load ({error})", "pip install 'speechctc[words]'"
        ) from None
    library.espeak_Info.restype = c_char_p
    library.espeak_Info.argtypes = [c_void_p]
    library.espeak_ListVoices.restype = POINTER(POINTER(_Voice))
    library.espeak_ListVoices.argtypes = [c_void_p]
    library.espeak_ng_SetRandSeed.argtypes = [c_long]
    library.espeak_Synth.argtypes = [c_char_p, c_size_t, c_uint, c_int, c_uint, c_uint, c_void_p, c_void_p]
    return library, data
