"""Processes that this one starts: modules to run, workers for many items, and the standard streams that all have.

Each worker has a pipe to itself, so one that is killed in the middle of a result leaves nobody waiting: the standard
library's pools share one, and hang then.

No process looks for modules in the working folder. ``python -m`` and ``python -c`` look there first, also for modules
of the standard library; the folder may be a stranger's, and a file ``json.py`` in it would be run.
"""

from __future__ import annotations

import multiprocessing.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any

from speechctc.core.errors import InputError
from speechctc.core.parallel import Item, Result, WorkerEnded, ordered

_RUN = "import sys; sys.path[:] = filter(None, sys.path); from runpy import run_module as run; "
_RUN += "run(sys.argv.pop(1), None, '__main__', True)"


def module_command(module: str) -> list[str]:
    """Return the command that runs a module as ``python -m`` does; arguments may follow."""
    words = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", _RUN]
    return [sys.executable, *words, module]


def open_standard_streams() -> None:
    """Open the null device on whichever of the handles 0, 1 and 2 is closed; call it before a file is opened.

    A file would else take the handle's place: what C libraries print on standard error would stand within a result,
    and ``print`` writes to standard output where Python has no standard error. `sys.stdout` stays None where standard
    output was closed, so that a command can refuse to write its result to nowhere.
    """
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == handle:
                os.set_inheritable(handle, True)  # for the programs that this one starts
            else:
                os.dup2(opened, handle)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


UNGUARDED = 97  # status of a worker that found itself calling for workers while it imported the script


def start_method(name: str) -> Any:
    """Return multiprocessing's context of a name, for processes that import what this one can import."""
    util: Any = multiprocessing.util  # it gives flags to each Python that it starts, and then this process's sys.path
    util._args_from_interpreter_flags = _flags
    return multiprocessing.get_context(name)


def _flags() -> list[str]:
    own: Any = subprocess
    return [*own._args_from_interpreter_flags(), "-P" if sys.version_info >= (3, 11) else "-I"]


def end_if_imported_by_worker() -> None:
    """End a worker process that imports a script without a guard, which would do its parent's work again.

    The parent learns of it by the status, and says so once.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(UNGUARDED)


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
