"""The cores that this process may use, how recordings and the rows of one share them, and work on many in threads."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

from speechctc.core.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer", covariant=True)

# The environment variable that says, before numpy is loaded, how many threads share a matrix product.
BLAS_THREADS = "OPENBLAS_NUM_THREADS"

MAX_WAITING = 4  # most results that wait to be taken, per thread

_share = 0  # threads of one recording; 0: as many as there are


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return the number of threads that compute: ``OMP_NUM_THREADS``, or one for each core."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(int(given), 1) if given.isdecimal() else cores()


def threads_per_recording() -> int:
    """Return the threads that may share the rows of one recording; 1 where numpy's matrix products have their own.

    Threads of both kinds would compete for the cores. The command line sets `BLAS_THREADS` to 1: elementwise work is
    then shared too.
    """
    return (_share or threads()) if os.environ.get(BLAS_THREADS) == "1" else 1


@contextmanager
def shared_among(jobs: int) -> Iterator[None]:
    """Give each of so many recordings at a time its share of the threads."""
    global _share
    before, _share = _share, max((_share or threads()) // max(jobs, 1), 1)
    try:
        yield
    finally:
        _share = before


def map_in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int = 0
) -> Iterator[Result | InputError]:
    """Yield ``work(item)`` of each item in order, or the `InputError` it raised.

    Parameters
    ----------
    work : callable
        Should spend most of its time without the interpreter's lock, as numpy and libsndfile do.
    items : iterable
    jobs : int
        Number of threads; 0: one for each core, or ``OMP_NUM_THREADS``.
    """
    jobs = jobs or threads()
    own: set[int] = set()
    pool = ThreadPoolExecutor(jobs, "recording", lambda: own.add(threading.get_ident()))
    try:
        with shared_among(jobs):
            yield from ordered(lambda item: pool.submit(attempt, work, item), items, MAX_WAITING * jobs)
    finally:
        # An iterator that is abandoned may be closed by the garbage collector, in any thread: none can wait for itself.
        pool.shutdown(wait=threading.get_ident() not in own, cancel_futures=True)


class Pending(Protocol[Answer]):
    """Work that was begun."""

    def result(self) -> Answer:
        """Wait for what it came to."""


def ordered(
    submit: Callable[[Item], Pending[Result]],
    items: Iterable[Item],
    count: int,
    size: Callable[[Item], int] = lambda item: 1,
    most: int = 0,
) -> Iterator[Result]:
    """Yield the results of items in order; begin `count` of them in any case, and more while their sizes allow it.

    Parameters
    ----------
    submit : callable
        Begins the work on an item.
    items : iterable
    count : int
    size : callable
        What the result of an item takes to be kept.
    most : int
        Of the sizes of items begun whose results have not been taken.
    """
    waiting: deque[tuple[Pending[Result], int]] = deque()
    held = 0
    for item in items:
        while len(waiting) >= count and held + size(item) > most:
            held -= waiting[0][1]
            yield waiting.popleft()[0].result()
        held += size(item)
        waiting.append((submit(item), size(item)))
    while waiting:
        yield waiting.popleft()[0].result()


def attempt(work: Callable[[Item], Result], item: Item) -> Result | InputError:
    """Return ``work(item)``, or the `InputError` that it raised."""
    try:
        return work(item)
    except InputError as error:
        return error
