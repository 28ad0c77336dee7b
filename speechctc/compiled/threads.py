"""The same compiled work in several threads at once, beside torch.

Between two operators of torch, its OpenMP threads wait for the next one by spinning, for milliseconds. Threads of
another pool would have to share the cores with them, just when there is work. Where torch runs on an OpenMP that has
GNU's interface (all its builds for Linux), the work therefore goes to those very threads, through the function that
compiled ``#pragma omp parallel`` calls. Each Python thread has a team of its own there, so any number of them may do
this at once. Elsewhere, a pool of Python threads does it.

A forked process inherits neither kind of thread, and works in a single one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_forked = False


def run_in_threads(function: Any, shared: NDArray[np.int64], threads: int) -> None:
    """Call a compiled function with the address of what it shares, in several threads; return when all have.

    Parameters
    ----------
    function : ctypes function
        Takes an address, and returns at once when there is nothing left to do.
    shared : ndarray
        What the threads share.
    threads : int
        How many.
    """
    if threads == 1 or _forked:
        function(shared.ctypes.data)
        return
    team = _openmp()
    if team is not None:
        team(ctypes.cast(function, ctypes.c_void_p), shared.ctypes.data, threads, 0)
        return
    others = [_pool().submit(function, shared.ctypes.data) for _ in range(threads - 1)]
    function(shared.ctypes.data)
    for other in others:
        if not other.cancel():  # one that has not begun would find nothing to do
            other.result()


@cache
def _openmp() -> Callable[..., None] | None:
    """GNU's entry to a parallel region, in the library that torch has loaded; None where there is none."""
    try:
        function = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # no such function, or, on Windows, no such way to look for it
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    function.restype = None
    return function


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for work as long as the process lives."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="ctc")


def _work_alone() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_work_alone)
