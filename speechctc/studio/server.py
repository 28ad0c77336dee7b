"""The studio's server: starts it, refuses strangers, and answers: page, sound, pictures, labels, training, export."""

from __future__ import annotations

import asyncio
import functools
import gc
import hmac
import html
import json
import math
import os
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Awaitable, Callable
from concurrent.futures import TimeoutError as TooSlow
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from speechctc.audio.annotations import Interval
from speechctc.audio.eaf_writer import eaf_text
from speechctc.core.bundled import bundled_folder
from speechctc.core.errors import InputError, of_disk, plural, printable, shortened
from speechctc.inference.formats import WRITERS, RecordingName
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.studio import sound as tiles
from speechctc.studio.document import Conflict, Document
from speechctc.studio.folder import NoSuchRecording, readable
from speechctc.studio.microphone import Microphone, recover
from speechctc.studio.studio import Studio

if TYPE_CHECKING:
    from speechctc.inference.restriction import RequestedPhones

PAGE = Path(__file__).parent / "page"
SHARED = [Path(__file__).parent.parent / "pages" / name for name in ("look.css", "recorder.js")]
TYPES = (".html", ".js", ".css", ".svg")
MAX_REQUEST_BYTES = 1 << 22  # bytes of a request
BODY_SECONDS = 10.0  # in which the body of a request must come, from this machine
SAMPLES = ("microphone/block", "microphone/stop")  # the requests that may have samples
_KEPT = {"Cache-Control": "private, max-age=3600"}

Answer = Callable[[Request], Awaitable[Response]]


def build_app(studio: Studio, microphone: Microphone) -> Starlette:
    """Return the application of a studio; `Guard` must stand before it."""
    answers = Routes(studio, microphone)
    pages = {path.name: path for path in PAGE.iterdir() if path.suffix in TYPES} | {path.name: path for path in SHARED}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in pages:
            raise HTTPException(404, "no such file")
        return FileResponse(pages[name])

    routes = [Route("/", page), Route("/page/{name}", page)]
    for name, answer in answers.reading.items():
        routes.append(Route(f"/api/{name}", guarded(answer), methods=["GET"]))
    for name, answer in answers.writing.items():
        routes.append(Route(f"/api/{name}", guarded(answer, name in SAMPLES), methods=["POST"]))
    return Starlette(routes=routes)


def guarded(answer: Callable[..., Any], takes_samples: bool = False) -> Answer:
    """Return a route that answers errors of the user's with one line as JSON."""

    @functools.wraps(answer)
    async def answered(request: Request) -> Response:
        try:
            body = (await _body(request, takes_samples),) if request.method == "POST" else ()
            return await run_in_threadpool(_response, answer, request, *body)
        except InputError as error:
            return _line(str(error), 400)
        except NoSuchRecording as error:
            return _line(f"the folder has no recording {str(error)!r:.200}", 404)
        except Conflict:
            return _line("another page or program changed these labels; the newest are shown", 409)
        except TooSlow:
            return _line("the model has not answered in time; try again", 503)
        except OSError as error:
            return _line(str(of_disk(error)), 507)
        except HTTPException:
            raise
        except Exception as error:  # whatever it is, the page goes on, and shows what else there is
            return _line(f"the studio failed at this ({type(error).__name__}: {error}); please report it", 500)

    return answered


def _response(answer: Callable[..., Any], *arguments: Any) -> Response:
    """Return an answer as a response; the JSON of an hour's labels is made here, as others are served meanwhile."""
    found = answer(*arguments)
    return found if isinstance(found, Response) else _Json({} if found is None else found)


async def _body(request: Request, has_samples: bool) -> Any:
    """Return the JSON of a request, or its bytes if it says that it has samples."""
    try:
        content = await asyncio.wait_for(_content(request), BODY_SECONDS)
    except asyncio.TimeoutError:
        raise HTTPException(408, "the request did not end in time", {"Connection": "close"}) from None
    if request.headers.get("content-type", "").startswith("application/octet-stream"):
        if not has_samples:
            raise InputError("the request is not a JSON object", "open the page again")
        return content
    try:
        body = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError("the request is not a JSON object", "open the page again")
    return body


