"""Recordings that libsndfile cannot read, as of telephones and videos, decoded by ffmpeg.

A recording is always decoded from its beginning: where ffmpeg jumps to differs with its version and the container, and
a decoder that begins in the middle gives other samples. So that pieces of one recording do not cost its length each, a
decoder waits for the next piece where the last one ended.
"""

from __future__ import annotations

import atexit
import os
import re
import struct
import subprocess
import tempfile
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.folders import CONTAINERS
from speechctc.audio.mp3 import after_tags
from speechctc.audio.resampling import check_rate
from speechctc.audio.timeline import LEAST_GAP, Timeline
from speechctc.core.errors import InputError
from speechctc.core.parallel import program

_DEMUXERS = "mov,mp4,matroska,webm,asf,avi,mpegts,mpeg,amr,amrnb,amrwb,aac"  # no playlists, which name other files
_MAGIC_BYTES = (*((0, b"\x1aE\xdf\xa3"), (0, b"0&\xb2u\x8ef\xcf\x11"), (0, b"#!AMR"), (4, b"ftyp"), (8, b"AVI LIST")),)
_PACKETS = ((0, 188), (4, 192))  # where a packet of MPEG-TS begins, and how long it is; cameras write a time before it
_SYNC, _PACK = b"G", b"\0\0\1\xba"  # its first byte, and the first bytes of other MPEG streams
HEAD = 400  # bytes that tell the format
_AT_ONCE = 1 << 18  # samples decoded at a time, at most
_BACK = 30.0  # seconds that are kept of what was decoded: pieces of a conversation overlap
_WAITING = 2  # decoders that wait for the next piece of their recordings
_REMEMBERED = 4096  # recordings of which the length is remembered
_MOST_BEFORE = 1 << 16  # bytes before the sound, which are texts
MAX_CHANNELS = 1024
_AU = struct.Struct(">4s5I")  # mark, bytes before the sound, bytes of sound, encoding, rate, channels
# A filter that prints where the container's times jump: samples so far, how many they lag behind, and the rate.
_JUMPS = (
    "asetpts=st(1\\,if(isnan(T)\\,ld(0)\\,T*SR-NB_CONSUMED_SAMPLES))\\;"
    f"if(eq(NB_CONSUMED_SAMPLES\\,0)+gt(abs(ld(1)-ld(0))\\,{LEAST_GAP}*SR)\\,"
    "print(NB_CONSUMED_SAMPLES)\\;print(ld(1))\\;print(SR)\\;st(0\\,ld(1)))\\;PTS"
)
_PRINTED = re.compile(rb"^(?:\[Eval @ \w+\] )?\[info\] (-?\d+\.\d+)\s*$", re.MULTILINE)
_TRACK = re.compile(rb"^\[info\] +Stream #0:\d+.*?: Audio: ", re.MULTILINE)
_NO_TIMES = re.compile(rb"^\[info\] Input #0, (?:aac|amr\w*), ", re.MULTILINE)  # formats whose packets have no times
_BEGINS = re.compile(rb"^\[info\]   Duration: .*, start: (-?\d+\.\d+)", re.MULTILINE)
_LASTS = re.compile(rb"^\[info\]   Duration: (\d+):(\d+):(\d+\.\d+), ", re.MULTILINE)
_TOLD = re.compile(rb"(?:\[[^]]* @ \w+\] )*\[(?:info|warning)\] ")  # how lines begin that are no errors
_LEVEL = re.compile(r"(?:\[[^]]* @ \w+\] )*\[(?:error|fatal|panic)\] ")
INSTALL = (
    "install ffmpeg (apt install ffmpeg, brew install ffmpeg, winget install ffmpeg), "
    "or convert it where it is installed: ffmpeg -i FILE -af aresample=async=1:first_pts=0 FILE.wav"
)


def is_content_for_ffmpeg(path: Path, head: bytes) -> bool:
    """Return whether a file is in a format for ffmpeg by its first `HEAD` bytes, whatever its name."""
    if head.startswith(b"ID3"):  # AAC may have tags before it, as MP3 has
        with path.open("rb") as file:
            file.seek(after_tags(file, 0))
            head = file.read(2)
    is_aac = len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0  # a layer that MP3 has not
    return is_aac or _begins_mpeg_stream(head) or any(head[place:].startswith(sign) for place, sign in _MAGIC_BYTES)


def _begins_mpeg_stream(head: bytes) -> bool:
    return head.startswith(_PACK) or any(head[first::step][:3] == 3 * _SYNC for first, step in _PACKETS)


