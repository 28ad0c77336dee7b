"""The journal of a recording: one line of JSON for each change, on the disk before the change is acknowledged.

A process that is killed leaves at most half a last line, which reading ignores. Two processes may append to one
journal: the one that does not know the other's lines is refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.core.files import locked

ENDING = ".journal"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT


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
        try:
            view = memoryview(lines)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, before)
            raise
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
