"""Read and write n-grams as ARPA files, the format of KenLM, SRILM and others, plain or gzipped."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from speechctc.core import files
from speechctc.core.errors import InputError, first_few
from speechctc.core.text_files import read_unpacked
from speechctc.lm.ngram import FLOOR, START, Ngram
from speechctc.phones.inventory import Inventory, inventory_of

START_WORD, END_WORD, UNKNOWN_WORD = "<s>", "</s>", "<unk>"
SPECIAL = frozenset((START_WORD, END_WORD, UNKNOWN_WORD))

MEND = "mend it there, or write it again with the tool that made it"


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
    data = ("\n".join(_lines(ngram, inventory)) + "\n").encode()
    files.write_bytes(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


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


@dataclass(frozen=True)
class Arpa:
    """The contents of an ARPA file.

    Attributes
    ----------
    ngram : Ngram
    inventory : Inventory
        Its phone ``phones[i]`` is token ``i + 1`` of the n-gram.
    missing : tuple of str
        Phones of the inventory that the file lacks. They have the probability of ``<unk>``, or 10^-99.
    """

    ngram: Ngram
    inventory: Inventory
    missing: tuple[str, ...]


class _Line(NamedTuple):
    """The number of a line, the words of its string, and the natural logs of its probability and back-off weight."""

    number: int
    words: list[str]
    values: tuple[float, float]


def read_arpa(path: Path, inventory: Inventory | None = None) -> Arpa:
    """Read an n-gram.

    Parameters
    ----------
    path : Path
    inventory : Inventory, optional
        The phones that its words must be; None: the words are the phones.

    Raises
    ------
    InputError
        There is no such file, it is not an ARPA file, is cut off, has a line with a fault (the line is named), or has
        words that are not phones of the inventory.
    """
    lines = _read_lines(path)
    sections: list[list[_Line]] = []
    for length, count in enumerate(_read_counts(path, lines), start=1):
        if length > 1:
            _expect(path, next(lines), f"\\{length}-grams:")
        sections.append(_read_section(path, lines, length, count))
    _expect(path, next(lines), "\\end\\")
    words = [line.words[0] for line in sections[0]]
    unseen = next((line.values[0] for line in sections[0][::-1] if line.words[0].lower() == UNKNOWN_WORD), FLOOR)
    if END_WORD not in words:
        raise InputError(f"{path}: no {END_WORD} in it, so no utterance could end", MEND)
    tokens, inventory = _tokens(path, words, inventory)
    missing = tuple(phone for k, phone in enumerate(inventory.phones, 1) if k not in tokens.values())
    return Arpa(_trie(path, sections, tokens, len(inventory.phones) + 1, unseen), inventory, missing)


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank; after the last one, the file is cut off."""
    lines = [line.strip() for line in read_unpacked(path, "an ARPA file").split("\n")]
    if "\\data\\" not in lines:
        raise InputError(f"{path}: not an ARPA file, it has no line \\data\\", "name an ARPA file, plain or .gz")
    yield from ((number, text) for number, text in enumerate(lines, start=1) if text)
    raise InputError(f"{path}: the file is cut off", MEND)


def _read_counts(path: Path, lines: Iterator[tuple[int, str]]) -> list[int]:
    """Read up to the first section's title; return how many strings of each length the header announces."""
    while next(lines)[1] != "\\data\\":
        pass
    counts: list[int] = []
    while (line := next(lines))[1] != "\\1-grams:" or not counts:
        entry = re.fullmatch(r"ngram\s+(\d{1,3})\s*=\s*(\d{1,15})", line[1])
        if not entry or int(entry[1]) != len(counts) + 1:
            raise _misplaced(path, line, f"'ngram {len(counts) + 1}=COUNT'")
        counts.append(int(entry[2]))
    return counts


def _read_section(path: Path, lines: Iterator[tuple[int, str]], length: int, count: int) -> list[_Line]:
    """Read the strings of one length."""
    section: list[_Line] = []
    while len(section) < count:
        number, text = next(lines)
        fields = text.split()
        if fields[0].startswith("\\") and len(fields) != length + 1:
            raise _fault(path, number, f"{len(section)} {length}-grams where the header says {count}")
        section.append(_Line(number, fields[1 : length + 1], _numbers(path, number, fields, length)))
    return section


def _expect(path: Path, line: tuple[int, str], title: str) -> None:
    if line[1] != title:
        raise _misplaced(path, line, f"'{title}'")


