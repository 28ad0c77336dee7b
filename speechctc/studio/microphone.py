"""Recording from the microphone: samples are kept on the disk while they come, and recognised meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from speechctc.audio.sound_file import write_wav
from speechctc.core.errors import InputError
from speechctc.core.files import append, is_free, numbered, try_lock, write_file
from speechctc.core.written import open_plain, refuse_odd
from speechctc.studio.studio import WAIT, Studio

# Ending of the raw samples of a recording that is being made; those that a killed server left become recordings.
ENDING = ".speechctc-recording"
RATES = (8000, 384000)  # Hz


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

    def start(self, rate: int) -> dict[str, Any]:
        """Begin a recording at a rate, Hz; return its name.

        Raises
        ------
        InputError
            One is being made, or the rate is no rate of a microphone.
        """
        if not RATES[0] <= rate <= RATES[1]:
            raise InputError(f"a microphone at {rate} Hz", f"choose a rate from {RATES[0]} to {RATES[1]} Hz")
        with self._lock:
            if self._raw is not None:
                raise InputError("a recording is being made in another page", "end it there first")
            stem = datetime.now().strftime("recording-%Y-%m-%d-%H%M%S")
            folder = self._studio.folder.path
            free = next(name for name in numbered(stem) if not os.path.lexists(folder / f"{name}.wav"))
            raw = folder / f".{free}.{rate}{ENDING}"
            self._file = open_plain(raw, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            try_lock(self._file)
            self._raw = raw
        hears = bool(self._studio.engine.about)
        if hears:
            self._studio.engine.ask("live_start", rate, self._studio.engine.ngram)
        return {"name": f"{free}.wav", "recognises": hears}

    def block(self, samples: bytes) -> dict[str, Any]:
        """Keep samples, float32 little-endian; return the phones that became known.

        Raises
        ------
        InputError
            No recording is being made, or these are no samples.
        """
        with self._lock:
            if self._raw is None:
                raise InputError("no recording is being made", "begin one")
            if not isinstance(samples, bytes) or len(samples) % 4:
                raise InputError("these are no samples", "open the page again")
            values = np.nan_to_num(np.frombuffer(samples, "<f4")).clip(-1, 1).astype(np.float32)
            append(self._file, (values * 32767).astype("<i2").tobytes())  # of half a sample, all after it were noise
        return {"phones": self._phones("live_block", values)}

    def stop(self) -> dict[str, Any]:
        """End the recording; return its name, and the last phones. With all of it, it is recognised once more.

        Raises
        ------
        InputError
            No recording is being made, or it cannot be written.
        """
        with self._lock:
            if self._raw is None:
                raise InputError("no recording is being made", "begin one")
            raw, self._raw = self._raw, None
            os.close(self._file)
            try:
                path = keep(raw)
            except OSError as error:
                fix = "free space and start the studio again, which makes a recording of it"
                raise InputError(f"{raw}: what was recorded stays there as it is ({error.strerror})", fix) from None
        phones = self._phones("live_stop")
        if path is None:
            return {"name": None, "phones": phones}
        self._studio.folder.scan()
        name = path.relative_to(self._studio.folder.path).as_posix()
        if self._studio.engine.about:
            self._studio.recognise([name])
        return {"name": name, "phones": phones}

    def _phones(self, request: str, *arguments: Any) -> list[str]:
        if not self._studio.engine.about:
            return []
        with suppress(InputError):
            return [segment.phone for segment in self._studio.engine.ask(request, *arguments).result(WAIT)]
        return []


def recover(folder: Path, say: Callable[[str], None] = lambda text: None) -> list[Path]:
    """Turn what killed servers left of recordings into WAV files; return them. One being made is left alone.

    `say` is called with a line for each file of such a name that is no such recording, or cannot be kept.
    """
    found = []
    for raw in sorted(folder.glob(f".*{ENDING}")):
        try:
            if (path := _recovered(raw)) is not None:
                found.append(path)
        except (InputError, OSError) as error:
            say(f"{raw}: left as it is: {error}")
    return found


def _recovered(raw: Path) -> Path | None:
    refuse_odd(raw)
    return keep(raw) if is_free(raw) else None


def keep(raw: Path) -> Path | None:
    """Turn raw samples into a WAV file, under a name that is free; return it, or None if there are none.

    Raises
    ------
    InputError
        The name of the file has no rate of a microphone.
    OSError
        From the disk; the samples stay as they are.
    """
    stem, _, text = raw.name.removesuffix(ENDING)[1:].rpartition(".")
    rate = int(text) if text.isdecimal() and len(text) < 10 else 0
    if not stem or not RATES[0] <= rate <= RATES[1]:
        raise InputError("its name has no rate of a microphone", "remove it if it is not needed")
    samples = np.fromfile(raw, "<i2", count=raw.stat().st_size // 2)
    path = None
    if len(samples):
        names = (raw.with_name(f"{name}.wav") for name in numbered(stem))
        path = next(each for each in names if not os.path.lexists(each))
        write_file(path, lambda draft: write_wav(draft, samples, rate))
    os.unlink(raw)
    return path
