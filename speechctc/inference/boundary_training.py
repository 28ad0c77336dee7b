"""Trains a boundary model on phones with times: its examples, and its steps.

The loss is minus the log probability of the true way through the lattice of all ways. Its gradient in each score is a
probability from forward-backward less 1 where the true way passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from speechctc.core.optimizers import AdamW
from speechctc.inference.boundary_model import (
    CHANNELS,
    DIMS,
    MELS,
    RANK,
    SCALE,
    SHARE,
    SHIFT_MS,
    SILENCE,
    UNRELEASED,
    WINDOW_MS,
    Floats,
    Lattice,
    Times,
    frames_of,
    is_stop,
    later,
    marginals,
    phone_vectors,
)

BATCH = 12
STEPS = 400  # steps of the optimiser; no example is used more than `MAX_USES` times, or `MAX_USES_FINE_TUNING` times
MAX_USES, MAX_USES_FINE_TUNING = 12, 24
LR, FURTHER_LR = 4e-3, 3e-3
KEPT = 0.3  # share of the weights from before in those of a net that learns further
NOISE_DB = (15.0, 60.0)  # how far noise that is added is below the loudest parts of the speech

MIN_BOUNDARIES = 40  # boundaries that tell what spread is right

Scores = tuple[Tensor, Tensor, Tensor]

MAX_SECONDS = 8.0  # longer utterances are divided into parts, seconds
GAP = 0.01  # seconds between two phones from which there is a silence between them
REACH = 0.4  # how far from the true ones boundaries are looked at in training, seconds


class BoundaryNet(nn.Module):
    """What `speechctc.inference.boundary_model.scores` computes, to be trained."""

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
        """Return the scores of a `speechctc.inference.boundary_model.Lattice`, each (n_frames, n_states).

        Parameters
        ----------
        inside, change : Tensor, shape = (n_frames, RANK)
            From `forward`, of one recording.
        vectors : Tensor, shape = (n_states, DIMS)
            Of the phones in order.
        """
        phones = self.phone(vectors)
        moved = [torch.from_numpy(later(vectors.numpy(), by)) for by in (1, 2)]
        pairs = [self.pair(torch.cat([each, vectors], 1)) for each in moved]
        first, second = (change @ pair[:, :-1].T + pair[:, -1] for pair in pairs)
        return inside @ phones[:, :-1].T + phones[:, -1], first, second


def train(
    net: BoundaryNet,
    examples: Sequence[Example],
    seed: int = 0,
    further: bool = False,
    noise: bool = True,
    advance: Callable[[float], None] | None = None,
) -> None:
    """Train a net.

    Parameters
    ----------
    net : BoundaryNet
    examples : sequence of Example
    seed : int
        Of the order and the noise.
    further : bool
        The net has learned from other speech before; its weights are then the mean of those from before and new ones.
    noise : bool
        Add noise at random levels.
    advance : callable, optional
        Called after each step with the mean loss of a phone, nats.
    """
    rng = np.random.default_rng(seed)
    steps, before = step_count(len(examples), further), [each.detach().clone() for each in net.parameters()]
    rate = FURTHER_LR if further else LR
    optimiser = AdamW([{"params": [*net.parameters()], "weight_decay": 1e-3}], rate)
    net.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for step, batch in enumerate(_batches(examples, steps, rng)):
            loss, value = _loss(net, batch, rng if noise else None)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            optimiser.param_groups[0].update(one_cycle(step, steps, rate))
            optimiser.step()
            if advance is not None:
                advance(value)
    for weights, old in zip(net.parameters(), before, strict=True):
        weights.data.lerp_(old, KEPT if further else 0.0)
    net.eval()


def step_count(examples: int, further: bool = False) -> int:
    """Return the number of steps that `train` takes."""
    most = MAX_USES_FINE_TUNING if further else MAX_USES
    return max(min(STEPS, math.ceil(most * examples / BATCH)), 2)


def one_cycle(step: int, steps: int, rate: float) -> dict[str, float]:
    """Return the learning rate and Adam's first constant of a step: the one rises to `rate`, the other falls, and back.

    Both go along half a cosine, as in `torch.optim.lr_scheduler.OneCycleLR` (Smith and Topin 2017, arXiv 1708.07120).
    """
    top, last = 0.15 * steps - 1, steps - 1
    begins, ends = (1e-4 / 25, (step - top) / (last - top)) if step > top else (1 / 25, 1 - step / top)
    away = (1 - math.cos(math.pi * ends)) / 2  # 0 at the top, 1 at either end
    return {"lr": rate * (1 + (begins - 1) * away), "beta1": 0.85 + 0.1 * away}


def _batches(examples: Sequence[Example], steps: int, rng: np.random.Generator) -> Iterator[list[Example]]:
    """Yield batches of examples of similar length."""
    done = 0
    while True:
        lengths = np.array([len(each.frames) for each in examples]) + rng.uniform(0, 60, len(examples))
        order = np.argsort(lengths)
        starts = np.arange(0, len(order), BATCH)
        for start in rng.permutation(starts):
            if done == steps:
                return
            done += 1
            yield [examples[k] for k in order[start : start + BATCH]]


def _loss(net: BoundaryNet, batch: Sequence[Example], rng: np.random.Generator | None) -> tuple[Tensor, float]:
    """Return a number with the gradient of the loss, and the loss; both for each phone."""
    frames = [_noisy(each.frames, rng) if rng else each.frames for each in batch]
    said, changes = net(nn.utils.rnn.pad_sequence(frames, batch_first=True))
    loss, value, phones = torch.zeros(()), 0.0, 0
    for k, each in enumerate(batch):
        scores = net.scores(said[k, : len(frames[k])], changes[k, : len(frames[k])], each.vectors)
        gradients, minus_log = _gradients(scores, each)
        for score, gradient in zip(scores, gradients, strict=True):
            loss = loss + (score * gradient).sum()
        value += minus_log
        phones += int((~each.optional).sum())
    return loss / max(phones, 1), value / max(phones, 1)


def _gradients(scores: Scores, example: Example) -> tuple[Scores, float]:
    """Return the gradient of the loss in each score, and the loss."""
    inside, entered, skipped = (score.detach().double().numpy() for score in scores)
    found = marginals(Lattice(inside, entered, skipped, example.optional, example.low, example.high))
    gradients = [each.copy() for each in found[1:]]
    rows = np.arange(len(example.state))
    true = inside[rows, example.state].sum()
    gradients[0][rows, example.state] -= 1.0
    step = np.diff(example.state, prepend=example.state[0])
    for kind, score in ((1, entered), (2, skipped)):
        at = np.flatnonzero(step == kind)
        true += score[at, example.state[at]].sum()
        gradients[kind][at, example.state[at]] -= 1.0
    first, second, third = (torch.from_numpy(each.astype(np.float32)) for each in gradients)
    return (first, second, third), float(found.total - true)


def _noisy(frames: Tensor, rng: np.random.Generator) -> Tensor:
    """Return log energies with stationary noise of a random level and slope, and as through a random filter."""
    values: NDArray[np.float64] = frames.double().numpy() * SCALE
    bands = values.shape[1]
    level = np.percentile(values, 95) - rng.uniform(*NOISE_DB) * math.log(10) / 10
    floor = level + np.linspace(-1, 1, bands) * rng.uniform(-2, 2)
    noisy = np.logaddexp(values, floor + np.log(rng.gamma(4, 0.25, values.shape)))
    noisy += np.cumsum(rng.normal(0, 0.15, bands))
    return torch.from_numpy((noisy / SCALE).astype(np.float32))


def spread_for(errors: Floats, intervals: Floats, spread: float) -> float | None:
    """Return the spread with which `SHARE` of boundaries lie in their intervals; None for too few to tell.

    Parameters
    ----------
    errors : ndarray, shape = (n,)
        By how much each boundary was placed too late, seconds.
    intervals : ndarray, shape = (n, 2)
        How far each interval reaches before and after the boundary, seconds, with the spread `spread`.
    spread : float
    """
    if len(errors) < MIN_BOUNDARIES:
        return None
    sides = np.where(errors > 0, intervals[:, 0], intervals[:, 1])
    return float(spread * np.quantile(np.abs(errors) / np.maximum(sides, 1e-4), SHARE))


def joined(phones: Sequence[str], times: Times) -> tuple[tuple[str, ...], Times]:
    """Return phones in IPA, with each closure and the stop after it as one phone, from the closure's start.

    A closure without a release becomes the stop.
    """
    labels: list[str] = []
    spans: list[tuple[float, float]] = []
    open_until = None
    for phone, (start, end) in zip(phones, times, strict=True):
        if open_until == start and is_stop(phone):
            labels[-1], spans[-1] = phone, (spans[-1][0], end)
            open_until = None
            continue
        open_until = end if UNRELEASED in phone else None
        labels.append(phone.replace(UNRELEASED, ""))
        spans.append((start, end))
    return tuple(labels), tuple(spans)


def frame_of(seconds: float) -> int:
    """Return the first frame whose middle is after a time."""
    return max(round((seconds - WINDOW_MS / 2000) / (SHIFT_MS / 1000) + 0.5), 0)


class Example(NamedTuple):
    """A part of an utterance.

    Attributes
    ----------
    frames : Tensor, shape = (n_frames, MELS)
    vectors : Tensor, shape = (n_states, DIMS)
        Of its phones, with a silence between every two that may be left out.
    optional : ndarray, shape = (n_states,), bool
    low, high : ndarray, shape = (n_states,), int64
        As in `speechctc.inference.boundary_model.Lattice`.
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
    whole = torch.from_numpy(frames_of(samples, rate))
    first = 0
    for k in range(len(phones)):
        if k + 1 == len(phones) or times[k][1] - times[first][0] > MAX_SECONDS:
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
