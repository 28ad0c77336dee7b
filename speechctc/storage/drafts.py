"""Drafts: files and folders under random, marked names, until they take the name of what they will be.

A draft is locked by the process that writes it, and the lock goes with the process, however it ends. A draft that
nobody holds was abandoned, and is removed by the next process that writes into the same folder. Names that are not
marked as drafts are never touched.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAME = re.compile(r"\.speechctc-[0-9a-f]{12}-[0-9a-f]{16}\.(partial|previous)")
PATIENCE = 600.0
"""Seconds for which a draft without a lock is left alone: on some network file systems locks do not reach far."""

_tidied: set[Path] = set()


@contextmanager
def draft_file(path: Path) -> Iterator[Path]:
    """Make an empty file beside `path`; what is left of it at the end is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy_once(path.parent)
    draft = _name(path, "partial")
    # O_EXCL follows no link and opens nothing that was there before.
    handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        _lock(handle)
        if os.name == "nt":  # where an open file can be neither replaced nor removed
            os.close(handle)
            handle = -1
        yield draft
    finally:
        if handle >= 0:
            os.close(handle)
        draft.unlink(missing_ok=True)


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Make an empty folder beside `path`; what is left of it at the end is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy_once(path.parent)
    draft = _name(path, "partial")
    draft.mkdir(mode=0o700)
    handle = -1
    try:
        if os.name != "nt":
            handle = os.open(draft, os.O_RDONLY)
            _lock(handle)
        yield draft
    finally:
        if handle >= 0:
            os.close(handle)
        _remove(draft)


def previous_name(path: Path) -> Path:
    """Return a fresh name for what a folder was, while another takes its place."""
    return _name(path, "previous")


def previous_of(path: Path) -> Path | None:
    """Return what `path` was before a replacement that has not yet put anything in its place."""
    found = sorted(path.parent.glob(f"{_stem(path)}-*.previous"), key=_changed)
    return found[-1] if found else None


def is_draft(name: str) -> bool:
    """Tell whether a file or folder of this name is a draft, or what a folder was before it was replaced."""
    return _NAME.fullmatch(name) is not None


def tidy(folder: Path, patience: float = 0.0) -> None:
    """Remove the drafts in a folder that no process holds, if they have not changed for so many seconds.

    A clock that was set back leaves times in the future: those count as long past, too.
    """
    for entry in list(folder.iterdir()) if folder.is_dir() else []:
        named = _NAME.fullmatch(entry.name)
        if named and named[1] == "partial" and abs(time.time() - _changed(entry)) >= patience and _is_free(entry):
            _remove(entry)


def _tidy_once(folder: Path) -> None:
    """Tidy at the first draft that this process makes in a folder, for listing a large one takes time."""
    if folder.absolute() not in _tidied:
        _tidied.add(folder.absolute())
        tidy(folder, PATIENCE)


def _stem(path: Path) -> str:
    """Return what the drafts of one target begin with: short, however long its own name is."""
    return f".speechctc-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}"


def _name(path: Path, kind: str) -> Path:
    return path.with_name(f"{_stem(path)}-{secrets.token_hex(8)}.{kind}")


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def _is_free(path: Path) -> bool:
    """Tell whether no process holds a draft; where that cannot be told, it is not free."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # Windows, and file systems without locks
        return False
    return True


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder, as far as that is allowed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink()
    except OSError:
        pass
