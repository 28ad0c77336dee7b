"""Recordings from the microphone: a WAV file in the making, and the phones that are heard meanwhile.

The sound comes first: samples are in the file before anything else is done with them, whether a model is quick, slow or
missing. The file has a header from the first moment on. At the end, it only gets its sizes and its name, which takes no
time, no memory and no space, however long the recording is.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.core.files import append, flush, is_free, named, numbered, try_lock
from speechctc.core.links import open_plain, refuse_links_below, refuse_odd
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.studio.engine import Engine
from speechctc.studio.studio import WAIT, Studio

# Ending of a recording that is being made; those that a killed server left become recordings.
ENDING = ".speechctc-recording"
RATES = (8000, 384000)  # Hz
NAME = re.compile(r'(?!\.)[^/\\:*?"<>|\x00-\x1f]{1,100}(?<!\.)')  # of a file, on any system
HEAD = 80  # bytes before the samples
SILENT = 30.0  # seconds without samples after which another recording may begin
GONE = 3600.0  # seconds without samples after which, where no lock can tell, no studio makes it any more
BEHIND = 120.0  # seconds that wait for the model, after which it no longer listens
PATIENCE = 2.0  # seconds that the end of a recording waits for its last phones


class Microphone:
    """Makes one recording at a time, in the studio's folder.

    Parameters
    ----------
    studio : Studio
    """

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._lock = threading.Lock()
        self._raw: Path | None = None
        self._file = -1  # the handle of `_raw`, with a lock as long as the recording is being made
        self._name = ""
        self._rate = self._count = 0  # Hz; samples so far
        self._last = 0.0  # when samples came
        self._ended: tuple[str, str | None] = ("", None)  # the last recording, and the name that it got
        self._listener: Listener | None = None

    def start(self, rate: int, speaker: str = "", name: str = "") -> dict[str, Any]:
        """Begin a recording; return its name.

        Parameters
        ----------
        rate : int
            Hz.
        speaker : str
            The folder for it, as those of a class; ``""``: the studio's own.
        name : str
            Of the file, without its ending; ``""``: the time. A number is added if there is such a recording.

        Raises
        ------
        InputError
            One is being made, the rate is no rate of a microphone, or a name is none of a file.
        """
        if not RATES[0] <= rate <= RATES[1]:
            raise InputError(f"a microphone at {rate} Hz", f"choose a rate from {RATES[0]} to {RATES[1]} Hz")
        with self._lock:
            if self._raw is not None:
                if time.monotonic() - self._last < SILENT:
                    raise InputError("a recording is being made in another page", "end it there first")
                self._keep()  # its page is gone
            path = self._free(speaker, name)
            raw = path.with_name(f".{path.name}.{rate}{ENDING}")
            self._file = open_plain(raw, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            try_lock(self._file)
            try:
                with named(raw):
                    append(self._file, header(rate, 0))
            except OSError:
                os.close(self._file)
                raw.unlink(missing_ok=True)
                raise
            self._raw, self._rate, self._count, self._last = raw, rate, 0, time.monotonic()
            self._name = f"{path.relative_to(self._studio.folder.path).as_posix()}.wav"
            hears, before = bool(self._studio.engine.about), self._listener
            self._listener = Listener(self._studio.engine, rate, before) if hears else None
        return {"name": self._name, "recognises": hears}

    def _free(self, speaker: str, name: str) -> Path:
        """Return the path of a new recording without its ending, in a folder that is there."""
        stem = name.strip().removesuffix(".wav").rstrip() or datetime.now().strftime("recording-%Y-%m-%d-%H%M%S")
        parts = [part.strip() for part in speaker.split("/")] if speaker.strip() else []
        for part in (*parts, stem):
            if not NAME.fullmatch(part):
                what = f"{part!r:.60} cannot be the name of a file"
                raise InputError(what, 'take one without / \\ : * ? " < > | and without a dot at its start or end')
        root, below = self._studio.folder.path, Path(*parts)
        refuse_links_below(root, below)
        (root / below).mkdir(parents=True, exist_ok=True)
        taken = {path.with_suffix("") for path in self._studio.folder.recordings.values()}
        paths = (root / below / each for each in numbered(stem))
        return next(path for path in paths if path not in taken and not os.path.lexists(f"{path}.wav"))

    def block(self, samples: bytes, name: str = "", at: int | None = None) -> dict[str, Any]:
        """Keep samples, float32 little-endian; return the phones that became known.

        Parameters
        ----------
        samples : bytes
        name : str
            The recording that they are of; ``""``: the one that is being made.
        at : int, optional
            The number of the first sample in it. Samples that are there, as they were sent twice, are left out.

        Raises
        ------
        InputError
            This recording is not being made, samples before these are missing, or these are no samples.
        """
        with self._lock:
            self._being_made(name)
            self._append(samples, at)
            return {"phones": self._listener.heard() if self._listener else []}

    def stop(self, name: str = "", samples: bytes = b"", at: int | None = None) -> dict[str, Any]:
        """Keep the last samples, as `block` does, and end the recording; return its name, and the last phones.

        The phones that were heard are its labels, until the whole of it is recognised once more.

        Raises
        ------
        InputError
            This recording is not being made, or it cannot be written.
        """
        with self._lock:
            if name and name == self._ended[0]:  # asked again, as the answer did not arrive
                return {"name": self._ended[1], "phones": []}
            self._being_made(name)
            self._append(samples, at)
            path, listener = self._keep(), self._listener
            seconds = self._count / self._rate
            found = None if path is None else path.relative_to(self._studio.folder.path).as_posix()
            self._ended = self._name, found
        if found is None:
            return {"name": None, "phones": []}
        self._studio.folder.scan()
        if listener is None:
            return {"name": found, "phones": []}
        listener.end()
        last = threading.Thread(target=self._label, args=(found, listener, seconds), daemon=True)
        last.start()
        last.join(PATIENCE)
        return {"name": found, "phones": listener.heard()}

    def close(self) -> Path | None:
        """Keep a recording whose page did not end it; return it, or None if there is none."""
        with self._lock, suppress(InputError):
            return self._keep() if self._raw is not None else None
        return None

    def _label(self, name: str, listener: Listener, seconds: float) -> None:
        """Take the phones that were heard as the labels, and recognise the whole recording, which hears better."""
        segments = listener.segments()
        with suppress(InputError, OSError):
            if segments:
                self._studio.folder.put_recognised(name, Recognition(name, seconds, tuple(segments)))
        with suppress(InputError):
            self._studio.recognise([name])

    def _append(self, samples: bytes, at: int | None) -> None:
        """Keep samples, and pass them on to the model."""
        if not isinstance(samples, bytes) or len(samples) % 4:
            raise InputError("these are no samples", "open the page again")
        values = np.nan_to_num(np.frombuffer(samples, "<f4")).clip(-1, 1).astype(np.float32)
        known = 0 if at is None else self._count - at
        if known < 0:
            raise InputError("samples before these did not arrive", "end the recording, and begin another")
        values = values[known:]
        append(self._file, (values * 32767).astype("<i2").tobytes())  # of half a sample, all after it were noise
        self._count += len(values)
        self._last = time.monotonic()
        if self._listener is not None and len(values):
            self._listener.push(values)

    def _keep(self) -> Path | None:
        """Give the recording its name, and be ready for another."""
        assert self._raw is not None
        raw, self._raw = self._raw, None
        os.close(self._file)
        try:
            return keep(raw)
        except OSError as error:
            fix = "start the studio again, which makes a recording of it"
            raise InputError(f"{raw}: what was recorded stays there as it is ({error.strerror})", fix) from None

    def _being_made(self, name: str) -> None:
        if self._raw is None or name not in ("", self._name):
            raise InputError("no recording is being made" if not name else f"{name} was ended", "begin one")


class Listener:
    """Recognises what is recorded, apart from the recording: if the model is slow, only the phones come later.

    Parameters
    ----------
    engine : Engine
    rate : int
        Hz.
    before : Listener, optional
        The one of the recording before, which ends first.
    """

    def __init__(self, engine: Engine, rate: int, before: Listener | None = None) -> None:
        self._engine, self._rate, self._before = engine, rate, before
        self._waiting: list[NDArray[np.float32]] = []
        self._changed = threading.Condition()
        self._ended = self._gave_up = False
        self._segments: list[Segment] = []
        self._told = 0  # segments that `heard` returned
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def push(self, samples: NDArray[np.float32]) -> None:
        """Take samples; this does not wait for the model."""
        with self._changed:
            if self._gave_up:
                return
            self._waiting.append(samples)
            if sum(map(len, self._waiting)) > BEHIND * self._rate:
                self._give_up()
            self._changed.notify()

    def heard(self) -> list[str]:
        """Return the phones that became known since the last call."""
        with self._changed:
            found = self._segments[self._told :]
            self._told = len(self._segments)
        return [segment.phone for segment in found]

    def end(self) -> None:
        """Take no more samples."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def segments(self) -> list[Segment]:
        """Wait for the end, and return all phones; none if the model did not hear everything."""
        self._thread.join()
        return [] if self._gave_up else self._segments

    def _give_up(self) -> None:
        self._gave_up, self._waiting = True, []

    def _listen(self) -> None:
        if self._before is not None:
            self._before.end()
            self._before._thread.join()
            self._before = None
        try:
            self._engine.ask("live_start", self._rate, self._engine.ngram).result(WAIT)
            while (samples := self._next()) is not None:
                self._take(self._engine.ask("live_block", samples).result(WAIT))
            self._take(self._engine.ask("live_stop").result(WAIT))
        except Exception:  # whatever the model lacks, the recording has all, and can be recognised later
            with self._changed:
                self._give_up()

    def _next(self) -> NDArray[np.float32] | None:
        """Wait for samples, and return all that have come; None at their end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended or self._gave_up)
            waiting, self._waiting = self._waiting, []
        return np.concatenate(waiting) if waiting else None

    def _take(self, segments: list[Segment]) -> None:
        with self._changed:
            self._segments += segments


def header(rate: int, size: int) -> bytes:
    """Return the start of a WAV file, mono, of 16 bits, with `size` bytes of samples.

    Beyond 4 GiB, it is that of RF64 (EBU Tech 3306), in which a chunk that is junk before has the sizes.
    """
    whole = size + HEAD - 8
    is_large = whole >= 2**32
    sizes = struct.pack("<QQQI", whole, size, size // 2, 0) if is_large else bytes(28)
    kind, place = (b"RF64", b"ds64") if is_large else (b"RIFF", b"JUNK")
    start = struct.pack("<4sI4s4sI", kind, min(whole, 2**32 - 1), b"WAVE", place, len(sizes))
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return start + sizes + form + struct.pack("<4sI", b"data", 2**32 - 1 if is_large else size)


def recover(folder: Path, say: Callable[[str], None] = lambda text: None) -> list[Path]:
    """Give what killed servers left of recordings in a folder and below it a name; return them.

    One being made is left alone. Where the file system has no locks, its age alone tells. `say` is called with
    a line for each file of such a name that is no such recording, cannot be kept, or may be being made.
    """
    found = []
    for raw in sorted(folder.rglob(f".*{ENDING}")):
        try:
            refuse_odd(raw)
            if (free := is_free(raw)) is None and abs(time.time() - raw.stat().st_mtime) < GONE:
                fix = f"if none is, start the studio again after {GONE / 60:.0f} minutes, which makes a recording of it"
                raise InputError("no lock tells whether another studio is recording it", fix)
            if free is not False and (path := keep(raw)) is not None:
                found.append(path)
        except (InputError, OSError) as error:
            say(f"{raw}: left as it is: {error}")
    return found


def keep(raw: Path) -> Path | None:
    """Make a recording of one that was being made, under a name that is free; return it, or None if it is empty.

    Raises
    ------
    InputError
        The name of the file has no rate of a microphone, or it does not begin as `Microphone` begins it.
    OSError
        From the disk; the samples stay as they are.
    """
    stem, _, text = raw.name.removesuffix(ENDING)[1:].rpartition(".")
    rate = int(text) if text.isdecimal() and len(text) < 10 else 0
    if not stem or not RATES[0] <= rate <= RATES[1]:
        raise InputError("its name has no rate of a microphone", "remove it if it is not needed")
    if not _complete(raw, rate):
        os.unlink(raw)
        return None
    path = _renamed(raw, stem)
    with suppress(OSError):
        flush(path.parent)
    return path


def _renamed(raw: Path, stem: str) -> Path:
    """Give a recording the first name that is free; return it."""
    for path in (raw.with_name(f"{name}.wav") for name in numbered(stem)):
        if os.path.lexists(path):
            continue
        try:
            os.link(raw, path)  # unlike renaming, this takes no name that another program took meanwhile
        except FileExistsError:
            continue
        except OSError:  # no links on this file system
            os.rename(raw, path)
            return path
        with suppress(OSError):
            os.unlink(raw)
        return path
    raise AssertionError("the names have no end")


def _complete(raw: Path, rate: int) -> int:
    """Write the sizes into a recording; return the bytes of its samples."""
    handle = open_plain(raw, os.O_RDWR)
    try:
        size = (os.fstat(handle).st_size - HEAD) // 2 * 2
        begins = os.read(handle, HEAD)
        if begins not in (header(rate, 0)[: len(begins)], header(rate, max(size, 0))):
            raise InputError("it is no recording that the studio made", "remove it if it is not needed")
        if size > 0:
            os.ftruncate(handle, HEAD + size)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, header(rate, size))
            os.fsync(handle)
        return max(size, 0)
    finally:
        os.close(handle)
