"""Corpora: recordings with phone labels, one reader per kind, one shape for what they find.

A reader turns a folder or a table into `Utterance` objects; nothing past this package knows where they came from.
"""

from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.registry import read_corpus

__all__ = ["SPLITS", "Corpus", "Rejected", "Utterance", "read_corpus"]
