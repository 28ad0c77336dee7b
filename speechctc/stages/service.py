"""A service that keeps models loaded for `speechctc decode --via-service` of the same user, until Ctrl-C.

It listens on 127.0.0.1. Its port and a random token lie in a file that only the user can read. A request holds the
options of a command and its working folder; the answer is what the command would print. The service writes no results:
who asks does. Only requests with the token are answered, from no web page, and for no other host.
"""

from __future__ import annotations

import hmac
import io
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from speechctc.core import files
from speechctc.core.errors import InputError, advice_on
from speechctc.stages.ask_service import HOST, INSTALLATION, Answer, Options, place_of_file, proof

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser

LARGEST = 1 << 22  # bytes of a request
KEPT = 2  # models
PATIENCE = 30  # seconds for a request to arrive


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

    opened = Server(HOST, token, answer)
    # SIGINT too: what a shell starts in the background ignores it
    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        with suppress(KeyboardInterrupt), opened as server, _announced(server.server_port, token):
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
        wrong = InputError(f"{error.filename or 'disk'}: {error.strerror}", advice_on(error))
    except Exception as error:
        first = str(error).partition("\n")[0]
        wrong = InputError(f"the service failed ({type(error).__name__}: {first})", "leave out --via-service")
    finally:
        os.chdir(home)
    return Answer(raw.getvalue(), err.getvalue(), status, (wrong.what, wrong.fix) if wrong else None)


class Server(ThreadingHTTPServer):
    """Listens on any free port.

    Parameters
    ----------
    host, token : str
    answer : callable
        Takes the JSON object of a request.
    """

    allow_reuse_address = allow_reuse_port = False  # Windows would let others take the port

    def __init__(self, host: str, token: str, answer: Callable[[dict[str, Any]], Answer]) -> None:
        super().__init__((host, 0), Handler)
        self.token, self.answer = token, answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where one who asked has gone."""


class Handler(BaseHTTPRequestHandler):
    """Answers a request."""

    timeout = PATIENCE

    def do_POST(self) -> None:  # noqa: N802
        """Check who asks before anything is read, and run the command."""
        server = cast(Server, self.server)
        size = self.headers.get("Content-Length", "")
        if refusal := self._refusal(server):
            self.send_error(403, refusal)
        elif not size.isdecimal() or len(size) > 9 or int(size) > LARGEST:
            self.send_error(413, "the request is too large")
        elif not isinstance(request := _parsed(self.rfile.read(int(size))), dict):
            self.send_error(400, "the request is not a JSON object")
        else:
            answer = server.answer(request)._asdict()
            answer["out"] = answer["out"].decode("utf-8", "surrogateescape")
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Proof", proof(server.token, self.headers.get("Nonce", "")))
            self.end_headers()
            self.wfile.write(content)

    def _refusal(self, server: Server) -> str:
        """Return why a request is refused, or ``""``."""
        if self.headers.get_all("Host") != [f"{server.server_address[0]!s}:{server.server_port}"]:
            return "the address is not the service's own"
        if "Origin" in self.headers or "Sec-Fetch-Site" in self.headers:
            return "a web page may not use the service"
        given, own = self.headers.get("Authorization", ""), f"Bearer {server.token}"
        if not hmac.compare_digest(given.encode("utf-8", "replace"), own.encode()):
            return "the token is wrong"
        return "" if self.path == "/decode" else "there is only /decode"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep standard error for the user."""


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
