"""MP3 files: how their frames follow each other, and reading them without the messages of libmpg123.

libsndfile decodes MP3 by libmpg123, which writes to standard error: of damage, and of good files where reading begins
in their middle.
"""

from __future__ import annotations

import io
import mmap
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import soundfile

from speechctc.core.errors import InputError, plural

SUBTYPES = ("MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III")  # libsndfile's names; WAV may hold MP3, too
_MESSAGE = re.compile(rb"\[\S*libmpg123/|(?:Note|Warning): ")
_RATES = (44100, 48000, 32000)  # Hz; of MPEG 2 half of these, of 2.5 a quarter
_STEPS = {  # differences of the bit rates in kbit/s, by "MPEG 1?" and layer
    (True, 1): (32,) * 14,
    (True, 2): (32, 16, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 64, 64),
    (True, 3): (32, 8, 8, 8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 64),
    (False, 1): (32, 16, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 32, 32),
    (False, 2): (8,) * 8 + (16,) * 6,
    (False, 3): (8,) * 8 + (16,) * 6,
}
_NEAR = 1 << 20  # bytes searched for the next frame behind damage
_IN_A_ROW = 3  # frames that follow each other are no chance
_DELAY = 529  # samples of a decoder's delay
_MISSING = 1.0  # seconds that a decoder may leave out at the end

_one_at_a_time = threading.RLock()


class Frames(NamedTuple):
    """How the frames of an MP3 file follow each other.

    Attributes
    ----------
    samples : int
        Of each channel, in all frames that hold sound; 0 where no frames were found.
    breaks : tuple of (float, int)
        Where something else is between two frames: the time of the second by its number, s, and the bytes between.
    opening : bytes
        If no frame of the file says how many frames there are: one that does, and a silent one.
    first : int
        The byte where the first frame begins.
    ahead : int
        Samples that come of the silent frame.
    """

    samples: int = 0
    breaks: tuple[tuple[float, int], ...] = ()
    opening: bytes = b""
    first: int = 0
    ahead: int = 0


