"""Recordings read block by block, from files and from standard input, resampled as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import BLOCK, mono_blocks, open_sound, resample_blocks, words
from speechctc.errors import InputError


class Blocks:
    """A recording read block by block, in memory that does not grow with its length; see `opened`.

    Attributes
    ----------
    seconds : float
        Duration of what was read so far, as it is in the file.
    """

    def __init__(self, file: soundfile.SoundFile, path: Path, rate: int, size: int, channel: int | None = None) -> None:
        self._file, self._path, self._rate, self._size, self._channel = file, path, rate, size, channel
        self.seconds = 0.0

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Read from where the last block ended."""
        return resample_blocks(self._read(), int(self._file.samplerate), self._rate)

    def _read(self) -> Iterator[NDArray[np.float32]]:
        done = 0
        for block in mono_blocks(self._file, self._path, self._size, self._channel):
            done += len(block)
            self.seconds = done / self._file.samplerate
            yield block


@contextmanager
def opened(path: Path, rate: int, channel: int | None = None) -> Iterator[Blocks]:
    """Open a recording to read it in blocks; put together they are the samples of `read`, to the bit.

    Parameters
    ----------
    path : Path
    rate : int
        Samples per second wanted, Hz.
    channel : int, optional
        Which channel to read, counted from 1; None: the mean of all.

    Raises
    ------
    InputError
        As `read`; what is wrong within the recording is raised where it is reached.
    """
    with open_sound(path) as file:
        yield Blocks(file, path, rate, BLOCK, channel)


@contextmanager
def opened_stdin(rate: int, raw_rate: int | None = None, seconds: float = 0.1) -> Iterator[Blocks]:
    """Open standard input to read it as it comes.

    Parameters
    ----------
    rate : int
        Samples per second wanted, Hz.
    raw_rate : int, optional
        What comes has no header: 16-bit little-endian mono samples at this rate, Hz. Otherwise it is WAV, with any
        length in its header.
    seconds : float
        Length of a block.

    Raises
    ------
    InputError
        It is not WAV; or, where it is reached, a sample is not a finite number.
    """
    raw = {"format": "RAW", "subtype": "PCM_16", "endian": "LITTLE", "channels": 1, "samplerate": raw_rate}
    try:
        file = soundfile.SoundFile(sys.stdin.fileno(), closefd=False, **(raw if raw_rate else {}))
    except soundfile.LibsndfileError as error:
        fix = "send WAV, or with --raw RATE 16-bit little-endian mono samples"
        raise InputError(f"standard input: not WAV ({words(error)})", fix) from None
    with file:
        yield Blocks(file, Path("-"), rate, max(int(file.samplerate * seconds), 1))
