"""The process that holds the model, seen from both sides: the worker's answers, and the server's requests and queue.

The server stays small and answers at once, as the worker alone loads torch. Requests and answers go through a pipe; the
worker ends when the other end of the pipe is closed.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.sound_file import info
from speechctc.core.errors import InputError
from speechctc.core.processes import start_method
from speechctc.inference.alignment import Aligner
from speechctc.inference.placement import Posteriors
from speechctc.inference.result import NOTHING_HEARD
from speechctc.inference.segmenter import FrameClock, Segment
from speechctc.inference.transcript import check_fit, phone_units
from speechctc.lm.search import log_softmax
from speechctc.studio.document import Conflict
from speechctc.studio.sound import Waveform, version

if TYPE_CHECKING:
    from speechctc.inference.decoder import Doubt
    from speechctc.inference.recogniser import Recogniser
    from speechctc.inference.restriction import RequestedPhones
    from speechctc.inference.result import Recognition
    from speechctc.inference.streaming import Stream

ALTERNATIVES = 5  # other phones to name for each phone
REMEDY = "take the tick from N-gram, and recognise again"
SLOWLY = 5  # how much less important than the server the process is


Restriction: TypeAlias = "tuple[Path | None, RequestedPhones] | None"  # a model, and the phones that it may hear


def serve(pipe: Connection, model: Path | None, only: Restriction = None) -> None:
    """Load a model, send what it is as the answer to request 0, and answer requests until the pipe is closed."""
    worker = Worker(pipe, only)
    with suppress(EOFError, OSError):
        worker.answer(0, "load", (model,))
        while True:
            worker.answer(*pipe.recv())


def serve_process(pipe: Connection, model: Path | None, only: Restriction = None) -> None:
    """Call `serve` in a process that was started for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    if sys.platform != "win32":
        os.nice(SLOWLY)
    serve(pipe, model, only)