class Forward(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """An MP3 without the seek that soundfile makes after each block: the next block would begin with noise."""

    def __init__(self, path: Path, name: bytes | Path) -> None:
        self._path, self._reads_all, self._done = path, True, 0
        self._errors: list[float] = []
        self._given, self._content, self._ahead = name, path.open("rb"), 0
        with unheard():
            super().__init__(name)
            found = self._followed()
            if found.opening and abs(super().frames - found.samples) > found.ahead:
                super().close()
                super().__init__(_Prefixed(found.opening, self._content, found.first))
                self._ahead = found.ahead
                super().read(self._ahead)

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._content.close()

    @property
    def frames(self) -> int:
        """Return the samples of each channel that are there: a header may promise more."""
        said, there = int(super().frames) - self._ahead, self._followed().samples
        return min(said, there) if there else said

    def seekable(self) -> bool:
        """Say no, so that blocks are read one after the other; `seek` works even so."""
        return False

    def read(self, frames: int = -1, *arguments: Any, **named: Any) -> Any:
        """Read as `soundfile.SoundFile.read` does.

        Raises
        ------
        InputError
            The file is damaged so that its rest cannot be decoded.
        """
        try:
            with unheard() as said:
                block = super().read(frames, *arguments, **named)
        except soundfile.LibsndfileError:
            raise self._broken() from None
        if self._reads_all:
            self._errors += [self._done / self.samplerate] * sum(b" error: " in line for line in said)
            self._done += len(block)
            if len(block) < frames:
                self._end()
        return block

    def seek(self, frames: int, whence: int = io.SEEK_SET) -> int:
        """Seek as `soundfile.SoundFile.seek` does."""
        self._reads_all = False
        with unheard():
            place: int = super().seek(frames + self._ahead * (whence == io.SEEK_SET), whence)
        return place - self._ahead

    def damage(self) -> str:
        """Return in words where the file is damaged; ``""`` if it is not. If it was not read whole, this decodes it."""
        if (errors := _errors.get(self._state())) is None:
            try:
                with Forward(self._path, self._given) as again:
                    while len(again.read(self.samplerate)):
                        pass
            except InputError as error:
                return error.what.removeprefix(f"{self._path}: ")
            errors = _errors.get(self._state(), [])
        if breaks := self._between_frames():
            return f"damaged {breaks}; sound that is lost there makes later times early"
        if errors:
            return f"damaged: {plural(len(errors), 'error')} of decoding, the first after {errors[0]:.1f} s"
        return ""

    def _between_frames(self) -> str:
        breaks = self._followed().breaks
        count = sum(length for _, length in breaks)
        return f"at {breaks[0][0]:.1f} s: {count:,} bytes between its frames are no MP3" if breaks else ""

    def _broken(self) -> InputError:
        where = self._between_frames() or f"after {self._done / self.samplerate:.1f} s"
        what = f"{self._path}: damaged {where}, and it cannot be decoded to its end"
        return InputError(what, "copy it again, or leave it out")

    def _end(self) -> None:
        if self._done < self.frames - _MISSING * self.samplerate:
            raise self._broken()
        _errors[self._state()] = self._errors

    def _state(self) -> tuple[Path, int, int]:
        status = self._path.stat()
        return self._path, status.st_size, status.st_mtime_ns

    def _followed(self) -> Frames:
        return frames(*self._state())


class _Prefixed(io.RawIOBase):
    """A file from some byte on, with other bytes before it."""

    def __init__(self, before: bytes, file: BinaryIO, first: int) -> None:
        self._before, self._file, self._first, self._at = before, file, first, 0
        self._size = len(before) + file.seek(0, io.SEEK_END) - first

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Return which byte is next."""
        return self._at

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what fills a buffer, or less at the end; return how many bytes."""
        data = self._before[self._at : self._at + len(buffer)]
        self._file.seek(self._first + max(self._at - len(self._before), 0))
        data += self._file.read(len(buffer) - len(data))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


_errors: dict[tuple[Path, int, int], list[float]] = {}  # when errors of decoding came, in files that were read whole


@contextmanager
def unheard() -> Iterator[list[bytes]]:
    """Collect the lines that libmpg123 writes to standard error; others that come at the time are passed on."""
    said: list[bytes] = []
    with _one_at_a_time:
        try:
            own = os.dup(2)
        except OSError:  # standard error is closed
            yield said
            return
        with tempfile.TemporaryFile() as caught:
            os.dup2(caught.fileno(), 2)
            try:
                yield said
            finally:
                os.dup2(own, 2)
                os.close(own)
                caught.seek(0)
                for line in caught.read().splitlines(keepends=True):
                    if _MESSAGE.match(line):
                        said.append(line)
                    else:
                        with suppress(OSError):
                            os.write(2, line)


@lru_cache(maxsize=1 << 12)
def frames(path: Path, size: int, changed: int) -> Frames:
    """Follow the frames of an MP3 file from one to the next, all of which is read."""
    with path.open("rb") as file:
        at = after_tags(file, 0)
        if size - at < 4:
            return Frames()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _follow(content, file, at)


def _follow(content: mmap.mmap, file: BinaryIO, at: int) -> Frames:
    if not (content[at] == 0xFF and content[at + 1] >= 0xE0):
        return Frames()
    kind, (lengths, samples, rate) = content[at + 1] | 1, _kind(content[at + 1], content[at + 2])
    first, header = at, content[at : at + 4]
    has_index = bool(re.search(rb"Xing|Info|VBRI", content[at : at + 256]))
    count, breaks = -has_index, []

    def length_at(place: int) -> int:
        if place + 4 > len(content) or content[place] != 0xFF or content[place + 1] | 1 != kind:
            return 0
        return lengths.get(content[place + 2], 0)

    while at < len(content):
        if length := length_at(at):
            count, at = count + 1, at + length
        elif (behind := after_tags(file, at)) > at:
            at = behind
        elif (following := _next(content, at, length_at)) is not None:
            breaks.append((count * samples / rate, following - at))
            at = following
        else:
            break
    opening = b"" if has_index or count < 1 else _opening(header, lengths, count)
    return Frames(max(count, 0) * samples, tuple(breaks), opening, first, samples - _DELAY)


def _opening(header: bytes, lengths: dict[int, int], count: int) -> bytes:
    """Return a frame of layer III that says how many frames follow, and a silent one; ``b""`` of other layers.

    libmpg123 leaves out the first samples of files that have the first one, and only of these.
    """
    if header[1] >> 1 & 3 != 1:
        return b""
    is_mono, is_first = header[3] >> 6 == 3, header[1] >> 3 & 3 == 3
    side = (17 if is_mono else 32) if is_first else (9 if is_mono else 17)  # bytes of side information
    third, length = next((third, length) for third, length in lengths.items() if length >= side + 16)
    frame = bytes([header[0], header[1] | 1, third, header[3]]) + bytes(side)
    said = b"Xing\0\0\0\1" + (count + 1).to_bytes(4, "big")
    return (frame + said).ljust(length, b"\0") + frame.ljust(length, b"\0")


def _next(content: mmap.mmap, at: int, length_at: Callable[[int], int]) -> int | None:
    """Return where the next frames in a row begin; None if none do."""
    end = at + _NEAR
    while (at := content.find(b"\xff", at + 1, end)) >= 0:
        place = at
        for _ in range(_IN_A_ROW):
            if not (length := length_at(place)):
                break
            place += length
        else:
            return at
    return None


def _kind(second: int, third: int) -> tuple[dict[int, int], int, int]:
    """Return of a kind of frames the length in bytes by the third byte, the samples, and the rate in Hz.

    ISO/IEC 11172-3, 2.4.1.3 and 2.4.2.3; MPEG 2.5 halves the rates of MPEG 2 once more.
    """
    version, layer, number = second >> 3 & 3, 4 - (second >> 1 & 3), third >> 2 & 3
    if version == 1 or layer == 4 or number == 3:  # reserved
        return {}, 1, 1
    is_first = version == 3
    rate = _RATES[number] >> {3: 0, 2: 1, 0: 2}[version]
    samples = 384 if layer == 1 else 576 if layer == 3 and not is_first else 1152
    lengths: dict[int, int] = {}
    for index, kbits in enumerate(accumulate(_STEPS[is_first, layer]), 1):
        for padding in (0, 1):
            slot = 4 if layer == 1 else 1
            length = (samples // 8 // slot * kbits * 1000 // rate + padding) * slot
            lengths |= dict.fromkeys((index << 4 | number << 2 | padding << 1 | private for private in (0, 1)), length)
    return lengths, samples, rate


@lru_cache(maxsize=1 << 16)
def parts(path: Path, size: int, changed: int) -> tuple[list[int], int]:
    """Follow the lengths that MP3 files say in their first frame; return the starts, and the end of the last or 0."""
    starts: list[int] = []
    with path.open("rb") as file:
        at: int | None = 0
        first = b""
        while at is not None and at < size:
            sound = after_tags(file, at)
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
    return starts, at or 0


def after_tags(file: BinaryIO, at: int) -> int:
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
    """Return whether two frames of MP3 have the same version, layer and rate."""
    return one[1] & 0xFE == other[1] & 0xFE and one[2] & 0x0C == other[2] & 0x0C
