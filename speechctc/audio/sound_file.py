"""Reads a recording as float32 mono samples at a given rate.

libsndfile reads WAV, FLAC, OGG, MP3, AIFF, NIST SPHERE and more; ffmpeg, where it is installed, M4A, WebM and other
formats. Channels are averaged, or one is chosen. Other rates are resampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import truncation
from speechctc.audio.damage import Mended
from speechctc.audio.ffmpeg import measure
from speechctc.audio.joined import Forward, Joined
from speechctc.audio.opening import LEAVE_OUT, Sound, open_sound, open_with_libsndfile, words
from speechctc.audio.resampling import resample_blocks
from speechctc.core.errors import InputError

BLOCK = 1 << 18  # frames decoded at a time: bounds the memory for many channels or a wrong header

COPIED_AS_TEXT = "copied as text, with line ends changed"

SETTLE = {  # seconds read before a time, by format
    "OGG": 5.0,  # libsndfile 1.2 misses a time on the last page by some samples
    "MP3": 0.5,  # a frame takes bits from frames before it, and overlaps the last one
}


class AudioInfo(NamedTuple):
    """The facts of a recording's header.

    Attributes
    ----------
    frames : int
        Samples of each channel.
    rate : int
        Hz.
    channels : int
    """

    frames: int
    rate: int
    channels: int

    @property
    def seconds(self) -> float:
        """Return the duration, s."""
        return self.frames / self.rate


def info(path: Path) -> AudioInfo:
    """Read the header of a recording, without its samples; what ffmpeg reads is decoded to know its length.

    Raises
    ------
    InputError
        The file is missing, a folder, empty, not audio, or has no samples.
    """
    file = open_with_libsndfile(path)
    if file is None:
        return AudioInfo(*measure(path))
    with file:
        return AudioInfo(file.frames, file.samplerate, file.channels)


def read(
    path: Path, rate: int, channel: int | None = None, stretch: tuple[float, float] | None = None
) -> tuple[NDArray[np.float32], float]:
    """Read a recording, or a stretch of it without the rest.

    A WAV, AIFF, SPHERE, OGG or MP3 file that was cut off is read up to where it ends; see `cut_short`.

    Parameters
    ----------
    path : Path
    rate : int
        Sample rate of the result, Hz.
    channel : int, optional
        The channel to read, counted from 1; None: the mean of all channels.
    stretch : (float, float), optional
        Start and end in seconds; None: the whole recording.

    Returns
    -------
    samples : ndarray, float32, shape = (n,)
        Mono, within [-1, 1] for integer formats.
    seconds : float
        Duration of what was read.

    Raises
    ------
    InputError
        As `info`; or a compressed stream is cut off or damaged, a sample is not a finite number, or the channel does
        not exist.
    """
    with open_sound(path, stretch[0] if stretch else 0.0) as file:
        file_rate = int(file.samplerate)
        blocks = _Counted(stretch_blocks(file, path, channel, stretch))
        # Copies, since a piece is a part of a larger array.
        pieces = [piece.copy() for piece in resample_blocks(blocks, file_rate, rate)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces), blocks.samples / file_rate


class _Counted:
    """Blocks, and how many samples they had."""

    def __init__(self, blocks: Iterator[NDArray[np.float32]]) -> None:
        self._blocks, self.samples = blocks, 0

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        for block in self._blocks:
            self.samples += len(block)
            yield block


def cut_short(path: Path) -> str:
    """Return in words by how much a WAV, AIFF, SPHERE or OGG file is shorter than its header says; ``""`` if it is not.

    A header with the largest possible size, as programs write it before they know the length, says nothing. Recordings
    that ffmpeg decodes are not looked at. A recording that was copied as text is named too; `read` mends it.

    Raises
    ------
    InputError
        As `info`.
    """
    file = open_with_libsndfile(path)
    if file is None:
        return ""
    with file:
        if isinstance(file, Mended):
            return f"{path}: {COPIED_AS_TEXT}, and {file.bytes_back} of its bytes are gone; mended, but copy it again"
        if isinstance(file, Joined):
            return ""
        return truncation.cut_short(path, file)


def stretch_blocks(
    file: Sound, path: Path, channel: int | None = None, stretch: tuple[float, float] | None = None
) -> Iterator[NDArray[np.float32]]:
    """Decode a stretch of an opened recording in blocks, as `read` does."""
    start, end = stretch or (0.0, None)
    first = _go_to(file, path, start)
    count = None if end is None else max(round(end * file.samplerate) - first, 0)
    return mono_blocks(file, path, BLOCK, channel, count)


def _go_to(file: Sound, path: Path, start: float) -> int:
    """Go to a time in seconds; return the number of the sample there."""
    first = round(start * file.samplerate)
    if first == 0:
        return 0
    early = round(SETTLE.get(getattr(file, "format", ""), 0.0) * file.samplerate)
    try:
        at = file.seek(max(first - early, 0)) if can_seek(file) else 0
        while at < first and len(skipped := file.read(min(first - at, BLOCK), dtype="float32", always_2d=True)):
            at += len(skipped)
    except soundfile.LibsndfileError as error:
        raise InputError(f"{path}: no sound at {start:.2f} s ({words(error)})", LEAVE_OUT) from None
    return first


def can_seek(file: Sound) -> bool:
    """Tell whether a recording can be read from its middle: GSM 6.10, G.721 and some others only from the start."""
    return not isinstance(file, soundfile.SoundFile) or isinstance(file, Forward) or bool(file.seekable())


def mono_blocks(
    file: Sound, path: Path, size: int, channel: int | None = None, count: int | None = None
) -> Iterator[NDArray[np.float32]]:
    """Decode a recording in blocks of at most `size` samples: one channel, counted from 1, or the mean of all.

    From where the file is, `count` samples are decoded; None: all to the end.
    """
    if channel is not None and not 1 <= channel <= file.channels:
        there = "1 channel" if file.channels == 1 else f"{file.channels} channels"
        raise InputError(f"{path}: no channel {channel}, it has {there}", "choose one of its channels")
    done = 0
    while count is None or done < count:
        wanted = size if count is None else min(size, count - done)
        try:
            block = file.read(wanted, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            where = f"after {done / file.samplerate:.1f} s of {file.frames / file.samplerate:.1f} s"
            reason = f"{path}: cut short or damaged: {words(error)} {where}"
            raise InputError(reason, LEAVE_OUT) from None
        if len(block) == 0:
            break
        if channel is not None:
            block = block[:, channel - 1 : channel]
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            first = done + int(np.argmin(finite))
            at = f"sample {first}, {first / file.samplerate:.3f} s"
            raise InputError(f"{path}: not a finite number (NaN or inf) at {at}", "convert it again, or leave it out")
        yield np.ascontiguousarray(block[:, 0]) if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
        done += len(block)
    if done == 0:
        raise InputError(f"{path}: none of its samples can be decoded", LEAVE_OUT)
