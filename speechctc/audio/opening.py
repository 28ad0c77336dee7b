"""Opens recordings with libsndfile or ffmpeg, and says why a file cannot be opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import soundfile

from speechctc.audio.damage import mended
from speechctc.audio.ffmpeg import Decoded, is_for_ffmpeg
from speechctc.audio.joined import Forward, Joined, parts_of
from speechctc.audio.rates import check_rate
from speechctc.core.errors import InputError

CONVERT = "convert it, for example with: ffmpeg -i FILE FILE.wav"
LEAVE_OUT = "copy it again, or leave it out"

Sound: TypeAlias = soundfile.SoundFile | Joined | Decoded
"""An open recording."""


def for_soundfile(path: Path) -> bytes | Path:
    """Return a path as soundfile takes it: as bytes, because it refuses names that are not UTF-8 as text."""
    return os.fsencode(path) if os.name == "posix" else path


def open_sound(path: Path, start: float = 0.0) -> Sound:
    """Open a recording that has samples, to read it from `start` seconds on; the caller seeks there.

    Raises
    ------
    InputError
        The file is missing, a folder, empty, not audio, or has no samples; or ffmpeg cannot read it.
    """
    return open_with_libsndfile(path) or Decoded(path, start)


def open_with_libsndfile(path: Path) -> soundfile.SoundFile | Joined | None:
    """Open a recording with libsndfile; return None if its format is one for ffmpeg.

    One that was copied as text is read as it was before (see `speechctc.audio.damage`); of several in one file, all
    are (see `speechctc.audio.joined`).

    Raises
    ------
    InputError
        As `open_sound`, except for ffmpeg.
    """
    if not os.path.exists(path):  # False of a path that is too long, too
        raise InputError(f"{path}: no such file", "check the path")
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a recording", "name the files in it")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty", LEAVE_OUT)
        name = for_soundfile(path)
        file = soundfile.SoundFile(name)
        if file.format == "MP3":
            file.close()
            file = Forward(name)
    except PermissionError:
        raise InputError(f"{path}: not readable by this user", "change its permissions") from None
    except soundfile.LibsndfileError as error:
        if is_for_ffmpeg(path):
            return None
        raise _not_audio(path, error) from None
    if file.frames == 0:
        file.close()
        raise InputError(f"{path}: it has no samples", "record or convert it again, or leave it out")
    check_rate(file, path)
    if parts := parts_of(path, file):
        file.close()
        try:
            return Joined(path, parts)
        except soundfile.LibsndfileError as error:
            what = f"{len(parts)} recordings in one file, of which one" if len(parts) > 1 else "it has no length, and"
            raise InputError(f"{path}: {what} cannot be read ({words(error)})", CONVERT) from None
    whole = mended(path, file)
    if whole is None:
        return file
    file.close()
    return whole


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
