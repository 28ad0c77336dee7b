"""Opens recordings, says why one cannot be opened, and reads them as float32 mono samples at a given rate.

libsndfile reads WAV, FLAC, OGG, MP3, AIFF, NIST SPHERE and more; ffmpeg, where it is installed, M4A, WebM and other
formats. Channels are averaged, or one is chosen. Other rates are resampled.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import damage
from speechctc.audio.addresses import why_lost
from speechctc.audio.damage import CONVERT, Mended, mended
from speechctc.audio.ffmpeg import HEAD, Decoded, is_content_for_ffmpeg, measure, no_track
from speechctc.audio.folders import CONTAINERS
from speechctc.audio.mp3 import SUBTYPES, Forward, unheard
from speechctc.audio.resampling import check_rate, resample_blocks
from speechctc.audio.tracks import Channel, number_of, track_of
from speechctc.core.errors import InputError
from speechctc.core.parallel import check_time

BLOCK = 1 << 18  # frames decoded at a time: bounds the memory for many channels or a wrong header

COPIED_AS_TEXT = "copied as text, with line ends changed"

# Seconds read before a time: libsndfile 1.2 misses a time on the last page of an OGG file by some samples; a frame of
# MP3 takes bits from frames before it, and overlaps the last one.
SETTLE_OGG, SETTLE_MP3 = 5.0, 0.5
NO_MP3 = (b"RIFF", b"fLaC", b"OggS", b"FORM", b"NIST_1A", b".snd", b"RF64", b"caff")  # first bytes of other formats

SYSTEM_ERROR = 2  # of sndfile.h
FULL = 1 << 20  # bytes free on a disk, of which a write takes the last

LEAVE_OUT = "copy it again, or leave it out"
STDIN = Path("standard input")
NOTHING_CAME = f"{STDIN}: empty", "check the program that sends the sound"

Sound: TypeAlias = soundfile.SoundFile | Decoded  # an open recording

EXCERPTS = 8  # spread over the recording, so that they contain both of two speakers who take turns
EXCERPT = 2.0  # length of an excerpt, s
BEGINNING = 60.0  # seconds compared of a recording that ffmpeg decodes
MAX_SAMPLES = 1 << 23  # numbers in memory: a damaged header can give any rate and number of channels
TRACK = "--track (corpus.track, or a table's column track)"
ALIKE = 0.5  # least correlation of the channels of two microphones in one room
# Largest sample in size. Floats may hold integers of 32 bits unscaled; the features of 1e15 would be infinite.
MAX_AMPLITUDE = 2.0**32
QUIET = 0.003  # a channel with less than this share of the loudest channel's energy (-25 dB) is silent


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


def info(path: Path, channel: Channel | None = None) -> AudioInfo:
    """Read the header of a recording, without its samples; what ffmpeg reads is decoded to know its length.

    Raises
    ------
    InputError
        The file is missing, a folder, empty, not audio, or has no samples; or the track does not exist.
    """
    file = open_with_libsndfile(path)
    track = track_of(channel) or 1
    if file is None:
        return AudioInfo(*measure(path, track)[:3])
    with file:
        if track > 1:
            raise no_track(path, track, 1)
        return AudioInfo(file.frames, file.samplerate, file.channels)


def read(
    path: Path, rate: int, channel: Channel | None = None, segment: tuple[float, float] | None = None
) -> tuple[NDArray[np.float32], float]:
    """Read a recording, or a segment of it without the rest.

    A WAV, AIFF, SPHERE, OGG or MP3 file that was cut off is read up to where it ends; see `remark`. Times of what
    ffmpeg decodes are those of the container: silence is where no sound was recorded.

    Parameters
    ----------
    path : Path
    rate : int
        Sample rate of the result, Hz.
    channel : int or Track, optional
        The channel to read, counted from 1, or the sound track of a video; None: the mean of all channels.
    segment : (float, float), optional
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
        As `info`; or a compressed stream is cut off or damaged, a sample is not a finite number or is beyond
        `MAX_AMPLITUDE`, or the channel or the track does not exist.
    """
    with open_sound(path, segment[0] if segment else 0.0, channel) as file:
        blocks = Blocks(file, segment_blocks(file, path, channel, segment), rate)
        pieces = [piece.copy() for piece in blocks]  # copies, since a piece is a part of a larger array
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces), blocks.seconds


class Blocks:
    """A recording read block by block, in memory that does not depend on its length.

    Parameters
    ----------
    file : Sound
    blocks : iterator of ndarray
        Its samples at its own rate, as `mono_blocks` gives them.
    rate : int
        Sample rate of the result, Hz.

    Attributes
    ----------
    seconds : float
        Duration of the blocks read so far, in the file.
    """

    def __init__(self, file: Sound, blocks: Iterator[NDArray[np.float32]], rate: int) -> None:
        self._blocks, self._own_rate, self._rate, self._done = blocks, int(file.samplerate), rate, 0
        self.seconds = 0.0

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield the samples after those read so far."""
        return resample_blocks(self._read(), self._own_rate, self._rate)

    def _read(self) -> Iterator[NDArray[np.float32]]:
        for block in self._blocks:
            self._done += len(block)
            self.seconds = self._done / self._own_rate
            yield block