def _is_mpeg_stream(path: Path) -> bool:
    """Return whether ffmpeg would begin a recording with the track that is read, not with the first of all."""
    with path.open("rb") as file:
        return _begins_mpeg_stream(file.read(HEAD))


def installed() -> str | None:
    """Return the path of ffmpeg, or None if it is not installed."""
    return program("ffmpeg")


def missing_for(paths: Iterable[Path]) -> str:
    """Return in words how many recordings need ffmpeg, if it is not installed; else ``""``."""
    endings = Counter(path.suffix.lower() for path in paths if str(path).lower().endswith(CONTAINERS) and path.suffix)
    if not endings or installed():
        return ""
    kinds = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
    what = "recordings cannot be read without ffmpeg, which is not installed"
    return f"{sum(endings.values())} {what} ({kinds}); {INSTALL}"


class Measured(NamedTuple):
    """What is known of a sound track that was decoded to its end.

    Attributes
    ----------
    frames : int
        Samples of each channel, with the silence that was put in.
    rate : int
        Hz.
    channels : int
    tracks : int
        Sound tracks of the recording.
    moved : str
        In words, what was moved to keep to the times of the container; ``""`` if nothing was.
    """

    frames: int
    rate: int
    channels: int
    tracks: int
    moved: str


class Decoded(AbstractContextManager["Decoded"]):
    """A recording that ffmpeg decodes, read in blocks with the interface of `soundfile.SoundFile`.

    Its times are those of the container (see `speechctc.audio.timeline`).

    Parameters
    ----------
    path : Path
    start : float
        Reading will begin near this time, in seconds; `seek` goes there.
    track : int
        The sound track to read, counted from 1.

    Attributes
    ----------
    samplerate : int
        Of the recording, Hz.
    channels : int

    Raises
    ------
    InputError
        ffmpeg is not installed, or cannot read the recording, or there is no such track.
    """

    def __init__(self, path: Path, start: float = 0.0, track: int = 1) -> None:
        self._path, self._track, self._is_piece = path, track, start > 0
        self._decoder = _waiting_for(path, track, start) or _Decoder(path, track)
        self.samplerate, self.channels = self._decoder.samplerate, self._decoder.channels
        self._at = 0

    @property
    def frames(self) -> int:
        """Return the samples of each channel; the first time, the whole recording is decoded to count them."""
        return measure(self._path, self._track).frames

    def read(self, frames: int, dtype: str = "float32", always_2d: bool = True) -> NDArray[np.float32]:
        """Decode the next block, of shape (samples, channels); it is empty at the end.

        Raises
        ------
        InputError
            ffmpeg failed before the end of the recording.
        """
        block = self._decoder.read(self._at, frames)
        self._at += len(block)
        return block

    def seek(self, frame: int) -> int:
        """Go to a sample; what is before it is decoded and left out."""
        if frame < self._decoder.first:
            self._decoder.close()
            self._decoder = _Decoder(self._path, self._track)
        self._at = self._decoder.go_to(frame)
        return self._at

    def close(self) -> None:
        """End ffmpeg, or let it wait for the next piece."""
        if self._is_piece:
            _let_wait(self._decoder)
        else:
            self._decoder.close()

    def __exit__(self, *error: object) -> None:
        """End ffmpeg, or let it wait for the next piece."""
        self.close()


def measure(path: Path, track: int = 1) -> Measured:
    """Return the length and more of a sound track.

    The whole recording is decoded the first time; the result is kept until the file changes.

    Raises
    ------
    InputError
        As `Decoded`.
    """
    state = _state(path, track)
    if state not in _known:
        with Decoded(path, 0.0, track) as file:
            while len(file.read(_AT_ONCE)):
                pass
    return _known[state]


_State: TypeAlias = tuple[Path, int, int, int]  # path, track, bytes, time of the last change
_known: OrderedDict[_State, Measured] = OrderedDict()
_lock = threading.Lock()


def _state(path: Path, track: int) -> _State:
    status = path.stat()
    return path, track, status.st_size, status.st_mtime_ns


