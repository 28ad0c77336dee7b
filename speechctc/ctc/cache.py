"""Folders of other people: not to read settings from, and not to keep compiled code in."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def without(settings: str) -> Iterator[None]:
    """Be in another folder meanwhile, where the working folder, maybe a stranger's, holds a file of this name."""
    if not os.path.lexists(settings):
        yield
        return
    here = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    try:
        yield
    finally:
        os.chdir(here)


def temporary_cache() -> Path | None:
    """Return a folder for compiled code among the temporary files, of this user alone; None if there is none.

    What is kept there is run: a folder that others made, or that others may write to, is not used.
    """
    if not hasattr(os, "getuid"):  # Windows, where temporary files are each user's own
        return Path(tempfile.gettempdir()) / "speechctc"
    folder = Path(tempfile.gettempdir()) / f"speechctc-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if is_own else None
