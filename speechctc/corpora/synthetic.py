"""Builds synthetic corpora: who speaks which sentences, the recordings, their TextGrids; made once and kept.

A folder has ``<split>/<speaker>/<name>.wav`` (16 kHz, 16 bits), a TextGrid of each with its phones and sentence, and
``<kind>.json``, which says how it was made. It is made completely or not at all, and is then read as any folder of
TextGrids. The voices and sentences of dev and test are not in training.

Recordings of speech are resampled, scaled, and put between silences with a little noise.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import resampling
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.sound_file import writing
from speechctc.config.schema import CorpusConfig, DemoConfig, SpokenConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.corpora.corpus import SPLITS, Corpus, note_text
from speechctc.corpora.table_rows import is_table, read_table
from speechctc.corpora.tiers import read_textgrids

LAYOUT = 2  # version of the folders' layout and of the labels
RATE = 16000  # of the recordings, Hz, as in TIMIT
QUIET_MS = (100, 250)  # silence before and after each sentence
UTTERANCES_OF_SPEAKER = 12
LEVELS = (-32.0, -20.0)  # RMS of speech, dB of full scale

_ENDS = re.compile(r"(?<=[.!?…։።।。！？؟])\s+")
MIN_SENTENCES = 12  # sentences: some for training, dev and test each
MIXED = 0.5  # share of the training utterances that are of random words, where there are fewer sentences than those


class Speaker(NamedTuple):
    """A voice with settings and a level, and the texts that it speaks.

    Attributes
    ----------
    split, name : str
    voice : tuple of str
        What the synthesiser calls it.
    rate, pitch : float
        Settings of the synthesiser.
    level : float
        RMS of its speech, dB of full scale.
    texts : dict of str to str
        By the names of their recordings.
    """

    split: str
    name: str
    voice: tuple[str, ...]
    rate: float
    pitch: float
    level: float
    texts: dict[str, str]


class Speech(NamedTuple):
    """Speech as samples (int16) at `rate`, Hz, the sample at which it ends, and its phones, with times in samples."""

    samples: NDArray[np.int16]
    rate: int
    end: float
    phones: list[Interval]


@dataclass
class Synthesis:
    """How a corpus is made.

    Attributes
    ----------
    name : str
        What messages call it.
    settings : DemoConfig or SpokenConfig
    sentences : sequence of str or None
        What is spoken; None: they are not at hand, so that only a corpus that is there can be read.
    speak : callable
        Returns an iterator over the speakers, each with the speech of its texts.
    made_with : dict
        What else the corpus depends on.
    facts : dict
        What `speak` and `relabel` tell of it, for the notes.
    relabel : callable
        Takes the labels of an utterance when all are spoken, and returns those to write, or None to leave it out.
    """

    name: str
    settings: DemoConfig | SpokenConfig
    sentences: Sequence[str] | None
    speak: Callable[[], Iterable[tuple[Speaker, Iterable[Speech]]]]
    made_with: dict[str, Any] = dataclasses.field(default_factory=dict)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    relabel: Callable[[Sequence[str]], Sequence[str] | None] = tuple


def read_synthetic(root: Path, config: CorpusConfig, synthesis: Synthesis) -> Corpus:
    """Read a synthetic corpus; it is made first if it does not exist.

    Raises
    ------
    InputError
        As the synthesiser; or the folder is a file, has other files, a corpus made with something else, or fewer
        recordings or TextGrids than were made.
    """
    about = _make_once(root, f"{config.kind}.json", synthesis)
    for ending in (".wav", ".TextGrid"):
        if (count := sum(1 for _ in root.glob(f"*/*/*{ending}"))) != about["utterances"]:
            what = f"{root}: {count} files {ending} of the {about['utterances']} that were made"
            raise InputError(what, "move the folder aside; the corpus is then made again")
    whole = {"kind": "textgrid", "tier": "phones", "max_gap": None, "max_seconds": math.inf}
    corpus = read_textgrids(root, config.model_copy(update=whole))
    facts = {name: ", ".join(value) or "none" if isinstance(value, list) else value for name, value in about.items()}
    note = note_text(config.kind, **{**about["config"], **facts, "minutes": about["seconds"] / 60})
    return dataclasses.replace(corpus, notes=(note, *corpus.notes))


def _make_once(root: Path, marker: str, synthesis: Synthesis) -> dict[str, Any]:
    """Make a corpus where the folder is empty or not there; return the content of its marker."""
    name, sentences = synthesis.name, synthesis.sentences
    settings = synthesis.settings.model_dump(mode="json", exclude={"text"})
    made_with: dict[str, Any] = {"layout": LAYOUT, "config": settings, **synthesis.made_with}
    if sentences is not None:
        made_with["text"] = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    if root.exists() and not root.is_dir():
        raise InputError(f"{root}: a file, not a folder", f"set corpus.root to a folder for the {name}")
    if not (root.is_dir() and any(root.iterdir())):
        files.write_folder(root, lambda folder: _make(folder, folder / marker, synthesis, made_with))
    if not (root / marker).is_file():
        raise InputError(f"{root}: not a {name}, but other files", "set corpus.root to a new folder")
    try:
        about = dict(files.read_json(root / marker))
        there = {**about, **about["config"]}
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{root / marker}: damaged", "delete the folder, or set corpus.root to another") from None
    if all(about.get(key) == value for key, value in made_with.items()):
        return about
    here = {**synthesis.made_with, **settings}
    changed = [f"{key}={there.get(key)} instead of {value}" for key, value in here.items() if there.get(key) != value]
    what = ", ".join(changed) or "other sentences, or by another version"
    raise InputError(f"{root}: a {name} made with {what}", "move it aside, or set corpus.root to another folder")


def _make(folder: Path, marker: Path, synthesis: Synthesis, made_with: dict[str, Any]) -> None:
    """Write the recordings, then their TextGrids, then the marker."""
    spoken = []
    for number, (speaker, speeches) in enumerate(synthesis.speak()):
        rng = np.random.default_rng([synthesis.settings.seed, number])
        for (name, text), speech in zip(speaker.texts.items(), speeches, strict=True):
            if speech.phones and np.any(speech.samples):
                recording, phones = record(speech, speaker.level, synthesis.settings.noise_db, rng)
                path = folder / speaker.split / speaker.name / f"{name}.wav"
                write_recording(path, recording)
                spoken.append((path, len(recording) / RATE, text, phones))
    total = 0.0
    utterances = 0
    for path, seconds, text, phones in spoken:
        labels = synthesis.relabel([each.label for each in phones])
        if labels is None:
            path.unlink()
            continue
        tier = [each._replace(label=label) for each, label in zip(phones, labels, strict=True)]
        grid = textgrid_text(seconds, {"phones": tier, "sentence": [Interval(0.0, seconds, text)]})
        files.write_text(path.with_suffix(".TextGrid"), grid)
        utterances, total = utterances + 1, total + seconds
    files.write_json(marker, {**made_with, **synthesis.facts, "utterances": utterances, "seconds": total})


def write_recording(path: Path, recording: NDArray[np.int16]) -> None:
    """Write a recording as WAV, 16 bits; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        soundfile.write(path, recording, RATE, subtype="PCM_16", format="WAV")