async def _content(request: Request) -> bytes:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_REQUEST_BYTES:
            raise HTTPException(413, "too large")
    return bytes(content)


class _Json(JSONResponse):
    """An answer in JSON, in which paths may have bytes that are not UTF-8: these are escaped."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _line(text: str, status: int) -> JSONResponse:
    return _Json({"error": shortened(printable(text))}, status)


class Routes:
    """The answers to the page's requests, by name."""

    def __init__(self, studio: Studio, microphone: Microphone) -> None:
        self.studio = studio
        self.reading: dict[str, Callable[..., Any]] = {
            "overview": lambda request: studio.overview(int(_number(request.query_params.get("since", 0)))),
            "recording": lambda request: studio.recording(_name(request)),
            "audio": self.audio,
            "tile": self.tile,
            "wave": self.wave,
            "boundary": lambda request: studio.best_boundary(_name(request), int(_asked(request, "phone"))),
            "export": self.export,
            "heard": lambda request: studio.heard(_name(request), int(_asked(request, "first"))),
        }
        self.writing: dict[str, Callable[..., Any]] = {
            "edit": lambda request, body: studio.edit(_name(request), body),
            "place": lambda request, body: studio.place(_name(request), body),
            "recognise": lambda request, body: studio.recognise(body.get("names"), body.get("again") is True),
            "recognise/stop": lambda request, body: studio.stop_recognising(body.get("names")),
            "look": lambda request, body: studio.folder.scan(),
            "train": lambda request, body: studio.train(_number(body.get("minutes"))),
            "stop": lambda request, body: studio.training.stop(),
            "model": lambda request, body: studio.choose_model(int(_number(body.get("round")))),
            "ngram": lambda request, body: studio.use_ngram(body.get("on") is True),
            "microphone/start": lambda request, body: microphone.start(
                int(_number(body.get("rate"))), *(str(body.get(key) or "") for key in ("speaker", "name"))
            ),
            "microphone/block": lambda request, body: microphone.block(body, _name(request), _place(request)),
            "microphone/stop": lambda request, body: microphone.stop(_name(request), body or b"", _place(request)),
        }

    def audio(self, request: Request) -> Response:
        """Return the recording as WAV, or the part of it that the request asks for."""
        sound = self.studio.folder.sound(_name(request))
        kept = BackgroundTask(lambda: sound)  # its file may be a copy, which goes with it: not before it was sent
        return FileResponse(sound.file, headers=_KEPT, media_type="audio/wav", background=kept)

    def tile(self, request: Request) -> Response:
        """Return a tile of the spectrogram."""
        name = _name(request)
        sound = self.studio.folder.sound(name)
        settings = tiles.settings_of(*(_asked(request, key) for key in ("window", "highest", "range")))
        level, number = int(_asked(request, "level")), int(_asked(request, "number"))
        png = tiles.tile_png(sound, level, number, settings, self.studio.folder.loudest(name, settings))
        return Response(png, media_type="image/png", headers=_KEPT)

    def wave(self, request: Request) -> Response:
        """Return the lowest and highest samples of columns of the waveform, as little-endian int16."""
        start, stop, columns = (_asked(request, key) for key in ("start", "stop", "columns"))
        sound = self.studio.folder.sound(_name(request))
        if not (0 <= start < stop <= 8 * sound.seconds + 1 and 1 <= columns <= 8192):
            raise InputError(f"waveform: no part from {start} s to {stop} s", "choose a part of the recording")
        pairs = sound.extremes(start, stop, int(columns))
        return Response(pairs.astype("<i2").tobytes(), media_type="application/octet-stream", headers=_KEPT)

    def export(self, request: Request) -> Response:
        """Return the labels of a recording as a file to download."""
        name = _name(request)
        form = request.query_params.get("format", "textgrid")
        file, content = as_file(name, self.studio.folder.document(name), form)
        download = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(readable(file), safe='')}"}
        return Response(content, media_type="application/octet-stream", headers=download)


def _name(request: Request) -> str:
    return request.query_params.get("recording", "")


def _place(request: Request) -> int | None:
    """Return the number of a sample that a request gives, if it gives one."""
    return int(_asked(request, "at")) if "at" in request.query_params else None


def _asked(request: Request, key: str) -> float:
    """Return a number of the address of a request."""
    return _number(request.query_params.get(key))


