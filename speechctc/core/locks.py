"""Locks on open files, which end with the process that holds them: flock on POSIX, a locked byte on Windows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    # Windows refuses others to read a byte that is locked, so the byte lies where hardly a file of ours reaches: at the
    # last place that its C library can lock.
    _PLACE = 2**31 - 2

    def try_lock(handle: int) -> bool | None:
        """Lock an open file; return False if another process holds it."""
        return _at_place(handle, msvcrt.LK_NBLCK)

    def _wait_for(handle: int) -> None:
        while not try_lock(handle):
            time.sleep(0.01)  # Windows gives no lock that is waited for longer than ten seconds

    def _unlock(handle: int) -> None:
        _at_place(handle, msvcrt.LK_UNLCK)

    def _at_place(handle: int, mode: int) -> bool:
        before = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, mode, 1)
        except OSError:
            return False
        finally:
            os.lseek(handle, before, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool | None:
        """Lock an open file or folder; return False if another process holds it, None if the system has no locks."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True

    def _wait_for(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def locked(handle: int) -> Iterator[None]:
    """Wait for an open file's lock and hold it."""
    _wait_for(handle)
    try:
        yield
    finally:
        _unlock(handle)


def is_free(path: Path) -> bool | None:
    """Return whether no process holds a file or a folder; None if that is not known. No link is followed."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        return try_lock(handle)
    finally:
        os.close(handle)
