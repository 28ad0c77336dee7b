"""Makes a corpus in any language of eSpeak NG, with phones in IPA and their times, and reads it.

``train``, ``dev`` and ``test`` contain ``<speaker>/<number>.flac`` (16 kHz, 16 bits). ``train.jsonl`` and so on are
tables of the utterances: id, audio, speaker, words, phones, times, with audio paths relative to the folder.
``espeak.json`` has the settings that the corpus was made with.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from speechctc.config.corpus_config import CorpusConfig, EspeakConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.made_once import (
    RATE,
    Spoken,
    make_once,
    read_rows,
    record,
    spoken,
    write_recording,
    write_rows,
)
from speechctc.corpora.speakers import Speaker, cast, read_sentences
from speechctc.phones.dictionary import Notation, cmu_sources
from speechctc.phones.espeak import Piece, Reader, Speech, pieces
from speechctc.phones.matching import is_arpabet

MARKER = "espeak.json"
LAYOUT = 1  # version of the folder's layout and the labels

Times = tuple[tuple[float, float], ...]


def languages_of(config: CorpusConfig) -> tuple[str, ...]:
    """Return the languages that a config names.

    Raises
    ------
    InputError
        It names none.
    """
    named = (config.language,) if isinstance(config.language, str) else config.language
    if isinstance(named, dict):
        raise InputError("corpus.language is a mapping, and corpus.kind is espeak", "list the languages: '[cy, ga]'")
    if not named:
        raise InputError(
            "corpus.language is not set, and corpus.kind is espeak", "set it (English: en-us, Welsh: cy, ...)"
        )
    return named


def make_corpus(root: Path, config: CorpusConfig) -> dict[str, Any]:
    """Make the corpus, completely or not at all; an existing one of the same config is kept.

    Returns
    -------
    dict
        The content of ``espeak.json``.

    Raises
    ------
    InputError
        The config names no language or text, or one that is not there; the folder has a corpus of another config, or
        other files; eSpeak NG is not installed.
    """
    text = config.espeak.text
    if text is None and not (root / MARKER).is_file():
        raise InputError("corpus.espeak.text is not set", "set it to a file of sentences, or to a table with words")
    sentences = read_sentences(text, config.espeak.words) if text is not None else None
    wanted = fingerprint(config, sentences)
    return make_once(
        root, MARKER, "corpus of eSpeak NG", wanted, lambda folder: _make_whole(folder, config, sentences, wanted)
    )


def fingerprint(config: CorpusConfig, sentences: Sequence[str] | None) -> dict[str, Any]:
    """Return what the corpus is made from; without the sentences where they are not at hand."""
    made = {
        "layout": LAYOUT,
        "languages": list(languages_of(config)),
        "config": config.espeak.model_dump(mode="json", exclude={"text"}),
    }
    if sentences is None:
        return made
    return made | {"sentences": hashlib.sha256("\n".join(sentences).encode()).hexdigest()}


class Made(NamedTuple):
    """An utterance that was spoken: a row of a table, and its phones, each with its language."""

    split: str
    row: dict[str, Any]
    pieces: list[Piece]


def _make_whole(folder: Path, config: CorpusConfig, sentences: Sequence[str] | None, wanted: dict[str, Any]) -> None:
    """Write all utterances, and then the tables, in which foreign phones are written as the nearest native ones."""
    assert sentences is not None  # only a corpus that is there already may lack them
    for language in languages_of(config):
        Reader(language)  # raises here and now if eSpeak NG does not speak it
    speakers = cast(config.espeak, languages_of(config), sentences)
    version: list[str] = []
    made = list(_speak_all(folder, speakers, config.espeak, version))
    native = Counter(piece.label for each in made for piece in each.pieces if piece.language == "")
    notation = Notation(sorted(native))
    seconds = 0.0
    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for each in made:
        phones = notation.write([piece.label for piece in each.pieces])
        if not phones:
            (folder / each.row["audio"]).unlink()
            continue
        seconds += each.row.pop("seconds")
        rows[each.split].append({**each.row, "phones": phones})
    about = {"espeak": version[0], "utterances": write_rows(folder, rows), "seconds": seconds}
    files.write_json(folder / MARKER, wanted | about | {"nearest": notation.nearest})


def _speak_all(folder: Path, speakers: Sequence[Speaker], config: EspeakConfig, version: list[str]) -> Iterator[Made]:
    """Write the recordings."""
    for number, (speaker, result) in enumerate(zip(speakers, spoken(speakers, "corpus"), strict=True)):
        version.append(result.version)
        rng = np.random.default_rng([config.seed, number])
        for k, (text, speech) in enumerate(zip(speaker.texts, result.speech, strict=True)):
            made = _utterance(folder, speaker, k, text, speech, result, config.noise_db, rng)
            if made is not None:
                yield made


def _utterance(
    folder: Path,
    speaker: Speaker,
    number: int,
    text: str,
    speech: Speech,
    voice: Spoken,
    noise_db: float,
    rng: np.random.Generator,
) -> Made | None:
    """Write a recording; None where nothing was spoken. Native phones get an empty language."""
    made = pieces([phoneme.name for phoneme in speech.phonemes], "")
    made = [piece._replace(language="" if piece.language in ("", *voice.codes) else piece.language) for piece in made]
    if not made or not np.any(speech.samples):
        return None
    starts = [phoneme.sample for phoneme in speech.phonemes] + [len(speech.samples)]
    recording, before = record(speech.samples, voice.rate, starts[made[-1].last + 1], speaker.level, noise_db, rng)
    times = []
    for piece in made:
        start, end = starts[piece.phoneme], starts[piece.last + 1]
        share = (end - start) / piece.parts
        bounds = (start + share * piece.part, start + share * (piece.part + 1))
        times.append([round(before / RATE + bound / voice.rate, 4) for bound in bounds])
    audio = f"{speaker.split}/{speaker.name}/{number}.flac"
    write_recording(folder / audio, recording)
    row = {"id": f"{speaker.name}-{number}", "audio": audio, "speaker": speaker.name, "words": text}
    return Made(speaker.split, row | {"times": times, "seconds": len(recording) / RATE}, made)


def read_espeak(root: Path, config: CorpusConfig) -> Corpus:
    """Read the corpus of a config.

    Its phones are those that occur, in IPA, or are written in the phone set that the config names.

    Raises
    ------
    InputError
        As `make_corpus`; or utterances are missing.
    """
    about = make_corpus(root, config)
    builder = CorpusBuilder.for_config(config)
    english = all(language.lower().startswith("en") for language in languages_of(config))
    notation = _Labels(builder, english)
    for split, rows in read_rows(root, about).items():
        builder.utterances[split] += [_read_utterance(row, root, notation) for row in rows]
    builder.notes.append(
        f"corpus of eSpeak NG {about['espeak']} in {', '.join(languages_of(config))}: {about['utterances']} utterances,"
        f" {about['seconds'] / 60:.0f} minutes; the voices and sentences of dev and test are not in training"
    )
    if near := about.get("nearest"):
        pairs = ", ".join(f"{phone} as {to}" for phone, to in sorted(near.items()))
        builder.notes.append(f"phones that only foreign words have are labelled as the nearest: {pairs}")
    return builder.to_corpus(config.dev_share, without_dev=False)


def _read_utterance(row: dict[str, Any], root: Path, labels: _Labels) -> Utterance:
    times = tuple((start, end) for start, end in row["times"])
    phones, times = labels.write(row["phones"], times)
    return Utterance(row["id"], root / row["audio"], phones, row["speaker"], times)


class _Labels:
    """Writes phones in IPA in the phone set of a corpus."""

    def __init__(self, builder: CorpusBuilder, english: bool) -> None:
        self._builder = builder
        self._target = builder.phones.phones if builder.phones else None
        self._to_cmu = english and self._target is not None and is_arpabet(self._target)
        self._notation = Notation(self._target, "arpabet" if self._to_cmu else "ipa")

    def write(self, phones: Sequence[str], times: Times) -> tuple[tuple[str, ...], Times]:
        """Return the labels with their times; a phone that is two in the set is divided equally."""
        sources = cmu_sources(phones) if self._to_cmu else list(zip(phones, range(len(phones)), strict=True))
        written = self._notation.write([label for label, _ in sources])
        if written is None:
            raise InputError("phones of this language are unlike all of the phone set", "set corpus.phones to found")
        labels, kept = self._builder.labels(written)
        places = [k for _, k in sources]
        divided = []
        for n in kept:
            start, end = times[places[n]]
            share = (end - start) / places.count(places[n])
            part = n - places.index(places[n])
            divided.append((start + share * part, start + share * (part + 1)))
        return tuple(labels), tuple(divided)
