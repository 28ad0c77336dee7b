"""Synthetic corpora: who says which sentences, the sound of the recordings, and tables; made once and kept.

The voices and sentences of dev and test are not in training. Voices of eSpeak NG speak in a process of their own.
Recordings of speech are resampled, scaled, and put between silences with a little noise. A corpus is made completely or
not at all, with a note of how.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import resources
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray
from pydantic import BaseModel, FiniteFloat

from speechctc.audio import resampling
from speechctc.audio.sound_file import writing
from speechctc.config.corpus_config import DemoConfig, EspeakConfig, FliteConfig
from speechctc.core import files
from speechctc.core.cores import attempt
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_tables, read_text
from speechctc.core.workers import WorkerEnded, in_processes
from speechctc.corpora.corpus import SPLITS, Utterance
from speechctc.corpora.table_rows import is_table, read_table
from speechctc.phones.espeak import Speech, Synthesiser
from speechctc.phones.languages import find_voice

Row = dict[str, Any]
Times = tuple[tuple[float, float], ...]
Write = Callable[[Sequence[str], Times], tuple[tuple[str, ...], Times]]
"""Takes phones and their times, and returns those of the corpus."""

AGAIN = "move the folder aside; the corpus is then made again"
LAYOUT = 1  # version of the folders' layout and of the labels
RATE = 16000  # of the recordings, Hz, as in TIMIT
QUIET_MS = (100, 250)  # silence before and after each sentence
MAX_WAITING = 4  # speakers whose speech may wait in memory
EACH = 12  # utterances of one speaker, about
LEVELS = (-32.0, -20.0)  # RMS of speech, dB of full scale

Sex = Literal["F", "M"]

VARIANTS: dict[str, dict[Sex, tuple[str, ...]]] = {
    split: {sex: tuple(names.split()) for sex, names in by_sex.items()}
    for split, by_sex in read_tables(__file__)["variants"].items()
}
_ENDS = re.compile(r"(?<=[.!?…։።।。！？؟])\s+")
MIN_SENTENCES = 12  # sentences: some for training, dev and test each
MIXED = 0.5  # share of the training utterances that are of random words, where there are fewer sentences than those


@dataclass(frozen=True)
class Speaker:
    """A voice with a language, a rate, a pitch and a level, and the texts that it speaks.

    Attributes
    ----------
    split, name : str
        The name of one of the demo corpus has the form of TIMIT's: sex, three letters, a digit.
    language : str or None
        As in the config; None: American English, with eSpeak NG's own phonemes instead of IPA.
    variant : str
        Variant of eSpeak NG.
    words_per_minute, pitch : int
        Settings of eSpeak NG.
    level : float
        RMS of its speech, dB of full scale.
    texts : tuple of str
    """

    split: str
    name: str
    language: str | None
    variant: str
    words_per_minute: int
    pitch: int
    level: float
    texts: tuple[str, ...]


def divided(
    config: EspeakConfig | FliteConfig, sentences: Sequence[str], rng: random.Random
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return the sentences of each split, in random order, and how many utterances it has."""
    deck = list(sentences)
    rng.shuffle(deck)
    held = max(round(len(deck) * config.held_out), 1)
    texts = {"dev": deck[:held], "test": deck[held : 2 * held], "train": deck[2 * held :]}
    return texts, counts_of(config.utterances, config.held_out)


def counts_of(number: int, share: float) -> dict[str, int]:
    """Return how many of a number each split has; dev and test have a share each, and one at least."""
    held = max(round(number * share), 1)
    return {"train": number - 2 * held, "dev": held, "test": held}


def said(texts: list[str], count: int, may_mix: bool, rng: random.Random) -> list[str]:
    """Return a number of texts: the sentences in turn, and random words if there are too few and `may_mix`."""
    mixed = round(count * MIXED) if may_mix and len(texts) < count else 0
    turns = cycle(texts)
    spoken = [next(turns) for _ in range(count - mixed)] + [random_words(texts, rng) for _ in range(mixed)]
    rng.shuffle(spoken)
    return spoken


@lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    """Return all sentences of the demo corpus."""
    text = resources.files("speechctc.corpora").joinpath("sentences.txt").read_text(encoding="ascii")
    return tuple(text.splitlines())


def read_sentences(path: Path, words: tuple[int, int]) -> list[str]:
    """Return the different sentences of a file, in order; long ones are divided, short ones left out.

    Parameters
    ----------
    path : Path
        A table with a column ``words``, by its ending; .txt is a text, in which a sentence ends with its line or a full
        stop.
    words : (int, int)
        Fewest and most words of a sentence.

    Raises
    ------
    InputError
        The file cannot be read, or has too few sentences.
    """
    if path.is_dir():
        raise InputError(f"{path}: a folder", "set corpus.espeak.text to a file of sentences")
    lines = [row.words for row in read_table(path).rows] if is_table(path) else read_text(path).text.split("\n")
    found: dict[str, None] = {}
    for line in lines:
        for sentence in _ENDS.split(line):
            found.update(dict.fromkeys(_divided(sentence.split(), words)))
    if len(found) < MIN_SENTENCES:
        what = f"{path}: {len(found)} different sentences of {words[0]} to {words[1]} words"
        raise InputError(what, f"give at least {MIN_SENTENCES}, or change corpus.espeak.words")
    return list(found)


