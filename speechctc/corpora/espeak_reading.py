"""Reads the corpus that eSpeak NG spoke; it is made first if it does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.config.corpus_config import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.espeak import languages_of, make_corpus
from speechctc.corpora.made_once import read_rows
from speechctc.phones.dictionary import Notation, cmu_sources
from speechctc.phones.matching import is_arpabet

Times = tuple[tuple[float, float], ...]


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
        builder.utterances[split] += [_utterance(row, root, notation) for row in rows]
    builder.notes.append(
        f"corpus of eSpeak NG {about['espeak']} in {', '.join(languages_of(config))}: {about['utterances']} utterances,"
        f" {about['seconds'] / 60:.0f} minutes; the voices and sentences of dev and test are not in training"
    )
    if near := about.get("nearest"):
        pairs = ", ".join(f"{phone} as {to}" for phone, to in sorted(near.items()))
        builder.notes.append(f"phones that only foreign words have are labelled as the nearest: {pairs}")
    return builder.to_corpus(config.dev_share, without_dev=False)


def _utterance(row: dict[str, Any], root: Path, labels: _Labels) -> Utterance:
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
