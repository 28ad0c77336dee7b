"""The net: phones as vectors of features, scores of phones in frames, and of boundaries between two at frames."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from speechctc.config.schema import FeatureConfig
from speechctc.features.extractor import extractor
from speechctc.features.filterbank import sliding_cmn_one, static_features
from speechctc.phones.articulation import Sound, sounds_of
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import ipa, is_arpabet

MELS = 32
SHIFT_MS = 5.0
WINDOW_MS = 16.0
CENTER_MS = 1500.0
"""How far before and after a frame the mean reaches that is subtracted from it."""
CONTEXT = 2.5
"""Seconds of sound before and after a frame that it depends on: those of the mean, and of the weights in it."""
SCALE = 3.0  # nats; the deviation of log energies is of this size
CHANNELS, RANK = 48, 24

Floats = NDArray[np.float64]

Vectors = NDArray[np.float32]
Times = tuple[tuple[float, float], ...]

SILENCE = "sil"
UNRELEASED = "\u031a"
"""The mark of a closure without release, in IPA; TIMIT's ``tcl`` is ``t̚``."""
_STOP = 6.0  # closeness of the mouth from which a consonant is a stop
_MARKS = 4
_EACH = 12  # numbers for a sound
DIMS = _MARKS + 2 * _EACH + 1


def feature_config(rate: int) -> FeatureConfig:
    """Return the analysis of the net's input, for samples at `rate`, Hz."""
    return FeatureConfig(
        sample_rate=rate,
        window_ms=WINDOW_MS,
        shift_ms=SHIFT_MS,
        mels=MELS,
        energy=False,
        deltas=0,
        center_ms=(CENTER_MS, CENTER_MS),
    )


def frames_of(samples: NDArray[np.float32], rate: int, context: tuple[float, float] = (0.0, 0.0)) -> Tensor:
    """Return log mel energies less their sliding mean, shape (n_frames, MELS), of samples in [-1, 1].

    Parameters
    ----------
    samples : ndarray, shape = (n,), float32
    rate : int
        Hz.
    context : (float, float)
        Seconds at the start and at the end whose frames count for the mean only, and are not returned.
    """
    config = feature_config(rate)
    frames = sliding_cmn_one(static_features(torch.from_numpy(samples), config), config) / SCALE
    before, after = (round(seconds / step_of(rate)) for seconds in context)
    return frames[before : len(frames) - after]


def step_of(rate: int) -> float:
    """Return the seconds from one frame to the next of samples at `rate`, Hz."""
    return extractor(feature_config(rate)).shift / rate


def time_of(frame: Floats | NDArray[np.int64]) -> Floats:
    """Return when a state begins whose first frame this is, seconds: half way from the middle of the frame before."""
    times: Floats = np.asarray((frame - 0.5) * (SHIFT_MS / 1000) + WINDOW_MS / 2000, np.float64)
    return times


def frame_of(seconds: float) -> int:
    """Return the first frame whose middle is after a time."""
    return max(round((seconds - WINDOW_MS / 2000) / (SHIFT_MS / 1000) + 0.5), 0)


