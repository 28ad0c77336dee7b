"""A corpus of English that flite speaks, with the phones of the CMU dictionary and their times.

flite, a free synthesiser of English, joins or models pieces of recordings of a person, where eSpeak NG computes
formants: its speech is nearer to what people's is like.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from pathlib import Path

import soundfile

from speechctc.audio.annotations import Interval
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus
from speechctc.corpora.synthetic import (
    Speaker,
    Speech,
    Synthesis,
    bundled_sentences,
    read_sentences,
    read_synthetic,
    sample_speakers,
)

PROCESSES = 2  # of flite at a time

PITCH = {"awb": 130.0, "rms": 110.0, "slt": 170.0, "kal16": 105.0}  # Hz, of each voice with 16 kHz and any text
SILENCES = frozenset(("pau", "ssil", "brth", "h#"))
CMU = {"ax": "ah", "axr": "er"}
INSTALL = "install flite (Debian, Ubuntu: apt install flite; macOS: brew install flite)"
TIMEOUT = 60  # seconds that a sentence may take


def read_flite(root: Path, config: CorpusConfig) -> Corpus:
    """Read the corpus of a config; it is made first if it does not exist.

    Raises
    ------
    InputError
        As `speechctc.corpora.synthetic.read_synthetic`; or flite is not installed, or its text cannot be read.
    """
    settings = config.flite
    if settings.text is None:
        sentences = [each for each in bundled_sentences() if len(each.split()) >= settings.words[0]]
    else:
        sentences = read_sentences(settings.text, settings.words)
    facts: dict[str, list[str]] = {}

    def speak_all() -> Iterator[tuple[Speaker, Iterator[Speech]]]:
        facts["voices"] = list(find_voices())
        turns = {split: cycle((voice,) for voice in facts["voices"]) for split in SPLITS}
        with ThreadPoolExecutor(PROCESSES) as pool:
            for speaker in sample_speakers(settings, sentences, turns, settings.stretch, settings.pitch):
                how = partial(speak, voice=speaker.voice[0], stretch=speaker.rate, pitch=speaker.pitch)
                yield speaker, pool.map(how, speaker.texts.values())

    return read_synthetic(root, config, Synthesis("corpus of flite", settings, sentences, speak_all, facts=facts))


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
    phones = _phones(durations, rate)
    return Speech(samples, rate, phones[-1].end if phones else 0, phones)


def _run(*arguments: str) -> str:
    program = shutil.which("flite")
    if program is None:
        raise InputError("flite is not installed, and corpus.kind is flite", INSTALL)
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"flite failed ({error})", "try it alone: flite -t hello hello.wav") from None
    return done.stdout


def _phones(durations: str, rate: int) -> list[Interval]:
    """Return the phones of flite's list of ``label:end``, in samples, without its silences."""
    phones, start = [], 0.0
    for item in durations.split():
        label, _, seconds = item.rpartition(":")
        end = float(seconds) * rate
        if label not in SILENCES:
            phones.append(Interval(start, end, CMU.get(label, label)))
        start = end
    return phones
