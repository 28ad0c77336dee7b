"""Synthetic corpora: made once, completely or not at all, kept with a note of how; their recordings' sound.

Synthetic corpora: voices of eSpeak NG that speak in a process of their own, and recordings of speech. Recordings are
resampled, scaled, and put between silences with a little noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray
from pydantic import BaseModel, FiniteFloat

from speechctc.audio import resampling
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.core.workers import WorkerEnded, in_processes
from speechctc.corpora.corpus import SPLITS
from speechctc.corpora.speakers import Speaker
from speechctc.phones.espeak import Speech, Synthesiser, find_voice

Row = dict[str, Any]

RATE = 16000  # of the recordings, Hz, as in TIMIT
QUIET_MS = (100, 250)  # silence before and after each sentence
AHEAD = 4  # speakers whose speech may wait in memory


class _Spoken(BaseModel):
    """An utterance that a synthesiser spoke."""

    id: str
    audio: str
    phones: list[str]
    speaker: str
    times: list[tuple[FiniteFloat, FiniteFloat]]


def make_once(
    root: Path, marker: str, name: str, wanted: dict[str, Any], make: Callable[[Path], None]
) -> dict[str, Any]:
    """Make a corpus where the folder is empty or not there; return the content of its marker.

    Parameters
    ----------
    root : Path
    marker : str
        Name of the JSON file in the folder that says what the corpus was made with.
    name : str
        What messages call the corpus.
    wanted : dict
        Keys and values that the marker must have; ``config`` has the settings.
    make : callable
        Takes a folder, and writes the corpus and the marker into it.

    Raises
    ------
    InputError
        As `make`; or the folder is a file, or has other files, or a corpus made with something else.
    """
    if not (root.is_dir() and any(root.iterdir())):
        if root.exists() and not root.is_dir():
            raise InputError(f"{root}: a file, not a folder", f"set corpus.root to a folder for the {name}")
        files.write_folder(root, make)
    return _made_before(root, marker, name, wanted)


def write_rows(folder: Path, rows: Mapping[str, Sequence[Row]]) -> int:
    """Write the table of each split, ``<split>.jsonl``; return the number of all rows."""
    for split, each in rows.items():
        files.write_text(
            folder / f"{split}.jsonl", "\n".join(json.dumps(row, ensure_ascii=False) for row in each) + "\n"
        )
    return sum(map(len, rows.values()))


def read_rows(root: Path, about: dict[str, Any]) -> dict[str, list[Row]]:
    """Read the tables that `write_rows` wrote.

    Raises
    ------
    InputError
        A row is damaged; or utterances are missing: the marker `about` says how many were made.
    """
    rows = {split: _read_table(root / f"{split}.jsonl") for split in SPLITS}
    count = sum(map(len, rows.values()))
    if count != about["utterances"]:
        raise InputError(
            f"{root}: {count} utterances of the {about['utterances']} that were made",
            "move the folder aside; the corpus is then made again",
        )
    return rows


def _read_table(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(read_text(path).text.splitlines(), start=1):
        try:
            row = _Spoken.model_validate_json(line)
        except ValueError:
            row = None
        if row is None or len(row.times) != len(row.phones):
            raise InputError(
                f"{path}, line {number}: not an utterance that was made here",
                "move the folder aside; the corpus is then made again",
            )
        rows.append(row.model_dump())
    return rows


def _made_before(root: Path, marker: str, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    path = root / marker
    if not path.is_file():
        raise InputError(f"{root}: not a {name}, but other files", "set corpus.root to a new folder")
    try:
        about = dict(files.read_json(path))
        there = dict(about.get("config", {}))
    except (ValueError, TypeError):
        raise InputError(f"{path}: damaged", "delete the folder, or set corpus.root to another") from None
    if all(about.get(key) == value for key, value in wanted.items()):
        return about
    settings = wanted["config"]
    changed = [f"{key}={there.get(key)} instead of {here}" for key, here in settings.items() if there.get(key) != here]
    if about.get("languages") != wanted.get("languages"):
        changed.insert(0, f"language {about.get('languages')} instead of {wanted['languages']}")
    what = ", ".join(changed) or "other sentences or labels, or by another version"
    raise InputError(f"{root}: a {name} made with {what}", "move it aside, or set corpus.root to another folder")


class Spoken(NamedTuple):
    """The speech of one speaker, with samples at `rate`, Hz, and the codes of its language."""

    version: str
    rate: int
    codes: tuple[str, ...]
    speech: list[Speech]


def spoken(speakers: Sequence[Speaker], name: str) -> Iterator[Spoken]:
    """Yield what the speakers speak; a new process does, because only its first speech is reproducible.

    Parameters
    ----------
    speakers : sequence of Speaker
    name : str
        What a message calls the corpus.

    Raises
    ------
    InputError
        eSpeak NG is not installed or lacks a language, or the process was ended from outside.
    """
    Synthesiser.check()
    try:
        with in_processes(_speak, speakers, 1, most=AHEAD) as results:
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


def _speak(speaker: Speaker) -> Spoken | InputError:
    """Let one speaker speak, in the process that speaks; an exception would lose its kind on the way."""
    try:
        synthesiser = _synthesiser(speaker.language is not None)
        if speaker.language is None:
            synthesiser.choose(speaker.variant, speaker.words_per_minute, speaker.pitch)
            codes: tuple[str, ...] = ()
        else:
            voice = find_voice(speaker.language, synthesiser.voices())
            synthesiser.choose(speaker.variant, speaker.words_per_minute, speaker.pitch, voice.file)
            codes = voice.languages
        speech = [synthesiser.speak(text) for text in speaker.texts]
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