def _numbers(path: Path, line: int, fields: list[str], length: int) -> tuple[float, float]:
    """Return the natural logs of a line's probability and back-off weight."""
    if not length + 1 <= len(fields) <= length + 2:
        what = f"{len(fields) - 1} fields after the probability, where a {length}-gram has {length} words"
        raise _fault(path, line, f"{what} and at most one back-off weight")
    values = []
    for text in (fields[0], *fields[length + 1 :]):
        try:
            values.append(float(text))
        except ValueError:
            raise _fault(path, line, f"{_shown(text)} is not a number") from None
    log_prob, backoff = values[0], values[1] if len(values) > 1 else 0.0
    if not log_prob <= 0:
        raise _fault(path, line, f"the log probability {fields[0]} is above 0")
    if np.isnan(backoff) or backoff == np.inf:
        raise _fault(path, line, f"the back-off weight {fields[-1]} is not a number")
    return max(log_prob * np.log(10), FLOOR), max(backoff * np.log(10), FLOOR)


def _tokens(path: Path, words: list[str], inventory: Inventory | None) -> tuple[dict[str, int], Inventory]:
    """Return the token of each word, and the inventory."""
    special = {START_WORD, END_WORD}
    plain = [word for word in words if word not in special and word.lower() != UNKNOWN_WORD]
    inventory = inventory or inventory_of(plain)
    number = {phone: k for k, phone in enumerate(inventory.phones, start=1)}
    unknown = [word for word in plain if inventory.normalise(word) not in number]
    if unknown:
        raise InputError(
            f"{path}: {len(unknown)} of its {len(plain)} words are not of the {len(number)} phones ({inventory.name}):"
            f" {first_few(unknown)}",
            "give an n-gram of these phones; speechctc lm train --phones MODEL makes one",
        )
    tokens = {word: number[inventory.normalise(word)] for word in plain}
    return {START_WORD: START, **tokens, END_WORD: len(number) + 1}, inventory


def _trie(path: Path, sections: list[list[_Line]], tokens: dict[str, int], classes: int, unseen: float) -> Ngram:
    """Sort the strings into a trie; those with ``<unk>`` in them are left out, as no phone is unknown."""
    starts, parents, last, numbers = [0, 1], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], [np.zeros((1, 2))]
    index: dict[tuple[int, ...], int] = {(): 0}
    for length, section in enumerate(sections, start=1):
        kept = [line for line in section if all(word.lower() != UNKNOWN_WORD for word in line.words)]
        strings = [_string(path, line, tokens) for line in kept]
        parent, first = np.zeros(len(kept), np.int64), dict[tuple[int, ...], _Line]()
        for k, (string, line) in enumerate(zip(strings, kept, strict=True)):
            if string[:-1] not in index:
                before = " ".join(line.words[:-1])
                raise _fault(path, line.number, f"{before!r} is no {length - 1}-gram of the file")
            if first.setdefault(string, line) is not line:
                raise _fault(path, line.number, f"{' '.join(line.words)!r} stands there a second time")
            parent[k] = index[string[:-1]]
        token = np.array([string[-1] for string in strings], np.int64)
        order = np.lexsort((token, parent))
        index = {strings[k]: starts[-1] + place for place, k in enumerate(order.tolist())}
        parents.append(parent[order])
        last.append(token[order])
        numbers.append(np.array([kept[k].values for k in order.tolist()]).reshape(-1, 2))
        starts.append(starts[-1] + len(kept))
    log_prob, backoff = np.concatenate(numbers).T
    return Ngram(classes, np.array(starts), np.concatenate(parents), np.concatenate(last), log_prob, backoff, unseen)


def _string(path: Path, line: _Line, tokens: dict[str, int]) -> tuple[int, ...]:
    try:
        string = tuple([tokens[word] for word in line.words])
    except KeyError as error:
        raise _fault(path, line.number, f"the word {error.args[0]!r} is none of the 1-grams") from None
    if START in string[1:] or tokens[END_WORD] in string[:-1]:
        raise _fault(path, line.number, f"{START_WORD} or {END_WORD} in the midst of {' '.join(line.words)!r}")
    return string


def _fault(path: Path, line: int, what: str) -> InputError:
    return InputError(f"{path}, line {line}: {what}", MEND)


def _misplaced(path: Path, line: tuple[int, str], wanted: str) -> InputError:
    return _fault(path, line[0], f"{_shown(line[1])} where {wanted} should be")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
