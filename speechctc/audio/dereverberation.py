"""Dereverberation by weighted prediction error (WPE): take the late reverberation of a room off one channel.

In each band of a short-time Fourier transform, the late reverberation of a frame is what a linear filter predicts from
frames at least `DELAY` before it. The filter has the least squared error relative to the power of the speech, which is
estimated in turns with it (Nakatani et al. 2010, IEEE Trans. ASLP 18(7), sections III and IV, for one microphone; the
power is smoothed over frames).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.resampling import in_windows

Samples = NDArray[np.float32]
When = Literal["auto", "always", "never"]

Bands = NDArray[np.complex64]  # of a short-time Fourier transform, shape (bands, frames)

HOP = 0.016  # seconds between frames, about; a frame is twice as long
DELAY = 2  # frames; a filter that reached closer would take off the speech too
TAPS = 16  # frames that it predicts from: 256 ms
ITERATIONS = 3
SMOOTHING = 3  # frames that the power of speech is averaged over
LOADING = 1e-6  # share of the mean power that is added to the diagonal of the correlations
AT_ONCE = 16  # bands that are worked on at a time: bounds the memory

# Limits of the level of late reverberation below the sound. In rooms (reverberation times of 0.3 to 0.9 s, the voice at
# most 5 dB above the room) a second has less than the higher one, and near the microphone more; benchmarks/trials has
# the distributions. A filter also fits what is there by chance, the more the shorter the sound: so the higher limit
# rises with the length, as the power of chance falls. Steady tones, which are predicted as a whole, have less than the
# lower one. Speech with a weaker hum lies between, and is helped as well.
STEADY_DB, DRY_DB = 5.0, 12.0
CHANGE_DB = 6.0  # the tenth of the frames that are loudest is so far above the tenth that is softest; noise is steady
TAKEN = "reverberation or hum was taken off a copy first"  # what a user is told
SHORTEST = 2.0  # seconds; a shorter stretch is predicted from chance, and words said alone would suffer
MEASURED, EVERY = (300.0, 3400.0), 8  # Hz; reverberation is measured in every eighth of these bands

WINDOW, BEHIND, AHEAD = 20, 2, 1  # seconds that have one filter, and the seconds before and after that it learns from


class AudioBlocks(Protocol):
    """A recording that is read in blocks, mono, at the model's rate; `seconds` is its length, known at the end."""

    @property
    def seconds(self) -> float: ...  # noqa: D102

    def __iter__(self) -> Iterator[Samples]: ...  # noqa: D105


class Dereverberated:
    """A recording in blocks whose late reverberation is taken off, in windows of `WINDOW` seconds.

    Parameters
    ----------
    blocks : AudioBlocks
    rate : int
        Of its samples, Hz.
    when : str
        ``"auto"``: where a window has at least `SHORTEST` seconds, and `is_reverberant`. ``"always"``; or ``"never"``.

    Attributes
    ----------
    changed : bool
        Whether anything was taken off so far.
    """

    def __init__(self, blocks: AudioBlocks, rate: int, when: When) -> None:
        self._blocks, self._rate, self._when, self.changed = blocks, rate, when, False

    @property
    def seconds(self) -> float:
        """Length of what was read so far."""
        return self._blocks.seconds

    def __iter__(self) -> Iterator[Samples]:
        """Yield samples; an empty block at once, as `in_windows` does."""
        if self._when == "never":
            return iter(self._blocks)
        behind, ahead, size = (each * self._rate for each in (BEHIND, AHEAD, WINDOW))
        return in_windows(self._blocks, self._cleaned, behind, ahead, size)

    def _cleaned(self, samples: Samples) -> Samples:
        if not len(samples) or (self._when == "auto" and not is_reverberant(samples, self._rate)):
            return samples
        clean = dereverberate(samples, self._rate)
        self.changed = self.changed or not np.array_equal(clean, samples)
        return clean


class _Whole:
    """Samples in memory, as one block."""

    def __init__(self, samples: Samples, rate: int) -> None:
        self._samples, self.seconds = samples, len(samples) / rate

    def __iter__(self) -> Iterator[Samples]:
        return iter([self._samples])


def as_decoded(samples: Samples, rate: int, when: When) -> Samples:
    """Return samples as recognition hears them: with their late reverberation taken off, by the same windows."""
    return np.concatenate([*Dereverberated(_Whole(samples, rate), rate, when)]) if len(samples) else samples


