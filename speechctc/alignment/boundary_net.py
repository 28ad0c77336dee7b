"""Phones as vectors of features, and the net's scores of phones in frames, and of boundaries between two at frames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from speechctc.config.schema import FeatureConfig
from speechctc.features.extractor import extractor
from speechctc.features.one_recording import sliding_cmn
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
Weights = Mapping[str, Vectors]
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
        cmn_window_ms=(CENTER_MS, CENTER_MS),
    )


def frames_of(samples: NDArray[np.float32], rate: int, context: tuple[float, float] = (0.0, 0.0)) -> Vectors:
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
    frames = sliding_cmn(extractor(config).static(samples), config) / np.float32(SCALE)
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


def weight_shapes() -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of the net."""
    layers: dict[str, tuple[int, ...]] = {
        f"convs.{k}": (CHANNELS, width, 5) for k, width in enumerate((MELS, CHANNELS, CHANNELS))
    }
    layers |= {"inside": (RANK, CHANNELS, 1), "change": (RANK, CHANNELS, 3)}
    layers |= {"phone.0": (32, DIMS), "phone.2": (RANK + 1, 32), "pair.0": (48, 2 * DIMS), "pair.2": (RANK + 1, 48)}
    biases = {f"{name}.bias": shape[:1] for name, shape in layers.items()}
    return {**{f"{name}.weight": shape for name, shape in layers.items()}, **biases}


def scores(weights: Weights, frames: Vectors, vectors: Vectors) -> tuple[Vectors, Vectors, Vectors]:
    """Return the scores of a `speechctc.alignment.boundary_model.Lattice`, each (n_frames, n_states).

    Three convolutions over 145 ms, and two bilinear forms: frame by phone, and frame by pair of phones. A phone is
    given as a vector, so there are no weights of any phone set. `boundary_training.BoundaryNet` is what is trained.

    Parameters
    ----------
    weights : mapping of str to ndarray
        Of `weight_shapes`.
    frames : ndarray, shape = (n_frames, MELS)
    vectors : ndarray, shape = (n_states, DIMS)
        Of the phones in order.
    """
    hidden = frames
    for k in range(3):
        above = np.maximum(_convolved(hidden, weights, f"convs.{k}", 2**k), 0)
        hidden = hidden + above if k else above
    inside, change = (_convolved(hidden, weights, name, 1) for name in ("inside", "change"))
    phones = _perceptron(vectors, weights, "phone")
    pairs = [_perceptron(np.concatenate([later(vectors, by), vectors], 1), weights, "pair") for by in (1, 2)]
    first, second = (change @ pair[:, :-1].T + pair[:, -1] for pair in pairs)
    return inside @ phones[:, :-1].T + phones[:, -1], first, second


def _convolved(x: Vectors, weights: Weights, name: str, dilation: int) -> Vectors:
    weight, result = weights[f"{name}.weight"], np.tile(weights[f"{name}.bias"], (len(x), 1))
    reach = weight.shape[2] // 2 * dilation
    padded = np.pad(x, ((reach, reach), (0, 0)))
    for k in range(weight.shape[2]):
        result += padded[k * dilation : k * dilation + len(x)] @ weight[:, :, k].T
    return result


def _perceptron(x: Vectors, weights: Weights, name: str) -> Vectors:
    hidden = np.maximum(x @ weights[f"{name}.0.weight"].T + weights[f"{name}.0.bias"], 0)
    result: Vectors = hidden @ weights[f"{name}.2.weight"].T + weights[f"{name}.2.bias"]
    return result


def later(vectors: Vectors, by: int) -> Vectors:
    """Return the vectors moved to later places; the first are repeated, and no arc uses them."""
    return np.concatenate([vectors[:by], vectors[:-by]])[: len(vectors)]


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
