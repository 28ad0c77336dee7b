"""The samples of a recording for the page, quickly: as numbers, as a WAV file, as tiles of a spectrogram."""

from __future__ import annotations

import math
import os
import stat
import sys
import tempfile
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.damage import Mended
from speechctc.audio.sound_file import for_soundfile, info, open_with_libsndfile
from speechctc.core.errors import InputError
from speechctc.core.files import is_free, try_lock
from speechctc.pages.timeline import SpectrogramSettings, grey_png, levels_db, shades

Samples = NDArray[np.float32]

PLAIN = ("WAV", "PCM_16", 1)  # format, subtype and channels of files that are served as they are
MAX_SAMPLES = 2**31 - 2**16  # samples that a WAV file of 16 bits can hold, about
COPY = "speechctc-studio-"  # start of the names of decoded copies, where they have names
ABANDONED = 60.0  # seconds without a change after which one that nobody holds is removed
BLOCK = 1 << 16  # samples to read at a time
SUMMARY = 256  # samples of which one pair of lowest and highest is kept

COLUMNS, ROWS = 512, 256  # pixels of a tile
LEVEL_SECONDS = tuple(2.0**power for power in range(-3, 6))  # seconds of a tile, by zoom level: from 1/8 s to 32 s
PROBES = 64  # places of a recording whose loudest one is its maximum
PROBE_SECONDS = 0.1
LIMITS = {"window": (0.001, 0.1), "highest": (500.0, 24000.0), "dynamic_range": (10.0, 120.0)}


def version(path: Path) -> str:
    """Return what differs once another file lies at this place: time and size; ``""`` if none does."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns}-{status.st_size}"


class Waveform:
    """A recording whose parts can be read, mono, at its own rate. Its methods may be called from several threads.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    rate : int
        Hz.
    frames : int
        Samples.
    version : str
        See `version`.
    file : Path
        The recording as a mono WAV file of 16 bits: itself, or a decoded copy.

    Raises
    ------
    InputError
        It cannot be read as audio.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.version = path, version(path)
        self.file = path
        self._copy: IO[bytes] | None = None
        self._summary: NDArray[np.int16] | None = None
        self._summing = threading.Lock()
        file = open_with_libsndfile(path)
        is_plain = file and not isinstance(file, Mended) and (file.format, file.subtype, file.channels) == PLAIN
        if file:
            file.close()
        if not is_plain:
            self._decode()
        with soundfile.SoundFile(for_soundfile(self.file)) as file:
            self.rate, self.frames = int(file.samplerate), int(file.frames)

    @property
    def seconds(self) -> float:
        """Return the duration, s."""
        return self.frames / self.rate

    def _decode(self) -> None:
        """Decode the recording to a temporary file, which the system removes with the process, however that ends."""
        about = info(self.path)
        form = "WAV" if about.frames < MAX_SAMPLES else "RF64"
        self._copy, self.file = _temporary()
        weakref.finalize(self, self._copy.close)
        with (
            sound_file.writing(Path(tempfile.gettempdir(), "speechctc.wav")),
            sound_file.opened(self.path, about.rate) as blocks,
            soundfile.SoundFile(for_soundfile(self.file), "w", about.rate, 1, "PCM_16", format=form) as out,
        ):
            for block in blocks:
                out.write(np.clip(block, -1, 1))

    def close(self) -> None:
        """Remove the temporary file, if there is one."""
        if self._copy is not None:
            self._copy.close()

    def read(self, start: int, stop: int) -> Samples:
        """Return samples, the mean of the channels; outside of the recording they are 0.

        Parameters
        ----------
        start, stop : int
            Numbers of samples; may be negative, or beyond the end.

        Returns
        -------
        ndarray, float32, shape = (stop - start,)

        Raises
        ------
        InputError
            The file is damaged there, or was removed.
        """
        first, last = max(start, 0), min(stop, self.frames)
        found = np.zeros(max(stop - start, 0), dtype=np.float32)
        if last > first:
            try:
                with soundfile.SoundFile(for_soundfile(self.file)) as file:
                    file.seek(first)
                    block = file.read(last - first, dtype="float32")
            except (soundfile.SoundFileError, OSError) as error:
                raise InputError(f"{self.path}: cannot be read now ({error})", "check that it is still there") from None
            found[first - start : first - start + len(block)] = block
        return found

    def extremes(self, start: float, stop: float, columns: int) -> NDArray[np.int16]:
        """Return the lowest and the highest sample of each column of a picture of the waveform.

        Parameters
        ----------
        start, stop : float
            Seconds.
        columns : int

        Returns
        -------
        ndarray, int16, shape = (columns, 2)
            From -32768 to 32767, full scale.
        """
        edges = np.linspace(start * self.rate, stop * self.rate, columns + 1).round().astype(np.int64)
        if (stop - start) * self.rate < 4 * SUMMARY * columns:
            samples = self._whole_numbers(int(edges[0]), max(int(edges[-1]), int(edges[0]) + 1))
            pairs = np.stack([samples, samples], axis=1)
            edges = edges - edges[0]
        else:
            pairs, edges = self._summed(), edges // SUMMARY
        starts = np.clip(edges[:-1], 0, len(pairs) - 1)
        low = np.minimum.reduceat(pairs[:, 0], starts)
        high = np.maximum.reduceat(pairs[:, 1], starts)
        found = np.stack([low, high], axis=1)
        found[edges[:-1] >= len(pairs)] = 0
        last = int(edges[-1])
        if 0 < last < len(pairs):  # reduceat takes the last column up to the end of the array
            tail = pairs[starts[-1] : max(last, int(starts[-1]) + 1)]
            found[-1] = tail[:, 0].min(), tail[:, 1].max()
        return found

    def _summed(self) -> NDArray[np.int16]:
        """Return the lowest and highest of each `SUMMARY` samples, computed once."""
        with self._summing:
            if self._summary is None:
                step = BLOCK * SUMMARY // 16
                pieces = []
                for first in range(0, self.frames, step):
                    block = self._whole_numbers(first, min(first + step, self.frames))
                    rows = np.pad(block, (0, -len(block) % SUMMARY), mode="edge").reshape(-1, SUMMARY)
                    pieces.append(np.stack([rows.min(axis=1), rows.max(axis=1)], axis=1))
                self._summary = np.concatenate(pieces) if pieces else np.zeros((1, 2), np.int16)
            return self._summary

    def _whole_numbers(self, start: int, stop: int) -> NDArray[np.int16]:
        return np.asarray((self.read(start, stop) * 2**15).astype(np.int16))


