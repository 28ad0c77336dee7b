"""Files and folders written whole or not at all, and folders read whole while others replace them.

What is new is made under another name (see `speechctc.storage.drafts`), flushed to the disk, and then takes its place
in one step. A process that is killed at any moment leaves the old or the new.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from speechctc.storage.drafts import draft_file, draft_folder, previous_name, previous_of, tidy

Read = TypeVar("Read")

TRIES = 100  # of reading a folder that is replaced again and again
MANY = 64  # files from which on one flush of all disks takes less time than one for each file
_MASK = os.umask(0o077)  # the only way to read it is to set it
os.umask(_MASK)


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place.

    A link at `path` is replaced, not followed; a device or a pipe (``/dev/stdout``) is written to directly.

    Raises
    ------
    OSError
        From the disk; `path` is then as it was before.
    """
    if _is_special(path):
        write(path)
        return
    with draft_file(path) as draft:
        write(draft)
        put_in_place(draft, path)


def put_in_place(draft: Path, path: Path) -> None:
    """Give a draft the name of the file it is to be, in one step."""
    _settle(draft)
    os.replace(draft, path)
    _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8; file names in it that are not UTF-8 keep their bytes."""
    content = text.encode("utf-8", "surrogateescape")
    write_file(path, lambda draft: _write_bytes(draft, content))


def write_json(path: Path, value: Any) -> None:
    """Write plain values as JSON; bytes of file names that are not UTF-8 are escaped as lone surrogates."""
    content = (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    write_file(path, lambda draft: _write_bytes(draft, content))


def read_json(path: Path) -> Any:
    """Return the plain values of a JSON file.

    Raises
    ------
    ValueError
        It is not JSON, or nested too deeply.
    OSError
        It cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder beside `path`, then put it in its place, in one step where the system has one.

    Where it has none, `path` is for a moment there under another name only, where `read_folder` finds it. A process
    killed in that moment leaves it there; `settle_folder` puts it back.

    Raises
    ------
    OSError
        From the disk; `path` is then as it was before.
    """
    with draft_folder(path) as draft:
        write(draft)
        _settle_all(draft)
        if not os.path.lexists(path):
            os.rename(draft, path)
        elif not _exchange(draft, path):
            previous = previous_name(path)
            os.rename(path, previous)
            os.rename(draft, path)
            shutil.rmtree(previous, ignore_errors=True)
        _flush(path.parent)


def read_folder(path: Path, read: Callable[[Path], Read]) -> Read:
    """Return what `read` makes of a folder that another process may replace meanwhile; nothing is changed.

    Parameters
    ----------
    path : Path
        A folder that `write_folder` writes.
    read : callable
        Takes the folder to read from. It is called again if the folder was replaced while it read.
    """
    for _ in range(TRIES):
        if (place := _find(path)) is None:
            break
        before = _identity(place)
        try:
            result = read(place)
        except Exception:
            if _identity(standing(path)) == before:
                raise
        else:
            if _identity(standing(path)) == before:
                return result
    return read(standing(path))


def standing(path: Path) -> Path:
    """Return where a folder is: at `path`, or, while it is being replaced, where it was put."""
    return _find(path) or path


def _find(path: Path) -> Path | None:
    for _ in range(3):  # it may be put back between the two questions
        if path.exists():
            return path
        if (previous := previous_of(path)) is not None:
            return previous
    return None


def settle_folder(path: Path) -> None:
    """Finish or undo a replacement that was cut off, and remove what was left of it.

    Only for the one process that may write there.
    """
    while (previous := previous_of(path)) is not None:
        if path.exists():
            shutil.rmtree(previous)
        else:
            os.rename(previous, path)
    tidy(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap what two names mean in one step; return False where the system or the file system cannot."""
    swap = _system_exchange()
    return swap is not None and swap(os.fsencode(one), os.fsencode(other)) == 0


@cache
def _system_exchange() -> Callable[[bytes, bytes], int] | None:
    """Return the system's call that swaps two names: 0 if it did."""
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return lambda one, other: int(library.renamex_np(one, other, ctypes.c_uint(2)))  # RENAME_SWAP
        here, exchange = ctypes.c_int(-100), ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE
        rename = library.renameat2
        return lambda one, other: int(rename(here, one, here, other, exchange))
    except (OSError, AttributeError, TypeError):  # no such call, or, on Windows, no such way to look for it
        return None


def _identity(path: Path) -> tuple[object, ...]:
    """Return what tells a folder from others that have its name before or after it."""
    try:
        status = path.stat()
    except OSError:
        return (object(),)  # gone: like nothing else
    return status.st_dev, status.st_ino, status.st_ctime_ns  # inodes are used again


def _is_special(path: Path) -> bool:
    """Tell whether a path is no place for a file: a device, a pipe, or the name of an open file."""
    named = path.parent in (Path("/dev"), Path("/dev/fd")) or path.parts[:2] == ("/", "proc")
    return named or (path.exists() and not path.is_file() and not path.is_dir())


def _settle_all(folder: Path) -> None:
    """Settle a folder and everything in it, the innermost first."""
    paths = [Path(place, name) for place, _, names in os.walk(folder, topdown=False) for name in (*names, "")]
    together = len(paths) > MANY and hasattr(os, "sync")
    for path in paths:
        _settle(path, flush=not together)
    if together:
        os.sync()


def _settle(path: Path, flush: bool = True) -> None:
    """Give it the mode that new files or folders get here (safetensors writes for its owner alone), and flush it."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_MASK)
    if flush:
        _flush(path)


def _flush(path: Path) -> None:
    """Wait until the disk has it; folders cannot be flushed on Windows, and need not be."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
