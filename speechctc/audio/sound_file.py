"""Any recording to float32 mono samples at the rate wanted.

WAV, FLAC, OGG, MP3, AIFF, NIST SPHERE and more through libsndfile, M4A, WebM and the like through ffmpeg where it is
installed; channels are averaged, or one is chosen; other rates are resampled by a windowed sinc.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import soundfile
from numpy.typing import NDArray

from speechctc.audio import truncation
from speechctc.audio.ffmpeg import Decoded, is_for_ffmpeg
from speechctc.audio.resampling import sinc_blocks, sinc_filter
from speechctc.errors import InputError

if TYPE_CHECKING:
    import torchaudio

BLOCK = 1 << 18  # frames decoded at a time: bounds what several channels or a wrong header can ask for
ZERO_CROSSINGS = 32  # of the resampling sinc on each side: the transition band is 1/32 of the pass band
LARGEST = (
    1 << 19
)  # weights of torchaudio's filter: it holds all common rates; see `speechctc.audio.sound_file.resampling` for others
PIECE = 0.25  # seconds resampled at a time: as late as samples come from a stream
CONVERT = "convert it, for example with: ffmpeg -i FILE FILE.wav"
LEAVE_OUT = "copy it again, or leave it out"

Sound: TypeAlias = soundfile.SoundFile | Decoded


class AudioInfo(NamedTuple):
    """What a recording's header says.

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
        """Duration."""
        return self.frames / self.rate


def info(path: Path) -> AudioInfo:
    """Read a recording's header, and none of its samples.

    Raises
    ------
    InputError
        The file is missing, a folder, empty, not audio, or holds no samples.
    """
    with open_sound(path) as file:
        return AudioInfo(file.frames, file.samplerate, file.channels)


def read(path: Path, rate: int, channel: int | None = None) -> tuple[NDArray[np.float32], float]:
    """Read a recording.

    A WAV, AIFF, SPHERE, OGG or MP3 file that was cut off is read as far as it goes; see `cut_short`.

    Parameters
    ----------
    path : Path
    rate : int
        Samples per second wanted, Hz.
    channel : int, optional
        Which channel to read, counted from 1; None: the mean of all.

    Returns
    -------
    samples : ndarray, float32, shape = (n,)
        Mono, within [-1, 1] for integer formats.
    seconds : float
        Duration of the recording as it is in the file.

    Raises
    ------
    InputError
        As `info`; or a compressed stream breaks off or is damaged, a sample is not a finite number, or there is no
        such channel.
    """
    with open_sound(path) as file:
        mono, file_rate = _mono(file, path, channel), int(file.samplerate)
    return resample(mono, file_rate, rate), len(mono) / file_rate


def resample(samples: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float32]:
    """Change the rate of mono samples, Hz to Hz; ``ceil(n * wanted / rate)`` samples come back."""
    pieces = list(resample_blocks([samples], rate, wanted))
    return np.concatenate(pieces) if pieces else samples[:0]


def resample_blocks(blocks: Iterable[NDArray[np.float32]], rate: int, wanted: int) -> Iterator[NDArray[np.float32]]:
    """Change the rate of samples that come in blocks, cut anywhere; the result does not depend on where, to the bit.

    The filter makes samples in groups, each from one step of the input and what lies within its width of that. Pieces
    of a fixed number of whole steps, counted from the start, are filtered with that much on either side, which is then
    left out again. Were the pieces as long as the blocks, sums of other lengths would round in another order.
    """
    if rate == wanted:
        yield from blocks
        return
    common = math.gcd(rate, wanted)
    step, group = rate // common, wanted // common
    if step * group > LARGEST:
        yield from sinc_blocks(blocks, sinc_filter(step, group, ZERO_CROSSINGS), round(PIECE * wanted))
        return
    context = -(-int(_resampler(rate, wanted).width) // step) * step
    piece = max(round(PIECE * common), 1) * step
    waiting: NDArray[np.float32] = np.zeros(0, np.float32)
    before = 0  # samples at the head of `waiting` that are done: context of those that follow
    for block in blocks:
        waiting = np.concatenate([waiting, block])
        start = 0
        while len(waiting) - start >= before + piece + context:
            resampled = _filter(waiting[start : start + before + piece + context], rate, wanted)
            yield resampled[before // step * group : (before + piece) // step * group]
            start += before + piece - min(context, before + piece)
            before = min(context, before + piece)
        waiting = waiting[start:]
    if len(waiting) > before:
        yield _filter(waiting, rate, wanted)[before // step * group :]


def _filter(samples: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float32]:
    import torch  # late: those who read at the file's own rate should not wait for it

    resampled: NDArray[np.float32] = _resampler(rate, wanted)(torch.from_numpy(samples)).numpy()
    return resampled


def cut_short(path: Path) -> str:
    """Say in words how a WAV, AIFF, SPHERE or OGG file falls short of what it promises; ``""`` if it does not.

    A header with the largest size that fits, as programs write that do not know the length yet, promises nothing.
    """
    with open_sound(path) as file:
        return truncation.cut_short(path, file) if isinstance(file, soundfile.SoundFile) else ""


@lru_cache(maxsize=16)
def _resampler(rate: int, wanted: int) -> torchaudio.transforms.Resample:
    """Keep the filter: its making costs more than a sentence's filtering."""
    import torchaudio

    return torchaudio.transforms.Resample(rate, wanted, lowpass_filter_width=ZERO_CROSSINGS)


def open_sound(path: Path) -> Sound:
    """Open a recording that has samples, or say why not."""
    path = Path(path)
    if not os.path.exists(path):  # False where the name is too long for a file, too
        raise InputError(f"{path}: no such file", "check the path")
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a recording", "name the files in it")
    try:
        if path.stat().st_size == 0:
            raise InputError(f"{path}: the file is empty", LEAVE_OUT)
        # As bytes: soundfile takes no text with bytes that are not UTF-8, and such file names exist.
        file = soundfile.SoundFile(os.fsencode(path) if os.name == "posix" else path)
    except PermissionError:
        raise InputError(f"{path}: not readable by this user", "change its permissions") from None
    except soundfile.LibsndfileError as error:
        if is_for_ffmpeg(path):
            return Decoded(path)
        raise _not_audio(path, error) from None
    if file.frames == 0:
        file.close()
        raise InputError(f"{path}: it holds 0 samples", "record or convert it again, or leave it out")
    return file


def _mono(file: Sound, path: Path, channel: int | None) -> NDArray[np.float32]:
    """Decode all blocks to one array."""
    blocks = list(mono_blocks(file, path, BLOCK, channel))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def mono_blocks(file: Sound, path: Path, size: int, channel: int | None = None) -> Iterator[NDArray[np.float32]]:
    """Decode block by block: one channel, counted from 1, or the mean of all."""
    if channel is not None and not 1 <= channel <= file.channels:
        there = "1 channel" if file.channels == 1 else f"{file.channels} channels"
        raise InputError(f"{path}: no channel {channel}, it has {there}", "choose a channel that is there")
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
        raise InputError(f"{path}: no sample of it can be decoded", LEAVE_OUT)


def _not_audio(path: Path, error: soundfile.LibsndfileError) -> InputError:
    """Tell apart what libsndfile does not."""
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
        return error.start >= len(head) - 3 and error.start > 0  # cut within a character
    return True


def words(error: soundfile.LibsndfileError) -> str:
    """Return libsndfile's own words for what is wrong, to stand within a sentence."""
    return str(error.error_string).strip().rstrip(".").lower() or f"code {error.code}"
