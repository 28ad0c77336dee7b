"""Drafts: files and folders with random, marked names until they are complete and renamed.

The process that writes a draft holds a lock on it, which the system releases when the process ends. A draft without a
lock was abandoned, and the next process that writes into the same folder removes it. Files whose names are not marked
as drafts are never changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from speechctc.core.locks import is_free, try_lock

_NAME = re.compile(r"\.speechctc-[0-9a-f]{12}-[0-9a-f]{16}\.(partial|previous)")
PATIENCE = 600.0
"""Age in seconds at which a draft without a lock is removed: some network file systems do not share locks."""

_tidied: set[Path] = set()


@contextmanager
def draft_file(path: Path) -> Iterator[Path]:
    """Create an empty file in the folder of `path`; it is removed at the end if it still exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy_once(path.parent)
    draft = _name(path, "partial")
    # O_EXCL neither follows a link nor opens an existing file.
    handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        try_lock(handle)
        if os.name == "nt":  # open files cannot be replaced or removed
            os.close(handle)
            handle = -1
        yield draft
    finally:
        if handle >= 0:
            os.close(handle)
        draft.unlink(missing_ok=True)


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """Create an empty folder in the folder of `path`; it is removed at the end if it still exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy_once(path.parent)
    draft = _name(path, "partial")
    draft.mkdir(mode=0o700)
    handle = -1
    try:
        if os.name != "nt":
            handle = os.open(draft, os.O_RDONLY)
            try_lock(handle)
        yield draft
    finally:
        if handle >= 0:
            os.close(handle)
        _remove(draft)


def previous_name(path: Path) -> Path:
    """Return a new name for the old version of a folder while the new version replaces it."""
    return _name(path, "previous")


def previous_of(path: Path, names: Iterable[str]) -> Path | None:
    """Return the old version of `path` from a replacement that is not complete, or None.

    Parameters
    ----------
    path : Path
    names : iterable of str
        The names in its folder.
    """
    stem = f"{_stem(path)}-"
    found = [path.with_name(name) for name in names if name.startswith(stem) and name.endswith(".previous")]
    return max(found, key=_changed, default=None)


def is_draft(name: str) -> bool:
    """Tell whether a file or folder of this name is a draft, or what a folder was before it was replaced."""
    return _NAME.fullmatch(name) is not None


def tidy(folder: Path, patience: float = 0.0) -> None:
    """Remove the drafts in a folder that no process holds and that have not changed for `patience` seconds.

    Times in the future, after a clock was set back, count as long past.
    """
    for entry in list(folder.iterdir()) if folder.is_dir() else []:
        named = _NAME.fullmatch(entry.name)
        if named and named[1] == "partial" and abs(time.time() - _changed(entry)) >= patience and is_free(entry):
            _remove(entry)


def _tidy_once(folder: Path) -> None:
    """Tidy a folder when this process makes its first draft in it; later drafts save the time to list the folder."""
    if folder.absolute() not in _tidied:
        _tidied.add(folder.absolute())
        tidy(folder, PATIENCE)


def _stem(path: Path) -> str:
    """Return the common start of the names of all drafts of a target, short for any length of its name."""
    return f".speechctc-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}"


def _name(path: Path, kind: str) -> Path:
    return path.with_name(f"{_stem(path)}-{secrets.token_hex(8)}.{kind}")


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder; errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink()
    except OSError:
        pass
