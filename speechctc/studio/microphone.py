"""Recording from the microphone: samples are kept on the disk while they come, and recognised meanwhile."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from speechctc.errors import InputError
from speechctc.storage.files import put_in_place
from speechctc.studio.studio import WAIT, Studio

ENDING = ".speechctc-recording"
"""Ending of the raw samples of a recording that is being made; those that a killed server left become recordings."""
QUIET = 10.0  # seconds without samples after which no server is making a recording
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
            names = (f"{stem}{f'-{number}' if number > 1 else ''}" for number in count(1))
            folder = self._studio.folder.path
            free = next(name for name in names if not (folder / f"{name}.wav").exists())
            self._raw = folder / f".{free}.{rate}{ENDING}"
            self._raw.touch(exist_ok=False)
        hears = bool(self._studio.engine.about)
        if hears:
            self._studio.engine.ask("live_start", rate)
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
            with open(self._raw, "ab") as file:
                file.write((values * 32767).astype("<i2").tobytes())
        return {"phones": self._phones("live_block", values)}

    def stop(self) -> dict[str, Any]:
        """End the recording; return its name, and the last phones. With all of it, it is recognised once more."""
        with self._lock:
            if self._raw is None:
                raise InputError("no recording is being made", "begin one")
            raw, self._raw = self._raw, None
            path = keep(raw)
        phones = self._phones("live_stop")
        if path is None:
            return {"name": None, "phones": phones}
        self._studio.folder.look()
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


def recover(folder: Path) -> list[Path]:
    """Turn what a killed server left of recordings into WAV files; return them. One being made is left alone."""
    left = [raw for raw in sorted(folder.glob(f".*{ENDING}")) if time.time() - raw.stat().st_mtime > QUIET]
    return [path for raw in left if (path := keep(raw)) is not None]


def keep(raw: Path) -> Path | None:
    """Turn raw samples into a WAV file; return it, or None if there are none."""
    stem, _, rate = raw.name.removesuffix(ENDING)[1:].rpartition(".")
    samples = np.fromfile(raw, "<i2", count=raw.stat().st_size // 2)
    path = raw.with_name(f"{stem}.wav")
    if len(samples) and not path.exists() and rate.isdecimal():
        draft = raw.with_name(f".{stem}.draft")
        soundfile.write(draft, samples, int(rate), "PCM_16", format="WAV")
        put_in_place(draft, path)
    elif len(samples):
        return None
    os.unlink(raw)
    return path if len(samples) else None
