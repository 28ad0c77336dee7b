"""Read the texts of language models: labels of a corpus, or phone texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.config.schema import Config
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.errors import InputError
from speechctc.lm.texts import read_text
from speechctc.phones.inventory import FOUND, Inventory, inventory_of, named_inventory


class PhoneText(NamedTuple):
    """Utterances as phones, and the name of their source."""

    name: str
    utterances: Sequence[Sequence[str]]


def split_texts(config: Config, splits: Sequence[str]) -> tuple[Inventory, list[PhoneText]]:
    """Return a corpus's phone set and the labels of some of its splits.

    Raises
    ------
    InputError
        There is no such corpus, or a split has no utterances.
    """
    corpus = read_corpus(config.corpus)
    return corpus.inventory(), [_split(corpus, split) for split in splits]


def _split(corpus: Corpus, split: str) -> PhoneText:
    utterances = [utterance.phones for utterance in corpus.splits[split]]
    if not any(utterances):
        raise InputError(f"the corpus has no {split} split, or no phones in it", "name another, or a text with --text")
    return PhoneText(split, utterances)


def text_inventory(phones: str, text: PhoneText) -> Inventory:
    """Return a named phone set, or for ``found`` that of the text's own words."""
    if phones != FOUND:
        return named_inventory(phones)
    return inventory_of(phone for utterance in text.utterances for phone in utterance)


def phone_text(path: Path) -> PhoneText:
    """Read a phone text.

    Raises
    ------
    InputError
        It cannot be read, or is empty.
    """
    return PhoneText(str(path), read_text(path))
