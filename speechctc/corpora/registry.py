"""Reads a corpus with the reader for `corpus.kind`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, cast

from speechctc.config.corpus_config import KEYS_OF_KIND
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.corpora import demo, table, textgrid, timit
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.espeak import read_espeak
from speechctc.corpora.flite import read_flite

if TYPE_CHECKING:
    from speechctc.config.corpus_config import CorpusConfig


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
    corpus = _read(config, needed)
    if config.channel is None:
        return corpus
    splits = {
        split: tuple(dataclasses.replace(each, channel=each.channel or config.channel) for each in part)
        for split, part in corpus.splits.items()
    }
    return dataclasses.replace(corpus, splits=splits)


def _read(config: CorpusConfig, needed: str) -> Corpus:
    if config.kind == "table":
        return table.read_tables(config, needed)
    if config.kind == "textgrid":
        return textgrid.read_textgrids(_root(config), config, needed)
    if config.kind == "espeak":
        return read_espeak(_root(config), config)
    if config.kind == "flite":
        return read_flite(_root(config), config)
    if config.kind == "elan":
        return textgrid.read_elan(_root(config), config, needed)
    if config.kind not in KEYS_OF_KIND:
        return cast(Corpus, plugins.need("corpus", config.kind, tuple(KEYS_OF_KIND))(config, needed))
    phone_set = "timit61" if config.phones == "auto" else config.phones
    if config.kind == "demo":
        return demo.read_demo(_root(config), config.demo, phone_set)
    return timit.read_timit(_root(config), phone_set, config.dev_share, needed)


def _root(config: CorpusConfig) -> Path:
    if config.root is None:
        raise InputError(f"corpus.root is not set, and corpus.kind is {config.kind}", "set it to its folder")
    return config.root
