"""The demo corpus: American English spoken by eSpeak NG, written to disk in TIMIT's layout and read as that.

``TRAIN``, ``DEV`` and ``TEST`` hold ``DR1/<speaker>/SX<n>.WAV`` (16 kHz, 16 bits, RIFF) with its .PHN and
.TXT (no .WRD: eSpeak NG runs some words together); ``demo.json`` says what it was made with. All voices are one
synthesiser's, far more alike than people are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.config.schema import DemoConfig
from speechctc.corpora.corpus import SPLITS, Corpus
from speechctc.corpora.demo.espeak import Speech, Synthesiser
from speechctc.corpora.demo.labels import label
from speechctc.corpora.demo.voices import Voice, cast, sentences
from speechctc.corpora.timit import read_timit
from speechctc.errors import InputError
from speechctc.storage import files

RATE = 16000  # of the files, Hz, as TIMIT's
MARKER = "demo.json"
LAYOUT = 1  # of the folder and the labels: raised when either changes
QUIET_MS = (100, 250)  # silence before and after each sentence, as h#


def read_demo(root: Path, config: DemoConfig, phone_set: str = "timit61") -> Corpus:
    """Make the demo corpus if it is not there, and read it.

    Raises
    ------
    InputError
        As `make_demo`; or utterances of it are missing.
    """
    about = make_demo(root, config)
    corpus = read_timit(root, phone_set)
    count = sum(len(corpus.splits[split]) for split in SPLITS)
    if count != about["utterances"]:
        raise InputError(
            f"{root}: {count} usable utterances of the {about['utterances']} that were made",
            "move the folder aside: it is made again",
        )
    note = (
        f"demo corpus: {config.voices} voices, {config.sentences} sentences, {count} utterances, "
        f"{about['seconds'] / 60:.0f} minutes, spoken by eSpeak NG {about['espeak']}; the voices and sentences of dev "
        "and test are not in training"
    )
    return dataclasses.replace(corpus, notes=(note,))


def make_demo(root: Path, config: DemoConfig) -> dict[str, Any]:
    """Make the demo corpus, whole or not at all; one that is there already and was made with this config is kept.

    The same config gives the same corpus, bit for bit, on the same machine.

    Returns
    -------
    dict
        What ``demo.json`` says: config, eSpeak NG's version, utterances, seconds.

    Raises
    ------
    InputError
        The folder holds a demo corpus of another config, or something else; eSpeak NG is not installed.
    """
    if root.is_dir() and any(root.iterdir()):
        return _made_before(root, config)
    if root.exists() and not root.is_dir():
        raise InputError(f"{root}: a file, not a folder", "set corpus.root to a folder for the demo corpus")
    Synthesiser.check()
    with _one_thread():
        files.write_folder(root, lambda folder: _make_whole(folder, config))
    return _made_before(root, config)


def _fingerprint(config: DemoConfig) -> dict[str, Any]:
    text = "\n".join(sentences()[: config.sentences])
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"layout": LAYOUT, "sentences": digest, "config": config.model_dump(mode="json")}


def _made_before(root: Path, config: DemoConfig) -> dict[str, Any]:
    marker = root / MARKER
    if not marker.is_file():
        raise InputError(f"{root}: other files are there, not a demo corpus", "set corpus.root to a folder of its own")
    try:
        about = dict(files.read_json(marker))
        there = dict(about.get("config", {}))
    except (ValueError, TypeError):
        raise InputError(f"{marker}: damaged", "delete the folder, or set corpus.root to another") from None
    wanted = _fingerprint(config)
    if any(about.get(key) != value for key, value in wanted.items()):
        here = wanted["config"]
        changed = [f"{key}={there.get(key)} instead of {here[key]}" for key in here if there.get(key) != here[key]]
        what = ", ".join(changed) or "other sentences or labels, by another version"
        raise InputError(
            f"{root}: a demo corpus made with {what}", "move it aside, or set corpus.root to another folder"
        )
    return about


def _make_whole(folder: Path, config: DemoConfig) -> None:
    """Write all voices, which a process of its own speaks: only one that has not spoken before says the same again."""
    count, samples = 0, 0
    version = ""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        for number, (voice, spoken) in enumerate(zip(cast(config), pool.map(_speak, cast(config)), strict=True)):
            version = spoken.version
            rng = np.random.default_rng([config.seed, number])
            speaker = folder / voice.split.upper() / "DR1" / voice.name
            speaker.mkdir(parents=True)
            for k, speech in zip(voice.sentences, spoken.speech, strict=True):
                recording, segments = _record(speech, spoken.rate, voice, config.noise_db, rng)
                _write(speaker / f"SX{k + 1}", recording, segments, sentences()[k])
                count += 1
                samples += len(recording)
    except BrokenProcessPool:
        raise InputError("the process that speaks the demo corpus was ended from outside", "run it again") from None
    finally:
        pool.shutdown(cancel_futures=True)
    about = {"espeak": version, "utterances": count, "seconds": samples / RATE}
    files.write_json(folder / MARKER, _fingerprint(config) | about)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: resampling a sentence takes 2 ms, and several threads on busy cores 90."""
    import torch  # late: reading a corpus that is there does not need it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Spoken(NamedTuple):
    """What one voice said, its samples at `rate`, Hz."""

    version: str
    rate: int
    speech: list[Speech]


@lru_cache(maxsize=1)
def _synthesiser() -> Synthesiser:
    synthesiser = Synthesiser()
    synthesiser.seed(1)
    return synthesiser


def _speak(voice: Voice) -> Spoken:
    synthesiser = _synthesiser()
    synthesiser.choose(voice.variant, voice.words_per_minute, voice.pitch)
    speech = [synthesiser.speak(sentences()[k]) for k in voice.sentences]
    return Spoken(synthesiser.version, synthesiser.rate, speech)


def _record(
    speech: Speech, rate: int, voice: Voice, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], list[tuple[int, int, str]]]:
    """Return a sentence as the file has it, and its phones in samples of the file.

    It stands at its level between silences, under a little noise: no room is as silent as a synthesiser.
    """
    phones = label(speech, rate, voice.words_per_minute)
    before, after = (int(RATE * rng.uniform(*QUIET_MS) / 1000) for _ in range(2))
    edges = [0, *(before + round(phone.start * RATE / rate) for phone in phones[1:])]
    length = edges[-1] + after
    recording = rng.standard_normal(length, np.float32) * np.float32(10 ** (noise_db / 20))
    sound = sound_file.resample(np.divide(speech.samples, 2**15, dtype=np.float32), rate, RATE)[: length - before]
    gain = 10 ** (voice.level / 20) / float(np.sqrt(np.mean(sound**2)))
    recording[before : before + len(sound)] += sound * min(gain, 0.95 / float(np.abs(sound).max()))
    segments = list(zip(edges, [*edges[1:], length], [phone.label for phone in phones], strict=True))
    return np.clip(np.round(recording * 2**15), -(2**15), 2**15 - 1).astype(np.int16), segments


def _write(stem: Path, recording: NDArray[np.int16], segments: list[tuple[int, int, str]], text: str) -> None:
    soundfile.write(stem.with_suffix(".WAV"), recording, RATE, subtype="PCM_16", format="WAV")
    lines = "".join(f"{start} {end} {phone}\n" for start, end, phone in segments)
    stem.with_suffix(".PHN").write_text(lines, encoding="ascii")
    stem.with_suffix(".TXT").write_text(f"0 {len(recording)} {text}\n", encoding="ascii")