def _temporary() -> tuple[IO[bytes], Path]:
    """Return an open file that goes with this process, and a path that opens it again while it is open.

    On Linux it has no name. Windows removes it; elsewhere `remove_copies` does, if the process was killed.
    """
    if sys.platform == "linux":
        copy = tempfile.TemporaryFile()
        if (path := Path(f"/proc/self/fd/{copy.fileno()}")).exists():
            return copy, path
        copy.close()
    named = tempfile.NamedTemporaryFile(prefix=COPY, suffix=".wav")
    try_lock(named.fileno())
    return named, Path(named.name)


def remove_copies(seconds: float = ABANDONED) -> None:
    """Remove decoded copies that a killed process left: nobody holds them, and they have not changed for a while."""
    user = 0  # on Windows, all files are of 0
    if sys.platform != "win32":
        user = os.getuid()
    for path in Path(tempfile.gettempdir()).glob(f"{COPY}*.wav"):
        with suppress(OSError):
            status = path.lstat()
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == user
            if is_ours and abs(time.time() - status.st_mtime) >= seconds and is_free(path) is not False:
                path.unlink()


def settings_of(window: float, highest: float, dynamic_range: float) -> SpectrogramSettings:
    """Return settings that the page asks for.

    Raises
    ------
    InputError
        A value is out of range.
    """
    given = {"window": window, "highest": highest, "dynamic_range": dynamic_range}
    for name, value in given.items():
        low, high = LIMITS[name]
        if not (math.isfinite(value) and low <= value <= high):
            raise InputError(f"spectrogram: {name} {value}", f"choose a value from {low:g} to {high:g}")
    return SpectrogramSettings(window, 0.0, highest, dynamic_range)


def tile_png(sound: Waveform, level: int, number: int, settings: SpectrogramSettings, maximum: float) -> bytes:
    """Return a tile as PNG, dark where there is energy.

    Parameters
    ----------
    sound : Waveform
    level : int
        Index into `LEVEL_SECONDS`.
    number : int
        The tile begins at ``number * LEVEL_SECONDS[level]`` seconds.
    settings : SpectrogramSettings
    maximum : float
        The level that is black, dB: the same for all tiles, so that they fit together; see `loudest`.

    Raises
    ------
    InputError
        There is no such tile.
    """
    if not 0 <= level < len(LEVEL_SECONDS) or not 0 <= number * LEVEL_SECONDS[level] < sound.seconds:
        raise InputError(f"spectrogram: no tile {number} of level {level}", "choose a part of the recording")
    column = LEVEL_SECONDS[level] / COLUMNS * sound.rate  # samples
    context = math.ceil(2 * settings.window_length * sound.rate / column) + 1  # columns of context
    first = round((number * COLUMNS - context) * column)
    last = round(((number + 1) * COLUMNS + context) * column)
    levels = levels_db(sound.read(first, last), sound.rate, settings, COLUMNS + 2 * context, ROWS)
    return grey_png(shades(levels[:, context : context + COLUMNS], maximum, settings.dynamic_range), effort=1)


def loudest(sound: Waveform, settings: SpectrogramSettings) -> float:
    """Return the highest level of the spectrogram, dB, from places spread over the recording."""
    length = min(round(PROBE_SECONDS * sound.rate), sound.frames)
    probes = max(min(PROBES, sound.frames // max(length, 1)), 1)
    starts = np.linspace(0, sound.frames - length, probes).astype(np.int64)
    found = max(levels_db(sound.read(int(k), int(k) + length), sound.rate, settings, 20, 64).max() for k in starts)
    return float(found)
