"""The journal of a recording: a line of JSON a change, on the disk before it is acknowledged; undo and redo.

A process that is killed leaves at most half a last line, which reading ignores. Two processes may append to one
journal: the one that does not know the other's lines is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.core.files import append, locked
from speechctc.studio.phones import Phones, Splice

ENDING = ".journal"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT

READ, RECOGNISED = "read the TextGrid", "recognised"  # changes that are no corrections


class Outdated(Exception):
    """Another process appended to the journal since it was read."""


class Journal:
    """An append-only file of JSON lines.

    Parameters
    ----------
    path : Path
        Need not exist; it is created by the first `append`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0  # bytes that this object has read or written

    def read(self) -> list[dict[str, Any]]:
        """Return all entries in order; half a line, which a killed process left, is skipped.

        Raises
        ------
        InputError
            The file cannot be read, or is a link or a pipe.
        """
        written.refuse_odd(self.path)
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})", "change its permissions") from None
        self._size = len(content)
        return [entry for line in content.split(b"\n") if (entry := _entry(line)) is not None]

    def append(self, *entries: dict[str, Any], before: bytes = b"") -> None:
        """Append entries and wait until they are on the disk; all or none of them count after an interruption.

        Parameters
        ----------
        *entries : dict
        before : bytes
            Lines of `to_lines` to append first.

        Raises
        ------
        Outdated
            Another process appended since `read`; nothing is written.
        InputError
            The file became a link meanwhile.
        OSError
            From the disk. What was written of the entries is taken back.
        """
        lines = before + to_lines(*entries)
        is_new = not self.path.exists()
        handle = written.open_plain(self.path, _FLAGS)
        try:
            with locked(handle):
                self._append(handle, lines)
        finally:
            os.close(handle)
        if is_new and os.name == "posix":
            _flush_folder(self.path.parent)

    def _append(self, handle: int, lines: bytes) -> None:
        before = os.fstat(handle).st_size
        if before != self._size:
            raise Outdated
        if before and _lacks_end(self.path):
            lines = b"\n" + lines
        append(handle, lines, flush=True)
        self._size = before + len(lines)


def to_lines(*entries: dict[str, Any]) -> bytes:
    """Return the lines of entries."""
    return b"".join(json.dumps(entry, ensure_ascii=False).encode("utf-8") + b"\n" for entry in entries)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _lacks_end(path: Path) -> bool:
    """Return whether a file ends with half a line."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _flush_folder(folder: Path) -> None:
    """Wait until the name of a new file is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class History:
    """Phones, and the changes that led to them.

    Attributes
    ----------
    phones : list of Phone
    revision : int
        Number of changes so far, undo and redo among them.
    by_hand : bool
        The first labels were a person's, all of them.
    wrote, read : set of str
        SHA-256 of TextGrids that the studio wrote, and of others whose labels the journal has.
    """

    def __init__(self) -> None:
        self.phones: Phones = []
        self.revision = 0
        self.by_hand = False
        self.wrote: set[str] = set()
        self.read: set[str] = set()
        self._done: list[Splice] = []
        self._undone: list[Splice] = []

    def apply(self, entry: Mapping[str, Any]) -> Splice | None:
        """Apply an entry of the journal; return the change of the phones, if it is one.

        Raises
        ------
        ValueError, TypeError, KeyError, IndexError
            The entry does not fit those before it.
        """
        if "wrote" in entry:
            self.wrote.add(str(entry["wrote"]))
            return None
        if "read" in entry:
            self.read.add(str(entry["read"]))
            self.by_hand = self.by_hand or bool(entry["by_hand"])
            return None
        if "undo" in entry:
            splice = self._done[-1].inverse()
            splice.apply(self.phones)
            self._undone.append(self._done.pop())
        elif "redo" in entry:
            splice = self._undone[-1]
            splice.apply(self.phones)
            self._done.append(self._undone.pop())
        else:
            splice = Splice.from_dict(dict(entry))
            self.change(splice)
            return splice
        self.revision += 1
        return splice

    def change(self, splice: Splice) -> None:
        """Apply a new change.

        Raises
        ------
        ValueError
            The phones are not those that the change was made for.
        """
        splice.apply(self.phones)
        self._done.append(splice)
        self._undone.clear()
        self.revision += 1

    def undoable(self) -> tuple[bool, bool]:
        """Return whether there is a change to undo, and one to redo; the first labels cannot be undone."""
        first = 1 if self._done and not self._done[0].old and self._done[0].what in (READ, RECOGNISED) else 0
        return len(self._done) > first, bool(self._undone)

    @property
    def is_corrected(self) -> bool:
        """Whether a person made or changed labels."""
        return self.by_hand or any(splice.what not in (READ, RECOGNISED) for splice in self._done)
