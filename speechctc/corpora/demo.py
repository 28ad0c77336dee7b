"""Makes the demo corpus with eSpeak NG, in the layout of TIMIT, and reads it.

``TRAIN``, ``DEV`` and ``TEST`` contain ``DR1/<speaker>/SX<n>.WAV`` (16 kHz, 16 bits, RIFF) with .PHN and .TXT files.
There are no .WRD files, because eSpeak NG joins some words. ``demo.json`` has the settings that the corpus was made
with. All voices are from one synthesiser and far more similar than those of people.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.config.corpus_config import DemoConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus
from speechctc.corpora.demo_labels import label
from speechctc.corpora.demo_voices import Voice, cast, sentences
from speechctc.corpora.made_once import make_once
from speechctc.corpora.synthetic_sound import RATE, Part, record, spoken, write_recording
from speechctc.corpora.timit import read_timit
from speechctc.phones.espeak import Speech

MARKER = "demo.json"
LAYOUT = 1  # version of the folder's layout and the labels


def read_demo(root: Path, config: DemoConfig, phone_set: str = "timit61") -> Corpus:
    """Read the demo corpus; it is made first if it does not exist.

    Raises
    ------
    InputError
        As `make_demo`; or utterances are missing.
    """
    about = make_demo(root, config)
    corpus = read_timit(root, phone_set)
    count = sum(len(corpus.splits[split]) for split in SPLITS)
    if count != about["utterances"]:
        raise InputError(
            f"{root}: {count} usable utterances of the {about['utterances']} that were made",
            "move the folder aside; the corpus is then made again",
        )
    note = (
        f"demo corpus: {config.voices} voices, {config.sentences} sentences, {count} utterances, "
        f"{about['seconds'] / 60:.0f} minutes, spoken by eSpeak NG {about['espeak']}; the voices and sentences of dev "
        "and test are not in training"
    )
    return dataclasses.replace(corpus, notes=(note,))


def make_demo(root: Path, config: DemoConfig) -> dict[str, Any]:
    """Make the demo corpus, completely or not at all; an existing one of the same config is kept.

    On one machine the same config gives the same corpus to the bit.

    Returns
    -------
    dict
        The content of ``demo.json``: config, version of eSpeak NG, utterances, seconds.

    Raises
    ------
    InputError
        The folder has a demo corpus of another config, or other files; or eSpeak NG is not installed.
    """
    return make_once(root, MARKER, "demo corpus", _fingerprint(config), lambda folder: _make_whole(folder, config))


def _fingerprint(config: DemoConfig) -> dict[str, Any]:
    text = "\n".join(sentences()[: config.sentences])
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"layout": LAYOUT, "sentences": digest, "config": config.model_dump(mode="json")}


def _make_whole(folder: Path, config: DemoConfig) -> None:
    """Write all voices."""
    count, samples, version, voices = 0, 0, "", cast(config)
    parts = [_part(voice) for voice in voices]
    for number, (voice, result) in enumerate(zip(voices, spoken(parts, "demo corpus"), strict=True)):
        version = result.version
        rng = np.random.default_rng([config.seed, number])
        for k, speech in zip(voice.sentences, result.speech, strict=True):
            recording, segments = _record(speech, result.rate, voice, config.noise_db, rng)
            _write(
                folder / voice.split.upper() / "DR1" / voice.name / f"SX{k + 1}", recording, segments, sentences()[k]
            )
            count += 1
            samples += len(recording)
    about = {"espeak": version, "utterances": count, "seconds": samples / RATE}
    files.write_json(folder / MARKER, _fingerprint(config) | about)


def _part(voice: Voice) -> Part:
    texts = tuple(sentences()[k] for k in voice.sentences)
    return Part(voice.variant, voice.words_per_minute, voice.pitch, texts)


def _record(
    speech: Speech, rate: int, voice: Voice, noise_db: float, rng: np.random.Generator
) -> tuple[NDArray[np.int16], list[tuple[int, int, str]]]:
    """Return the samples of a sentence and its phones as (start, end, label), in samples."""
    phones = label(speech, rate, voice.words_per_minute)
    recording, before = record(speech.samples, rate, phones[-1].start, voice.level, noise_db, rng)
    edges = [0, *(before + round(phone.start * RATE / rate) for phone in phones[1:])]
    return recording, list(zip(edges, [*edges[1:], len(recording)], [phone.label for phone in phones], strict=True))


def _write(stem: Path, recording: NDArray[np.int16], segments: list[tuple[int, int, str]], text: str) -> None:
    write_recording(stem.with_suffix(".WAV"), recording)
    lines = "".join(f"{start} {end} {phone}\n" for start, end, phone in segments)
    stem.with_suffix(".PHN").write_text(lines, encoding="ascii")
    stem.with_suffix(".TXT").write_text(f"0 {len(recording)} {text}\n", encoding="ascii")
