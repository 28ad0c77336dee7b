"""The server's side of the process that holds the model: requests, their results, and the queue of recordings."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from speechctc.core.errors import InputError
from speechctc.studio.document import Conflict
from speechctc.studio.sound import version
from speechctc.studio.worker import Restriction, serve_process

Launch = Callable[..., Any]  # of a pipe and a model; the pipe is of another class on Windows
"""Starts the other end of a pipe with a model, and returns what keeps it alive."""


def launch_process(pipe: Connection, model: Path | None, only: Restriction = None) -> Any:
    """Start the process that holds a model."""
    process = multiprocessing.get_context("spawn").Process(target=serve_process, args=(pipe, model, only), daemon=True)
    process.start()
    pipe.close()
    return process


class Engine:
    """A model in another process.

    Parameters
    ----------
    model : Path or None
        As ``--model``.
    launch : callable
    say : callable
        Called with a line when a model is loaded, or cannot be.

    Attributes
    ----------
    about : dict
        The model: ``folder``, ``line``, ``phones`` and ``has_ngram``; empty until it is loaded.
    ngram : bool
        Recognise with the model's n-gram.
    problem : str
        Why there is no model, or ``""``.
    """

    def __init__(
        self, model: Path | None, launch: Launch = launch_process, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._model, self._launch, self._say = model, launch, say
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.about: dict[str, Any] = {}
        self.problem = ""
        self.ngram = True
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        """Start the process; the answer to request 0 is the model."""
        ours, theirs = multiprocessing.Pipe()
        self._pipe = ours
        self._futures: dict[int, Future[Any]] = {0: Future()}
        self._progress: dict[int, float] = {}
        self._keep = self._launch(theirs, self._model)
        self._futures[0].add_done_callback(self._loaded)
        threading.Thread(target=self._listen, args=(ours, self._futures), daemon=True).start()

    def _listen(self, pipe: Connection, futures: dict[int, Future[Any]]) -> None:
        try:
            while True:
                request, kind, value = pipe.recv()
                if kind == "progress":
                    self._progress[request] = value
                    continue
                self._progress.pop(request, None)
                future = futures.pop(request)
                if kind == "done":
                    future.set_result(value)
                else:
                    future.set_exception(value)
        except (EOFError, OSError, TypeError):  # TypeError: the pipe was closed here, by `close`
            ended = InputError("the recogniser's process ended", "try again; close other programs if memory is short")
            with self._lock:
                waiting = list(futures.values())
                futures.clear()
            for future in waiting:
                future.set_exception(ended)

    def _loaded(self, future: Future[Any]) -> None:
        error = future.exception()
        if error is None:
            self.about, self.problem = future.result(), ""
            self._say(self.about["line"])
        elif not self._is_closed:
            self.problem = str(error)
            self._say(self.problem)

    def ask(self, name: str, *arguments: Any) -> Future[Any]:
        """Ask the process for something; a process that ended is started again.

        Parameters
        ----------
        name : str
            A method of `Worker`, without ``do_``.
        *arguments
            Its arguments.

        Returns
        -------
        Future
            Its exception is an `InputError`. Its attribute ``request`` is the number for `progress`.
        """
        future: Future[Any] = Future()
        with self._lock:
            if not self._futures and not self._keep.is_alive():
                self._start()
            request = next(self._numbers)
            self._futures[request] = future
            future.request = request  # type: ignore[attr-defined]
            try:
                self._pipe.send((request, name, arguments))
            except OSError:
                del self._futures[request]
                future.set_exception(InputError("the recogniser's process ended", "try again"))
        return future

    def load(self, model: Path | None) -> Future[Any]:
        """Load another model, in place of the one before."""
        future = self.ask("load", model)

        def loaded(done: Future[Any]) -> None:
            if done.exception() is None:
                self._model = model
            self._loaded(done)

        future.add_done_callback(loaded)
        return future

    def progress(self, future: Future[Any]) -> float:
        """Return how much of a request is done, from 0 to 1."""
        return self._progress.get(getattr(future, "request", -1), 0.0)

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        self._pipe.close()
        if hasattr(self._keep, "terminate"):
            self._keep.terminate()


class Recognitions:
    """Recordings that wait to be recognised, one after another.

    Parameters
    ----------
    engine : Engine
    done : callable
        Called with the name of a recording and its recognition; raises `InputError` if it cannot be kept.

    Attributes
    ----------
    problems : dict of str to str
        Why a recording has no recognition, by name.
    note : str
        What the user should know about the last recognition, or ``""``.
    """

    def __init__(self, engine: Engine, done: Callable[[str, Any], None]) -> None:
        self._engine, self._done = engine, done
        self._waiting: deque[tuple[str, Path]] = deque()
        self._now: tuple[str, Future[Any]] | None = None
        self._lock = threading.Lock()
        self.problems: dict[str, str] = {}
        self.note = ""

    def add(self, name: str, path: Path) -> None:
        """Recognise a recording after those that wait."""
        with self._lock:
            if name not in (waiting for waiting, _ in self._waiting) and name != (self._now or ("",))[0]:
                self.problems.pop(name, None)
                self._waiting.append((name, path))
        self._next()

    def _next(self) -> None:
        with self._lock:
            if self._now is not None or not self._waiting:
                return
            name, path = self._waiting.popleft()
            was = version(path)
            future = self._engine.ask("recognise", path, self._engine.ngram)
            self._now = (name, future)
        take = partial(self._take, name, future, lambda: version(path) == was)
        future.add_done_callback(lambda _: threading.Thread(target=take).start())

    def _take(self, name: str, future: Future[Any], is_same: Callable[[], bool]) -> None:
        try:
            result = future.result()
            if not is_same():
                raise InputError("the recording was replaced while it was recognised", "recognise it again")
            self._done(name, result)
            self.note = result.note
        except (InputError, OSError, Conflict) as error:
            self.problems[name] = str(error) or "its labels were changed meanwhile"
        with self._lock:
            self._now = None
        self._next()

    def status(self) -> dict[str, float]:
        """Return the share that is done of each recording: 0 for those that wait."""
        with self._lock:
            found = dict.fromkeys((name for name, _ in self._waiting), 0.0)
            if self._now is not None:
                found[self._now[0]] = self._engine.progress(self._now[1])
            return found
