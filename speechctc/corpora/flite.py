"""Makes a corpus of English that flite speaks, with the phones of the CMU dictionary and their times, and reads it.

The folder is laid out as that of `speechctc.corpora.espeak`; ``flite.json`` has the settings it was made with.

The voices of flite, a free synthesiser of English, and the speech that it makes with them. flite joins or models pieces
of recordings of a person, where eSpeak NG computes formants. So a net hears in it more of what real speech is like.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.config.corpus_config import CorpusConfig, FliteConfig
from speechctc.core.errors import InputError
from speechctc.corpora import synthetic
from speechctc.corpora.corpus import SPLITS, Corpus, note_text
from speechctc.corpora.corpus_builder import CorpusBuilder

MARKER = "flite.json"
TOGETHER = 2  # processes of flite at a time

PITCH = {"awb": 130.0, "rms": 110.0, "slt": 170.0, "kal16": 105.0}  # Hz, of each voice with 16 kHz and any text
SILENCES = frozenset(("pau", "ssil", "brth", "h#"))
CMU = {"ax": "ah", "axr": "er"}
INSTALL = "install flite (Debian, Ubuntu: apt install flite; macOS: brew install flite)"
SECONDS = 60  # that a sentence may take


class Line(NamedTuple):
    """What is spoken, by whom and how."""

    split: str
    speaker: str
    voice: str
    stretch: float
    pitch: float
    level: float
    text: str


def read_flite(root: Path, config: CorpusConfig) -> Corpus:
    """Read the corpus of a config; it is made first if it does not exist.

    Raises
    ------
    InputError
        flite is not installed, its text cannot be read, the folder has other files or a corpus of another config, or
        utterances are missing.
    """
    flite = config.flite
    if flite.text is None:
        sentences = [each for each in synthetic.sentences() if len(each.split()) >= flite.words[0]]
    else:
        sentences = synthetic.read_sentences(flite.text, flite.words)
    wanted = synthetic.fingerprint(flite, sentences)
    about = synthetic.make_once(
        root, MARKER, "corpus of flite", wanted, lambda folder: _make_whole(folder, flite, sentences, wanted)
    )
    builder = CorpusBuilder.for_config(config)

    def write(phones: Sequence[str], times: synthetic.Times) -> tuple[tuple[str, ...], synthetic.Times]:
        labels, kept = builder.labels(phones)
        return tuple(labels), tuple(times[k] for k in kept)

    builder.utterances = synthetic.read_utterances(root, about, write)
    facts = {"utterances": about["utterances"], "minutes": about["seconds"] / 60}
    builder.notes.append(note_text("flite", **facts, voices=", ".join(about["voices"])))
    return builder.to_corpus(config.dev_share, without_dev=False)


def _make_whole(folder: Path, config: FliteConfig, sentences: Sequence[str], wanted: dict[str, Any]) -> None:
    voices = find_voices()
    lines, rows = sample_lines(config, sentences, voices), list[tuple[str, synthetic.Row]]()
    with ThreadPoolExecutor(TOGETHER) as pool:
        speeches = pool.map(lambda line: speak(line.text, line.voice, line.stretch, line.pitch), lines)
        for number, (line, speech) in enumerate(zip(lines, speeches, strict=True)):
            if speech.phones and np.any(speech.samples):
                rng = np.random.default_rng([config.seed, number])
                end = round(speech.times[-1][1] * speech.rate)
                sound = synthetic.record(speech.samples, speech.rate, end, line.level, config.noise_db, rng)
                about = (line.split, line.speaker, number, line.text)
                row = synthetic.write_utterance(folder, *about, speech.times, sound)
                rows.append((line.split, {**row, "phones": speech.phones}))
    synthetic.write_tables(folder, MARKER, wanted | {"voices": voices}, rows)


def sample_lines(config: FliteConfig, sentences: Sequence[str], voices: Sequence[str]) -> list[Line]:
    """Return what each voice says; a speaker is a voice with a rate, a pitch and a level. Voices take turns."""
    rng = random.Random(config.seed)
    texts, counts = synthetic.divided(config, sentences, rng)
    lines = []
    for split in SPLITS:
        spoken = synthetic.said(texts[split], counts[split], split == "train", rng)
        for number, start in enumerate(range(0, len(spoken), synthetic.EACH)):
            voice = voices[number % len(voices)]
            how = (rng.uniform(*config.stretch), rng.uniform(*config.pitch), rng.uniform(*synthetic.LEVELS))
            speaker = f"{voice}-{split}-{number}"
            lines += [Line(split, speaker, voice, *how, text) for text in spoken[start : start + synthetic.EACH]]
    return lines


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