def _number(value: Any) -> float:
    """Return a number that a request gives.

    Raises
    ------
    InputError
        It is not one.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{value!r:.40} is not a number", "open the page again")
    return number


def as_file(name: str, document: Document, form: str) -> tuple[str, bytes]:
    """Return the name and the content of a recording's labels in a format.

    Raises
    ------
    InputError
        There is no such format.
    """
    if (writer := WRITERS.get(form)) is None:
        raise InputError(f"there is no format {form!r:.20}", f"choose one of: {', '.join(WRITERS)}")
    result = recognition(name, document)
    if form == "textgrid":
        content = document.text().encode("utf-8", "backslashreplace")
    elif form == "eaf":
        tiers = [tier for tier in document.grid.others if not tier.points]
        others = {tier.name: [Interval(*entry) for entry in tier.entries if entry.label] for tier in tiers}
        text = eaf_text({**result.tiers(tones=False), **others}, document.recording.resolve())
        content = text.encode("utf-8", "backslashreplace")
    else:
        writer.check()
        place = str(document.recording) if writer.holds_one or writer.shows_sound else name
        content = writer.content(RecordingName(place, Path(name).stem), result)
    return Path(name).stem + writer.ending, content


def recognition(name: str, document: Document) -> Recognition:
    """Return the labels of a recording as a result of `speechctc decode`; what a person chose has confidence 1."""
    segments = (
        Segment(p.label, p.start, p.end, 1.0 if p.checked or p.confidence is None else p.confidence, p.alternatives)
        for p in tuple(document.phones)
    )
    return Recognition(str(document.recording), document.seconds, tuple(segments))


HOST = "127.0.0.1"
OBJECTS = 100_000  # that are made between two searches for circles of garbage
SWITCH = 0.001  # seconds that a thread computes while others wait
Say = Callable[[str], None]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NAMES = ("127.0.0.1", "localhost")
HEADER = "X-Speechctc-Token"
SIGN = "/api/sign"  # gives the page the signature of an address


def serve(
    place: Path,
    at: float,
    model: Path | None,
    port: int,
    browser: bool,
    show: Say,
    say: Say,
    wanted: RequestedPhones | None = None,
) -> None:
    """Serve a folder of recordings to a page on this machine, until it is interrupted.

    Parameters
    ----------
    place : Path
        A folder, or a recording: then the page opens it in its folder.
    at : float
        Where in that recording, in seconds.
    model : Path or None
        As ``--model``.
    port : int
        0: any free one.
    browser : bool
        Open the page in the user's browser.
    show, say : callable
        Called with the address, and with lines for standard error.
    wanted : RequestedPhones, optional
        The phones that the first model may hear.

    Raises
    ------
    InputError
        There is no such folder or model, the port is in use, or the extra ``studio`` is not installed.
    """
    from speechctc.studio.connections import run  # late: loading what it stands on takes a moment

    folder, opened = _folder(place, at)
    if model is not None and not model.exists() and bundled_folder(model) is None:
        raise InputError(f"{model}: no such model", "name the folder of a run or of a checkpoint")
    listening = listen(port)
    gc.set_threshold(OBJECTS)  # requests are short, also while the labels of an hour, a million objects, are read
    sys.setswitchinterval(SWITCH)
    tiles.remove_copies()
    for path in recover(folder, say):
        say(f"recovered {path}, which was being recorded when the studio was ended")
    studio = Studio(folder, model, say=say, wanted=wanted)
    opened_files = ExitStack()
    try:
        for note in studio.folder.notes:
            say(note)
        number = int(listening.getsockname()[1])
        microphone = Microphone(studio)
        app = Guard(build_app(studio, microphone), number)
        address = f"http://{HOST}:{number}/?token={app.token}{fragment(opened, at)}"
        recordings = plural(len(studio.folder.recordings), "recording")
        show(f"{folder}: {recordings}; corrections are saved at once. Open in a browser:")
        show(f"    {address}")
        say("the address is for you alone: whoever has it can read and change the labels; Ctrl-C ends the studio")
        if browser:
            open_privately(address, opened_files)
        with suppress(KeyboardInterrupt):  # the way to end the studio
            run(app, listening)
        if (made := microphone.close()) is not None:
            say(f"kept {made}, which was being recorded")
    finally:
        opened_files.close()
        is_written = studio.close()
        if studio.training.is_running():
            say(f"the training goes on; open the studio again to use its model ({studio.training.folder})")
        if not is_written:
            say(f"{folder}: the disk does not answer. Every correction is in the journals; the next start writes them")
            os._exit(1)  # threads that wait for the disk would keep the process


def open_privately(address: str, files: ExitStack) -> None:
    """Open an address in the browser by a file that leads there, which only this user can read.

    The arguments of a program can be read by all users of a machine, and this address holds a token. `files` removes
    the file.
    """
    folder = files.enter_context(tempfile.TemporaryDirectory(prefix="speechctc-studio-"))  # of this user alone
    page = Path(folder) / "open.html"
    to = html.escape(address)
    head = f'<meta charset="utf-8"><title>speechctc studio</title><meta http-equiv="refresh" content="0; url={to}">'
    page.write_text(f'<!doctype html>{head}<a href="{to}">Open the studio</a>\n', encoding="utf-8")
    page.chmod(0o600)
    webbrowser.open(page.as_uri())


def fragment(name: str, at: float) -> str:
    """Return the end of an address that opens a recording, at a time in seconds; ``""`` for no recording."""
    return f"#{quote(readable(name), safe='')}" + (f"@{at:g}" if at else "") if name else ""


def listen(port: int) -> socket.socket:
    """Return a socket that listens on this machine only.

    Raises
    ------
    InputError
        The port is in use, or may not be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Windows lets any program share a port that was opened for reuse: there, the other option keeps it for this one.
    listening.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"port {port}: {reason}", "name another with --port, or leave it out") from None
    return listening


