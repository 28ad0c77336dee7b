"""Compile with numba's on-disk cache, keyed by all source files involved; no settings from the working folder."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

NOTE = "speechctc: compiling what this command needs, once for this machine; it takes up to half a minute"
# The files of this package that are compiled into other functions.
PRIMITIVES = tuple(Path(__file__).with_name(name) for name in ("pointers.py", "simd.py"))


def with_cache(compiler: Callable[..., Any], function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Compile a function with `numba.njit` or `numba.cfunc`, or load its machine code from numba's cache.

    Parameters
    ----------
    compiler : function
    function : function
    *args, **options
        Passed to the compiler.
    """
    _announce_compiling()
    with suppress(RuntimeError):  # neither the package's folder nor the user's home can be written to
        return compiler(*args, cache=True, **options)(function)
    from speechctc.ctc.compiler import settings  # late: those who only ask for the folder need none of it

    folder = temporary_cache()
    if folder is None or settings.CACHE_DIR:
        return compiler(*args, **options)(function)  # compile in each process
    settings.CACHE_DIR = str(folder / "numba")
    try:
        return compiler(*args, cache=True, **options)(function)
    except RuntimeError:
        return compiler(*args, **options)(function)
    finally:
        settings.CACHE_DIR = ""


@cache
def _announce_compiling() -> None:
    """Log `NOTE` as a warning when numba first compiles a function of this package, not when it loads one.

    Where nothing else is set up for it, Python's logging writes the note to standard error.
    """
    from speechctc.ctc.compiler import event  # late, as above

    class Announcement(event.Listener):
        is_made = False

        def on_start(self, event: Any) -> None:
            if not self.is_made and event.data["module"].partition(".")[0] == "speechctc":
                self.is_made = True
                logging.getLogger(__name__).warning(NOTE)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:run_pass", Announcement())  # type: ignore[no-untyped-call]


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


def sources(files: Iterable[Path]) -> str:
    """Return a hash of source files.

    numba's cache checks only the file that defines a function, but its key includes the variables that the function
    captures. A function that captures this hash is compiled again when any of the files changes.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
