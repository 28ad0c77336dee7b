"""Work on many items at a time, in order and in bounded memory: in threads or in processes.

Each process has a pipe to itself, so one that is killed in the middle of a result leaves nobody waiting: the standard
library's pools share one, and hang then.

No process looks for modules in the working folder. ``python -m`` and ``python -c`` look there first, also for modules
of the standard library; the folder may be a stranger's, and a file ``json.py`` in it would be run. Nor are programs
looked for there, as Windows does before it looks at the ``PATH``.
"""

from __future__ import annotations

import math
import multiprocessing.util
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from types import FrameType
from typing import Any, NamedTuple, Protocol, TypeVar

from speechctc.core.errors import InputError
from speechctc.core.standard_streams import open_standard_streams

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer", covariant=True)

# The environment variable that says, before numpy is loaded, how many threads share a matrix product.
BLAS_THREADS = "OPENBLAS_NUM_THREADS"

LONGER = "give it more time (--time-limit; in a config, data.time_limit), or look at it alone"
WAIT_SECONDS = 600.0  # that a run waits for a worker of a cluster, if it is not told otherwise
MAX_WAITING = 4  # most results that wait to be taken, per thread

_sharing: list[int] = []  # of each iterator at work, how many recordings at a time share the threads
_limits: list[float | None] = []  # of each iterator at work, the seconds that a recording may take
_training: dict[int, object] = {}  # by process, since a fork inherits it: who trains there


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


@contextmanager
def only_training() -> Iterator[None]:
    """Be the only training of this process: all threads of a process draw from the same generators of torch.

    Raises
    ------
    InputError
        Another one is under way; two would change each other's random numbers, and so their weights.
    """
    this = object()
    if _training.setdefault(os.getpid(), this) is not this:
        what = "another training is under way in this process, and each would change the other's random numbers"
        raise InputError(what, "wait for it, or train in another process")
    try:
        yield
    finally:
        _training.pop(os.getpid(), None)


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
        # A process that is asked to stop does not wait for recordings of hours: it ends with its threads.
        pool.shutdown(wait=threading.get_ident() not in own and not _stopped, cancel_futures=True)


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


_RUN = "import sys; sys.path[:] = filter(None, sys.path); from runpy import run_module as run; "
_RUN += "run(sys.argv.pop(1), None, '__main__', True)"


def module_command(module: str) -> list[str]:
    """Return the command that runs a module as ``python -m`` does; arguments may follow."""
    words = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", _RUN]
    return [sys.executable, *words, module]


def program(name: str) -> str | None:
    """Return the path of a program in a folder of the ``PATH``, none that depends on the working folder; else None."""
    endings = os.environ.get("PATHEXT", ".EXE").split(";") if sys.platform == "win32" else [""]
    folders = filter(os.path.isabs, os.get_exec_path())
    return next(filter(shutil.which, (os.path.join(folder, name + end) for folder in folders for end in endings)), None)


UNGUARDED = 97  # status of a worker that found itself calling for workers while it imported the script


def start_method(name: str) -> Any:
    """Return multiprocessing's context of a name, for processes that import what this one can import."""
    util: Any = multiprocessing.util  # it gives flags to each Python that it starts, and then this process's sys.path
    util._args_from_interpreter_flags = _flags
    return multiprocessing.get_context(name)


def _flags() -> list[str]:
    own: Any = subprocess
    return [*own._args_from_interpreter_flags(), "-P" if sys.version_info >= (3, 11) else "-I"]


