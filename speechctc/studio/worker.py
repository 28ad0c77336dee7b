"""The process that holds the model: it recognises and aligns what the server asks for.

The server stays small and answers at once, as torch is loaded here only. Requests and answers go through a pipe; the
process ends when the other end of the pipe is closed.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.sound_file import info
from speechctc.core.errors import InputError
from speechctc.inference.alignment import Aligner
from speechctc.inference.placement import Posteriors
from speechctc.inference.segmenter import FrameClock, Segment
from speechctc.inference.transcript import check_fit, phone_units
from speechctc.model.numpy_net import log_softmax
from speechctc.studio.sound import Waveform, version

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser
    from speechctc.inference.result import Recognition
    from speechctc.inference.streaming import Stream
    from speechctc.inference.unsure import Doubt
    from speechctc.inference.wanted import Wanted

ALTERNATIVES = 5  # other phones to name for each phone
REMEDY = "take the tick from N-gram, and recognise again"
SLOWLY = 5  # how much less important than the server the process is


Restriction: TypeAlias = "tuple[Path | None, Wanted] | None"  # a model, and the phones that it may hear


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
        self._recogniser: Recogniser | None = None
        self._without_ngram: Recogniser | None = None
        self._doubts: dict[bool, Doubt] = {}  # with and without the n-gram; none if the model is not the bundled one
        self._sound: Waveform | None = None
        self._live: Stream | None = None

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
        from speechctc.inference.decoder import ONLY
        from speechctc.inference.recogniser import Recogniser
        from speechctc.inference.unsure import Doubt, has_ngram
        from speechctc.model.checkpoint import BUILT_IN
        from speechctc.stages.used_model import find_and_describe

        folder, line = find_and_describe(model, or_built_in=True)
        recogniser = Recogniser.load(folder)
        if self._only and self._only[0] == model:
            from speechctc.inference.variants import restrict

            recogniser = restrict(recogniser, self._only[1], Reporter())
            line += f"; {recogniser.checkpoint.facts[ONLY]}"
        self._recogniser = recogniser
        self._without_ngram = recogniser.with_settings(["decode.lm_weight=0"])
        both = {True: recogniser, False: self._without_ngram}
        self._doubts = {way: Doubt(each, REMEDY) for way, each in both.items()} if folder == BUILT_IN else {}
        about = {"folder": str(folder), "line": line, "phones": list(recogniser.phones)}
        return {**about, "has_ngram": has_ngram(recogniser)}

    def do_recognise(self, path: Path, ngram: bool, request: int) -> Recognition:
        """Recognise a recording, with the model's n-gram or without.

        Sends its progress, and answers short requests meanwhile. The note of the result is the doubt about all
        recordings that the model recognised so.
        """
        from speechctc.inference.result import Recognition
        from speechctc.inference.samples import opened

        recogniser, doubt = self._loaded(ngram), self._doubts.get(ngram)
        total = max(info(path).seconds, 1e-9)
        with opened(path, None, None, recogniser.config.features.sample_rate) as (name, blocks):
            segments = []
            found = recogniser.segments(blocks, ALTERNATIVES)
            for segment in doubt.seen(found) if doubt else found:
                segments.append(segment)
                self._pipe.send((request, "progress", min(blocks.seconds / total, 1.0)))
                while self._pipe.poll():
                    self.answer(*self._pipe.recv())
            return Recognition(name, blocks.seconds, tuple(segments), note=doubt.note() if doubt else "")

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
        recogniser = self._recogniser if ngram else self._without_ngram
        if recogniser is None:
            raise InputError("no model is loaded", "name another with --model")
        return recogniser

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
    sound : Sound
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
    first = min(max(math.ceil((start - begin - clock.half) / step), 0), len(rows))
    last = min(max(math.ceil((stop - begin - clock.half) / step), first), len(rows))
    rows = rows[first:last]
    check_fit(f"{sound.path.name}, {start:.2f} to {stop:.2f} s", classes, len(rows), stop - start)
    aligner = Aligner(recogniser.inventory, FrameClock(step, begin + clock.seconds(first)), recogniser.calibration)
    with Posteriors(rows.shape[1]) as posteriors:
        posteriors.append(rows)
        found = aligner.place(sound.path.name, stop, phone_units(labels), posteriors).segments
    spans = np.clip([(each.start, each.end) for each in found], start, stop).tolist()
    return [each._replace(start=a, end=b) for each, (a, b) in zip(found, spans, strict=True)]
