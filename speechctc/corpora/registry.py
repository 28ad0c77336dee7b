"""Reads a corpus with the reader for `corpus.kind`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from speechctc.audio.tracks import chosen, preferred
from speechctc.config.schema import KEYS_OF_KIND, CorpusConfig
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.corpora import table, tiers, timit
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.label_tracks import read_label_tracks
from speechctc.corpora.synthetic import read_demo, read_espeak

# By `corpus.kind`; each takes the config and the split without which there is no corpus.
READERS: dict[str, Callable[[CorpusConfig, str], Corpus]] = {
    "timit": lambda config, needed: timit.read_timit(_root(config), _timit_set(config), config.dev_share, needed),
    "table": table.read_tables,
    "textgrid": lambda config, needed: tiers.read_textgrids(_root(config), config, needed),
    "elan": lambda config, needed: tiers.read_elan(_root(config), config, needed),
    "labels": lambda config, needed: read_label_tracks(_root(config), config, needed),
    "demo": lambda config, needed: read_demo(_root(config), config),
    "espeak": lambda config, needed: read_espeak(_root(config), config),
}


def read_corpus(config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read the corpus of a config; a synthetic corpus is made first if it does not exist.

    Parameters
    ----------
    config : CorpusConfig
    needed : str
        The split without which there is no corpus; to score, training utterances are not needed.

    Raises
    ------
    InputError
        There is no corpus of that kind.
    """
    if (read := READERS.get(config.kind)) is None:
        own = plugins.need("corpus", config.kind, tuple(KEYS_OF_KIND))
        read = plugins.guarded(f"corpus.kind={config.kind}", own)
    corpus: Corpus = read(config, needed).with_repeats()
    if (given := chosen(config.track, config.channel)) is None:
        return corpus
    splits = {
        split: tuple(dataclasses.replace(each, channel=preferred(each.channel, given)) for each in part)
        for split, part in corpus.splits.items()
    }
    return dataclasses.replace(corpus, splits=splits)


def _timit_set(config: CorpusConfig) -> str:
    return "timit61" if config.phones == "auto" else config.phones


def _root(config: CorpusConfig) -> Path:
    if config.root is None:
        raise InputError(f"corpus.root is not set, and corpus.kind is {config.kind}", "set it to its folder")
    return config.root
