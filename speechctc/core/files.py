"""Writes files and folders completely or not at all; reads folders that others replace.

New content is written under another name (see `speechctc.core.drafts`), flushed to the disk, and renamed in one
step. A process that is killed at any moment leaves either the old or the new version.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from speechctc.core.drafts import draft_file, draft_folder, previous_name, previous_of, tidy

Read = TypeVar("Read")

TRIES = 1000  # attempts to read a folder that others keep replacing
MANY = 64  # from this many files on, one flush of all disks is faster than one for each file
_MASK = os.umask(0o077)  # it can only be read by setting it
os.umask(_MASK)


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file with `write`, which gets the path of a draft; the draft then replaces `path`.

    A link at `path` is replaced, not followed. A device or a pipe (``/dev/stdout``) is written to directly.

    Raises
    ------
    OSError
        From the disk; `path` is then unchanged.
    """
    if is_special(path):
        write(path)
        return
    with draft_file(path) as draft:
        write(draft)
        put_in_place(draft, path)


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a draft to its final name, in one step."""
    _commit(draft)
    os.replace(draft, path)
    _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8; bytes of file names in it that are not UTF-8 are kept."""
    content = text.encode("utf-8", "surrogateescape")
    write_file(path, lambda draft: _write_bytes(draft, content))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, as `write_file` does."""
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
        The file is not JSON, or is nested too deeply.
    OSError
        The file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Write a folder with `write`, which gets the path of a draft; the draft then replaces `path`.

    This is one step if the system can exchange two names. If not, `path` has another name for a moment, under which
    `read_folder` finds it. If the process is killed in that moment, `settle_folder` restores the name.

    Raises
    ------
    OSError
        From the disk; `path` is then unchanged.
    """
    with draft_folder(path) as draft:
        write(draft)
        _commit_all(draft)
        if not os.path.lexists(path):
            os.rename(draft, path)
        elif not _exchange(draft, path):
            previous = previous_name(path)
            os.rename(path, previous)
            os.rename(draft, path)
            shutil.rmtree(previous, ignore_errors=True)
        _flush(path.parent)


def read_folder(path: Path, read: Callable[[Path], Read]) -> Read:
    """Return the result of `read` for a folder that another process may replace at the same time.

    Parameters
    ----------
    path : Path
        A folder that `write_folder` writes.
    read : callable
        Takes the path of the folder to read, and changes nothing. Called again after a replacement.
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
    """Return the path of a folder: `path`, or the name of the old version while it is being replaced."""
    return _find(path) or path


def _find(path: Path) -> Path | None:
    """Return where a folder is now; None if listings show neither its name nor an old version.

    A single check of both names is not enough: a folder can be replaced again and again between the two.
    """
    absent = 0
    for _ in range(TRIES):
        if path.exists():
            return path
        names = _names(path.parent)
        if (previous := previous_of(path, names)) is not None:
            return previous
        absent += path.name not in names or path.is_symlink()
        if absent == 3:  # the listing of a very large folder is not made in one step
            break
    return None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def settle_folder(path: Path) -> None:
    """Finish or undo a replacement that was interrupted, and remove its drafts.

    Only the one process that may write to the folder may call this.
    """
    while (previous := previous_of(path, _names(path.parent))) is not None:
        if path.exists():
            shutil.rmtree(previous)
        else:
            os.rename(previous, path)
    tidy(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; return False if the system or the file system cannot."""
    swap = _system_exchange()
    return swap is not None and swap(os.fsencode(one), os.fsencode(other)) == 0


@cache
def _system_exchange() -> Callable[[bytes, bytes], int] | None:
    """Return the system call that exchanges two names and returns 0 on success; None if there is none."""
    here, exchange, swap = ctypes.c_int(-100), ctypes.c_uint(2), ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE, _SWAP
    try:
        library = ctypes.CDLL(None)
        if platform.system() == "Darwin":
            return lambda one, other: int(library.renamex_np(one, other, swap))
        rename = library.renameat2
        return lambda one, other: int(rename(here, one, here, other, exchange))
    except (OSError, AttributeError, TypeError):  # no such call, or Windows, where it cannot be looked up
        return None


def _identity(path: Path) -> tuple[object, ...]:
    """Return a value that differs between the versions of a folder that have the same name one after another."""
    try:
        status = path.stat()
    except OSError:
        return (object(),)  # removed: equal to no other
    return status.st_dev, status.st_ino, status.st_ctime_ns  # the inode alone may be reused


def is_special(path: Path) -> bool:
    """Return whether a path is a device, a pipe, or the name of an open file; a link to one elsewhere is not."""
    if path.parent in (Path("/dev"), Path("/dev/fd")) or path.parts[:2] == ("/", "proc"):
        return True
    return not path.is_symlink() and path.exists() and not path.is_file() and not path.is_dir()


def _commit_all(folder: Path) -> None:
    """Commit a folder and its contents, the innermost first."""
    paths = [Path(place, name) for place, _, names in os.walk(folder, topdown=False) for name in (*names, "")]
    together = len(paths) > MANY and sys.platform != "win32"  # Windows has no os.sync
    for path in paths:
        _commit(path, flush=not together)
    if sys.platform != "win32" and together:
        os.sync()


def _commit(path: Path, flush: bool = True) -> None:
    """Set the mode of new files or folders (safetensors sets another one), and flush to the disk."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_MASK)
    if flush:
        _flush(path)


def _flush(path: Path) -> None:
    """Wait until a file or folder is on the disk; folders need no flush on Windows."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