def _folder(place: Path, at: float) -> tuple[Path, str]:
    """Return the folder to show, and the recording in it to open."""
    if place.is_dir():
        if at:
            raise InputError(f"--at {at:g}, but no recording is named", "name the recording to open, not its folder")
        return place, ""
    if place.is_file():
        return place.parent, place.name
    raise InputError(f"{place}: no such folder", "check the path")


class Guard:
    """Refuses requests without the token, of another host, or from another origin.

    The token is in the address that the studio prints. The page, which is no secret, sends it with each request as the
    header `HEADER`: a cookie would go to every port of this machine. What the browser asks for itself, sound and
    downloads, has an address that was signed for the page instead.

    Parameters
    ----------
    app : ASGIApp
    port : int
    token : str, optional
        Random by default.
    """

    def __init__(self, app: ASGIApp, port: int, token: str | None = None) -> None:
        self.app, self.port = app, port
        self.token = token or secrets.token_urlsafe(24)
        self._hosts = {f"{name}:{port}" for name in NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        request = Request(scope)
        problem = self._problem(request)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # who is refused keeps no connection
        app: ASGIApp = PlainTextResponse(problem, 403, {"Connection": "close"}) if problem else self.app
        if scope["path"] == SIGN and not problem:
            app = PlainTextResponse(self._sign(request.query_params.get("address", "")))
        await app(scope, receive, send_guarded)

    def _sign(self, address: str) -> str:
        return hmac.new(self.token.encode("utf-8"), address.encode("utf-8"), "sha256").hexdigest()

    def _problem(self, request: Request) -> str:
        """Return why a request is refused, or ``""``."""
        headers = request.headers
        host = headers.get("host", "")
        if host not in self._hosts:
            return "refused: the address is not the studio's own\n"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return "refused: another page may not use the studio\n"
        site = headers.get("sec-fetch-site", "none")
        path = request.url.path
        if site not in ("same-origin", "none") and path != "/":  # a file leads the browser there
            return "refused: another page may not use the studio\n"
        query, _, sign = request.url.query.rpartition("&sign=")
        proofs = [(headers.get(HEADER, ""), self.token)]
        if request.method in ("GET", "HEAD") and path != SIGN:
            proofs.append((sign, self._sign(f"{path}?{query}")))
        is_known = any(hmac.compare_digest(a.encode("utf-8"), b.encode("utf-8")) for a, b in proofs)
        if path.startswith("/api/") and not is_known:
            return "refused: open the address that speechctc studio printed; it holds a token\n"
        return ""