def _divided(tokens: list[str], words: tuple[int, int]) -> list[str]:
    """Return a sentence in equal parts that are not too long; without those that are too short."""
    fewest, most = words
    count = -(-len(tokens) // most)
    edges = [round(k * len(tokens) / count) for k in range(count + 1)] if count else []
    parts = [tokens[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [" ".join(part) for part in parts if len(part) >= fewest]


def random_words(sentences: list[str], rng: random.Random) -> str:
    """Return words that were drawn from sentences, as many as one of them has."""
    count = len(rng.choice(sentences).split())
    return " ".join(rng.choice(rng.choice(sentences).split()).strip(".,;:!?") for _ in range(count))


class _Spoken(BaseModel):
    """An utterance that a synthesiser spoke."""

    id: str
    audio: str
    phones: list[str]
    speaker: str
    times: tuple[tuple[FiniteFloat, FiniteFloat], ...]


def fingerprint(config: DemoConfig | EspeakConfig | FliteConfig, sentences: Sequence[str] | None) -> dict[str, Any]:
    """Return what a corpus is made from; without the sentences where they are not at hand."""
    made = {"layout": LAYOUT, "config": config.model_dump(mode="json", exclude={"text"})}
    if sentences is None:
        return made
    return made | {"sentences": hashlib.sha256("\n".join(sentences).encode()).hexdigest()}


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


def write_tables(folder: Path, marker: str, about: dict[str, Any], made: Iterable[tuple[str, Row]]) -> None:
    """Write the table of each split, ``<split>.jsonl``, and `about` them to the marker, with their number and duration.

    Parameters
    ----------
    folder : Path
    marker : str
    about : dict
    made : iterable of (str, dict)
        The split and the row of each utterance, as `write_utterance` returns it.
    """
    rows: dict[str, list[Row]] = {split: [] for split in SPLITS}
    seconds = 0.0
    for split, row in made:
        seconds += row.pop("seconds")
        rows[split].append(row)
    for split, each in rows.items():
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in each) + "\n"
        files.write_text(folder / f"{split}.jsonl", text)
    files.write_json(folder / marker, about | {"utterances": sum(map(len, rows.values())), "seconds": seconds})


def read_utterances(root: Path, about: dict[str, Any], write: Write) -> dict[str, list[Utterance]]:
    """Read the tables that `write_tables` wrote, as utterances whose phones and times `write` returns.

    Raises
    ------
    InputError
        A row is damaged; or utterances are missing: the marker `about` says how many were made.
    """
    found: dict[str, list[Utterance]] = {split: [] for split in SPLITS}
    for split, utterances in found.items():
        for row in _read_table(root / f"{split}.jsonl"):
            phones, times = write(row.phones, row.times)
            utterances.append(Utterance(row.id, root / row.audio, phones, row.speaker, times))
    count = sum(map(len, found.values()))
    if count != about["utterances"]:
        raise InputError(f"{root}: {count} utterances of the {about['utterances']} that were made", AGAIN)
    return found


def _read_table(path: Path) -> Iterator[_Spoken]:
    for number, line in enumerate(read_text(path).text.splitlines(), start=1):
        try:
            row = _Spoken.model_validate_json(line)
        except ValueError:
            row = None
        if row is None or len(row.times) != len(row.phones):
            raise InputError(f"{path}, line {number}: not an utterance that was made here", AGAIN)
        yield row


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
        with in_processes(partial(attempt, _speak), speakers, 1, most=MAX_WAITING) as results:
            for result in results:
                if isinstance(result, InputError):  # an exception would have lost its kind on the way
                    raise result
                yield result
    except WorkerEnded:
        raise InputError(f"the process that speaks the {name} was ended from outside", "run it again") from None


@lru_cache(maxsize=1)
def _synthesiser(ipa: bool) -> Synthesiser:
    synthesiser = Synthesiser(ipa=True) if ipa else Synthesiser()
    synthesiser.seed(1)
    return synthesiser


def _speak(speaker: Speaker) -> Spoken:
    """Let one speaker speak, in the process that speaks."""
    synthesiser = _synthesiser(speaker.language is not None)
    if speaker.language is None:
        synthesiser.choose(speaker.variant, speaker.words_per_minute, speaker.pitch)
        codes: tuple[str, ...] = ()
    else:
        voice = find_voice(speaker.language, synthesiser.voices())
        synthesiser.choose(speaker.variant, speaker.words_per_minute, speaker.pitch, voice.file)
        codes = voice.languages
    speech = [synthesiser.speak(text) for text in speaker.texts]
    return Spoken(synthesiser.version, synthesiser.rate, codes, speech)


def write_recording(path: Path, recording: NDArray[np.int16]) -> None:
    """Write a recording in the format of its ending, .flac or .WAV, 16 bits; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        soundfile.write(path, recording, RATE, subtype="PCM_16", format=path.suffix[1:].upper())


def write_utterance(
    folder: Path, split: str, speaker: str, number: int, text: str, times: Iterable[Sequence[float]], sound: Recorded
) -> Row:
    """Write a recording; return its row, with its `times`, seconds in the speech, and its duration."""
    audio = f"{split}/{speaker}/{number}.flac"
    write_recording(folder / audio, sound.samples)
    return {
        "id": f"{speaker}-{number}",
        "audio": audio,
        "speaker": speaker,
        "words": text,
        "times": [[round(sound.before / RATE + time, 4) for time in pair] for pair in times],
        "seconds": len(sound.samples) / RATE,
    }


class Recorded(NamedTuple):
    """A recording of a sentence, and how many of its samples are before the sentence."""

    samples: NDArray[np.int16]
    before: int


def record(
    samples: NDArray[np.int16], rate: int, end: int, level: float, noise_db: float, rng: np.random.Generator
) -> Recorded:
    """Return a recording of a sentence.

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
    return Recorded(np.clip(np.round(recording * 2**15), -(2**15), 2**15 - 1).astype(np.int16), before)