class BoundaryNet(nn.Module):
    """Three convolutions over 145 ms, and two bilinear forms: frame by phone, and frame by pair of phones.

    A phone is given as a vector (see `speechctc.alignment.boundary_net`), so there are no weights of any phone set.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = (MELS, CHANNELS, CHANNELS)
        self.convs = nn.ModuleList(
            nn.Conv1d(width, CHANNELS, 5, padding=2 * 2**k, dilation=2**k) for k, width in enumerate(widths)
        )
        self.inside = nn.Conv1d(CHANNELS, RANK, 1)
        self.change = nn.Conv1d(CHANNELS, RANK, 3, padding=1)
        self.phone = nn.Sequential(nn.Linear(DIMS, 32), nn.ReLU(), nn.Linear(32, RANK + 1))
        self.pair = nn.Sequential(nn.Linear(2 * DIMS, 48), nn.ReLU(), nn.Linear(48, RANK + 1))
        self.dropout = nn.Dropout(0.1)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return what frames, (n_batch, n_frames, MELS), say of phones and of boundaries: (n_batch, n_frames, RANK)."""
        hidden = frames.transpose(1, 2)
        for k, conv in enumerate(self.convs):
            above = torch.relu(conv(hidden))
            hidden = self.dropout(hidden + above if k else above)
        return self.inside(hidden).transpose(1, 2), self.change(hidden).transpose(1, 2)

    def scores(self, inside: Tensor, change: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of a `speechctc.alignment.boundary_lattice.Lattice`, each (n_frames, n_states).

        Parameters
        ----------
        inside, change : Tensor, shape = (n_frames, RANK)
            From `forward`, of one recording.
        vectors : Tensor, shape = (n_states, DIMS)
            Of the phones in order.
        """
        phones = self.phone(vectors)
        pairs = [self.pair(torch.cat([_later(vectors, by), vectors], 1)) for by in (1, 2)]
        first, second = (change @ pair[:, :-1].T + pair[:, -1] for pair in pairs)
        return inside @ phones[:, :-1].T + phones[:, -1], first, second


def _later(vectors: Tensor, by: int) -> Tensor:
    """Return the vectors moved to later places; the first are repeated, and no arc uses them."""
    return torch.cat([vectors[:by], vectors[:-by]])[: len(vectors)]


def spelled(phones: Sequence[str], arpabet: bool) -> tuple[str, ...]:
    """Return labels in IPA, and every silence as `SILENCE`; labels that are neither stay as they are."""
    return tuple(SILENCE if phone in SILENCES else ipa(phone, arpabet)[0] for phone in phones)


def has_closures(phones: Sequence[str]) -> bool:
    """Return whether a phone set tells the closure of a stop from its release, as TIMIT's does."""
    return any(UNRELEASED in phone for phone in spelled(phones, is_arpabet(phones)))


def joined(phones: Sequence[str], times: Times) -> tuple[tuple[str, ...], Times]:
    """Return phones in IPA, with each closure and the stop after it as one phone, from the closure's start.

    A closure without a release becomes the stop.
    """
    labels: list[str] = []
    spans: list[tuple[float, float]] = []
    open_until = None
    for phone, (start, end) in zip(phones, times, strict=True):
        if open_until == start and _is_stop(phone):
            labels[-1], spans[-1] = phone, (spans[-1][0], end)
            open_until = None
            continue
        open_until = end if UNRELEASED in phone else None
        labels.append(phone.replace(UNRELEASED, ""))
        spans.append((start, end))
    return tuple(labels), tuple(spans)


def phone_vectors(phones: Sequence[str], closures: bool) -> Vectors:
    """Return a vector for each phone.

    Parameters
    ----------
    phones : sequence of str
        In IPA, as `spelled` returns them.
    closures : bool
        The set has closures (see `has_closures`), so that its other stops are releases.

    Returns
    -------
    ndarray, shape = (n, DIMS), float32
        Silence, closure, unknown and release; the features of the first and of the last sound; length.
    """
    return np.array([_vector(phone, closures) for phone in phones], np.float32).reshape(-1, DIMS)


def _vector(phone: str, closures: bool) -> list[float]:
    sounds = () if phone == SILENCE else sounds_of(phone)
    closure = UNRELEASED in phone
    release = closures and not closure and _is_stop(phone)
    marks = [phone == SILENCE, closure, phone != SILENCE and not sounds, release]
    features = [number for sound in sounds for number in _features(sound)] or _signature(phone)
    return [*map(float, marks), *features, float("ː" in phone)]


def _signature(phone: str) -> list[float]:
    """Return numbers that tell a label that is not IPA from others; silence has none."""
    digest = hashlib.sha256(phone.encode()).digest()[: 2 * _EACH]
    return [0.0 if phone == SILENCE else 1.0 if byte % 2 else -1.0 for byte in digest]


def _features(sound: Sound) -> list[float]:
    """Return the features of a sound, each about from -3 to 3."""
    closeness = sound.closeness / 3
    place = (0.0, sound.place - 7.0, closeness) if sound.vowel else (sound.place / 5, 0.0, 0.0)
    names = ("voiced", "rounded", "nasal", "lateral", "rhotic", "sibilant", "other")
    return [float(sound.vowel), closeness, *place, *(float(getattr(sound, name)) for name in names)]


def _is_stop(phone: str) -> bool:
    """Return whether a phone begins with a stop that has a release."""
    sounds = sounds_of(phone)
    return bool(sounds) and UNRELEASED not in phone and not sounds[0].vowel and sounds[0].closeness >= _STOP