def remark(path: Path, channel: Channel | None = None) -> str:
    """Return in words what a user should know of how a recording is read; ``""`` if it is read as it is.

    It is by how much a WAV, AIFF, SPHERE, OGG or MP3 is shorter than its header says. A header with the largest
    possible size, as programs write it before they know the length, says nothing. A recording that was copied as text
    is named too; `read` mends it. Of what ffmpeg decodes, it is what was moved to keep to the times of the container,
    and that there are several sound tracks, if none was chosen.

    Raises
    ------
    InputError
        As `info`.
    """
    if (file := open_with_libsndfile(path)) is None:
        track = track_of(channel)
        about = measure(path, track or 1)
        others = f"it has {about.tracks} sound tracks; the first is read, {TRACK} chooses another"
        said = "; ".join(filter(None, (about.moved, others * (about.tracks > 1 and track is None))))
        return f"{path}: {said}" if said else ""
    with file:
        if isinstance(file, Mended):
            gone = "1 of its bytes is gone" if file.bytes_back == 1 else f"{file.bytes_back} of its bytes are gone"
            return f"{path}: {COPIED_AS_TEXT}, and {gone}; mended, but copy it again"
        short = damage.cut_short(path, file)
        if not short and isinstance(file, Forward) and (damaged := file.damage()):
            return f"{path}: {damaged}; copy it again"
        return short


def segment_blocks(
    file: Sound, path: Path, channel: Channel | None = None, segment: tuple[float, float] | None = None
) -> Iterator[NDArray[np.float32]]:
    """Decode a segment of an opened recording in blocks, as `read` does."""
    start, end = segment or (0.0, None)
    first = _go_to(file, path, start)
    count = None if end is None else max(round(end * file.samplerate) - first, 0)
    return mono_blocks(file, path, BLOCK, channel, count)


