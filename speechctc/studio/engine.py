"""The server's side of the process that holds the model: requests, their results, and the queue of recordings."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from speechctc.core.errors import InputError
from speechctc.core.processes import start_method
from speechctc.studio.document import Conflict
from speechctc.studio.sound import version
from speechctc.studio.worker import Restriction, serve_process

# Starts the other end of a pipe with a model, and returns what keeps it alive.
Launch = Callable[..., Any]  # of a pipe and a model; the pipe is of another class on Windows


def launch_process(pipe: Connection, model: Path | None, only: Restriction = None) -> Any:
    """Start the process that holds a model."""
    process = start_method("spawn").Process(target=serve_process, args=(pipe, model, only), daemon=True)
    process.start()
    pipe.close()
    return process


class Request(Future[Any]):
    """What was asked of the process; `progress` is how much of it is done, from 0 to 1."""

    progress = 0.0


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
        self._requests = {0: Request()}
        self._keep = self._launch(theirs, self._model)
        self._requests[0].add_done_callback(self._loaded)
        threading.Thread(target=self._listen, args=(ours, self._requests), daemon=True).start()

    def _listen(self, pipe: Connection, requests: dict[int, Request]) -> None:
        try:
            while True:
                number, kind, value = pipe.recv()
                if kind == "progress":
                    requests[number].progress = value
                elif kind == "done":
                    requests.pop(number).set_result(value)
                else:
                    requests.pop(number).set_exception(value)
        except (EOFError, OSError, TypeError):  # TypeError: the pipe was closed here, by `close`
            ended = InputError("the recogniser's process ended", "try again; close other programs if memory is short")
            with self._lock:
                waiting = list(requests.values())
                requests.clear()
            for request in waiting:
                request.set_exception(ended)

    def _loaded(self, future: Future[Any]) -> None:
        if (error := future.exception()) is None:
            self.about, self.problem = future.result(), ""
            self._say(self.about["line"])
        elif not self._is_closed:
            self.problem = str(error)
            self._say(self.problem)

    def ask(self, name: str, *arguments: Any) -> Request:
        """Ask the process for something; a process that ended is started again.

        Parameters
        ----------
        name : str
            A method of `Worker`, without ``do_``.
        *arguments
            Its arguments.

        Returns
        -------
        Request
            Its exception is an `InputError`.
        """
        request = Request()
        with self._lock:
            if not self._requests and not self._keep.is_alive():
                self._start()
            number = next(self._numbers)
            self._requests[number] = request
            try:
                self._pipe.send((number, name, arguments))
            except OSError:
                del self._requests[number]
                request.set_exception(InputError("the recogniser's process ended", "try again"))
        return request

    def load(self, model: Path | None) -> Request:
        """Load another model, in place of the one before."""
        request = self.ask("load", model)

        def loaded(done: Future[Any]) -> None:
            if done.exception() is None:
                self._model = model
            self._loaded(done)

        request.add_done_callback(loaded)
        return request

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
        self._waiting: dict[str, Request | None] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="recognitions")
        self.problems: dict[str, str] = {}
        self.note = ""

    def add(self, name: str, path: Path) -> None:
        """Recognise a recording after those that wait."""
        if name not in self._waiting:
            self._waiting[name] = None
            self.problems.pop(name, None)
            self._pool.submit(self._recognise, name, path)

    def _recognise(self, name: str, path: Path) -> None:
        try:
            was = version(path)
            self._waiting[name] = request = self._engine.ask("recognise", path, self._engine.ngram)
            result = request.result()
            if version(path) != was:
                raise InputError("the recording was replaced while it was recognised", "recognise it again")
            self._done(name, result)
            self.note = result.note
        except (InputError, OSError, Conflict) as error:
            self.problems[name] = str(error) or "its labels were changed meanwhile"
        finally:
            del self._waiting[name]

    def close(self) -> None:
        """Forget the recordings that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def status(self) -> dict[str, float]:
        """Return the share that is done of each recording: 0 for those that wait."""
        return {name: request.progress if request else 0.0 for name, request in list(self._waiting.items())}
