"""The sentences that eSpeak NG speaks: from a text of the user's, or from the transcripts of a table."""

from __future__ import annotations

import random
import re
from pathlib import Path

from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.corpora.table_rows import DELIMITED, JSON_LINES, read_table

_ENDS = re.compile(r"(?<=[.!?…։።।。！？؟])\s+")
FEWEST = 12  # sentences: some for training, dev and test each
MIXED = 0.5  # share of the training utterances that are of random words, where there are fewer sentences than those


def read_sentences(path: Path, words: tuple[int, int]) -> list[str]:
    """Return the different sentences of a file, in order; long ones are divided, short ones left out.

    Parameters
    ----------
    path : Path
        A table with a column ``words``, by its ending; .txt is a text, in which a sentence ends with its line or a full
        stop.
    words : (int, int)
        Fewest and most words of a sentence.

    Raises
    ------
    InputError
        The file cannot be read, or has too few sentences.
    """
    if path.is_dir():
        raise InputError(f"{path}: a folder", "set corpus.espeak.text to a file of sentences")
    ending = path.suffix.lower()
    is_table = ending in (*DELIMITED, *JSON_LINES) and ending != ".txt"
    lines = [row.words for row in read_table(path).rows] if is_table else read_text(path).text.split("\n")
    found: dict[str, None] = {}
    for line in lines:
        for sentence in _ENDS.split(line):
            found.update(dict.fromkeys(_divided(sentence.split(), words)))
    if len(found) < FEWEST:
        raise InputError(
            f"{path}: {len(found)} different sentences of {words[0]} to {words[1]} words",
            f"give at least {FEWEST}, or change corpus.espeak.words",
        )
    return list(found)


def _divided(tokens: list[str], words: tuple[int, int]) -> list[str]:
    """Return a sentence in equal parts that are not too long; without those that are too short."""
    fewest, most = words
    count = -(-len(tokens) // most)
    edges = [round(k * len(tokens) / count) for k in range(count + 1)] if count else []
    parts = [tokens[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [" ".join(part) for part in parts if len(part) >= fewest]


def random_words(sentences: list[str], rng: random.Random) -> str:
    """Return words that were drawn from sentences, as many as one of them has."""
    count = len(rng.choice(sentences).split())
    return " ".join(rng.choice(rng.choice(sentences).split()).strip(".,;:!?") for _ in range(count))
