"""numba, which all modules import from here; compiling with its on-disk cache, keyed by all source files involved.

It takes no settings from the working folder: it would read ``.numba_config.yaml`` there, when it is loaded and each
time it compiles. The file may be a stranger's, and can name a folder whose pickles are loaded. Variables of the
environment (``NUMBA_...``) still count.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from speechctc.ctc.cache import temporary_cache, without

with without(".numba_config.yaml"):
    import numba
    from numba import types
    from numba.core import cgutils, config, event
    from numba.core.caching import FunctionCache
    from numba.core.datamodel import models
    from numba.core.registry import cpu_target
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import intrinsic, lower_builtin, overload, register_jitable, register_model

_settings: Any = config
_settings._config_fname = os.devnull
_settings.reload_config()  # numba may have been loaded before, by another package

NOTE = "speechctc: compiling what this command needs, once for this machine; it takes up to half a minute"
# The files of this package that are compiled into other functions.
PRIMITIVES = tuple(Path(__file__).with_name(name) for name in ("pointers.py", "simd.py"))

__all__ = [
    "AbstractTemplate",
    "FunctionCache",
    "PRIMITIVES",
    "cgutils",
    "cpu_target",
    "infer_global",
    "intrinsic",
    "lower_builtin",
    "models",
    "numba",
    "overload",
    "register_jitable",
    "register_model",
    "signature",
    "sources",
    "types",
    "with_cache",
]


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
    folder = temporary_cache()
    if folder is None or _settings.CACHE_DIR:
        return compiler(*args, **options)(function)  # compile in each process
    _settings.CACHE_DIR = str(folder / "numba")
    try:
        return compiler(*args, cache=True, **options)(function)
    except RuntimeError:
        return compiler(*args, **options)(function)
    finally:
        _settings.CACHE_DIR = ""


@cache
def _announce_compiling() -> None:
    """Log `NOTE` as a warning when numba first compiles a function of this package, not when it loads one.

    Where nothing else is set up for it, Python's logging writes the note to standard error.
    """

    class Announcement(event.Listener):  # type: ignore[misc, unused-ignore]
        is_made = False

        def on_start(self, event: Any) -> None:
            if not self.is_made and event.data["module"].partition(".")[0] == "speechctc":
                self.is_made = True
                logging.getLogger(__name__).warning(NOTE)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:run_pass", Announcement())  # type: ignore[no-untyped-call, unused-ignore]


def sources(files: Iterable[Path]) -> str:
    """Return a hash of source files.

    numba's cache checks only the file that defines a function, but its key includes the variables that the function
    captures. A function that captures this hash is compiled again when any of the files changes.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
