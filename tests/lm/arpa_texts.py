"""ARPA files for tests, and what they mean, followed string by string in a dictionary."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

String = tuple[str, ...]
Table = dict[String, tuple[float, float]]

SRILM = """
made by hand in the manner of SRILM

\\data\\
ngram 1=5
ngram 2=3
ngram 3=2

\\1-grams:
-0.5\t</s>
-99\t<s>\t-0.3
-0.7\ta\t-0.2
-0.8\tb\t-0.1
-0.9\tc

\\2-grams:
-0.2\t<s> a\t-0.05
-0.4\ta b\t0.02
-0.3\tb </s>

\\3-grams:
-0.1\t<s> a b
-0.15\ta b c

\\end\\
"""


def write(path: Path, text: str = SRILM) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def random_table(order: int, phones: list[str], seed: int, closed: bool = False) -> Table:
    """Return strings with probabilities; each but its last word is there too, each but its first if it is closed."""
    rng = np.random.default_rng(seed)
    words = ["<s>", *phones, "</s>"]
    table: Table = {(word,): (-99.0 if word == "<s>" else -rng.uniform(0.1, 2), rng.normal() / 4) for word in words}
    level = [string for string in table if string != ("</s>",)]
    for _ in range(2, order + 1):
        longer = [(*string, word) for string in level for word in words[1:] if rng.random() < 0.4]
        longer = [string for string in longer if not closed or string[1:] in table]
        table |= {string: (-rng.uniform(0.1, 2), rng.normal() / 4 * (rng.random() < 0.7)) for string in longer}
        level = [string for string in longer if string[-1] != "</s>"]
    return table


def to_arpa(table: Table) -> str:
    order = max(map(len, table))
    parts = ["\\data\\", *(f"ngram {k}={sum(len(s) == k for s in table)}" for k in range(1, order + 1))]
    for k in range(1, order + 1):
        parts += ["", f"\\{k}-grams:"]
        for string, (prob, backoff) in table.items():
            if len(string) == k:
                ends = k == order or string[-1] == "</s>"
                parts.append(f"{prob!r}\t{' '.join(string)}" + ("" if ends else f"\t{float(backoff)!r}"))
    return "\n".join([*parts, "", "\\end\\", ""])


def score(table: Table, phones: list[str]) -> float:
    """Return log10 of the probability of phones between start and end, backing off by the book."""
    order = max(map(len, table))

    def prob(context: String, word: str) -> float:
        if (*context, word) in table:
            return table[(*context, word)][0]
        ends = not context or context[-1] == "</s>" or len(context) == order
        return (0.0 if ends else table.get(context, (0.0, 0.0))[1]) + prob(context[1:], word)

    sentence = ["<s>", *phones, "</s>"]
    return sum(prob(tuple(sentence[max(k - order + 1, 0) : k]), sentence[k]) for k in range(1, len(sentence)))
