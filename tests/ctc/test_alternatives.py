"""Probabilities of changed label sequences, against all alignments and against the loss of each sequence."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from speechctc.ctc import ctc_loss
from speechctc.ctc.alternatives import Alternatives, alternatives
from speechctc.ctc.reference import forward_backward

Array = NDArray[np.float64]


def random_rows(frames: int, classes: int, seed: int, spread: float = 2.0) -> Array:
    """Return random log posteriors."""
    logits = np.random.default_rng(seed).normal(size=(frames, classes)) * spread
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


def changed(labels: list[int], classes: int) -> dict[tuple[str, int, int], list[int]]:
    """Return all label sequences that differ in one place, by kind, place and class."""
    found = {}
    for i in range(len(labels)):
        found["deleted", i, 0] = labels[:i] + labels[i + 1 :]
        for k in range(1, classes):
            found["substituted", i, k] = [*labels[:i], k, *labels[i + 1 :]]
    for i, k in product(range(len(labels) + 1), range(1, classes)):
        found["inserted", i, k] = [*labels[:i], k, *labels[i:]]
    return found


def value(found: Alternatives, kind: str, place: int, label: int) -> float:
    """Return what was computed for one of them."""
    return float(found.deleted[place] if kind == "deleted" else getattr(found, kind)[place, label])


def by_all_paths(log_p: Array) -> dict[tuple[int, ...], float]:
    """Return the log probability of each label sequence, summed over all alignments."""
    found: dict[tuple[int, ...], float] = {}
    for path in product(range(log_p.shape[1]), repeat=len(log_p)):
        labels = tuple(k for k, _ in groupby(path) if k)
        total = float(sum(log_p[t, k] for t, k in enumerate(path)))
        found[labels] = float(np.logaddexp(found.get(labels, -np.inf), total))
    return found


@pytest.mark.parametrize(
    ("frames", "classes", "labels"),
    [(5, 3, [1, 2]), (5, 3, [1, 1]), (6, 3, [2, 1, 2]), (4, 3, [1]), (1, 3, [2]), (3, 4, [1, 2, 3]), (5, 4, [3, 3, 1])],
)
def test_all_alignments_of_tiny_lattices(frames: int, classes: int, labels: list[int]) -> None:
    log_p = random_rows(frames, classes, frames)
    found, every = alternatives(log_p, np.array(labels)), by_all_paths(log_p)
    assert found is not None and found.log_likelihood == pytest.approx(every[tuple(labels)], abs=1e-12)
    for key, sequence in changed(labels, classes).items():
        assert value(found, *key) == pytest.approx(every.get(tuple(sequence), -np.inf), abs=1e-12), key
    assert np.isneginf(found.substituted[:, 0]).all() and np.isneginf(found.inserted[:, 0]).all()


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_the_loss_of_each_changed_transcript(spread: float) -> None:
    log_p, labels = random_rows(40, 6, 3, spread), [1, 2, 2, 5, 3, 2, 1, 1, 4]
    found = alternatives(log_p, np.array(labels))
    assert found is not None
    every = changed(labels, 6)
    lengths = torch.tensor([len(each) for each in every.values()])
    targets = torch.tensor([label for each in every.values() for label in each])
    logits = torch.from_numpy(log_p)[:, None].expand(-1, len(every), -1).contiguous()
    losses = ctc_loss(logits, targets, torch.full((len(every),), 40), lengths, reduction="none")
    for key, loss in zip(every, losses.tolist(), strict=True):
        assert value(found, *key) == pytest.approx(-loss, rel=1e-9), key


def test_occupancy_is_the_sum_of_the_posteriors() -> None:
    log_p, labels = random_rows(30, 5, 1), np.array([1, 4, 4, 2])
    found = alternatives(log_p, labels)
    _, _, posteriors = forward_backward(log_p, labels, 0)
    assert found is not None
    np.testing.assert_allclose(found.occupancy, posteriors[:, 1::2].sum(axis=0), rtol=1e-9)


def test_labels_that_do_not_fit_have_none() -> None:
    log_p = random_rows(3, 4, 0)
    assert alternatives(log_p, np.array([1, 1, 2])) is None and alternatives(log_p, np.array([], int)) is None
    impossible = log_p.copy()
    impossible[:, 2] = -np.inf
    assert alternatives(impossible, np.array([2])) is None
    seen = alternatives(impossible, np.array([1]))
    assert seen is not None and np.isneginf(seen.substituted[0, 2]) and np.isfinite(seen.deleted[0])