# The signal that asks a process to save and stop, if it was started with the arguments `OWN_GROUP`.
STOP: int
OWN_GROUP: dict[str, Any]
if sys.platform == "win32":
    # SIGTERM ends a process on Windows at once. CTRL_BREAK reaches a process that leads a group of its own.
    STOP, OWN_GROUP = signal.CTRL_BREAK_EVENT, {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
else:
    STOP, OWN_GROUP = signal.SIGTERM, {}
    _SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_requests(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` with the exit status when Ctrl-C or `STOP` comes; a second Ctrl-C raises KeyboardInterrupt.

    Outside the main thread, which alone can handle signals, nothing is changed.
    """
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True
        handle(128 + number)

    try:
        before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Stopped(BaseException):
    """`STOP` came: all that is held is given back, and the process ends."""


_stopped: list[int] = []  # the signal that came


def is_stopped() -> bool:
    """Return whether `STOP` came where it is raised."""
    return bool(_stopped)


@contextmanager
def raised_when_stopped() -> Iterator[None]:
    """Raise `Stopped` in the main thread when `STOP` comes, once: what is half written is dropped as at an error.

    Outside the main thread nothing is changed.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not _stopped:
            _stopped.append(number)
            raise Stopped

    try:
        before = {number: signal.signal(number, on_signal) for number in {signal.SIGTERM, STOP}}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        if not _stopped:  # else another one would end the process before it has given all back
            for number, handler in before.items():
                signal.signal(number, handler)


def end_if_imported_by_worker() -> None:
    """End a worker process that imports a script without a guard, which would do its parent's work again.

    The parent learns of it by the status, and says so once.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)


class WorkerEnded(Exception):
    """A worker process was ended from outside."""


class WorkFailed(Exception):
    """The work raised what it should not; the message is the worker's traceback."""


@contextmanager
def in_processes(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    count: int,
    size: Callable[[Item], int] = lambda item: 1,
    most: int = 64,
    preload: Sequence[str] = (),
) -> Iterator[Iterator[Result]]:
    """Offer ``work(item)`` of each item, in order, from worker processes.

    Parameters
    ----------
    work : callable
        A function of a module, as are its arguments and results.
    items : iterable
    count : int
        How many processes.
    size : callable
        What the result of an item takes to be kept.
    most : int
        Of the sizes of items begun whose results have not been taken; but one item a process in any case.
    preload : sequence of str
        Modules that the processes share, where they can be forked.

    Raises
    ------
    WorkerEnded
        At the start and by the iterator: a process was ended from outside.
    WorkFailed
        By the iterator: `work` raised an exception.
    InputError
        By the iterator: a script calls this where it is imported, which the processes do.
    """
    end_if_imported_by_worker()
    open_standard_streams()  # else a pipe of the processes could take the place of one
    context = start_method("forkserver" if os.name == "posix" else "spawn")
    if preload and context.get_start_method() == "forkserver":
        context.set_forkserver_preload(list(preload))
    workers: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    threads = ThreadPoolExecutor(count, thread_name_prefix="worker")

    def ask(item: Item) -> Any:
        worker = idle.get()
        try:
            return worker.ask(item)
        finally:
            idle.put(worker)  # one that has ended, too: whoever asks it next is told, and waits for none

    try:
        for _ in range(count):
            workers.append(_Worker(context, work))
            idle.put(workers[-1])
        yield ordered(lambda item: threads.submit(ask, item), items, count, size, most)
    finally:
        for worker in workers:
            worker.end()
        threads.shutdown(wait=True, cancel_futures=True)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, context: Any, work: Callable[[Any], Any]) -> None:
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, other), daemon=True)
        try:
            self._process.start()
        except (EOFError, ConnectionError):  # the process that forks the workers was ended from outside
            raise WorkerEnded from None
        other.close()  # the process alone holds it: the pipe ends with it

    def ask(self, item: Any) -> Any:
        try:
            _send(self._pipe, item)
            result, problem = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(1)
            if self._process.exitcode == UNGUARDED:
                what = "the script that this is called from calls it again in each process that works for it"
                raise InputError(what, 'call it under if __name__ == "__main__":') from None
            raise WorkerEnded from None
        if problem:
            raise WorkFailed(problem)
        return result

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(work: Callable[[Any], Any], pipe: Connection) -> None:
    """Answer what comes through the pipe, until its other end is gone; Ctrl-C is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (work(item), "")
        except Exception:
            answer = (None, traceback.format_exc())
        try:
            _send(pipe, answer)
        except OSError:
            return


def _send(pipe: Connection, value: Any) -> None:
    """Send a value by the standard pickle; `Connection.send` passes each tensor as a file that stays open."""
    pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def end_with_parent() -> None:
    """End this process of multiprocessing when the one that started it has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