class _Decoder:
    """ffmpeg at work on one sound track; the last seconds that it decoded are kept.

    Attributes
    ----------
    state : _State
        Of what is decoded.
    process : int
        The process that reads it.
    samplerate, channels : int
    first : int
        The first sample of the timeline that is kept.
    is_usable : bool
        It was not closed, and did not fail.
    """

    def __init__(self, path: Path, track: int) -> None:
        self.state, self.process, self._path = _state(path, track), os.getpid(), path
        target, self._log_name = tempfile.mkstemp(prefix="speechctc-")
        self._log_file, self._log = open(self._log_name, "rb"), b""  # opened twice, since each has its own place
        self.is_usable = True
        try:
            self._ffmpeg = _start(path, track, target)
        except InputError:
            self._remove_log()
            raise
        finally:
            os.close(target)
        assert self._ffmpeg.stdout is not None
        self._stdout = self._ffmpeg.stdout
        try:
            self._read_header(track)
        except BaseException:
            self.close()
            raise
        self._news()
        self._has_no_times = bool(_NO_TIMES.search(self._log))
        begins = _BEGINS.search(self._log) if _is_mpeg_stream(path) else None
        self._begins = float(begins[1]) if begins else 0.0
        self._timeline = Timeline(self.samplerate, _seconds(self._log))
        self._placed = 0  # bytes of the log that tell of places which were used
        self.first = self._end = self._decoded = self._to_drop = 0
        self._ended = False
        self._blocks: deque[NDArray[np.float32]] = deque()

    def read(self, first: int, count: int) -> NDArray[np.float32]:
        """Return samples of the timeline; shape (at most `count`, channels)."""
        self.go_to(first)
        self._decode_to(first + count, first)
        parts, at = [np.zeros((0, self.channels), np.float32)], self.first
        for block in self._blocks:
            parts.append(block[max(first - at, 0) : max(first + count - at, 0)])
            at += len(block)
        return np.concatenate(parts)

    def go_to(self, frame: int) -> int:
        """Decode what is before a sample; return it, or the end if that is before."""
        self._decode_to(frame, frame)
        return min(frame, self._end)

    def _decode_to(self, end: int, needed: int) -> None:
        """Decode up to a sample; keep what is needed and the last seconds."""
        while self._end < end and not self._ended:
            self._decode(min(end - self._end, _AT_ONCE))
            oldest = min(needed, self._end - round(_BACK * self.samplerate))
            while self._blocks and self.first + len(self._blocks[0]) <= oldest:
                self.first += len(self._blocks.popleft())

    def _decode(self, frames: int) -> None:
        width = 4 * self.channels
        data = self._stdout.read(frames * width)
        whole = len(data) // width
        block: NDArray[np.float32] = np.frombuffer(data[: whole * width], ">f4").astype(np.float32)
        block = block.reshape(whole, self.channels)
        begin = self._decoded
        self._decoded += whole
        self._news()
        while (place := self._next_place(self._decoded)) is not None:
            at, more = place
            cut = min(max(at - begin, 0), len(block))
            self._append(block[:cut])
            block, begin = block[cut:], begin + cut
            if more > 0:
                self._append(np.broadcast_to(np.float32(0), (more, self.channels)))
            else:
                self._to_drop -= more
        self._append(block)
        if whole < frames:
            self._finish()

    def _append(self, block: NDArray[np.float32]) -> None:
        dropped = min(self._to_drop, len(block))
        self._to_drop -= dropped
        if len(block) > dropped:
            self._blocks.append(block[dropped:])
            self._end += len(block) - dropped

    def _next_place(self, end: int) -> tuple[int, int] | None:
        """Return before which decoded sample, below `end`, samples are put in or left out, and how many.

        ffmpeg tells of each place before it writes the samples there. Some versions tell of one where none follow.
        """
        if self._has_no_times:
            return None
        found = [*islice(_PRINTED.finditer(self._log, self._placed), 3)]
        printed = [float(each[1]) for each in found]
        if len(printed) < 3 or self._timeline.sample(int(printed[0]), int(printed[2])) >= end:
            return None
        self._placed = found[-1].end()
        try:
            lag = printed[1] - self._begins * printed[2]
            return self._timeline.place(int(printed[0]), lag, int(printed[2]))
        except InputError as error:
            self.close()
            raise InputError(f"{self._path}: {error.what}", error.fix) from None

    def _finish(self) -> None:
        self._ended = True
        if self._ffmpeg.wait() != 0:
            raise self._failure(f"it is cut off after {self._end / self.samplerate:.1f} s")
        about = Measured(self._end, self.samplerate, self.channels, _tracks(self._log), self._timeline.remark())
        with _lock:
            _known[self.state] = about
            while len(_known) > _REMEMBERED:
                _known.popitem(last=False)

    def _read_header(self, track: int) -> None:
        """Read what stands before the sound: its sample rate and its channels."""
        header = self._stdout.read(_AU.size)
        if len(header) < _AU.size:
            self._ffmpeg.wait()
            raise self._without_sound(track)
        mark, before, _, _, self.samplerate, self.channels = _AU.unpack(header)
        if mark != b".snd" or not _AU.size <= before <= _MOST_BEFORE or not 0 < self.channels <= MAX_CHANNELS:
            raise self._failure("what ffmpeg writes is no sound")
        self._stdout.read(before - _AU.size)
        check_rate(self, self._path)

    def close(self) -> None:
        """End ffmpeg."""
        self.is_usable = False
        if self._ffmpeg.poll() is None:
            self._ffmpeg.kill()
        self._ffmpeg.wait()
        self._stdout.close()
        self._remove_log()

    def _remove_log(self) -> None:
        self._log_file.close()
        with suppress(OSError):
            os.unlink(self._log_name)

    def _news(self) -> None:
        self._log += self._log_file.read()

    def _without_sound(self, track: int) -> InputError:
        self._news()
        there = _tracks(self._log)
        if 0 < there < track:
            self.close()
            return no_track(self._path, track, there)
        return self._failure("it has no sound")

    def _failure(self, otherwise: str) -> InputError:
        """Close, and return ffmpeg's last error in one line, or `otherwise` if there is none."""
        self._news()
        lines = [line for line in self._log.splitlines() if line.strip() and not _TOLD.match(line)]
        message = _LEVEL.sub("", lines[-1].decode("utf-8", "replace").strip(), count=1) if lines else otherwise
        message = message.removeprefix(f"file:{self._path}: ")
        if (code := self._ffmpeg.poll()) is not None and code < 0:
            message = f"it ended by signal {-code}; another version may not"
        self.close()
        return InputError(f"{self._path}: ffmpeg cannot decode it ({message[:160]})", "copy it again, or leave it out")