def _go_to(file: Sound, path: Path, start: float) -> int:
    """Go to a time in seconds; return the number of the sample there."""
    first: int = round(start * file.samplerate)
    if first == 0:
        return 0
    is_ogg = isinstance(file, soundfile.SoundFile) and file.format == "OGG"
    early = round((SETTLE_OGG * is_ogg + SETTLE_MP3 * isinstance(file, Forward)) * file.samplerate)
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
    file: Sound, path: Path, size: int, chosen: Channel | None = None, count: int | None = None
) -> Iterator[NDArray[np.float32]]:
    """Decode a recording in blocks of at most `size` samples: one channel, counted from 1, or the mean of all.

    From where the file is, `count` samples are decoded; None: all to the end.
    """
    channel = number_of(chosen)
    if channel is not None and not 1 <= channel <= file.channels:
        there = "1 channel" if file.channels == 1 else f"{file.channels} channels"
        raise InputError(f"{path}: no channel {channel}, it has {there}", "choose one of its channels")
    size = min(size, file.samplerate) if isinstance(file, Forward) else size  # to tell where it is damaged
    done = 0
    while count is None or done < count:
        check_time(path)
        frames = size if count is None else min(size, count - done)
        try:
            block = file.read(frames, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            where = f"after {done / file.samplerate:.1f} s of {file.frames / file.samplerate:.1f} s"
            reason = f"{path}: cut short or damaged: {words(error)} {where}"
            raise InputError(reason, LEAVE_OUT) from None
        if len(block) == 0:
            break
        if channel is not None:
            block = block[:, channel - 1 : channel]
        _check_samples(block, path, done, file.samplerate)
        yield np.ascontiguousarray(block[:, 0]) if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)
        done += len(block)
    if done == 0:
        damaged = f"{path}: none of its samples can be decoded", LEAVE_OUT
        raise InputError(*(NOTHING_CAME if path == STDIN else damaged))


def _check_samples(block: NDArray[np.float32], path: Path, done: int, rate: float) -> None:
    """Raise an `InputError` that names the first of a block's samples that no recording has; `done` are before it."""
    right = (np.abs(block) <= MAX_AMPLITUDE).all(axis=1)  # false of NaN
    if right.all():
        return
    first = int(np.argmin(right))
    at = f"sample {done + first}, {(done + first) / rate:.3f} s"
    sample = block[first]
    if np.isfinite(sample).all():
        what = f"a sample of {np.abs(sample).max():.3g} times full scale at {at}"
    else:
        what = f"not a finite number (NaN or inf) at {at}"
    raise InputError(f"{path}: {what}", "convert it again, or leave it out")


def for_soundfile(path: Path) -> bytes | Path:
    """Return a path as soundfile takes it: as bytes, because it refuses names that are not UTF-8 as text."""
    return os.fsencode(path) if os.name == "posix" else path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an `OSError` where libsndfile cannot write a file: it says "system error" of a disk that is full."""
    try:
        yield
    except soundfile.LibsndfileError as error:
        if error.code != SYSTEM_ERROR:
            raise
        code = errno.ENOSPC if shutil.disk_usage(path.parent).free < FULL else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from None


def write_wav(path: Path, samples: NDArray[Any], rate: int) -> None:
    """Write samples as WAV of 16 bits, whatever the name's ending."""
    with writing(path):
        soundfile.write(for_soundfile(path), samples, rate, "PCM_16", format="WAV")


def open_sound(path: Path, start: float = 0.0, channel: Channel | None = None) -> Sound:
    """Open a recording that has samples, to read it from `start` seconds on; the caller seeks there.

    Of `channel`, only the sound track counts.

    Raises
    ------
    InputError
        The file is missing, a folder, empty, not audio, or has no samples or no such track; or ffmpeg cannot read it.
    """
    track = track_of(channel) or 1
    if (file := open_with_libsndfile(path)) is None:
        return Decoded(path, start, track)
    if track > 1:
        file.close()
        raise no_track(path, track, 1)
    return file


def open_with_libsndfile(path: Path) -> soundfile.SoundFile | None:
    """Open a recording with libsndfile; return None if its format is one for ffmpeg.

    One that was copied as text is read as it was before (see `speechctc.audio.damage`).

    Raises
    ------
    InputError
        As `open_sound`, except for ffmpeg.
    """
    if not os.path.exists(path):  # False of a path that is too long, too
        raise why_lost(path) or _not_there(path)
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a recording", "name the files in it")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty", LEAVE_OUT)
        name = for_soundfile(path)
        with path.open("rb") as head:
            first = head.read(HEAD)
        if is_content_for_ffmpeg(path, first):
            return None
        try:
            with nullcontext() if first.startswith(NO_MP3) else unheard():
                file = soundfile.SoundFile(name)
        except soundfile.LibsndfileError as error:
            if path.suffix.lower() in CONTAINERS:
                return None
            raise _not_audio(path, error) from None
        if file.subtype in SUBTYPES:
            file.close()
            file = Forward(path, name)
    except PermissionError:  # libsndfile only says "system error"
        raise InputError(f"{path}: not readable by this user", "change its permissions") from None
    if file.frames == 0:
        file.close()
        if more := damage.unread(path):
            raise InputError(f"{path}: the header says no samples, and {more:,} bytes follow it", damage.MEND)
        raise InputError(f"{path}: it has no samples", "record or convert it again, or leave it out")
    check_rate(file, path)
    damage.refuse_parts(path, file)
    if (whole := mended(path, file)) is not None:
        file.close()
        return whole
    return file