class Worker:
    """Answers requests with a model, one at a time; short ones also while a long one is under way.

    Parameters
    ----------
    pipe : Connection
    only : Restriction
    """

    def __init__(self, pipe: Connection, only: Restriction = None) -> None:
        self._pipe, self._only = pipe, only
        self._ways: dict[bool, Recogniser] = {}  # with and without the n-gram
        self._doubts: dict[bool, Doubt] = {}  # of both ways; none if the model is not the bundled one
        self._sound: Waveform | None = None
        self._live: Stream | None = None
        self._stopped = 0  # the request that is not to go on

    def answer(self, request: int, name: str, arguments: Sequence[Any]) -> None:
        """Do what is asked, and send the request's number, ``"done"``, ``"error"`` or ``"progress"``, and the value."""
        try:
            value = getattr(self, f"do_{name}")(*arguments, request)
        except InputError as error:
            self._pipe.send((request, "error", error))
        except (RuntimeError, MemoryError, ValueError) as error:
            what = f"the recogniser failed ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
            self._pipe.send((request, "error", InputError(what, "try again, or with another model")))
        else:
            self._pipe.send((request, "done", value))

    def do_load(self, model: Path | None, request: int) -> dict[str, Any]:
        """Load a model, which replaces the one before; return its folder, its phones and a line on it."""
        from speechctc.core.progress import Reporter
        from speechctc.inference.decoder import ONLY, Doubt, has_ngram
        from speechctc.inference.recogniser import Recogniser
        from speechctc.model.checkpoint import BUILT_IN
        from speechctc.stages.open_model import open_model
        from speechctc.stages.used_model import find_and_describe

        folder, line = find_and_describe(model, or_bundled=True)
        recogniser = open_model(folder, Recogniser)
        if self._only and self._only[0] == model:
            from speechctc.inference.restriction import restrict

            recogniser = restrict(recogniser, self._only[1], Reporter())
            line += f"; {recogniser.checkpoint.facts[ONLY]}"
        self._ways = {True: recogniser, False: recogniser.with_settings(["decode.lm_weight=0"])}
        self._doubts = {way: Doubt(each, REMEDY) for way, each in self._ways.items() if folder == BUILT_IN}
        about = {"folder": str(folder), "line": line, "phones": list(recogniser.phones)}
        return {**about, "has_ngram": has_ngram(recogniser)}

    def do_recognise(self, path: Path, ngram: bool, request: int) -> Recognition:
        """Recognise a recording, with the model's n-gram or without.

        Sends its progress, and answers short requests meanwhile. The note of the result is the doubt about all
        recordings that the model recognised so.
        """
        from speechctc.inference.result import Recognition

        recogniser, doubt = self._loaded(ngram), self._doubts.get(ngram)
        total = max(info(path).seconds, 1e-9)
        with recogniser.opened(path, None, None) as (name, blocks):
            segments = []
            found = recogniser.segments(blocks, ALTERNATIVES)
            for segment in doubt.seen(found) if doubt else found:
                segments.append(segment)
                self._pipe.send((request, "progress", (min(blocks.seconds / total, 1.0), segment)))
                while self._pipe.poll():
                    self.answer(*self._pipe.recv())
                if self._stopped == request:
                    break
            note = doubt.note() if doubt else ""
            seconds = total if self._stopped == request else blocks.seconds
            return Recognition(name, seconds, tuple(segments), note=note, is_dereverberated=blocks.changed)

    def do_stop(self, number: int, request: int) -> None:
        """End the recognition that has a request's number; its answer is what is known by then."""
        self._stopped = number

    def do_align(self, path: Path, start: float, stop: float, labels: Sequence[str], request: int) -> list[Segment]:
        """Place phones in a part of a recording."""
        return align_part(self._loaded(), self._opened(path), start, stop, labels)

    def do_live_start(self, rate: int, ngram: bool, request: int) -> None:
        """Begin to recognise what a microphone records at a rate, Hz."""
        self._live = self._loaded(ngram).stream(rate)

    def do_live_block(self, samples: NDArray[np.float32], request: int) -> list[Segment]:
        """Take samples of the microphone; return the phones that became known since the last call."""
        if self._live is None:
            raise InputError("no recording is being made", "begin one")
        return self._live.push(samples)

    def do_live_stop(self, request: int) -> list[Segment]:
        """End the recording; return the phones that were not returned yet."""
        if self._live is None:
            return []
        live, self._live = self._live, None
        return live.finish()

    def _loaded(self, ngram: bool = True) -> Recogniser:
        if not self._ways:
            raise InputError("no model is loaded", "name another with --model")
        return self._ways[ngram]

    def _opened(self, path: Path) -> Waveform:
        """Return a recording; the last one stays open, as some formats are decoded first."""
        if self._sound is None or self._sound.path != path or self._sound.version != version(path):
            if self._sound is not None:
                self._sound.close()
            self._sound = Waveform(path)
        return self._sound


def align_part(
    recogniser: Recogniser, sound: Waveform, start: float, stop: float, labels: Sequence[str]
) -> list[Segment]:
    """Place phones between two times of a recording.

    Parameters
    ----------
    recogniser : Recogniser
    sound : Waveform
    start, stop : float
        Seconds.
    labels : sequence of str
        Phones of the model, at least one.

    Returns
    -------
    list of Segment
        One for each label, within `start` and `stop`.

    Raises
    ------
    InputError
        A phone is not in the model's set, or there are too many for this time.
    """
    classes = recogniser.inventory.encode(labels)
    features, step = recogniser.config.features, recogniser.clock.step
    behind, ahead = (reach * features.shift_ms / 1000 for reach in features.cmn_reach)
    half = recogniser.receptive_field / 2
    begin = math.floor(max(start - behind - half, 0) / step) * step  # a frame of the whole recording begins here
    end = min(stop + ahead + half + 1, sound.seconds)
    samples = sound.read(round(begin * sound.rate), round(end * sound.rate))
    rows = log_softmax(recogniser.logits(samples, sound.rate))
    clock = recogniser.clock
    first = min(clock.frame(start - begin), len(rows))
    last = min(max(clock.frame(stop - begin), first), len(rows))
    rows = rows[first:last]
    check_fit(f"{sound.path.name}, {start:.2f} to {stop:.2f} s", classes, len(rows), stop - start)
    aligner = Aligner(recogniser.inventory, FrameClock(step, begin + clock.seconds(first)), recogniser.calibration)
    with Posteriors(rows.shape[1]) as posteriors:
        posteriors.append(rows)
        found = aligner.place(sound.path.name, stop, phone_units(labels), posteriors).segments
    spans = np.clip([(each.start, each.end) for each in found], start, stop).tolist()
    return [each._replace(start=a, end=b) for each, (a, b) in zip(found, spans, strict=True)]


