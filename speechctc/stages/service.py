"""A service that keeps models loaded for `speechctc decode --via-service` of the same user, until Ctrl-C.

It listens on 127.0.0.1. Its port and a random token lie in a file that only the user can read. A request holds the
options of a command and its working folder; the answer is what the command would print. The service writes no results:
who asks does. Only who knows the token is answered; a web page cannot ask.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from speechctc.core import files
from speechctc.core.errors import InputError, of_disk
from speechctc.stages.ask_service import HOST, INSTALLATION, Answer, Options, place_of_file

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser

LARGEST = 1 << 22  # bytes of a request
KEPT = 2  # models


class Models:
    """The models that were used last; one that changed on disk since it was read is read again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, Recogniser]] = {}

    def read(self, folder: Path, device: str) -> Recogniser:
        """Return the model of a folder as `Recogniser.read` does."""
        from speechctc.inference.recogniser import Recogniser

        key, now = (os.path.realpath(folder), device), _stamp(folder)
        before, recogniser = self._known.pop(key, (None, None))
        if recogniser is None or before != now:
            recogniser = Recogniser.read(folder, device)
        if _stamp(folder) == now:
            self._known[key] = now, recogniser
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return recogniser


def _stamp(folder: Path) -> object:
    """Return what changes when a file in a folder does."""
    place, found = files.standing(Path(os.path.realpath(folder))), []
    for path in sorted(place.rglob("*")):
        with suppress(OSError):
            status = path.stat()
            found.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return place, found


@contextmanager
def _announced(port: int, token: str) -> Iterator[None]:
    """Write the file that tells the user's commands where the service is; remove it at the end.

    A lock on it is held meanwhile: there is one service.
    """
    path = place_of_file()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if files.try_lock(handle) is False or not os.path.samestat(os.fstat(handle), path.lstat()):
            raise InputError(f"a service is running already ({path})", "use it, or end it with Ctrl-C in its window")
        if hasattr(os, "fchmod"):
            os.fchmod(handle, 0o600)
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"port": port, "token": token}).encode())
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                path.unlink()
    finally:
        os.close(handle)
    if sys.platform == "win32":
        with suppress(OSError):
            path.unlink()


def listen(decode: Callable[[Options], int], say: Callable[[str], None]) -> None:
    """Answer requests until Ctrl-C or SIGTERM.

    Parameters
    ----------
    decode : callable
        Runs a command with these options, prints its results, and returns its exit status.
    say : callable
        Called with lines for the user.

    Raises
    ------
    InputError
        Another service of this user is running, or there is no folder for its file.
    """

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    token, lock = secrets.token_urlsafe(32), threading.Lock()

    def answer(request: Options) -> Answer:
        with lock:
            return _run(decode, request)

    opened = Server(token, answer)
    # SIGINT too: what a shell starts in the background ignores it
    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        with suppress(KeyboardInterrupt), opened as server, _announced(server.server_address[1], token):
            say("speechctc decode --via-service is answered here; Ctrl-C ends it")
            server.serve_forever(poll_interval=0.1)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if lock.locked():  # Python would wait for the recording's end; nothing of the user's is being written
        os._exit(0)


def _run(decode: Callable[[Options], int], request: Options) -> Answer:
    """Run a command in its working folder; one at a time, as the folder and the streams are the process's."""
    if request.get("installation") != INSTALLATION:
        error = InputError("the service is of another installation of speechctc", "end it, and start it from this one")
        return Answer(b"", "", 2, (error.what, error.fix))
    raw, err, home = io.BytesIO(), io.StringIO(), os.getcwd()
    out = io.TextIOWrapper(raw, "utf-8", "surrogateescape", newline="", write_through=True)
    status, wrong = 2, None
    try:
        os.chdir(request["folder"])
        with redirect_stdout(out), redirect_stderr(err):
            status = decode(request["options"])
    except InputError as error:
        wrong = error
    except OSError as error:
        wrong = of_disk(error)
    except Exception as error:
        first = str(error).partition("\n")[0]
        wrong = InputError(f"the service failed ({type(error).__name__}: {first})", "leave out --via-service")
    finally:
        os.chdir(home)
    return Answer(raw.getvalue(), err.getvalue(), status, (wrong.what, wrong.fix) if wrong else None)


class Server(ThreadingTCPServer):
    """Answers on any free port of this machine.

    Parameters
    ----------
    token : str
        What a client must know, as it must hear that this side knows it.
    answer : callable
        Takes a request.
    """

    daemon_threads, request_queue_size = True, 16
    allow_reuse_address = allow_reuse_port = False  # Windows would let others take the port

    def __init__(self, token: str, answer: Callable[[dict[str, Any]], Answer]) -> None:
        super().__init__((HOST, 0), BaseRequestHandler)
        self._token, self._answer = token.encode(), answer

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Let both sides show that they know the token, which is not sent, and answer."""
        with Connection(request.detach()) as connection:
            deliver_challenge(connection, self._token)
            answer_challenge(connection, self._token)
            answer = self._answer(json.loads(connection.recv_bytes(LARGEST)))._asdict()
            answer["out"] = answer["out"].decode("utf-8", "surrogateescape")
            connection.send_bytes(json.dumps(answer).encode())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a stranger, or where one who asked has gone."""
