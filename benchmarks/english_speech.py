"""English speech to score recognisers on, and its phones in the same 37 classes for all.

The classes are the CMU dictionary's phones, ao as aa and zh as sh. Words are read by the CMU dictionary, first
pronunciation, and by eSpeak NG where it lacks them; TIMIT's labels are what was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.phones.folding import parse_folding

RATE = 16000
FOLD = parse_folding("cmu37")
LEFT_OUT = frozenset("bcl dcl gcl pcl tcl kcl q h# pau epi sil".split())
CMU_OF_TIMIT = {
    "ax": "ah", "ax-h": "ah", "axr": "er", "ix": "ih", "ux": "uw", "el": "ah l", "en": "ah n", "em": "ah m",
    "eng": "ih ng", "nx": "n", "dx": "t", "hv": "hh",
}  # fmt: skip


def of_table(path: Path) -> list[Utterance]:
    """Return the utterances of a table with phones or words."""
    config = CorpusConfig(
        kind="table", tables=TablesConfig(train=path), phones="cmu39", dictionary=Path("cmudict"), language="en-us",
        dev_share=0.01,
    )  # fmt: skip
    return [each for split in read_corpus(config).splits.values() for each in split]


def of_timit(root: Path) -> list[Utterance]:
    """Return the utterances of a folder in TIMIT's layout, TRAIN and TEST together."""
    splits = read_corpus(CorpusConfig(kind="timit", root=root)).splits
    return [each for split in splits.values() for each in split]


def reference(phones: Sequence[str]) -> list[str]:
    """Return what was said in the classes that are scored."""
    return FOLD.apply(cmu(phones))


def cmu(phones: Sequence[str]) -> list[str]:
    """Return TIMIT's labels as phones of the CMU dictionary."""
    return " ".join(CMU_OF_TIMIT.get(phone, phone) for phone in phones if phone not in LEFT_OUT).split()