def record(
    speech: Speech, level: float, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], list[Interval]]:
    """Return a recording of a sentence, and its phones with times in seconds.

    The sentence is scaled to the level of the voice and put between silences. A little noise is added, because no room
    is as silent as a synthesiser.

    Parameters
    ----------
    speech : Speech
    level : float
        RMS of the speech, dB of full scale.
    noise_db : float
        RMS of the noise, dB of full scale.
    rng : Generator
    """
    before, after = (int(RATE * rng.uniform(*QUIET_MS) / 1000) for _ in range(2))
    length = before + round(speech.end * RATE / speech.rate) + after
    recording = rng.standard_normal(length, np.float32) * np.float32(10 ** (noise_db / 20))
    wave = np.divide(speech.samples, 2**15, dtype=np.float32)
    sound = resampling.resample(wave, speech.rate, RATE)[: length - before]
    gain = 10 ** (level / 20) / float(np.sqrt(np.mean(sound**2)))
    recording[before : before + len(sound)] += sound * min(gain, 0.95 / float(np.abs(sound).max()))

    def seconds(sample: float) -> float:
        return min(max(before + round(sample * RATE / speech.rate), 0), length) / RATE

    phones = [Interval(seconds(start), seconds(end), label) for start, end, label in speech.phones]
    return np.clip(np.round(recording * 2**15), -(2**15), 2**15 - 1).astype(np.int16), phones


