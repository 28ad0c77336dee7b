"""Recordings that a list or the command line names one by one: paths, and addresses of stores."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from speechctc.audio.recordings import Listed
from speechctc.core.errors import InputError, plural

Each = TypeVar("Each")
MOST = 1 << 28  # bytes of a list


class Shard(NamedTuple):
    """A part of many: the recordings ``number``, ``number + of`` and so on, counted from 1."""

    number: int
    of: int

    def take(self, items: Sequence[Each]) -> list[Each]:
        """Return the items of this part."""
        return list(items[self.number - 1 :: self.of])


def parse_shard(text: str | None) -> Shard:
    """Return the part that ``3/40`` means; all for None.

    Raises
    ------
    InputError
        It means none.
    """
    number, _, of = (text or "1/1").partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise InputError(f"--shard {text}: no part of a number of parts", "give --shard 3/40 for the third of 40")
    return Shard(int(number), int(of))


def read_list(place: Path) -> list[str]:
    """Return the lines of a list of recordings, or what NUL bytes divide; ``-`` is standard input.

    Raises
    ------
    InputError
        It cannot be read, or has no lines.
    """
    try:
        if str(place) == "-":
            content = sys.stdin.buffer.read(MOST + 1)
        else:
            with open(place, "rb") as file:
                content = file.read(MOST + 1)
    except OSError as error:
        raise InputError(f"{place}: {error.strerror}", "name a text file with a recording in each line") from None
    if len(content) > MOST:
        raise InputError(f"{place}: larger than {MOST >> 20} MiB", "divide it")
    content = content.removeprefix(codecs.BOM_UTF8)
    parts = content.split(b"\0") if b"\0" in content else content.splitlines()
    lines = [os.fsdecode(part) for part in parts if part.strip()]
    if not lines:
        raise InputError(f"{place}: no recording is named", "write one in each line")
    return lines


def find_listed(place: Path) -> tuple[Listed, list[str]]:
    """Return the recordings that a list names, and lines on what is left out.

    The names of their results keep the folders below the one that all are in.
    """
    lines = read_list(place)
    once = list(dict.fromkeys(lines))
    twice = len(lines) - len(once)
    notes = [f"{place}: {plural(twice, 'line')} left out that name a recording again"] if twice else []
    return Listed.of(once), notes
