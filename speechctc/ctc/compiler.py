"""numba, which all modules import from here; compiling with its on-disk cache, keyed by all source files involved.

It takes no settings from the working folder: it would read ``.numba_config.yaml`` there, when it is loaded and each
time it compiles. The file may be a stranger's, and can name a folder whose pickles are loaded. Variables of the
environment (``NUMBA_...``) still count.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from speechctc.ctc.cache import code_folder, without

with without(".numba_config.yaml"):
    import numba
    from numba import types
    from numba.core import caching, cgutils, config, event
    from numba.core.caching import CacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
    from numba.core.datamodel import models
    from numba.core.registry import cpu_target
    from numba.core.typing.templates import AbstractTemplate, infer_global, signature
    from numba.extending import intrinsic, lower_builtin, overload, register_jitable, register_model

_settings: Any = config
_caches: Any = CacheImpl
_caching: Any = caching
_choosing = threading.RLock()
_settings._config_fname = os.devnull
_settings.reload_config()  # numba may have been loaded before, by another package

NOTE = "speechctc: compiling what this command needs, once for this machine; it takes up to half a minute"
# The files of this package that are compiled into other functions.
PRIMITIVES = tuple(Path(__file__).with_name(name) for name in ("pointers.py", "simd.py"))

__all__ = [
    "AbstractTemplate",
    "FunctionCache",
    "PRIMITIVES",
    "cache_chosen",
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
    with cache_chosen() as is_kept, suppress(RuntimeError):  # the folder can no longer be written to
        if is_kept:
            return compiler(*args, cache=True, **options)(function)
    return compiler(*args, **options)(function)  # compile in each process


class _Files(IndexDataCacheFile):
    """The files of a cache. One that is damaged, as after a power failure, counts as none, and is written anew."""

    def load(self, key: Any) -> Any:
        with suppress(Exception):  # unpickling what is cut raises almost anything
            return super().load(key)  # type: ignore[no-untyped-call, unused-ignore]
        return None

    def _load_index(self) -> Any:
        with suppress(Exception):
            return super()._load_index()  # type: ignore[no-untyped-call, unused-ignore]
        return {}


@contextmanager
def cache_chosen() -> Iterator[bool]:
    """Let numba find and keep code in `code_folder` meanwhile, and nowhere else; yield False if there is none.

    numba unpickles what it finds, and by itself looks into folders that others may write to, or into one of the
    working folder, where a user has no home.
    """
    folder = code_folder()
    if folder is None:
        yield False
        return
    ours = {"CACHE_DIR": str(folder), "CACHE_LOCATOR_CLASSES": ""}
    with _choosing:
        before = {name: getattr(_settings, name, "") for name in ours}
        locators, _caches._locator_classes = _caches._locator_classes, [UserProvidedCacheLocator]
        whole, _caching.IndexDataCacheFile = _caching.IndexDataCacheFile, _Files
        vars(_settings).update(ours)
        try:
            yield True
        finally:
            vars(_settings).update(before)
            _caches._locator_classes, _caching.IndexDataCacheFile = locators, whole


@cache
def _announce_compiling() -> None:
    """Log `NOTE` as a warning when numba first compiles a function of this package, not when it loads one.

    Where nothing else is set up for it, Python's logging writes the note to standard error. Of the processes of a
    machine that train together, the first says it.
    """

    class Announcement(event.Listener):  # type: ignore[misc, unused-ignore]
        is_made = os.environ.get("LOCAL_RANK", "0") != "0"

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
