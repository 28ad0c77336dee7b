"""Phones as vectors of articulatory features, so that a net learns from one phone set and is used with another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from speechctc.phones.articulation import Sound, sounds_of
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import ipa, is_arpabet

Vectors = NDArray[np.float32]
Times = tuple[tuple[float, float], ...]

SILENCE = "sil"
UNRELEASED = "\u031a"
"""The mark of a closure without release, in IPA; TIMIT's ``tcl`` is ``t̚``."""
_STOP = 6.0  # closeness of the mouth from which a consonant is a stop
_MARKS = 4
_EACH = 12  # numbers for a sound
DIMS = _MARKS + 2 * _EACH + 1


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