def _not_there(path: Path) -> InputError:
    """Return the error for a path at which no file is seen."""
    try:
        path.stat()
    except PermissionError:
        return InputError(f"{path}: in a folder that this user may not look into", "change its permissions")
    except (OSError, ValueError):
        pass
    return InputError(f"{path}: no such file", "check the path")


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
    reason = words(error)
    detail = "" if "regular file" in reason else f" ({reason})"  # what the decoder of MP3 says of any other content
    return InputError(f"{path}: not audio that can be read{detail}", CONVERT)


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and error.start > 0  # the head ends within a character
    return True


def words(error: soundfile.LibsndfileError) -> str:
    """Return libsndfile's description of an error, for use within a sentence."""
    return str(error.error_string).strip().rstrip(".").lower() or f"code {error.code}"


def channels_differ(path: Path, channel: Channel | None = None) -> bool:
    """Return whether two channels of a recording, or of its chosen track, both have sound, and not the same.

    Excerpts of 16 s in all are compared, or the first minute of a recording that ffmpeg decodes. Damage within the
    recording is not an error here.

    Raises
    ------
    InputError
        The recording cannot be opened.
    """
    with open_sound(path, channel=channel) as file:
        if file.channels < 2:
            return False
        sound = np.nan_to_num(_excerpts(file)).astype(np.float64)  # damaged floats may be NaN
    if not len(sound):
        return False
    sound -= sound.mean(axis=0)
    energy = (sound**2).sum(axis=0)
    sound = sound[:, energy > max(QUIET * energy.max(initial=0.0), 1e-12)]
    if sound.shape[1] < 2 or not np.isfinite(sound).all():
        return False
    return bool((np.corrcoef(sound, rowvar=False) < ALIKE).any())


def _excerpts(file: Sound) -> NDArray[np.float32]:
    """Read the excerpts; shape (samples, channels)."""
    size = min(round(EXCERPT * file.samplerate), BLOCK)  # a damaged header can give any rate
    if isinstance(file, Decoded):  # to find its end, all of it would have to be decoded
        return _read(file, min(round(BEGINNING * file.samplerate), MAX_SAMPLES // file.channels))
    starts = np.linspace(0, file.frames - size, EXCERPTS).astype(int) if file.frames > size else [0]
    return np.concatenate([_read(file, size, start) for start in sorted(set(map(int, starts)))])


def _read(file: Sound, size: int, start: int = 0) -> NDArray[np.float32]:
    """Read at most `size` samples; none where the recording is damaged."""
    try:
        file.seek(start)
        samples: NDArray[np.float32] = file.read(size, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, InputError):
        return np.zeros((0, file.channels), np.float32)
    return samples


@contextmanager
def opened(path: Path, rate: int, channel: Channel | None = None) -> Iterator[Blocks]:
    """Open a recording to read it in blocks; together they are equal to the samples of `sound_file.read`, to the bit.

    Parameters
    ----------
    path : Path
    rate : int
        Sample rate of the blocks, Hz.
    channel : int or Track, optional
        The channel to read, counted from 1, or the sound track of a video; None: the mean of all channels.

    Raises
    ------
    InputError
        As `sound_file.read`; errors within the recording are raised when they are reached.
    """
    with open_sound(path, channel=channel) as file:
        yield Blocks(file, mono_blocks(file, path, BLOCK, channel), rate)
