"""Compile with numba's on-disk cache, keyed by all source files involved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PRIMITIVES = tuple(Path(__file__).with_name(name) for name in ("pointers.py", "simd.py", "inline.py"))
"""The files of this package that are compiled into other functions."""


def with_cache(compiler: Callable[..., Any], function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Compile a function with `numba.njit` or `numba.cfunc`, or load its machine code from numba's cache.

    Parameters
    ----------
    compiler : function
    function : function
    *args, **options
        Passed to the compiler.
    """
    try:
        return compiler(*args, cache=True, **options)(function)
    except RuntimeError:  # no writable cache folder: compile in each process
        return compiler(*args, **options)(function)


def sources(files: Iterable[Path]) -> str:
    """Return a hash of source files.

    numba's cache checks only the file that defines a function, but its key includes the variables that the function
    captures. A function that captures this hash is compiled again when any of the files changes.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
