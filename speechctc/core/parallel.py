"""Work on many items at a time, in order and in bounded memory, each within its time: in threads."""

from __future__ import annotations

import math
import os
import shutil
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

from speechctc.core.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer", covariant=True)

# The environment variable that says, before numpy is loaded, how many threads share a matrix product.
BLAS_THREADS = "OPENBLAS_NUM_THREADS"

LONGER = "give it more time with --time-limit, or look at it alone"
WAIT_SECONDS = 600.0  # that a run waits for a worker of a cluster, if it is not told otherwise
MAX_WAITING = 4  # most results that wait to be taken, per thread

_sharing: list[int] = []  # of each iterator at work, how many recordings at a time share the threads
_limits: list[float | None] = []  # of each iterator at work, the seconds that a recording may take


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
    return max(threads() // math.prod(_sharing), 1) if os.environ.get(BLAS_THREADS) == "1" else 1


@contextmanager
def shared_among(jobs: int) -> Iterator[None]:
    """Give each of so many recordings at a time its share of the threads; contexts may end in any order."""
    jobs = max(jobs, 1)
    _sharing.append(jobs)
    try:
        yield
    finally:
        _sharing.remove(jobs)


@contextmanager
def each_within(seconds: float | None) -> Iterator[None]:
    """Let each recording of `map_in_threads` take so long; None: any time."""
    _limits.append(seconds)
    try:
        yield
    finally:
        _limits.remove(seconds)


class WorkerEnded(Exception):
    """A worker process was ended from outside."""


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
    jobs, limit = jobs or threads(), _limits[-1] if _limits else None
    own: set[int] = set()
    pool = ThreadPoolExecutor(jobs, "recording", lambda: own.add(threading.get_ident()))
    try:
        with shared_among(jobs):
            yield from taken(ordered(lambda item: pool.submit(timed, work, item, limit), items, MAX_WAITING * jobs))
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
    count: int | Callable[[], int],
    size: Callable[[Item], int] = lambda item: 1,
    most: int = 0,
) -> Iterator[Result]:
    """Yield the results of items in order; begin `count` of them in any case, and more while their sizes allow it.

    Parameters
    ----------
    submit : callable
        Begins the work on an item.
    items : iterable
    count : int or callable
        A callable returns how many they are by now.
    size : callable
        What the result of an item takes to be kept.
    most : int
        Of the sizes of items begun whose results have not been taken.
    """
    waiting: deque[tuple[Pending[Result], int]] = deque()
    held = 0
    for item in items:
        while len(waiting) >= (count() if callable(count) else count) and held + size(item) > most:
            held -= waiting[0][1]
            yield waiting.popleft()[0].result()
        held += size(item)
        waiting.append((submit(item), size(item)))
    while waiting:
        yield waiting.popleft()[0].result()


def attempt(work: Callable[[Item], Result], item: Item, limit: float | None = None) -> Result | InputError:
    """Return ``work(item)``, or the `InputError` that it raised; `limit`: the seconds that it may take."""
    try:
        with time_limit(limit):
            return work(item)
    except InputError as error:
        return error


def timed(work: Callable[[Item], Result], item: Item, limit: float | None = None) -> tuple[Result | InputError, float]:
    """Return what `attempt` does, and the seconds it took."""
    began = time.monotonic()
    return attempt(work, item, limit), time.monotonic() - began


# Of each thread, until when its recording may take and how long that is; what the result that it got last took.
_clock = threading.local()


class Took(NamedTuple):
    """How long the work on an item took, seconds, and on which machine."""

    seconds: float
    machine: str


def set_took(seconds: float, machine: str = "") -> None:
    """Keep what a result took that is about to be given to this thread."""
    _clock.took = Took(seconds, machine or socket.gethostname())


def took() -> Took | None:
    """Return what the last result took that this thread was given; None if that is not known. It is told once."""
    last: Took | None = getattr(_clock, "took", None)
    _clock.took = None
    return last


def taken(results: Iterable[tuple[Result, float]]) -> Iterator[Result]:
    """Yield results that were `timed`; `took` tells what each took."""
    for result, seconds in results:
        set_took(seconds)
        yield result


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Let the work of this thread take so long: then `check_time`, which it calls in between, raises."""
    before = getattr(_clock, "end", None)
    _clock.end = (time.monotonic() + seconds, seconds) if seconds is not None else before
    try:
        yield
    finally:
        _clock.end = before


def check_time(name: object) -> None:
    """Raise an `InputError` if the recording of this name, on which this thread works, takes too long."""
    end = getattr(_clock, "end", None)
    if end is not None and time.monotonic() > end[0]:
        raise InputError(f"{name}: took longer than {end[1]:g} s", LONGER)


def program(name: str) -> str | None:
    """Return the path of a program in a folder of the ``PATH``, none that depends on the working folder; else None.

    That may be a stranger's, and Windows looks there before it looks at the ``PATH``.
    """
    endings = os.environ.get("PATHEXT", ".EXE").split(";") if sys.platform == "win32" else [""]
    folders = filter(os.path.isabs, os.get_exec_path())
    return next(filter(shutil.which, (os.path.join(folder, name + end) for folder in folders for end in endings)), None)
