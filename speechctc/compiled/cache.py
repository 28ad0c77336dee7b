"""Machine code kept on disk from one process to the next."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PRIMITIVES = tuple(Path(__file__).with_name(name) for name in ("pointers.py", "simd.py", "inline.py"))
"""The files of this package that end up in machine code."""


def with_cache(compiler: Callable[..., Any], function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Have a function compiled by `numba.njit` or `numba.cfunc`, or fetch its code from numba's cache on disk.

    Parameters
    ----------
    compiler : function
    function : function
    *args, **options
        The compiler's own.
    """
    try:
        return compiler(*args, cache=True, **options)(function)
    except RuntimeError:  # no folder of this machine can be written to: compile in each process
        return compiler(*args, **options)(function)


def sources(files: Iterable[Path]) -> str:
    """Return a hash of source files.

    By itself, numba's cache looks at the one file that a function is written in. What a function captures is part of
    its key there, so one that captures this hash is compiled anew when anything changes that it is made of.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