def is_reverberant(samples: Samples, rate: int) -> bool:
    """Return whether a recording has much late reverberation; of a short one that is not known."""
    seconds = len(samples) / rate
    if seconds < SHORTEST:
        return False
    bands = measured_bands(samples, rate)
    soft, loud = np.quantile(np.sum(np.abs(bands) ** 2, axis=0), [0.1, 0.9])
    changes = loud > soft * 10 ** (CHANGE_DB / 10)
    return bool(changes) and STEADY_DB <= reverberation_db(bands) < DRY_DB + 10 * math.log10(seconds)


def measured_bands(samples: Samples, rate: int) -> Bands:
    """Return the bands of a telephone."""
    first, last = (round(each * 2 * _hop(rate) / rate) for each in MEASURED)
    return _analysed(samples, _hop(rate))[first:last]


def reverberation_db(bands: Bands) -> float:
    """Return how far the late reverberation lies below the whole sound, dB: the less, the more of a room is heard.

    The power of speech is not smoothed, and every eighth band is looked at, so it takes a thousandth of the sound's
    time.
    """
    bands = bands[::EVERY]
    late = _late(bands, smoothing=1, iterations=2)
    whole, part = (float(np.sum(np.abs(each) ** 2, dtype=np.float64)) for each in (bands, late))
    return 10 * math.log10(whole / part) if part > 0 else math.inf


def dereverberate(samples: Samples, rate: int) -> Samples:
    """Return a recording without its late reverberation.

    Parameters
    ----------
    samples : ndarray, shape = (n,), float32
    rate : int
        Hz.
    """
    bands = _analysed(samples, _hop(rate))
    late = [_late(bands[k : k + AT_ONCE], SMOOTHING, ITERATIONS) for k in range(0, len(bands), AT_ONCE)]
    return _synthesised(bands - np.concatenate(late), _hop(rate), len(samples))


def _late(bands: Bands, smoothing: int, iterations: int) -> Bands:
    """Return the late reverberation in bands of a recording."""
    padded = np.pad(bands, ((0, 0), (DELAY + TAPS - 1, 0)))
    past = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, bands.shape[1], axis=1)[:, :TAPS])
    adjoint, late = past.conj().transpose(0, 2, 1), np.zeros_like(bands)
    for _ in range(iterations):
        weighted = past / _power(bands - late, smoothing)[:, None]
        correlations = weighted @ adjoint
        loading = LOADING * np.einsum("bkk->b", correlations).real / TAPS + 1e-20
        correlations += loading[:, None, None] * np.eye(TAPS, dtype=np.float32)
        filters = np.linalg.solve(correlations, weighted @ bands.conj()[:, :, None])
        late = np.asarray((filters.conj().transpose(0, 2, 1) @ past)[:, 0], np.complex64)
    return late


def _power(bands: Bands, smoothing: int) -> NDArray[np.float32]:
    """Return the power of bands, a mean over frames, and not below 1e-10 of the largest."""
    power: NDArray[np.float64] = np.abs(bands).astype(np.float64) ** 2
    if smoothing > 1:
        side = smoothing // 2
        sums = np.cumsum(np.pad(power, ((0, 0), (side + 1, side))), axis=1)
        power = (sums[:, smoothing:] - sums[:, :-smoothing]) / smoothing
    floored: NDArray[np.float64] = np.maximum(power, 1e-10 * power.max(initial=0) + 1e-20)
    return floored.astype(np.float32)


def _hop(rate: int) -> int:
    """Return samples between frames, a power of two for the sake of other transforms."""
    return int(2 ** round(math.log2(HOP * rate)))


def _window(hop: int) -> NDArray[np.float32]:
    """Return the square root of a Hann window of two hops, by which both transforms weigh frames."""
    return np.sin(np.pi * np.arange(2 * hop) / (2 * hop)).astype(np.float32)


def _analysed(samples: Samples, hop: int) -> Bands:
    """Return a short-time Fourier transform in frames of two hops, the first half of which precedes the sound.

    The mean of the samples, which would leak into all bands, is left out.
    """
    count = -(-len(samples) // hop)
    padded = np.zeros((count + 2) * hop, np.float32)
    padded[hop : hop + len(samples)] = samples - samples.mean() if len(samples) else samples
    frames = np.lib.stride_tricks.sliding_window_view(padded, 2 * hop)[::hop] * _window(hop)
    return np.ascontiguousarray(np.fft.rfft(frames, axis=1).T.astype(np.complex64))


def _synthesised(bands: Bands, hop: int, count: int) -> Samples:
    """Return the first `count` samples of a short-time Fourier transform."""
    frames = np.fft.irfft(bands.T, 2 * hop, axis=1) * _window(hop)
    halves = np.zeros((len(frames) + 1, hop))
    halves[:-1] += frames[:, :hop]
    halves[1:] += frames[:, hop:]
    return halves.ravel()[hop : hop + count].astype(np.float32)
