"""What a boundary model is trained on: frames, the phones in order, and where each begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.alignment.boundary_net import SHIFT_MS, frame_of, frames_of
from speechctc.alignment.phone_vectors import SILENCE, Times, phone_vectors

LONGEST = 8.0
"""Longer utterances are divided into parts, seconds."""
GAP = 0.01  # seconds between two phones from which there is a silence between them
REACH = 0.4
"""How far from the true ones boundaries are looked at in training, seconds."""


class Example(NamedTuple):
    """A part of an utterance.

    Attributes
    ----------
    frames : Tensor, shape = (n_frames, MELS)
    vectors : Tensor, shape = (n_states, DIMS)
        Of its phones, with a silence between every two that may be left out.
    optional : ndarray, shape = (n_states,), bool
    low, high : ndarray, shape = (n_states,), int64
        As in `speechctc.alignment.boundary_lattice.Lattice`.
    state : ndarray, shape = (n_frames,), int64
        The true state of each frame.
    """

    frames: Tensor
    vectors: Tensor
    optional: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    state: NDArray[np.int64]


def examples_of(
    samples: NDArray[np.float32], rate: int, phones: Sequence[str], times: Times, closures: bool
) -> Iterator[Example]:
    """Yield the parts of an utterance; those in which a phone lasts less than a frame are left out.

    Parameters
    ----------
    samples : ndarray, shape = (n,), float32
    rate : int
        Hz.
    phones : sequence of str
        In IPA.
    times : sequence of (float, float)
        Start and end of each, seconds.
    closures : bool
        The phone set tells closures from releases.
    """
    whole = frames_of(samples, rate)
    first = 0
    for k in range(len(phones)):
        if k + 1 == len(phones) or times[k][1] - times[first][0] > LONGEST:
            begin = 0 if first == 0 else frame_of(times[first][0])
            end = len(whole) if k + 1 == len(phones) else frame_of(times[k][1])
            part = _example(whole[begin:end], begin, phones[first : k + 1], times[first : k + 1], closures)
            if part is not None:
                yield part
            first = k + 1


def _example(frames: Tensor, begin: int, phones: Sequence[str], times: Times, closures: bool) -> Example | None:
    labels, optional, entries = _states(phones, times, 0.0 if begin == 0 else times[0][0])
    count = len(frames)
    starts = [max(frame_of(start) - begin, 0) for _, start in entries]
    if not entries or any(b <= a for a, b in zip(starts, [*starts[1:], count], strict=True)):
        return None
    starts[0] = 0
    state = np.zeros(count, np.int64)
    for (place, _), start in zip(entries, starts, strict=True):
        state[start:] = place
    reach = round(1000 * REACH / SHIFT_MS)
    at = np.interp(np.arange(len(labels)), [place for place, _ in entries], starts)
    low = np.maximum(at - reach, 0).astype(np.int64)
    low[:2] = 0
    high = np.append(np.minimum(at[1:] + reach, count), count).astype(np.int64)
    high[-2:] = count
    return Example(frames, torch.from_numpy(phone_vectors(labels, closures)), optional, low, high, state)


def _states(
    phones: Sequence[str], times: Times, until: float
) -> tuple[list[str], NDArray[np.bool_], list[tuple[int, float]]]:
    """Return the states, which may be left out, and those that are there with their beginnings; all after `until`."""
    labels: list[str] = []
    entries: list[tuple[int, float]] = []
    for phone, (start, end) in zip(phones, times, strict=True):
        silent = labels[-1:] == [SILENCE]
        if phone == SILENCE and silent:
            until = end
            continue
        if not silent:
            labels.append(SILENCE)
            if phone == SILENCE or start - until > GAP:
                entries.append((len(labels) - 1, until if phone != SILENCE else start))
        if phone != SILENCE:
            labels.append(phone)
            entries.append((len(labels) - 1, start))
        until = end
    if labels and labels[-1] != SILENCE:
        labels.append(SILENCE)
    return labels, np.array([label == SILENCE for label in labels]), entries
