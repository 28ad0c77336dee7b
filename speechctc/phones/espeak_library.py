"""eSpeak NG through ctypes; and, run as a program, a process that reads texts with it and that may die of them.

The library writes past its buffers at some texts, and takes time that grows as the square of others: then this process
ends, and not the one that asked it. It loads nothing but the standard library, so that it starts at once. A line of
JSON asks and a line answers: no code of a process that was damaged is run by the one that asked.

The library has one state for the whole process, and some of it is kept between calls, such as the phase of a voice's
flutter. So speech is the same to the bit only from a new process with the same calls in the same order. The library
is not thread-safe.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_char, c_char_p, c_int, c_long, c_short, c_size_t, c_ubyte, c_uint, c_void_p
from itertools import count, takewhile
from typing import Any, ClassVar

# of speak_lib.h
_SYNCHRONOUS, _PHONEME_EVENTS, _PHONEME_IPA, _UTF8 = 2, 1, 2, 1
_END_OF_LIST, _WORD, _PHONEME = 0, 1, 7
_RATE, _PITCH = 1, 3
_MAX_CHOICES = 20  # voices in a row without speech: with 28, the queue of the library drops the first phoneme
_STRESS = {False: "',%=", True: "ˈˌ"}  # marks before a name, by `ipa`

FAST = 400  # words a minute: speech is made only for its phonemes, which do not depend on the rate


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


class Library:
    """eSpeak NG in this process.

    Parameters
    ----------
    path, data : str
        The library, and the folder of its data.
    ipa : bool
        Name phonemes in IPA, and not as eSpeak NG's own mnemonics.

    Attributes
    ----------
    rate : int
        Of the samples, Hz; 0 if the library does not start with its data.
    version : str
    samples : list of bytes
        What was spoken last, in pieces: 16 bits in the machine's order.
    phonemes : list of (int, str)
        Of it: the sample at which each starts, and its name without stress marks.
    words : list of (int, int)
        Of it: the index of each word's first character in the text, and of its first phoneme.
    """

    # The one that the library works for: it has one voice and one callback.
    _active: ClassVar[Library | None] = None
    _choices: ClassVar[int] = 0  # how many voices were chosen since the library spoke

    def __init__(self, path: str, data: str, ipa: bool) -> None:
        self._library, self._data = _load(path), data
        self._options = _PHONEME_EVENTS | (_PHONEME_IPA if ipa else 0)
        self._callback = _Callback(self._receive)  # kept, because the library has only its address
        self._choice: tuple[str, int, int] | None = None
        self._stress, self._keep = _STRESS[ipa], True
        self.rate = 0
        self.samples: list[bytes] = []
        self.phonemes: list[tuple[int, str]] = []
        self.words: list[tuple[int, int]] = []
        self._activate()
        self.version = str(self._library.espeak_Info(None).decode()).split()[0]

    def _activate(self) -> None:
        """Take over the library from another one of this process."""
        if Library._active is self:
            return
        self.rate = int(self._library.espeak_Initialize(_SYNCHRONOUS, 0, self._data.encode(), self._options))
        if self.rate <= 0:
            self.rate = 0
            return
        self._library.espeak_SetSynthCallback(self._callback)
        Library._active = self
        if self._choice is not None:
            self._set(*self._choice)

    def voices(self) -> list[tuple[str, list[str], str]]:
        """Return name, codes of languages and file of each voice without variants."""
        listed = self._library.espeak_ListVoices(None)
        found = (each.contents for each in takewhile(bool, (listed[k] for k in count())))
        return [(each.name.decode(), [*_codes(each.languages)], each.identifier.decode()) for each in found]

    def seed(self, number: int) -> None:
        """Seed the noise of breathy voices."""
        self._library.espeak_ng_SetRandSeed(c_long(number))

    def choose(self, name: str, words_per_minute: int, pitch: int) -> bool:
        """Choose a voice, a rate and a pitch; return whether there is such a voice."""
        self._activate()
        if not self._set(name, words_per_minute, pitch):
            return False
        self._choice = (name, words_per_minute, pitch)
        Library._choices += 1
        if Library._choices == _MAX_CHOICES:
            self.speak("", keep=False)
        return True

    def _set(self, name: str, words_per_minute: int, pitch: int) -> bool:
        if self._library.espeak_SetVoiceByName(name.encode()):
            return False
        self._library.espeak_SetParameter(_RATE, words_per_minute, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)
        return True

    def speak(self, text: str, keep: bool = True) -> None:
        """Speak a text without control characters; without `keep`, samples are not kept."""
        self._activate()
        Library._choices = 0
        self.samples, self.phonemes, self.words, self._keep = [], [], [], keep
        encoded = text.encode()
        if self._library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _UTF8, None, None):
            raise RuntimeError(f"eSpeak NG could not speak {text!r}")

    def _receive(self, samples: Any, count: int, events: Any) -> int:
        """Keep a block of samples and its events; 0 asks for more."""
        if self._keep and samples and count > 0:
            self.samples.append(ctypes.string_at(samples, 2 * count))
        k = 0
        while events[k].type != _END_OF_LIST:
            if events[k].type == _PHONEME:
                # a name of more than 8 bytes is cut, perhaps inside a character
                name = bytes(events[k].id.string).decode(errors="ignore").lstrip(self._stress)
                self.phonemes.append((events[k].sample, name))
            elif events[k].type == _WORD:
                self.words.append((events[k].text_position - 1, len(self.phonemes)))
            k += 1
        return 0


def _codes(address: int) -> Iterator[str]:
    """Yield the codes of a voice's languages: each is preceded by a byte of priority, and a 0 ends the list."""
    while address and ctypes.string_at(address, 1) != b"\0":
        code = ctypes.string_at(address + 1)
        yield code.decode()
        address += len(code) + 2


def _load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    library.espeak_Info.restype = c_char_p
    library.espeak_Info.argtypes = [c_void_p]
    library.espeak_ListVoices.restype = POINTER(POINTER(_Voice))
    library.espeak_ListVoices.argtypes = [c_void_p]
    library.espeak_ng_SetRandSeed.argtypes = [c_long]
    library.espeak_Synth.argtypes = [c_char_p, c_size_t, c_uint, c_int, c_uint, c_uint, c_void_p, c_void_p]
    return library


def serve(path: str, data: str) -> None:
    """Answer lines of standard input: ``null`` with the voices, ``[VOICE, TEXT]`` with phonemes and words.

    The answer is ``null`` where there is no such voice. The first line that is written is the version of eSpeak NG;
    ``""`` if it does not start.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, with which this one ends
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library, chosen = Library(path, data, ipa=True), ""
    _answer(library.version if library.rate else "")
    for line in sys.stdin.buffer:
        if (asked := json.loads(line)) is None:
            _answer(library.voices())
            continue
        voice, text = asked
        if voice != chosen:  # each time eSpeak NG reads its dictionary from disk
            chosen = voice if library.choose(voice, FAST, 50) else ""
        if not chosen:
            _answer(None)
            continue
        library.speak(text, keep=False)
        _answer([[name for _, name in library.phonemes], library.words])


def _answer(value: Any) -> None:
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:])
