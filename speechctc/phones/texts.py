"""Words and their pronunciations; phone texts: one utterance per line, phones separated by spaces."""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.core.errors import InputError, first_few
from speechctc.core.files import readable
from speechctc.core.text_files import decode_text
from speechctc.phones.inventory import Inventory

GZIP = b"\x1f\x8b"
SMALL = 1 << 24  # bytes that a gzipped file may always have
RATIO = 200  # times its packed size that a larger one may have; texts have about 5

Pronunciations = tuple[tuple[str, ...], ...]


class Word(NamedTuple):
    """A word of a text, without the punctuation around it, and its pronunciations, the most likely first.

    No pronunciations: nothing can read the word.
    """

    text: str
    pronunciations: Pronunciations


def read_unpacked(path: Path, what: str) -> str:
    """Return a file's text, unpacked if it is gzipped; `what` says in messages what the file should be.

    Raises
    ------
    InputError
        There is no such file, it is cut off, neither UTF-8 nor UTF-16, or larger than its packed size makes plausible.
    """
    try:
        data = readable(path).read_bytes()
        text, odd = decode_text(_unpacked(data) if data.startswith(GZIP) else data, path)
        if odd:
            raise ValueError("not UTF-8")
        return text
    except (EOFError, OSError, ValueError, zlib.error, InputError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(getattr(error, "what", error)).split())
        raise InputError(f"{path}: cannot be read as {what} ({reason})", f"name {what}, plain or .gz") from None


def most_unpacked(size: int) -> int:
    """Return the bytes that a packed file of so many may plausibly unpack to."""
    return max(SMALL, RATIO * size)


def _unpacked(data: bytes) -> bytes:
    most = most_unpacked(len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise ValueError(f"{len(data)} bytes unpack to more than {most}")
    return unpacked


def read_text(path: Path) -> list[list[str]]:
    """Return the phones of each line that has any.

    Raises
    ------
    InputError
        It cannot be read, or there are no phones in it.
    """
    lines = [line.split() for line in read_unpacked(path, "a UTF-8 text").splitlines()]
    utterances = [line for line in lines if line]
    if not utterances:
        raise InputError(f"{path}: no phones in it", "write one utterance per line, its phones separated by spaces")
    return utterances


def encode(source: str, utterances: Iterable[Sequence[str]], inventory: Inventory) -> list[list[int]]:
    """Return the labels of utterances; `source` names them in messages.

    Raises
    ------
    InputError
        Words are not phones of the inventory: how many, and which.
    """
    number = {phone: k for k, phone in enumerate(inventory.phones, start=1)}
    unknown: Counter[str] = Counter()
    labels = []
    for utterance in utterances:
        phones = [inventory.normalise(word) for word in utterance]
        unknown.update(word for word, phone in zip(utterance, phones, strict=True) if phone not in number)
        labels.append([number.get(phone, 0) for phone in phones])
    if unknown:
        known = f"the {len(number)} phones ({inventory.name})"
        what = f"{source}: {sum(unknown.values())} words are not of {known}: {first_few([*unknown])}"
        raise InputError(what, "correct them, or choose a language model or a phone set that has them")
    return labels
