"""Reads several recordings in one file, one after the other, and FLAC files that do not say how long they are.

Radio streams and ``cat a.ogg b.ogg`` make the first; libsndfile reads one recording and stops in silence. Programs that
write FLAC to a pipe leave its length at zero.
"""

from __future__ import annotations

import io
import mmap
import os
import re
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.core.errors import InputError

UNKNOWN = 2**62  # frames of a FLAC file that does not say how many, at least
_FLAC = b"fLaC\0\0\0\x22"  # the mark, and the header of the first block, which is of 34 bytes
_OGG_FIRST = b"OggS\0\2"  # the mark, version and flags of the first page of a stream
_LENGTH = 21  # where 36 bits of a FLAC file hold its length: half of this byte, and the four that follow
_SKIP = 1 << 18  # samples decoded at a time where they are only counted


class Forward(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A file without the seek that soundfile makes after each block: in MP3 the next block would begin with noise."""

    def seekable(self) -> bool:
        """Say no, so that blocks are read one after the other; `seek` works even so."""
        return False


class Joined(AbstractContextManager["Joined"]):
    """Recordings in one file, read as one with the interface of `soundfile.SoundFile`.

    Parameters
    ----------
    path : Path
    parts : list of (int, int)
        First byte of each, and the byte after the last.

    Attributes
    ----------
    samplerate, channels, frames : int
    format, subtype : str

    Raises
    ------
    InputError
        They have different rates or channels.
    soundfile.LibsndfileError
        One cannot be read.
    """

    extra_info = ""

    def __init__(self, path: Path, parts: list[tuple[int, int]]) -> None:
        self._file = path.open("rb")
        self._number, self._at = -1, 0
        self._part: Forward | None = None
        try:
            self._parts = [_Slice(self._file, first, last) for first, last in parts]
            kinds, ends = [], [0]
            for part in self._parts:
                with Forward(part) as file:
                    frames, kind = file.frames, (int(file.samplerate), int(file.channels))
                    self.format, self.subtype, self.endian = file.format, file.subtype, file.endian
                if frames > UNKNOWN:
                    frames = part.put_length(
                        _count(path, part.first, part.last, os.fstat(self._file.fileno()).st_mtime_ns)
                    )
                kinds.append(kind)
                ends.append(ends[-1] + frames)
            if len(set(kinds)) > 1:
                what = " and ".join(f"{rate} Hz with {channels} channels" for rate, channels in dict.fromkeys(kinds))
                raise InputError(f"{path}: {len(kinds)} recordings in one file, of {what}", "split it")
        except BaseException:
            self._file.close()
            raise
        (self.samplerate, self.channels), self.frames = kinds[0], ends[-1]
        self._ends = ends

    def seekable(self) -> bool:
        """Say that any sample can be gone to."""
        return True

    def seek(self, frame: int) -> int:
        """Go to a sample of them all."""
        self._at = min(max(frame, 0), self.frames)
        number = next((k for k in range(len(self._parts)) if self._at < self._ends[k + 1]), len(self._parts) - 1)
        self._open(number).seek(self._at - self._ends[number])
        return self._at

    def tell(self) -> int:
        """Return the number of the next sample."""
        return self._at

    def read(self, frames: int = -1, dtype: str = "float32", always_2d: bool = True) -> NDArray[np.float32]:
        """Decode the next samples, (samples, channels): fewer at the end, all of them where `frames` is negative."""
        frames = frames if frames >= 0 else self.frames - self._at
        pieces = [np.zeros((0, self.channels), np.float32)]
        while frames > 0 and self._at < self.frames:
            number = max(self._number, 0)
            piece = self._open(number).read(min(frames, self._ends[number + 1] - self._at), dtype, always_2d=True)
            if len(piece) == 0 or self._at + len(piece) == self._ends[number + 1]:
                if number + 1 == len(self._parts):
                    frames = len(piece)
                else:
                    self._open(number + 1)
            elif len(piece) < min(frames, self._ends[number + 1] - self._at):
                frames = len(piece)  # shorter than it says
            pieces.append(piece)
            self._at, frames = self._at + len(piece), frames - len(piece)
        return np.concatenate(pieces)

    def _open(self, number: int) -> soundfile.SoundFile:
        """Return an open part, at its beginning if it was not the current one."""
        if number != self._number or self._part is None:
            if self._part is not None:
                self._part.close()
            self._parts[number].seek(0)
            self._number, self._part = number, Forward(self._parts[number])
        return self._part

    def close(self) -> None:
        """Close the file."""
        if self._part is not None:
            self._part.close()
        self._file.close()

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()


class _Slice(io.RawIOBase):
    """Bytes of a file, as a file; a FLAC file with the length that it lacks."""

    def __init__(self, file: BinaryIO, first: int, last: int) -> None:
        self._file, self.first, self.last, self._at, self._length = file, first, last, 0, b""

    def put_length(self, frames: int) -> int:
        """Let the bytes say how many samples there are; return it."""
        self._file.seek(self.first + _LENGTH)
        half = self._file.read(1)[0] & 0xF0
        self._length = bytes([half | frames >> 32 & 0x0F]) + (frames & 0xFFFFFFFF).to_bytes(4, "big")
        return frames

    def seek(self, place: int, whence: int = 0) -> int:
        self._at = place + (0, self._at, self.last - self.first)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override, unused-ignore]
        self._file.seek(self.first + self._at)
        content = bytearray(self._file.read(max(min(len(buffer), self.last - self.first - self._at), 0)))
        for k, byte in enumerate(self._length, start=_LENGTH - self._at):
            if 0 <= k < len(content):
                content[k] = byte
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


@lru_cache(maxsize=4096)
def _count(path: Path, first: int, last: int, changed: int) -> int:
    """Count the samples of a FLAC file that does not say how many they are, by decoding it."""
    count = 0
    with path.open("rb") as raw, Forward(_Slice(raw, first, last)) as file:
        while len(block := file.read(_SKIP, dtype="int16")):
            count += len(block)
    return count


def parts_of(path: Path, file: soundfile.SoundFile) -> list[tuple[int, int]]:
    """Return from where to where the recordings in a file lie; empty where an opened file is read as it should be."""
    status = path.stat()
    size = status.st_size
    if file.format == "FLAC":
        starts = _flac_starts(path, size, status.st_mtime_ns)
    elif file.format == "OGG":
        starts = _ogg_starts(path, size, status.st_mtime_ns)
    elif file.format == "MP3":
        starts = _mp3_starts(path, size)
    else:
        return []
    if len(starts) < 2 and file.frames < UNKNOWN:
        return []
    return list(zip(starts, [*starts[1:], size], strict=True))


@lru_cache(maxsize=1 << 16)
def _flac_starts(path: Path, size: int, changed: int) -> list[int]:
    """Find the marks of FLAC in a file, all of which is read: going to its last sample may end in another recording."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        starts = [found.start() for found in re.finditer(re.escape(_FLAC), content)]
    return starts if starts[:1] == [0] else []


@lru_cache(maxsize=1 << 16)
def _ogg_starts(path: Path, size: int, changed: int) -> list[int]:
    """Find the first page of each stream of an OGG file; of streams side by side, that of the first.

    libsndfile says of some files that more follows, not of copies of one recording, whose serial number is the same.
    """
    starts: list[int] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at, was_first = 0, False
        has_more = content.find(_OGG_FIRST, 1) > 0  # it is quick to find; whether it is a page, the pages before it say
        while has_more and content[at : at + 4] == b"OggS" and at + 27 <= size:
            is_first = bool(content[at + 5] & 2)
            if is_first and not was_first:
                starts.append(at)
            was_first = is_first
            at += 27 + content[at + 26] + sum(content[at + 27 : at + 27 + content[at + 26]])
    return starts


def _mp3_starts(path: Path, size: int) -> list[int]:
    """Follow the lengths that MP3 files say in their first frame, from one to the next."""
    starts: list[int] = []
    with path.open("rb") as file:
        at: int | None = 0
        first = b""
        while at is not None and at < size:
            sound = _after_tags(file, at)
            file.seek(sound)
            head = file.read(256)
            if len(head) < 4 or head[0] != 0xFF or head[1] < 0xE0 or (first and not _alike(first, head)):
                break
            first = first or head
            starts.append(sound if starts else 0)
            found = re.search(rb"Xing|Info", head)
            flags = int.from_bytes(head[found.end() : found.end() + 4], "big") if found else 0
            place = found.end() + 4 + 4 * (flags & 1) if found else 0
            at = sound + int.from_bytes(head[place : place + 4], "big") if flags & 2 else None
            if at is not None and at <= sound:
                break
    return starts


def _after_tags(file: BinaryIO, at: int) -> int:
    """Return where tags of ID3 and APE from a place on end."""
    while True:
        file.seek(at)
        head = file.read(32)
        if head.startswith(b"ID3") and len(head) >= 10:
            at += 10 + sum((byte & 127) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=True))
        elif head.startswith(b"TAG"):
            at += 128
        elif head.startswith(b"APETAGEX") and len(head) == 32:
            at += int.from_bytes(head[12:16], "little") + (32 if head[23] & 0x20 else 0)
        else:
            return at


def _alike(one: bytes, other: bytes) -> bool:
    """Tell whether two frames of MP3 have the same version, layer and rate."""
    return one[1] & 0xFE == other[1] & 0xFE and one[2] & 0x0C == other[2] & 0x0C
