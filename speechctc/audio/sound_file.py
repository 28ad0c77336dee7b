"""Reads a recording as float32 mono samples at a given rate.

libsndfile reads WAV, FLAC, OGG, MP3, AIFF, NIST SPHERE and more; ffmpeg, where it is installed, M4A, WebM and other
formats. Channels are averaged, or one is chosen. Other rates are resampled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import truncation
from speechctc.audio.ffmpeg import Decoded, is_for_ffmpeg, measure
from speechctc.audio.resampling import resample
from speechctc.errors import InputError

BLOCK = 1 << 18  # frames decoded at a time: bounds the memory for many channels or a wrong header
CONVERT = "convert it, for example with: ffmpeg -i FILE FILE.wav"
LEAVE_OUT = "copy it again, or leave it out"

Sound: TypeAlias = soundfile.SoundFile | Decoded
"""An open recording."""


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
    file = _open_with_libsndfile(path)
    if file is None:
        return AudioInfo(*measure(path))
    with file:
        return AudioInfo(file.frames, file.samplerate, file.channels)


def read(path: Path, rate: int, channel: int | None = None) -> tuple[NDArray[np.float32], float]:
    """Read a recording.

    A WAV, AIFF, SPHERE, OGG or MP3 file that was cut off is read up to where it ends; see `cut_short`.

    Parameters
    ----------
    path : Path
    rate : int
        Sample rate of the result, Hz.
    channel : int, optional
        The channel to read, counted from 1; None: the mean of all channels.

    Returns
    -------
    samples : ndarray, float32, shape = (n,)
        Mono, within [-1, 1] for integer formats.
    seconds : float
        Duration of the recording in the file.

    Raises
    ------
    InputError
        As `info`; or a compressed stream is cut off or damaged, a sample is not a finite number, or the channel does
        not exist.
    """
    with open_sound(path) as file:
        mono, file_rate = _mono(file, path, channel), int(file.samplerate)
    return resample(mono, file_rate, rate), len(mono) / file_rate


def cut_short(path: Path) -> str:
    """Return in words by how much a WAV, AIFF, SPHERE or OGG file is shorter than its header says; ``""`` if it is not.

    A header with the largest possible size, as programs write it before they know the length, says nothing. Recordings
    that ffmpeg decodes are not looked at.

    Raises
    ------
    InputError
        As `info`.
    """
    file = _open_with_libsndfile(path)
    if file is None:
        return ""
    with file:
        return truncation.cut_short(path, file)


def open_sound(path: Path) -> Sound:
    """Open a recording that has samples.

    Raises
    ------
    InputError
        As `info`.
    """
    return _open_with_libsndfile(path) or Decoded(path)


def _open_with_libsndfile(path: Path) -> soundfile.SoundFile | None:
    """Open a recording; return None if its format is one for ffmpeg."""
    if not os.path.exists(path):  # False of a path that is too long, too
        raise InputError(f"{path}: no such file", "check the path")
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a recording", "name the files in it")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty", LEAVE_OUT)
        # As bytes: soundfile does not accept names that are not UTF-8 as text, and such files exist.
        file = soundfile.SoundFile(os.fsencode(path) if os.name == "posix" else path)
    except PermissionError:
        raise InputError(f"{path}: not readable by this user", "change its permissions") from None
    except soundfile.LibsndfileError as error:
        if is_for_ffmpeg(path):
            return None
        raise _not_audio(path, error) from None
    if file.frames == 0:
        file.close()
        raise InputError(f"{path}: it has no samples", "record or convert it again, or leave it out")
    return file


def _mono(file: Sound, path: Path, channel: int | None) -> NDArray[np.float32]:
    """Decode the whole recording."""
    blocks = list(mono_blocks(file, path, BLOCK, channel))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def mono_blocks(file: Sound, path: Path, size: int, channel: int | None = None) -> Iterator[NDArray[np.float32]]:
    """Decode a recording in blocks of at most `size` samples: one channel, counted from 1, or the mean of all."""
    if channel is not None and not 1 <= channel <= file.channels:
        there = "1 channel" if file.channels == 1 else f"{file.channels} channels"
        raise InputError(f"{path}: no channel {channel}, it has {there}", "choose one of its channels")
    done = 0
    while True:
        try:
            block = file.read(size, dtype="float32", always_2d=True)
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


def _not_audio(path: Path, error: soundfile.LibsndfileError) -> InputError:
    """Return the error for a file that libsndfile cannot read, with the reason where its first bytes show it."""
    with path.open("rb") as file:
        head = file.read(1024)
    if head.startswith(b"NIST_1A") and b"shorten" in head:
        return InputError(f"{path}: SPHERE compressed with shorten", "expand it, for example with: sph2pipe -f wav")
    if head.startswith(b"version https://git-lfs"):
        return InputError(f"{path}: a pointer file of git-lfs, not the recording", "fetch it with: git lfs pull")
    if b"\0" not in head and _is_text(head):
        return InputError(f"{path}: text, not audio", "check what was copied there")
    return InputError(f"{path}: not audio that can be read ({words(error)})", CONVERT)


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and error.start > 0  # the head ends within a character
    return True


def words(error: soundfile.LibsndfileError) -> str:
    """Return libsndfile's description of an error, for use within a sentence."""
    return str(error.error_string).strip().rstrip(".").lower() or f"code {error.code}"
