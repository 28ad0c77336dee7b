"""Reads sound from standard input while it comes."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio.ffmpeg import no_track
from speechctc.audio.resampling import check_rate
from speechctc.audio.sound_file import BLOCK, NOTHING_CAME, STDIN, Blocks, mono_blocks, opened, words
from speechctc.audio.tracks import Channel, track_of
from speechctc.core.errors import InputError

STREAMED = (b"RIFF", b"RIFX", b"RF64", b"riff", b".snd")  # first bytes of files that libsndfile decodes from a pipe
STORED = (  # first bytes of other files: of MP3 by its tag and by its first frame, and so on
    *(b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3", b"\xff\xe2"),
    *(b"fLaC", b"OggS", b"FORM", b"caff", b"NIST_1A", b"\x1aE\xdf\xa3", b"#!AMR"),
)
LIVE = 0.1  # seconds of a block of standard input
HEADER_BYTES = 12  # bytes that are read to tell the format
PIPED = 1 << 16  # bytes copied at a time
UNKNOWN = 2**31 - 2**20  # bytes, about, that the header of a WAV file names at least where its length is not known


@contextmanager
def opened_stdin(
    rate: int,
    raw_rate: int | None = None,
    channel: Channel | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Blocks]:
    """Open standard input to read it live, in blocks of `LIVE` seconds.

    Parameters
    ----------
    rate : int
        Sample rate of the blocks, Hz.
    raw_rate : int, optional
        Rate of 16-bit little-endian mono samples without a header, Hz. None: the input is WAV, with any length in its
        header, or another sound file (MP3, FLAC, OGG), which is first stored in a temporary file.
    channel : int, optional
        The channel to read, counted from 1; None: the mean of all channels.
    say : callable
        Called with a message if the input is stored first.

    Raises
    ------
    InputError
        The input is not sound; or, when it is reached, a sample is not a finite number or absurdly large.
    """
    if raw_rate:
        raw = {"format": "RAW", "subtype": "PCM_16", "endian": "LITTLE", "channels": 1, "samplerate": raw_rate}
        with soundfile.SoundFile(sys.stdin.fileno(), closefd=False, **raw) as file:
            yield Blocks(file, mono_blocks(file, STDIN, _size(raw_rate), channel), rate)
        return
    head = _read_head(sys.stdin.fileno())
    if not head:
        raise InputError(*NOTHING_CAME)
    if not head.startswith(STORED) and head[4:8] != b"ftyp":
        if (track_of(channel) or 1) > 1:
            raise no_track(STDIN, track_of(channel) or 1, 1)
        pipe = _Pipe(head)
        with pipe.open() as file:
            check_rate(file, "standard input")
            yield _Live(pipe, file, mono_blocks(file, STDIN, _size(file.samplerate), channel), rate)
        return
    say("standard input is no WAV: it is read to its end before decoding; WAV is decoded live")
    with tempfile.TemporaryDirectory(prefix="speechctc-") as folder:
        path = Path(folder) / "stdin"
        _store(head, path)
        try:
            with opened(path, rate, channel) as blocks:
                yield blocks
        except InputError as error:
            raise InputError(error.what.replace(str(path), "standard input"), error.fix) from None


def _size(rate: int) -> int:
    """Return the samples of a block; a damaged header may name any rate."""
    return min(max(int(rate * LIVE), 1), BLOCK)


def _read_head(stdin: int) -> bytes:
    head = b""
    while len(head) < HEADER_BYTES and (more := os.read(stdin, HEADER_BYTES - len(head))):
        head += more
    return head


def _store(head: bytes, path: Path) -> None:
    with open(path, "wb") as file:
        file.write(head)
        while data := os.read(sys.stdin.fileno(), PIPED):
            file.write(data)


class _Pipe:
    """A pipe that repeats the first bytes of standard input, which were read, and passes on the others.

    Attributes
    ----------
    passed : int
        Bytes so far.
    """

    def __init__(self, head: bytes) -> None:
        if head and not head.startswith(STREAMED):
            raise _not_sound("format not recognised")
        self.passed = 0
        self._reading, writing = os.pipe()
        threading.Thread(target=self._pass_on, args=(head, sys.stdin.fileno(), writing), daemon=True).start()

    def open(self) -> soundfile.SoundFile:
        """Open the sound in it."""
        try:
            return soundfile.SoundFile(self._reading, closefd=True)
        except soundfile.LibsndfileError as error:
            raise _not_sound(words(error)) from None

    def goes_on(self) -> bool:
        """Wait for another byte; return whether there is one."""
        return bool(os.read(self._reading, 1))

    def _pass_on(self, data: bytes, source: int, target: int) -> None:
        with suppress(OSError):  # the reader has closed the pipe
            while data:
                view = memoryview(data)
                while view:
                    view = view[os.write(target, view) :]
                self.passed += len(data)
                data = os.read(source, PIPED)
        os.close(target)


class _Live(Blocks):
    """What is read live. Programs that do not know how long a WAV will be name 2 or 4 GiB; libsndfile ends there."""

    def __init__(self, pipe: _Pipe, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pipe = pipe

    def _read(self) -> Iterator[NDArray[np.float32]]:
        yield from super()._read()
        if self._pipe.passed >= UNKNOWN and self._pipe.goes_on():
            what = f"standard input: its header says that it ends after {self.seconds:.1f} s, but more follows"
            raise InputError(what, "send AU, which may be of any length (ffmpeg -f au), or raw samples (--raw RATE)")


def _not_sound(reason: str) -> InputError:
    fix = "send WAV, a sound file such as MP3 or FLAC, or with --raw RATE 16-bit little-endian mono samples"
    return InputError(f"standard input: not WAV or another sound file ({reason})", fix)
