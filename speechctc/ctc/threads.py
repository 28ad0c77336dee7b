"""Run a compiled function in several threads: torch's OpenMP threads, or a pool.

Between two operators, torch's OpenMP threads spin for milliseconds, waiting for the next one. Threads of another pool
would compete with them for the cores. Where torch uses an OpenMP library with GNU's interface (all its Linux builds),
the function therefore runs on those threads, through the entry point that compiled ``#pragma omp parallel`` calls. Each
Python thread has its own team there, so that several may call it at once. Elsewhere, a pool of Python threads is used.

A forked process has neither kind of thread and uses a single one.
"""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

_PROCESS = os.getpid()


def run_in_threads(function: Any, shared: Sequence[int], threads: int) -> None:
    """Call a compiled function with the address of shared data, in several threads; wait for all of them.

    Parameters
    ----------
    function : ctypes function
        Takes an address; returns at once when no work is left.
    shared : sequence of int
        Data that the threads share, as int64.
    threads : int
        Number of threads.
    """
    data = array("q", shared)
    address, _ = data.buffer_info()
    if threads == 1 or os.getpid() != _PROCESS:  # it was forked
        function(address)
        return
    team = openmp()
    if team is not None:
        team(ctypes.cast(function, ctypes.c_void_p), address, threads, 0)
        return
    others = [_pool().submit(function, address) for _ in range(threads - 1)]
    function(address)
    for other in others:
        if not other.cancel():  # a thread that has not started would find no work left
            other.result()


def run_alone(function: Any, given: Sequence[int]) -> array[int]:
    """Call a compiled function in this thread with the address of data, as int64; return the data, as it left them."""
    data = array("q", given)
    function(data.buffer_info()[0])
    return data


@cache
def openmp() -> Callable[..., None] | None:
    """Return GNU's entry to a parallel region from the library that torch has loaded, or None."""
    try:
        function = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # no such function, or, on Windows, no such way to look for it
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    function.restype = None
    return function


@cache
def _pool() -> ThreadPoolExecutor:
    """Return a pool of threads that lasts as long as the process."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="ctc")
