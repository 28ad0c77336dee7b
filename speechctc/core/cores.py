"""The cores that this process may use, and how they are shared among recordings and the rows of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

PRODUCTS = "OPENBLAS_NUM_THREADS"
"""The environment variable that says, before numpy is loaded, how many threads share a matrix product."""

_share = 0  # threads of one recording; 0: as many as there are


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return the number of threads that compute: ``OMP_NUM_THREADS``, or one for each core."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(int(wanted), 1) if wanted.isdecimal() else cores()


def threads_of_one() -> int:
    """Return the threads that may share the rows of one recording; 1 where numpy's matrix products have their own.

    Threads of both kinds would compete for the cores. The command line sets `PRODUCTS` to 1: elementwise work is then
    shared too.
    """
    return (_share or threads()) if os.environ.get(PRODUCTS) == "1" else 1


@contextmanager
def shared_among(jobs: int) -> Iterator[None]:
    """Give each of so many recordings at a time its share of the threads."""
    global _share
    before, _share = _share, max((_share or threads()) // max(jobs, 1), 1)
    try:
        yield
    finally:
        _share = before