def no_track(path: Path, track: int, there: int) -> InputError:
    """Return the error for a sound track that a recording does not have."""
    has = "1 sound track" if there == 1 else f"{there} sound tracks"
    return InputError(f"{path}: no track {track}, it has {has}", "choose one of its tracks")


def _tracks(log: bytes) -> int:
    return len(_TRACK.findall(log.partition(b"[info] Output #0")[0]))


def _seconds(log: bytes) -> float | None:
    """Return how long the container says that the recording is."""
    found = _LASTS.search(log)
    return sum(float(each) * unit for each, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else None


_waiting: list[_Decoder] = []


def _waiting_for(path: Path, track: int, start: float) -> _Decoder | None:
    """Return the decoder that waits for a piece from `start` seconds on; None if none does."""
    state, process = _state(path, track), os.getpid()
    with _lock:
        for decoder in _waiting:
            is_before = decoder.first <= round(start * decoder.samplerate)
            if decoder.state == state and decoder.process == process and is_before:
                _waiting.remove(decoder)
                return decoder
    return None


def _let_wait(decoder: _Decoder) -> None:
    """Keep a decoder for the next piece of its recording, and close those that waited longest."""
    if not decoder.is_usable:
        return
    with _lock:
        _waiting.append(decoder)
        others = [_waiting.pop(0) for _ in range(len(_waiting) - _WAITING)]
    for other in others:
        if other.process == os.getpid():
            other.close()


@atexit.register
def _end_waiting() -> None:
    """End the decoders that wait; each ends by itself, too, where nobody reads any more."""
    while _waiting:
        decoder = _waiting.pop()
        if decoder.process == os.getpid():
            decoder.close()


def _start(path: Path, track: int, errors: int) -> subprocess.Popen[bytes]:
    """Start ffmpeg, which writes a sound track as float AU with the rate and channels of the recording.

    AU may be of any length; a WAV file ends at 4 GiB, 3 hours of stereo at 48 kHz.
    """
    if (ffmpeg := installed()) is None:
        raise InputError(f"{path}: libsndfile does not read this format, and ffmpeg is not installed", INSTALL)
    # fmt: off
    command = [
        ffmpeg, "-nostdin", "-hide_banner", "-nostats", "-v", "level+info", "-xerror",
        *(["-copyts"] if _is_mpeg_stream(path) else []),
        "-protocol_whitelist", "file,pipe", "-format_whitelist", _DEMUXERS, "-i", f"file:{path}",
        "-map", f"0:a:{track - 1}", "-vn", "-sn", "-dn", "-map_metadata", "-1", "-bitexact",
        "-af", _JUMPS, "-f", "au", "-c:a", "pcm_f32be", "pipe:1",
    ]
    # fmt: on
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    except OSError as error:
        raise InputError(f"{path}: ffmpeg does not start ({error.strerror})", "install it again") from None
