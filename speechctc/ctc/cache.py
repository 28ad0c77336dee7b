"""Folders of other people: not to read settings from, and not to keep compiled code in."""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
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


def code_folder() -> Path | None:
    """Return the folder for numba's compiled code, which is run when it is loaded; None if nowhere is safe.

    It is ``NUMBA_CACHE_DIR``, else a folder in `cache_home`, else one in `temporary_cache`: the first that is absolute,
    can be written to, and is safe. That is: it, all folders above it and all that lies in it belong to this user or
    root, and nobody else may write to them. A relative one would lie in the working folder, maybe a stranger's.
    """
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        if os.path.isabs(named) and (found := _made_safe(Path(named))) is not None:
            return found
        _say_unused(named)
    for place in (cache_home(), temporary_cache()):
        if place is not None and (found := _made_safe(place / "numba")) is not None:
            return found
    return None


@cache  # once
def _say_unused(named: str) -> None:
    what = "not absolute, not writable, or others may write to it, to a folder above it, or to what is in it"
    logging.getLogger(__name__).warning("NUMBA_CACHE_DIR=%s: not used for compiled code: %s", ascii(named)[1:-1], what)


def cache_home() -> Path | None:
    """Return where this user's programs keep what they can make again, in a folder for this one; None: nowhere."""
    windows = os.environ.get("LOCALAPPDATA") if os.name == "nt" else None
    try:
        folder = Path(windows or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        if not folder.is_absolute():  # such a value of XDG_CACHE_HOME is to be ignored
            folder = Path.home() / ".cache"
    except RuntimeError:  # this user has no home
        return None
    return folder / "speechctc" if folder.is_absolute() else None


def _made_safe(folder: Path) -> Path | None:
    """Return a folder, made if it is not there, by its name without links; None if it is not safe or not writable."""
    try:
        for place in (*reversed(folder.parents), folder):
            if not place.exists():
                place.mkdir(mode=0o700)
        folder = folder.resolve(strict=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
        return folder if not hasattr(os, "getuid") or _is_safe(folder) else None  # Windows has other rights
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return None


def _is_safe(folder: Path) -> bool:
    """Return whether nobody but this user and root may change what is found in a folder."""
    # in a sticky folder others cannot rename what is not theirs
    if not _is_own(folder.stat(), 0) or not all(_is_own(above.stat(), stat.S_ISVTX) for above in folder.parents):
        return False
    is_closed = not folder.stat().st_mode & 0o077  # nobody else gets to what lies in it
    inside = (os.path.join(place, each) for place, folders, files in os.walk(folder) for each in (*folders, *files))
    return all(_is_own(os.lstat(path), 0o022 if is_closed else 0) for path in inside)


def _is_own(status: os.stat_result, allowed: int) -> bool:
    """Return whether something is this user's or root's, no link, and for nobody else to write to.

    Others may, if one of the bits `allowed` is in its mode.
    """
    if stat.S_ISLNK(status.st_mode):
        return False
    if sys.platform == "win32":  # where a mode says nothing of others, and the home is the user's
        return True
    else:
        is_ours = status.st_uid in (0, os.getuid())
        return is_ours and (not status.st_mode & 0o022 or bool(status.st_mode & allowed))


def temporary_cache() -> Path | None:
    """Return a folder for compiled code among the temporary files, of this user alone; None if there is none.

    What is kept there is run: a folder that others made, or that others may write to, is not used. Nor is one in the
    working folder, which Python takes where no other can be written to: a stranger's may have such a folder in it.
    """
    with suppress(OSError):
        if os.path.samefile(tempfile.gettempdir(), "."):
            return None
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
