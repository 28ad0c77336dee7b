"""Work shared among processes, in order and in bounded memory; they end with the process that began them.

Each worker has a pipe to itself, so one that is killed in the middle of a result leaves nobody waiting: the standard
library's pools share one, and hang then.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer", covariant=True)


class Pending(Protocol[Answer]):
    """Work that was begun."""

    def result(self) -> Answer:
        """Wait for what it came to."""


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
    """
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
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


def ordered(
    submit: Callable[[Item], Pending[Result]],
    items: Iterable[Item],
    count: int,
    size: Callable[[Item], int],
    most: int,
) -> Iterator[Result]:
    """Yield the results of items in order; begin `count` of them in any case, and more while their sizes allow it.

    Parameters
    ----------
    submit : callable
        Begins the work on an item.
    items, count, size, most
        As for `in_processes`.
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
    threading.Thread(target=_end_with_parent, daemon=True).start()
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


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
