"""Samples in memory as a recording: checked, averaged over channels, resampled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.resampling import resample_blocks
from speechctc.audio.sound_file import BLOCK
from speechctc.errors import InputError

Samples = NDArray[np.float32]

LOUDEST = 8.0  # a sample beyond this is not on a scale where full scale is 1
LOWEST_RATE = 1000  # Hz; below it a rate was given in kHz
MOST_CHANNELS = 64
NAME = "samples"  # what a recording without a file is called in results


class Source(Protocol):
    """A recording that is read in blocks: an opened file, standard input, or samples in memory."""

    seconds: float

    def __iter__(self) -> Iterator[Samples]:
        """Yield mono samples at the model's rate."""


class SampleBlocks:
    """Samples in memory, read in the blocks in which a file is read.

    Parameters
    ----------
    samples : array_like or Tensor, shape = (n,) or (n, channels)
        Floating-point samples in [-1, 1]; or int16, int32 or uint8, whose full scale is that of their type.
    rate : int
        Hz.
    wanted : int
        Rate of the blocks, Hz.

    Attributes
    ----------
    seconds : float

    Raises
    ------
    InputError
        The samples or the rate cannot be those of a recording.
    """

    def __init__(self, samples: Any, rate: Any, wanted: int) -> None:
        self._rate, self._wanted = checked_rate(rate), wanted
        self._samples = checked_samples(samples)
        self.seconds = len(self._samples) / self._rate

    def __iter__(self) -> Iterator[Samples]:
        """Yield mono samples at the rate wanted."""
        return resample_blocks(self._blocks(), self._rate, self._wanted)

    def _blocks(self) -> Iterator[Samples]:
        for start in range(0, len(self._samples), BLOCK):
            block = self._samples[start : start + BLOCK]
            yield np.ascontiguousarray(block) if block.ndim == 1 else block.mean(axis=1, dtype=np.float32)


def checked_rate(rate: Any) -> int:
    """Return a rate in Hz as a whole number.

    Raises
    ------
    InputError
        It is none, not a whole number, or below 1 kHz.
    """
    fix = "give the samples a second as a whole number: decode(samples, 16000)"
    if rate is None:
        raise InputError("samples without their rate", fix)
    try:
        whole = int(rate)
        right = whole == rate and not isinstance(rate, (bool, str))
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right or whole < LOWEST_RATE:
        raise InputError(f"{rate!r} is not a rate in Hz", fix)
    return whole


def checked_samples(samples: Any) -> Samples:
    """Return samples as float32, shape = (n,) or (n, channels).

    Raises
    ------
    InputError
        They are not numbers in one of the forms that `SampleBlocks` takes, or not all finite.
    """
    wave = np.asarray(samples.detach().cpu() if hasattr(samples, "detach") else samples)
    if wave.ndim not in (1, 2):
        raise InputError(f"samples of shape {wave.shape}", "give (n,) of one channel, or (n, channels)")
    if wave.ndim == 2 and (wave.shape[1] > min(wave.shape[0], MOST_CHANNELS) or wave.shape[1] == 0):
        raise InputError(
            f"samples of shape {wave.shape}: not (n, channels)", "transpose them if channels come first: samples.T"
        )
    wave = _scaled(wave)
    if not np.isfinite(wave).all():
        raise InputError("samples that are not all finite numbers", "remove NaN and inf")
    peak = float(np.abs(wave).max(initial=0.0))
    if peak > LOUDEST:
        raise InputError(
            f"floating-point samples up to {peak:g}", "scale them to [-1, 1]: those of 16 bits are divided by 32768"
        )
    return wave


def _scaled(wave: NDArray[Any]) -> Samples:
    if wave.dtype.kind == "f":
        return wave.astype(np.float32)
    if wave.dtype in (np.int16, np.int32):
        return (wave / np.float64(2 ** (8 * wave.dtype.itemsize - 1))).astype(np.float32)
    if wave.dtype == np.uint8:
        return ((wave - np.float64(128)) / 128).astype(np.float32)
    raise InputError(f"samples of type {wave.dtype}", "give floating-point numbers in [-1, 1], or int16")
