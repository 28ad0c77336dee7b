"""Write n-grams as ARPA files, the format of KenLM, SRILM and others."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.ngram.trie import FLOOR, Ngram
from speechctc.phones.inventory import Inventory

START_WORD, END_WORD, UNKNOWN_WORD = "<s>", "</s>", "<unk>"
SPECIAL = frozenset((START_WORD, END_WORD, UNKNOWN_WORD))


def write_arpa(path: Path, ngram: Ngram, inventory: Inventory) -> None:
    """Write an n-gram whole or not at all, compressed if the name ends in ``.gz``.

    ``<unk>`` is in it with a probability of 0 (-99), because some readers want it.

    Raises
    ------
    InputError
        A phone has a name that means something else in ARPA files.
    """
    if taken := SPECIAL & set(inventory.phones):
        raise InputError(f"the phone {min(taken)!r} has a name that ARPA files reserve", "rename it in the labels")
    text = "\n".join(_lines(ngram, inventory)) + "\n"
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)

    def write(beside: Path) -> None:
        beside.write_bytes(data)

    files.write_file(path, write)


def _lines(ngram: Ngram, inventory: Inventory) -> list[str]:
    words = [START_WORD, *inventory.phones, END_WORD]
    lines = ["\\data\\"]
    for length in range(1, ngram.order + 1):
        lines.append(f"ngram {length}={len(ngram.nodes(length)) + (length == 1)}")
    log_probs, backoffs = ngram.log_prob / np.log(10), ngram.backoff / np.log(10)
    strings = [""]
    for length in range(1, ngram.order + 1):
        lines += ["", f"\\{length}-grams:"]
        if length == 1:
            lines.append(f"-99\t{UNKNOWN_WORD}")
        for node in ngram.nodes(length).tolist():
            before = strings[ngram.parent[node]]
            strings.append(f"{before} {words[ngram.token[node]]}" if before else words[ngram.token[node]])
            line = f"{_number(log_probs[node])}\t{strings[node]}"
            lines.append(f"{line}\t{_number(backoffs[node])}" if ngram.has_children[node] else line)
    return [*lines, "", "\\end\\"]


def _number(log10: float) -> str:
    return "-99" if log10 * np.log(10) <= FLOOR + 1e-6 else f"{log10:.9g}"
