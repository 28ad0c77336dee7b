"""eSpeak NG through ctypes: speaks text and gives the time of every phoneme.

The library has one state for the whole process, and some of it is kept between calls, such as the phase of a voice's
flutter. So speech is the same to the bit only from a new process with the same calls in the same order. The library
is not thread-safe.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_long, c_short, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.errors import InputError

# of speak_lib.h
_SYNCHRONOUS, _PHONEME_EVENTS, _UTF8 = 2, 1, 1
_END_OF_LIST, _PHONEME = 0, 7
_RATE, _PITCH = 1, 3


class Phoneme(NamedTuple):
    """The sample at which a phoneme starts, and its name in eSpeak NG without stress marks."""

    sample: int
    name: str


@dataclass(frozen=True)
class Speech:
    """A spoken sentence.

    Attributes
    ----------
    samples : ndarray, int16, shape = (n,)
        At the rate `Synthesiser.rate`.
    phonemes : tuple of Phoneme
        Each lasts until the start of the next one, and the last until the end.
    """

    samples: NDArray[np.int16]
    phonemes: tuple[Phoneme, ...]


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


_Callback = ctypes.CFUNCTYPE(c_int, POINTER(c_short), c_int, POINTER(_Event))


class Synthesiser:
    """eSpeak NG in this process.

    Raises
    ------
    InputError
        The package espeakng-loader, which contains the library and its voices, is not installed or does not load.
    """

    def __init__(self) -> None:
        self._library, data = _load()
        self.rate = int(self._library.espeak_Initialize(_SYNCHRONOUS, 0, str(data).encode(), _PHONEME_EVENTS))
        if self.rate <= 0:
            raise InputError(f"eSpeak NG does not start with its data in {data}", "reinstall espeakng-loader")
        self.version = str(self._library.espeak_Info(None).decode()).split()[0]
        self._variants = data / "voices" / "!v"
        self._blocks: list[NDArray[np.int16]] = []
        self._phonemes: list[Phoneme] = []
        self._callback = _Callback(self._receive)  # kept, because the library has only its address
        self._library.espeak_SetSynthCallback(self._callback)

    @staticmethod
    def check() -> None:
        """Raise `InputError` if eSpeak NG is not installed."""
        _load()

    def seed(self, number: int) -> None:
        """Seed the noise of breathy voices."""
        self._library.espeak_ng_SetRandSeed(c_long(number))

    def choose(self, variant: str, words_per_minute: int, pitch: int) -> None:
        """Choose the voice for American English.

        Parameters
        ----------
        variant : str
            The part after the plus sign, as in ``en-us+f3``.
        words_per_minute : int
            80 to 450.
        pitch : int
            0 to 99; 50 is the default of the variant.
        """
        name = f"en-us+{variant}"
        # eSpeak NG ignores a variant that does not exist
        if not (self._variants / variant).is_file() or self._library.espeak_SetVoiceByName(name.encode()):
            raise InputError(f"eSpeak NG {self.version} has no voice {name}", "install espeakng-loader 0.2.4")
        self._library.espeak_SetParameter(_RATE, words_per_minute, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)

    def speak(self, text: str) -> Speech:
        """Speak a sentence of plain ASCII."""
        self._blocks, self._phonemes = [], []
        encoded = text.encode("ascii")
        if self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _UTF8, None, None):
            raise RuntimeError(f"eSpeak NG could not speak {text!r}")
        return Speech(np.concatenate(self._blocks), tuple(self._phonemes))

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        """Keep a block of samples and its events; 0 asks for more."""
        if samples and count > 0:
            self._blocks.append(np.ctypeslib.as_array(samples, (count,)).copy())
        k = 0
        while events[k].type != _END_OF_LIST:
            if events[k].type == _PHONEME:
                name = bytes(events[k].id.string).decode().lstrip("',%=")
                self._phonemes.append(Phoneme(events[k].sample, name))
            k += 1
        return 0


def _load() -> tuple[ctypes.CDLL, Path]:
    """Return the library and the folder of its data."""
    try:
        import espeakng_loader

        library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = Path(espeakng_loader.get_data_path())
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"the demo corpus is spoken by eSpeak NG, which does not load ({error})", "pip install 'speechctc[demo]'"
        ) from None
    library.espeak_Info.restype = c_char_p
    library.espeak_Info.argtypes = [c_void_p]
    library.espeak_ng_SetRandSeed.argtypes = [c_long]
    library.espeak_Synth.argtypes = [c_char_p, c_size_t, c_uint, c_int, c_uint, c_uint, c_void_p, c_void_p]
    return library, data
