"""Through what a recording came: the frequencies of the voice in it, its noise, and whether samples are cut off.

Scores of the same voice differ between microphones, codecs and rooms. Recordings are compared by what these change: the
spectrum of the frames with speech, and that of the quietest frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RATE = 16000  # Hz, of the samples
LONGEST = 120.0  # seconds that are looked at
SIZE, HOP = 512, 256  # samples of a frame, and from one to the next
EDGES = np.geomspace(120, 7800, 21)  # Hz, of the bands
SPEECH, QUIET = 0.5, 0.05  # share of the frames that are below speech, and that are noise
FAINT, SILENT = -60.0, -70.0  # dB below the speech: fainter speech, fainter noise count as this
THERE = -50.0  # dB below the speech in all, of a band in which there is speech
CUT = 0.99  # of the largest sample: those above are cut off, if
LEAST_CUT = 4  # as many in a row are
# From where on two sets of recordings are of other channels: root mean square of the difference of the spectra, dB;
# difference of the noise in any band, dB; of the shares of samples that are cut off. Halves of ten recordings of a
# learner (20 were chosen with) differ by more in 3 of 100 draws; in 95 to 100 if one half came by telephone, poor Opus,
# another microphone, with noise 20 or 30 dB below, or cut off. benchmarks/bench_channels has what is then called.
SPECTRUM, NOISE, CLIPPED = 4.0, 7.0, 0.002

Samples = NDArray[np.float32]
Values = NDArray[np.float64]


class Conditions(NamedTuple):
    """What is heard of the way of a recording.

    Attributes
    ----------
    spectrum : tuple of float
        Level of the speech in each band of `EDGES`, dB below that of all.
    noise : tuple of float
        Level of the quietest frames in each band, dB below the speech in all.
    clipped : float
        Share of the samples that are cut off.
    """

    spectrum: tuple[float, ...]
    noise: tuple[float, ...]
    clipped: float

    @property
    def band(self) -> tuple[float, float]:
        """The frequencies between which there is speech, Hz."""
        (there,) = np.nonzero(np.array(self.spectrum) > THERE)
        return (float(EDGES[there[0]]), float(EDGES[there[-1] + 1])) if len(there) else (0.0, 0.0)

    @property
    def floor(self) -> float:
        """The level of the noise, dB below the speech."""
        return float(10 * np.log10((10 ** (np.array(self.noise) / 10)).sum()))

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the JSON output: what people read first, then what is compared."""
        low, high = self.band
        told = {"from_hz": round(low), "to_hz": round(high), "noise_db": round(self.floor, 1)}
        compared = {
            "spectrum": [round(each, 1) for each in self.spectrum],
            "noise": [round(each, 1) for each in self.noise],
        }
        return told | {"clipped": round(self.clipped, 5)} | compared

    @classmethod
    def from_dict(cls, values: Any) -> Conditions:
        """Return the channel that `to_dict` wrote; a `ValueError` or its like says that it is none."""
        spectrum, noise = (tuple(map(float, values[key])) for key in ("spectrum", "noise"))
        if not len(spectrum) == len(noise) == len(EDGES) - 1:
            raise ValueError("not the bands of this version")
        return cls(spectrum, noise, float(values["clipped"]))


def measure(samples: Samples) -> Conditions | None:
    """Return the channel of a recording of `RATE`; None for one without sound, or of fewer than ten frames."""
    count = (len(samples) - SIZE) // HOP + 1
    if count < 10 or not np.any(samples):
        return None
    bands = _bands(samples, count)
    level = bands.sum(axis=1)
    speech = bands[level >= np.quantile(level, SPEECH)].mean(axis=0)
    whole = max(float(speech.sum()), 1e-20)
    return Conditions(
        tuple(_decibel(speech / whole, FAINT).tolist()),
        tuple(_decibel(np.quantile(bands, QUIET, axis=0) / whole, SILENT).tolist()),
        _clipped(samples),
    )


def _bands(samples: Samples, count: int) -> Values:
    """Return the power of each frame in each band, shape = (count, bands)."""
    window, frequencies = np.hanning(SIZE), np.fft.rfftfreq(SIZE, 1 / RATE)
    inside = [(frequencies >= low) & (frequencies < high) for low, high in zip(EDGES[:-1], EDGES[1:], strict=True)]
    into = np.stack(inside, axis=1).astype(np.float64)
    found = np.empty((count, into.shape[1]))
    frames = np.lib.stride_tricks.sliding_window_view(samples, SIZE)[::HOP]
    for start in range(0, count, 1000):
        found[start : start + 1000] = np.abs(np.fft.rfft(frames[start : start + 1000] * window)) ** 2 @ into
    return found


def _decibel(power: Values, least: float) -> Values:
    return np.asarray(np.maximum(10 * np.log10(np.maximum(power, 1e-20)), least))


def _clipped(samples: Samples) -> float:
    """Return the share of samples in rows of `LEAST_CUT` or more that are near the largest, on one side."""
    high = np.abs(samples) >= CUT * np.abs(samples).max()
    signed = np.where(high, np.sign(samples), 0)
    edges = np.flatnonzero(np.diff(signed, prepend=0, append=0))
    lengths = np.diff(edges)
    rows = lengths[signed[edges[:-1]] != 0]
    return float(rows[rows >= LEAST_CUT].sum() / len(samples))


def mean_of(channels: Sequence[Conditions]) -> Conditions | None:
    """Return the mean channel of recordings; None for none."""
    if not channels:
        return None
    spectrum, noise = (np.mean([each[k] for each in channels], axis=0).tolist() for k in (0, 1))
    return Conditions(tuple(spectrum), tuple(noise), float(np.mean([each.clipped for each in channels])))


def difference(one: Sequence[Conditions], other: Sequence[Conditions]) -> str:
    """Return in words how the channels of two sets of recordings differ, or ``""`` if they are alike."""
    means = [mean for part in (one, other) if (mean := mean_of(part))]
    if len(means) < 2:
        return "the microphone is not known" if means else ""
    spectra, noises = ([np.array(each[k]) for each in means] for k in (0, 1))
    found = []
    if np.sqrt(np.mean((spectra[0] - spectra[1]) ** 2)) > SPECTRUM:
        bands = " and ".join("{:.0f} to {:.0f} Hz".format(*each.band) for each in means)
        found.append(f"spectrum ({bands})" if means[0].band != means[1].band else "spectrum")
    if np.abs(noises[0] - noises[1]).max() > NOISE:
        found.append("noise ({:.0f} and {:.0f} dB)".format(*(each.floor for each in means)))
    if abs(means[0].clipped - means[1].clipped) > CLIPPED:
        found.append("samples cut off ({:.1f} and {:.1f} %)".format(*(100 * each.clipped for each in means)))
    return f"the recordings differ in {', '.join(found)}" if found else ""