def sample_speakers(
    settings: SpokenConfig,
    sentences: Sequence[str],
    voices: Mapping[str, Iterator[tuple[str, ...]]],
    rates: tuple[float, float],
    pitches: tuple[float, float],
) -> list[Speaker]:
    """Choose the speakers, and distribute the sentences among them; the result depends only on the arguments.

    Where there are fewer sentences than training utterances, half of these are of random words of the training
    sentences, so that phones occur in many contexts.

    Parameters
    ----------
    settings : SpokenConfig
    sentences : sequence of str
    voices : mapping of str to iterator of tuple of str
        The voices of each split, which take turns, without end.
    rates, pitches : (float, float)
        The lowest and the highest.
    """
    rng = random.Random(settings.seed)
    deck = rng.sample(sentences, len(sentences))
    held = max(round(len(deck) * settings.held_out), 1)
    texts = {"dev": deck[:held], "test": deck[held : 2 * held], "train": deck[2 * held :]}
    speakers: list[Speaker] = []
    for split, count in counts_of(settings.utterances, settings.held_out).items():
        mixed = round(count * MIXED) if split == "train" and len(texts[split]) < count else 0
        turns = cycle(texts[split])
        deck = [next(turns) for _ in range(count - mixed)] + [random_words(texts[split], rng) for _ in range(mixed)]
        rng.shuffle(deck)
        for start in range(0, count, UTTERANCES_OF_SPEAKER):
            voice, number = next(voices[split]), len(speakers)
            name = "-".join((*voice, str(number)))
            drawn = rng.uniform(*rates), rng.uniform(*pitches), rng.uniform(*LEVELS)
            spoken = {str(k): text for k, text in enumerate(deck[start : start + UTTERANCES_OF_SPEAKER])}
            speakers.append(Speaker(split, name, voice, *drawn, spoken))
    return speakers


def counts_of(number: int, share: float) -> dict[str, int]:
    """Return how many of a number each split has; dev and test have a share each, and one at least."""
    held = max(round(number * share), 1)
    return dict(zip(SPLITS, (number - 2 * held, held, held), strict=True))


def random_words(sentences: list[str], rng: random.Random) -> str:
    """Return words that were drawn from sentences, as many as one of them has."""
    count = len(rng.choice(sentences).split())
    return " ".join(rng.choice(rng.choice(sentences).split()).strip(".,;:!?") for _ in range(count))


@lru_cache(maxsize=1)
def bundled_sentences() -> tuple[str, ...]:
    """Return the English sentences of the package."""
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
        raise InputError(f"{path}: a folder", "name a file of sentences")
    lines = [row.words for row in read_table(path).rows] if is_table(path) else read_text(path).text.split("\n")
    found: dict[str, None] = {}
    for line in lines:
        for sentence in _ENDS.split(line):
            found.update(dict.fromkeys(_divided(sentence.split(), words)))
    if len(found) < MIN_SENTENCES:
        what = f"{path}: {len(found)} different sentences of {words[0]} to {words[1]} words"
        raise InputError(what, f"give at least {MIN_SENTENCES}, or change the fewest and most words of a sentence")
    return list(found)


def _divided(tokens: list[str], words: tuple[int, int]) -> list[str]:
    """Return a sentence in equal parts that are not too long; without those that are too short."""
    fewest, most = words
    count = -(-len(tokens) // most)
    edges = [round(k * len(tokens) / count) for k in range(count + 1)] if count else []
    parts = [tokens[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [" ".join(part) for part in parts if len(part) >= fewest]
