"""The voices of flite, a free synthesiser of English, and the speech that it makes with them.

flite joins or models pieces of recordings of a person, where eSpeak NG computes formants. So a net hears in it more of
what real speech is like.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.core.errors import InputError

PITCH = {"awb": 130.0, "rms": 110.0, "slt": 170.0, "kal16": 105.0}  # Hz, of each voice with 16 kHz and any text
SILENCES = frozenset(("pau", "ssil", "brth", "h#"))
CMU = {"ax": "ah", "axr": "er"}
INSTALL = "install flite (Debian, Ubuntu: apt install flite; macOS: brew install flite)"
SECONDS = 60  # that a sentence may take


class Speech(NamedTuple):
    """Speech as samples at `rate`, Hz, with its phones (those of the CMU dictionary) and their times, in seconds."""

    samples: NDArray[np.int16]
    rate: int
    phones: tuple[str, ...]
    times: tuple[tuple[float, float], ...]


def find_voices() -> tuple[str, ...]:
    """Return the known voices that the installed flite has.

    Raises
    ------
    InputError
        It is not installed, or has none of them.
    """
    listed = _run("-lv").partition(":")[2].split()
    found = tuple(voice for voice in PITCH if voice in listed)
    if not found:
        raise InputError(f"flite has none of the voices {', '.join(PITCH)}", INSTALL)
    return found


def speak(text: str, voice: str, stretch: float, pitch: float) -> Speech:
    """Let flite speak.

    Parameters
    ----------
    text : str
    voice : str
    stretch : float
        Durations, in multiples of the voice's own.
    pitch : float
        Mean pitch, in multiples of the voice's own.

    Raises
    ------
    InputError
        flite is not installed, or failed.
    """
    settings = {"duration_stretch": f"{stretch:.3f}", "int_f0_target_mean": f"{PITCH[voice] * pitch:.1f}"}
    options = [word for key, value in settings.items() for word in ("--setf", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        durations = _run("-voice", voice, *options, "-t", text, "-psdur", "-o", str(path))
        samples, rate = soundfile.read(path, dtype="int16")
    return Speech(samples, rate, *_phones(durations))


def _run(*arguments: str) -> str:
    program = shutil.which("flite")
    if program is None:
        raise InputError("flite is not installed, and corpus.kind is flite", INSTALL)
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"flite failed ({error})", "try it alone: flite -t hello hello.wav") from None
    return done.stdout


def _phones(durations: str) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Return the phones and times of flite's list of ``label:end``, without its silences."""
    phones, times, start = [], [], 0.0
    for item in durations.split():
        label, _, last = item.rpartition(":")
        end = float(last)
        if label not in SILENCES:
            phones.append(CMU.get(label, label))
            times.append((start, end))
        start = end
    return tuple(phones), tuple(times)
