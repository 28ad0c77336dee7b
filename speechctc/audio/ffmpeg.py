"""Recordings that libsndfile cannot read, as of telephones and videos, decoded by ffmpeg."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.resampling import check_rate
from speechctc.core.errors import InputError
from speechctc.core.parallel import program

ENDINGS = tuple(".m4a .mp4 .m4v .mov .3gp .3g2 .webm .mka .mkv .wma .wmv .amr .aac".split())
_DEMUXERS = "mov,mp4,matroska,webm,asf,amr,amrnb,amrwb,aac"  # no playlists, which name other files to read
_MAGIC_BYTES = ((0, b"\x1aE\xdf\xa3"), (0, b"0&\xb2u\x8ef\xcf\x11"), (0, b"#!AMR"), (4, b"ftyp"))
_JUMPS = (".m4a", ".mp4", ".m4v", ".mov")  # ffmpeg finds a time in these to the sample; in others it may be 60 ms off
_SKIP = 1 << 18  # samples decoded at a time where they are only counted
INSTALL = (
    "install ffmpeg (apt install ffmpeg, brew install ffmpeg, winget install ffmpeg), "
    "or convert it where it is installed: ffmpeg -i FILE FILE.wav"
)


def is_for_ffmpeg(path: Path) -> bool:
    """Return whether a file is in a format for ffmpeg, by its name or its first bytes."""
    with path.open("rb") as file:
        head = file.read(16)
    return path.suffix.lower() in ENDINGS or any(head[place:].startswith(sign) for place, sign in _MAGIC_BYTES)


def installed() -> str | None:
    """Return the path of ffmpeg, or None if it is not installed."""
    return program("ffmpeg")


def missing_for(paths: Iterable[Path]) -> str:
    """Return in words how many recordings need ffmpeg, if it is not installed; else ``""``."""
    endings = Counter(path.suffix.lower() for path in paths if str(path).lower().endswith(ENDINGS) and path.suffix)
    if not endings or installed():
        return ""
    kinds = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
    what = "recordings cannot be read without ffmpeg, which is not installed"
    return f"{sum(endings.values())} {what} ({kinds}); {INSTALL}"


class Decoded(AbstractContextManager["Decoded"]):
    """A recording that ffmpeg decodes, read in blocks with the interface of `soundfile.SoundFile`.

    Parameters
    ----------
    path : Path
    start : float
        Nothing before this time, in seconds, will be read; `seek` goes there.

    Attributes
    ----------
    samplerate : int
        Of the recording, Hz.
    channels : int

    Raises
    ------
    InputError
        ffmpeg is not installed, or cannot read the recording.
    """

    def __init__(self, path: Path, start: float = 0.0) -> None:
        self._path = path
        skipped = max(int(start) - 1, 0) if path.suffix.lower() in _JUMPS else 0  # a second before, to settle
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        try:
            self._process = _start(path, self._errors, skipped)
        except InputError:
            self._errors.close()
            raise
        assert self._process.stdout is not None
        try:
            self._file = soundfile.SoundFile(self._process.stdout.fileno(), closefd=False)
        except soundfile.LibsndfileError:
            self._process.stdout.close()
            self._process.wait()
            error = self._failure("it has no sound")
            self.close()
            raise error from None
        self.samplerate, self.channels = int(self._file.samplerate), int(self._file.channels)
        check_rate(self, path)
        self._done = skipped * self.samplerate
        self._ended = False

    @property
    def frames(self) -> int:
        """Return the samples of each channel; the first time, the whole recording is decoded to count them."""
        return measure(self._path)[0]

    def read(self, frames: int, dtype: str = "float32", always_2d: bool = True) -> NDArray[np.float32]:
        """Decode the next block, of shape (samples, channels); it is empty at the end.

        Raises
        ------
        InputError
            ffmpeg failed before the end of the recording.
        """
        if self._ended:
            return np.zeros((0, self.channels), np.float32)
        try:
            block: NDArray[np.float32] = self._file.read(frames, dtype=dtype, always_2d=always_2d)
        except soundfile.LibsndfileError:
            raise self._failure(f"it is damaged after {self._done / self.samplerate:.1f} s") from None
        self._done += len(block)
        if len(block) < frames:
            self._ended = True
            assert self._process.stdout is not None
            more = os.read(self._process.stdout.fileno(), 1)  # it would wait for ever for a pipe that nobody reads
            if more or self._process.wait() != 0:
                raise self._failure(f"it is cut off after {self._done / self.samplerate:.1f} s")
        return block

    def seek(self, frame: int) -> int:
        """Go forward to a sample, by decoding all samples before it."""
        while self._done < frame and len(self.read(min(frame - self._done, _SKIP))):
            pass
        return self._done

    def close(self) -> None:
        """End ffmpeg."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def __exit__(self, *error: object) -> None:
        """End ffmpeg."""
        self._file.close()
        self.close()

    def _failure(self, otherwise: str) -> InputError:
        """Return ffmpeg's error message in one line, or `otherwise` if there is none."""
        self._errors.seek(0)
        lines = self._errors.read(4000).decode("utf-8", "replace").splitlines()
        message = next((line.strip() for line in reversed(lines) if line.strip()), otherwise)
        message = message.removeprefix(f"file:{self._path}: ")
        return InputError(f"{self._path}: ffmpeg cannot decode it ({message[:160]})", "copy it again, or leave it out")


def _start(path: Path, errors: IO[bytes], skipped: int) -> subprocess.Popen[bytes]:
    """Start ffmpeg, which writes the first sound track as float AU with the rate and channels of the recording.

    The first `skipped` seconds are left out. AU may be of any length; a WAV file ends at 4 GiB, 3 hours of stereo at
    48 kHz.
    """
    if (ffmpeg := installed()) is None:
        raise InputError(f"{path}: libsndfile does not read this format, and ffmpeg is not installed", INSTALL)
    # fmt: off
    command = [
        ffmpeg, "-nostdin", "-hide_banner", "-v", "error", "-xerror",
        "-protocol_whitelist", "file,pipe", "-format_whitelist", _DEMUXERS,
        *(("-ss", str(skipped)) if skipped else ()), "-i", f"file:{path}",
        "-map", "0:a:0", "-vn", "-sn", "-dn", "-map_metadata", "-1", "-bitexact",
        "-f", "au", "-c:a", "pcm_f32be", "pipe:1",
    ]
    # fmt: on
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    except OSError as error:
        raise InputError(f"{path}: ffmpeg does not start ({error.strerror})", "install it again") from None


def measure(path: Path) -> tuple[int, int, int]:
    """Return the samples of each channel, the rate in Hz and the channels of a recording.

    The whole recording is decoded the first time; the result is kept until the file changes.

    Raises
    ------
    InputError
        As `Decoded`.
    """
    status = path.stat()
    return _measure(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _measure(path: Path, size: int, changed: int) -> tuple[int, int, int]:
    count = 0
    with Decoded(path) as file:
        while len(block := file.read(_SKIP)):
            count += len(block)
        return count, file.samplerate, file.channels
