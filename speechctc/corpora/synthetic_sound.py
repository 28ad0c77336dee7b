"""Synthetic corpora: voices of eSpeak NG that speak in a process of their own, and recordings of speech.

Recordings are resampled, scaled, and put between silences with a little noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import resampling
from speechctc.core.errors import InputError
from speechctc.core.workers import WorkerEnded, in_processes
from speechctc.phones.espeak import Speech, Synthesiser, find_voice

RATE = 16000  # of the recordings, Hz, as in TIMIT
QUIET_MS = (100, 250)  # silence before and after each sentence
AHEAD = 4  # speakers whose speech may wait in memory


class Part(NamedTuple):
    """What a speaker of eSpeak NG speaks, and how.

    Attributes
    ----------
    variant : str
        Variant of eSpeak NG.
    words_per_minute, pitch : int
    texts : tuple of str
    language : str or None
        As in a config; None: American English, with eSpeak NG's own phonemes instead of IPA.
    """

    variant: str
    words_per_minute: int
    pitch: int
    texts: tuple[str, ...]
    language: str | None = None


class Spoken(NamedTuple):
    """The speech of one speaker, with samples at `rate`, Hz, and the codes of its language."""

    version: str
    rate: int
    codes: tuple[str, ...]
    speech: list[Speech]


def spoken(parts: Sequence[Part], name: str) -> Iterator[Spoken]:
    """Yield what the speakers speak; a new process does, because only its first speech is reproducible.

    Parameters
    ----------
    parts : sequence of Part
    name : str
        What a message calls the corpus.

    Raises
    ------
    InputError
        eSpeak NG is not installed or lacks a language, or the process was ended from outside.
    """
    Synthesiser.check()
    try:
        with in_processes(_speak, parts, 1, most=AHEAD) as results:
            for result in results:
                if isinstance(result, InputError):
                    raise result
                yield result
    except WorkerEnded:
        raise InputError(f"the process that speaks the {name} was ended from outside", "run it again") from None


@lru_cache(maxsize=1)
def _synthesiser(ipa: bool) -> Synthesiser:
    synthesiser = Synthesiser(ipa=True) if ipa else Synthesiser()
    synthesiser.seed(1)
    return synthesiser


def _speak(part: Part) -> Spoken | InputError:
    """Let one speaker speak, in the process that speaks; an exception would lose its kind on the way."""
    try:
        synthesiser = _synthesiser(part.language is not None)
        if part.language is None:
            synthesiser.choose(part.variant, part.words_per_minute, part.pitch)
            codes: tuple[str, ...] = ()
        else:
            voice = find_voice(part.language, synthesiser.voices())
            synthesiser.choose(part.variant, part.words_per_minute, part.pitch, voice.file)
            codes = voice.languages
        speech = [synthesiser.speak(text) for text in part.texts]
    except InputError as error:
        return error
    return Spoken(synthesiser.version, synthesiser.rate, codes, speech)


def write_recording(path: Path, recording: NDArray[np.int16]) -> None:
    """Write a recording in the format of its ending, .flac or .WAV, 16 bits; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, recording, RATE, subtype="PCM_16", format=path.suffix[1:].upper())


def record(
    samples: NDArray[np.int16], rate: int, end: int, level: float, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], int]:
    """Return a recording of a sentence, and how many of its samples are before the sentence.

    The sentence is scaled to the level of the voice and put between silences. A little noise is added, because no room
    is as silent as a synthesiser.

    Parameters
    ----------
    samples : ndarray, int16, shape = (n,)
    rate : int
        Their rate, Hz.
    end : int
        The sample at which the speech ends.
    level : float
        RMS of the speech, dB of full scale.
    noise_db : float
        RMS of the noise, dB of full scale.
    rng : Generator
    """
    before, after = (int(RATE * rng.uniform(*QUIET_MS) / 1000) for _ in range(2))
    length = before + round(end * RATE / rate) + after
    recording = rng.standard_normal(length, np.float32) * np.float32(10 ** (noise_db / 20))
    sound = resampling.resample(np.divide(samples, 2**15, dtype=np.float32), rate, RATE)[: length - before]
    gain = 10 ** (level / 20) / float(np.sqrt(np.mean(sound**2)))
    recording[before : before + len(sound)] += sound * min(gain, 0.95 / float(np.abs(sound).max()))
    return np.clip(np.round(recording * 2**15), -(2**15), 2**15 - 1).astype(np.int16), before


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: resampling a sentence then takes 2 ms, and with several threads on busy cores 90."""
    import torch  # late: reading an existing corpus does not need it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
