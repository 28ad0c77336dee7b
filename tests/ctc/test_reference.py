"""The float64 reference against the definition: the sum over all paths."""

import itertools

import numpy as np
import pytest

from speechctc.ctc.reference import forward_backward


def all_paths(logits: np.ndarray, labels: np.ndarray, blank: int) -> tuple[float, np.ndarray]:  # type: ignore[type-arg]
    """The probability of the labels, and with which of it each class is on a path in each frame."""
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    frames, classes = logits.shape
    mass, occupied = 0.0, np.zeros_like(logits)
    for path in itertools.product(range(classes), repeat=frames):
        collapsed = [c for c, _ in itertools.groupby(path) if c != blank]
        if collapsed == list(labels):
            weight = np.prod(p[range(frames), path])
            mass += weight
            occupied[range(frames), path] += weight
    return mass, occupied / mass if mass else occupied


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_all_paths(seed: int) -> None:
    random = np.random.default_rng(seed)
    frames, classes = random.integers(1, 6), random.integers(2, 5)
    blank = int(random.integers(classes))
    others = [c for c in range(classes) if c != blank]
    labels = random.choice(others, size=random.integers(0, 4))
    logits = random.normal(scale=3, size=(frames, classes))
    mass, occupied = all_paths(logits, labels, blank)
    loss, gradient, posteriors = forward_backward(logits, labels, blank)
    if mass == 0:
        assert loss == np.inf and not gradient.any() and not posteriors.any()
        return
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert loss == pytest.approx(-np.log(mass), rel=1e-12)
    np.testing.assert_allclose(gradient, softmax - occupied, atol=1e-12)
    np.testing.assert_allclose(posteriors.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(posteriors[:, 0::2].sum(axis=1), occupied[:, blank], atol=1e-12)
