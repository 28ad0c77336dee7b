"""The one exception that reaches the user: what, where and what to do; names, counts and tables for messages."""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MAX_HALF = 900  # characters of each half of a message
# The name of a draft, and of what a folder was before it was replaced (`speechctc.core.files`).
DRAFT = re.compile(r"\.speechctc-[0-9a-f]{12}-[0-9a-f]{16}\.(partial|previous)")
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)  # a disk has no space
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_END = 300  # of them are the last of a longer one
RESUME = "--resume, or resume=True in Python"
"""How a training that was begun before goes on."""
RUN_OPTION = "--run DIR, or run=DIR"
"""How a training gets another folder."""


class InputError(Exception):
    """Something the user gave is wrong; the command line prints the message and exits with status 2.

    Parameters
    ----------
    what : str
        What is wrong and where, with the value found: ``"data/a.wav: the file is empty"``.
    fix : str
        What to do about it, as an instruction: ``"record it again, or leave it out of the table"``.

    Notes
    -----
    Both quote files and names from outside. Control characters in them are escaped, and the middle of a long text is
    left out, so that the message is one line that a terminal can show.
    """

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = shortened(printable(what)), shortened(printable(fix))
        super().__init__(f"{self.what}; {self.fix}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.what, self.fix)


def optional(module: str, what: str, fix: str) -> Any:
    """Return a module of a package that not every installation has.

    Raises
    ------
    InputError
        It is not installed: `what`, and `fix`.
    """
    try:
        return import_module(module)
    except ImportError:
        raise InputError(what, fix) from None


def with_extra(extra: str) -> str:
    """Return the command that installs an extra: in a clone, where the package was installed from one."""
    installed = next(iter(distributions(name="speechctc")), None)
    is_from_index = installed is not None and installed.read_text("direct_url.json") is None
    return f"pip install '{'speechctc' if is_from_index else '.'}[{extra}]'"


def check_torch() -> None:
    """Refuse what cannot be done without torch, where it is not installed.

    Raises
    ------
    InputError
        It is not.
    """
    if find_spec("torch") is None:
        raise no_torch()


def no_torch() -> InputError:
    """Return the error of what needs torch where it is not installed."""
    return InputError("this needs torch, which is not installed; recognition does without", with_extra("train"))


def of_disk(error: OSError) -> InputError:
    """Return an error of the file system in one line, with what to do; a draft is called by its folder."""
    name = error.filename2 or error.filename
    path = Path(os.fsdecode(name) if isinstance(name, str | bytes) else "disk")
    place = next((part.parent for part in (path, *path.parents) if DRAFT.fullmatch(part.name)), path)
    return InputError(f"{place}: {error.strerror}", advice_on(error))


def advice_on(error: OSError) -> str:
    """Return what to do about an error of the file system."""
    if error.errno in FULL:
        return "free space, or write to another disk"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "allow it (the permissions of the file and of its folder), or name another place"
    if error.errno == errno.ENAMETOOLONG:
        return "choose a shorter name"
    return "check the path and the disk"


def printable(text: str, keep: str = "") -> str:
    r"""Return a text whose control characters are escaped (``\x1b``), so that no terminal obeys them.

    Marks of direction are among them: after one, a terminal may show ``exe.wav`` for ``vaw.exe``.

    Parameters
    ----------
    text : str
    keep : str
        Control characters to leave as they are: line ends, in a text of several lines.
    """
    if text.isprintable():
        return text
    return "".join(ascii(letter)[1:-1] if letter not in keep and _is_control(letter) else letter for letter in text)


def _is_control(letter: str) -> bool:
    return letter in DIRECTIONS or unicodedata.category(letter) in ("Cc", "Zl", "Zp")


def as_utf8(text: str) -> str:
    """Return a text in which bytes of file names that are not UTF-8 are U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shortened(text: str) -> str:
    """Return a text without the middle of it, if it is longer than a half of a message may be."""
    return text if len(text) <= MAX_HALF else f"{text[: MAX_HALF - _END - 5]} ... {text[-_END:]}"


def first_few(names: Sequence[str], most: int = 8) -> str:
    """Return the first `most` names in one line, and the number of the others: ``"a, b and 3 more"``."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted_alike(said: Sequence[tuple[Path | str, str]], with_numbers: bool = False) -> list[str]:
    """Return messages about files as lines; those that differ only in the file's name are one line with a count.

    `with_numbers`: also those that differ in numbers; the line has the numbers of the first.
    """
    groups: dict[str, list[tuple[Path | str, str]]] = {}
    for path, text in said:
        stem = re.escape(Path(path).stem)
        names = rf"^{re.escape(str(path))}:|\S*(?<!\w){stem}\.\S*"  # of the file, and of those named like it
        groups.setdefault(re.sub(names + r"|\d+" * with_numbers, "", text), []).append((path, text))
    lines = []
    for (_, first), *more in groups.values():
        names = first_few([str(path) for path, _ in more])
        lines.append(f"{first} ({len(more) + 1} times, also for {names})" if more else first)
    return lines


def plural(count: int, what: str) -> str:
    """Return a number of things in words: ``"1 phone"``, ``"1,200 phones"``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def counted(counts: Counter[str], most: int = 8) -> str:
    """Return names with their counts in one line, the most frequent first: ``"a (5), b (2)"``."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return first_few([f"{name} ({count})" for name, count in ranked], most)


def columns(rows: Sequence[Sequence[str]], alignment: str) -> list[str]:
    """Return rows as lines of a table.

    Parameters
    ----------
    rows : sequence of sequences of str
        All with as many cells as `alignment` has letters.
    alignment : str
        A letter for each column: ``l`` or ``r`` for cells at its left or right edge.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(alignment))]
    sides = [str.ljust if side == "l" else str.rjust for side in alignment]
    padded = ([pad(cell, width) for pad, cell, width in zip(sides, row, widths, strict=True)] for row in rows)
    return ["  ".join(cells).rstrip() for cells in padded]
