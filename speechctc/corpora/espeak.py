"""Makes a corpus in any language of eSpeak NG, with phones in IPA and their times, and reads it.

``train``, ``dev`` and ``test`` contain ``<speaker>/<number>.flac`` (16 kHz, 16 bits). ``train.jsonl`` and so on are
tables of the utterances: id, audio, speaker, words, phones, times, with audio paths relative to the folder.
``espeak.json`` has the settings that the corpus was made with.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from speechctc.config.corpus_config import CorpusConfig, EspeakConfig
from speechctc.core.errors import InputError
from speechctc.corpora import synthetic
from speechctc.corpora.corpus import SPLITS, Corpus, note_text
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.phones.espeak import Piece, Reader, Speech, pieces
from speechctc.phones.matching import is_arpabet
from speechctc.phones.pronouncer import Notation, cmu_sources

MARKER = "espeak.json"


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
        what = "corpus.language is not set, and corpus.kind is espeak"
        raise InputError(what, "set it (English: en-us, Welsh: cy, ...)")
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
    sentences = synthetic.read_sentences(text, config.espeak.words) if text is not None else None
    wanted = {"languages": list(languages_of(config)), **synthetic.fingerprint(config.espeak, sentences)}
    return synthetic.make_once(
        root, MARKER, "corpus of eSpeak NG", wanted, lambda folder: _make_whole(folder, config, sentences, wanted)
    )


def _make_whole(folder: Path, config: CorpusConfig, sentences: Sequence[str] | None, wanted: dict[str, Any]) -> None:
    """Write all utterances, and then the tables, in which foreign phones are written as the nearest native ones."""
    assert sentences is not None  # only a corpus that is there already may lack them
    for language in languages_of(config):
        Reader(language)  # raises here and now if eSpeak NG does not speak it
    speakers = sample_speakers(config.espeak, languages_of(config), sentences)
    version, made = "", list[tuple[str, synthetic.Row, list[Piece]]]()
    for number, (speaker, result) in enumerate(zip(speakers, synthetic.spoken(speakers, "corpus"), strict=True)):
        version, rng = result.version, np.random.default_rng([config.espeak.seed, number])
        for k, speech in enumerate(result.speech):
            phones = _phones(speech, result)
            if phones and np.any(speech.samples):
                last, times = _times(speech, phones, result.rate)
                noise_db = config.espeak.noise_db
                sound = synthetic.record(speech.samples, result.rate, last, speaker.level, noise_db, rng)
                about = (speaker.split, speaker.name, k, speaker.texts[k])
                made.append((speaker.split, synthetic.write_utterance(folder, *about, times, sound), phones))
    notation = Notation(sorted({piece.label for *_, phones in made for piece in phones if piece.language == ""}))
    rows = []
    for split, row, phones in made:
        if written := notation.write([piece.label for piece in phones]):
            rows.append((split, {**row, "phones": written}))
        else:
            (folder / row["audio"]).unlink()
    synthetic.write_tables(folder, MARKER, wanted | {"espeak": version, "nearest": notation.nearest}, rows)


def sample_speakers(
    config: EspeakConfig, languages: Sequence[str], sentences: Sequence[str]
) -> list[synthetic.Speaker]:
    """Choose the speakers, and distribute the sentences among them; the result depends only on the arguments.

    Languages and voices take turns. Where there are fewer sentences than training utterances, half of these are of
    random words of the training sentences, so that phones occur in many contexts.
    """
    rng = random.Random(config.seed)
    texts, counts = synthetic.divided(config, sentences, rng)
    speakers: list[synthetic.Speaker] = []
    for split in SPLITS:
        variants = [variant for names in synthetic.VARIANTS[split].values() for variant in names]
        rng.shuffle(variants)
        turns, tongues = cycle(variants), cycle(languages)
        spoken = synthetic.said(texts[split], counts[split], split == "train", rng)
        for start in range(0, len(spoken), synthetic.EACH):
            language, variant = next(tongues), next(turns)
            name = f"{language}-{variant}-{len(speakers)}"
            how = (rng.randint(*config.words_per_minute), rng.randint(*config.pitch), rng.uniform(*synthetic.LEVELS))
            texts_of = tuple(spoken[start : start + synthetic.EACH])
            speakers.append(synthetic.Speaker(split, name, language, variant, *how, texts_of))
    return speakers


def _phones(speech: Speech, voice: synthetic.Spoken) -> list[Piece]:
    """Return the phones of speech; the language of native ones is empty."""
    made = pieces([phoneme.name for phoneme in speech.phonemes], "")
    return [piece._replace(language="" if piece.language in ("", *voice.codes) else piece.language) for piece in made]


def _times(speech: Speech, phones: Sequence[Piece], rate: int) -> tuple[int, list[list[float]]]:
    """Return the sample at which the phones end, and from when to when each lasts, in seconds."""
    starts = [phoneme.sample for phoneme in speech.phonemes] + [len(speech.samples)]
    times = []
    for piece in phones:
        start, end = starts[piece.phoneme], starts[piece.last + 1]
        share = (end - start) / piece.parts
        times.append([(start + share * (piece.part + k)) / rate for k in (0, 1)])
    return starts[phones[-1].last + 1], times


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
    builder.utterances = synthetic.read_utterances(root, about, _writer(builder, english))
    facts = {"espeak": about["espeak"], "utterances": about["utterances"], "minutes": about["seconds"] / 60}
    builder.notes.append(note_text("espeak", **facts, languages=", ".join(languages_of(config))))
    if near := about.get("nearest"):
        pairs = ", ".join(f"{phone} as {to}" for phone, to in sorted(near.items()))
        builder.notes.append(f"phones that only foreign words have are labelled as the nearest: {pairs}")
    return builder.to_corpus(config.dev_share, without_dev=False)


def _writer(builder: CorpusBuilder, english: bool) -> synthetic.Write:
    """Return a function that writes phones in IPA in the phone set of a corpus."""
    target = builder.phones.phones if builder.phones else None
    to_cmu = english and target is not None and is_arpabet(target)
    notation = Notation(target, "arpabet" if to_cmu else "ipa")

    def write(phones: Sequence[str], times: synthetic.Times) -> tuple[tuple[str, ...], synthetic.Times]:
        """Return the labels with their times; a phone that is two in the set is divided equally."""
        sources = cmu_sources(phones) if to_cmu else list(zip(phones, range(len(phones)), strict=True))
        written = notation.write([label for label, _ in sources])
        if written is None:
            raise InputError("phones of this language are unlike all of the phone set", "set corpus.phones to found")
        labels, kept = builder.labels(written)
        places = [k for _, k in sources]
        divided = []
        for n in kept:
            start, end = times[places[n]]
            share = (end - start) / places.count(places[n])
            part = n - places.index(places[n])
            divided.append((start + share * part, start + share * (part + 1)))
        return tuple(labels), tuple(divided)

    return write
