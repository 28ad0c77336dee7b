"""Read recordings and samples in memory alike: in blocks, mono, at the model's rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.resampling import resample_blocks
from speechctc.audio.sound_file import BLOCK
from speechctc.core.errors import InputError

Samples = NDArray[np.float32]

LOUDEST = 8.0  # a larger sample shows that full scale is not 1
MIN_RATE = 1000  # Hz; a lower number is a rate in kHz
MAX_CHANNELS = 64
NAME = "samples"  # name of a recording without a file, in results


def is_several(recording: Any) -> bool:
    """Return whether this is several recordings: an iterator, or a list or tuple of files or arrays.

    Arrays of at most `MAX_CHANNELS` numbers are the channels of single moments, and a list of them is one recording.
    """
    if not isinstance(recording, (list, tuple)):
        return isinstance(recording, Iterator)

    def is_one(each: Any) -> bool:
        shape: tuple[int, ...] = tuple(getattr(each, "shape", ()))
        return isinstance(each, (str, Path)) or len(shape) == 2 or (len(shape) == 1 and shape[0] > MAX_CHANNELS)

    return any(map(is_one, recording))


@contextmanager
def opened(
    recording: str | Path | Any, rate: int | None, channel: int | None, model_rate: int
) -> Iterator[tuple[str, AudioBlocks]]:
    """Open a file, or samples in memory.

    Parameters
    ----------
    recording : str, Path, array_like or Tensor
        A file, or samples as for `SampleBlocks`.
    rate : int or None
        Hz, of samples; None for a file.
    channel : int or None
        The channel of a file to read, counted from 1; None: the mean of all.
    model_rate : int
        Rate of the blocks, Hz.

    Yields
    ------
    name : str
        The recording's name in results.
    blocks : AudioBlocks

    Raises
    ------
    InputError
        The file cannot be read as audio, a rate is given for a file or none for samples, or a channel of samples.
    """
    if not isinstance(recording, (str, Path)):
        if channel is not None:
            raise InputError("a channel of samples, which are averaged", "give that channel's samples alone")
        yield NAME, SampleBlocks(recording, rate, model_rate)
        return
    if rate is not None:
        raise InputError(f"{recording}: a rate for a file, which has its own", "leave rate out")
    with sound_file.opened(Path(recording), model_rate, channel) as blocks:
        yield str(recording), blocks


class PushedSamples:
    """Samples that are put in while they are read. Where there are none yet, it yields an empty block.

    Parameters
    ----------
    rate : int
        Hz.
    model_rate : int
        Rate of the blocks, Hz.

    Attributes
    ----------
    seconds : float
        Length of what was put in.
    waits : bool
        Whether the last block was empty, as all others had been read.
    ended : bool
        Whether no more will come.

    Raises
    ------
    InputError
        The rate cannot be that of a recording.
    """

    def __init__(self, rate: Any, model_rate: int) -> None:
        self._rate, self._model_rate = checked_rate(rate), model_rate
        self._blocks: deque[Samples] = deque()
        self._count = 0
        self.waits = self.ended = False

    @property
    def seconds(self) -> float:
        """Length of what was put in."""
        return self._count / self._rate

    def put(self, samples: Any) -> None:
        """Append samples as of `SampleBlocks`.

        Raises
        ------
        InputError
            These are no samples, or the recording has ended.
        """
        if self.ended:
            raise InputError("samples for a stream that was finished", "begin another: model.stream(rate)")
        wave = checked_samples(samples)
        self._count += len(wave)
        self._blocks += mono_blocks(wave)

    def __iter__(self) -> Iterator[Samples]:
        """Yield mono samples at the model's rate, and empty blocks."""
        return resample_blocks(self._taken(), self._rate, self._model_rate)

    def _taken(self) -> Iterator[Samples]:
        while self._blocks or not self.ended:
            self.waits = not self._blocks
            yield np.zeros(0, np.float32) if self.waits else self._blocks.popleft()


class SampleBlocks(PushedSamples):
    """Samples in memory, read in blocks as a file is.

    Parameters
    ----------
    samples : array_like or Tensor, shape = (n,) or (n, channels)
        Floating-point samples in [-1, 1]; or int16, int32 or uint8, scaled by the range of their type.
    rate : int
        Hz.
    model_rate : int
        Rate of the blocks, Hz.

    Raises
    ------
    InputError
        The samples or the rate cannot be those of a recording.
    """

    def __init__(self, samples: Any, rate: Any, model_rate: int) -> None:
        super().__init__(rate, model_rate)
        self.put(samples)
        self.ended = True


# A recording that is read in blocks, mono, at the model's rate; its length is known at the end.
AudioBlocks = sound_file.Blocks | PushedSamples


def mono_blocks(wave: Samples) -> Iterator[Samples]:
    """Cut samples, shape = (n,) or (n, channels), into blocks; average the channels."""
    for start in range(0, len(wave), BLOCK):
        block = wave[start : start + BLOCK]
        yield np.ascontiguousarray(block) if block.ndim == 1 else block.mean(axis=1, dtype=np.float32)


def checked_rate(rate: Any) -> int:
    """Return a rate in Hz as an int.

    Raises
    ------
    InputError
        The rate is None, not a whole number, or below 1 kHz.
    """
    fix = "give the samples a second as a whole number: decode(samples, 16000)"
    if rate is None:
        raise InputError("samples without a rate", fix)
    try:
        whole = int(rate)
        right = whole == rate and not isinstance(rate, (bool, str))
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right or whole < MIN_RATE:
        raise InputError(f"{rate!r} is not a rate in Hz", fix)
    return whole


def checked_samples(samples: Any) -> Samples:
    """Return samples as float32, shape = (n,) or (n, channels).

    Raises
    ------
    InputError
        The samples have no type or shape that `SampleBlocks` takes, or are not all finite.
    """
    wave = np.asarray(samples.detach().cpu() if hasattr(samples, "detach") else samples)
    if wave.ndim not in (1, 2):
        raise InputError(f"samples of shape {wave.shape}", "give (n,) of one channel, or (n, channels)")
    if wave.ndim == 2 and (wave.shape[1] > min(wave.shape[0], MAX_CHANNELS) or wave.shape[1] == 0):
        what = f"samples of shape {wave.shape}: not (n, channels)"
        raise InputError(what, "transpose them if channels come first: samples.T")
    wave = _scaled(wave)
    if not np.isfinite(wave).all():
        raise InputError("samples that are not all finite numbers", "remove NaN and inf")
    peak = float(np.abs(wave).max(initial=0.0))
    if peak > LOUDEST:
        what = f"floating-point samples up to {peak:g}"
        raise InputError(what, "scale them to [-1, 1]: those of 16 bits are divided by 32768")
    return wave


def _scaled(wave: NDArray[Any]) -> Samples:
    if wave.dtype.kind == "f":
        return wave.astype(np.float32)
    if wave.dtype in (np.int16, np.int32):
        return (wave / np.float64(2 ** (8 * wave.dtype.itemsize - 1))).astype(np.float32)
    if wave.dtype == np.uint8:
        return ((wave - np.float64(128)) / 128).astype(np.float32)
    raise InputError(f"samples of type {wave.dtype}", "give floating-point numbers in [-1, 1], or int16")