# Starts the other end of a pipe with a model, and returns what keeps it alive.
Launch = Callable[..., Any]  # of a pipe and a model; the pipe is of another class on Windows


def launch_process(pipe: Connection, model: Path | None, only: Restriction = None) -> Any:
    """Start the process that holds a model."""
    process = start_method("spawn").Process(target=serve_process, args=(pipe, model, only), daemon=True)
    process.start()
    pipe.close()
    return process


class Request(Future[Any]):
    """What was asked of the process.

    Attributes
    ----------
    number : int
    progress : float
        How much of it is done, from 0 to 1.
    segments : list of Segment
        The phones that are known so far.
    """

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.number, self.progress = number, 0.0
        self.segments: list[Segment] = []


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
    is_loading : bool
        A model is being loaded; until then, `about` is that of the one before.
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
        self.ngram, self.is_loading = True, True
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
                    requests[number].progress, segment = value
                    requests[number].segments.append(segment)
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
        self.is_loading = False
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
        number = next(self._numbers)
        request = Request(number)
        with self._lock:
            if not self._requests and not self._keep.is_alive():
                self._start()
            self._requests[number] = request
            try:
                self._pipe.send((number, name, arguments))
            except OSError:
                del self._requests[number]
                request.set_exception(InputError("the recogniser's process ended", "try again"))
        return request

    def load(self, model: Path | None) -> Request:
        """Load another model, in place of the one before."""
        self.is_loading = True
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
        Called with the name of a recording, its recognition, and whether that is only a part of it, as it was stopped;
        raises `InputError` if it cannot be kept.

    Attributes
    ----------
    problems : dict of str to str
        Why a recording has no recognition, by name.
    note : str
        What the user should know about the last recognition, or ``""``.
    """

    def __init__(self, engine: Engine, done: Callable[[str, Any, bool], None]) -> None:
        self._engine, self._done = engine, done
        self._waiting: dict[str, Request | None] = {}
        self._stopped: set[str] = set()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="recognitions")
        self.problems: dict[str, str] = {}
        self.note = ""

    def add(self, name: str, path: Path) -> None:
        """Recognise a recording after those that wait; none once the studio is closed."""
        if name not in self._waiting:
            self._waiting[name] = None
            self._stopped.discard(name)
            self.problems.pop(name, None)
            try:
                self._pool.submit(self._recognise, name, path)
            except RuntimeError:  # the studio was closed meanwhile
                del self._waiting[name]

    def _recognise(self, name: str, path: Path) -> None:
        try:
            was = version(path)
            if name in self._stopped:
                return
            self._waiting[name] = request = self._engine.ask("recognise", path, self._engine.ngram)
            if name in self._stopped:  # meanwhile
                self._engine.ask("stop", request.number)
            result = request.result()
            if version(path) != was:
                raise InputError("the recording was replaced while it was recognised", "recognise it again")
            is_part = name in self._stopped
            self._done(name, result, is_part)
            self.note = result.note
            if not (is_part or result.segments):
                self.problems[name] = NOTHING_HEARD
            if is_part:
                end = result.segments[-1].end if result.segments else 0.0
                self.problems[name] = f"stopped: recognised up to {end:.1f} s of {result.seconds:.1f} s"
        except Conflict:
            self.problems[name] = "its labels were changed meanwhile"
        except Exception as error:  # in a thread, where nobody hears of it: whatever it is, the page says it
            self.problems[name] = (
                str(error) if isinstance(error, InputError | OSError) else f"it failed: {error!r:.300}"
            )
        finally:
            del self._waiting[name]

    def stop(self, name: str) -> None:
        """Recognise a recording no further; what is known of it is kept."""
        if name in self._waiting:
            self._stopped.add(name)
            if (request := self._waiting[name]) is not None:
                self._engine.ask("stop", request.number)

    def heard(self, name: str) -> list[Segment]:
        """Return the phones that are known of a recording which is being recognised."""
        request = self._waiting.get(name)
        return list(request.segments) if request is not None else []

    def close(self) -> None:
        """Forget the recordings that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def status(self) -> dict[str, float]:
        """Return the share that is done of each recording: 0 for those that wait."""
        return {name: request.progress if request else 0.0 for name, request in list(self._waiting.items())}
