"""The lattice of boundaries against all ways, one by one."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from speechctc.inference.boundary_model import Lattice, marginals


def random_lattice(frames: int, optional: list[bool], seed: int) -> Lattice:
    rng = np.random.default_rng(seed)
    shape = (frames, len(optional))
    low, high = np.zeros(shape[1], np.int64), np.full(shape[1], frames)
    inside, entered, skipped = (rng.normal(0, 2, shape) for _ in range(3))
    return Lattice(inside, entered, skipped, np.array(optional), low, high)


def all_ways(lattice: Lattice) -> dict[tuple[int, ...], float]:
    """Return the score of every way by its state in each frame."""
    frames, states = lattice.inside.shape
    ways = {}
    for way in product(range(states), repeat=frames):
        steps = np.diff(way)
        begins = way[0] == 0 or (way[0] == 1 and lattice.optional[0])
        ends = way[-1] == states - 1 or (way[-1] == states - 2 and lattice.optional[-1])
        allowed = all(b - a in (0, 1) or (b - a == 2 and lattice.optional[a + 1]) for a, b in pairwise(way))
        inside = all(lattice.low[s] <= t < lattice.high[s] for t, s in enumerate(way))
        if begins and ends and allowed and inside:
            score = sum(lattice.inside[t, s] for t, s in enumerate(way))
            for t, step in enumerate(steps, start=1):
                score += (0.0, lattice.entered[t, way[t]], lattice.skipped[t, way[t]])[step]
            ways[way] = score
    return ways


@pytest.mark.parametrize(
    ("frames", "optional"),
    [
        (5, [True, False, True, False, True]),
        (6, [False, False, True, False]),
        (4, [False]),
        (3, [True, False]),
        (6, [True, False, False, True]),
        (1, [True, False, True]),
    ],
)
def test_probabilities_are_those_of_all_ways(frames: int, optional: list[bool]) -> None:
    lattice = random_lattice(frames, optional, frames)
    ways = all_ways(lattice)
    total = np.logaddexp.reduce(list(ways.values()))
    inside, entered, skipped = (np.zeros(lattice.inside.shape) for _ in range(3))
    for way, score in ways.items():
        share = np.exp(score - total)
        for t, s in enumerate(way):
            inside[t, s] += share
            step = s - way[t - 1] if t else 0
            entered[t, s] += share * (step == 1)
            skipped[t, s] += share * (step == 2)
    found = marginals(lattice)
    assert found.total == pytest.approx(total)
    for one, other in zip(found[1:], (inside, entered, skipped), strict=True):
        assert np.allclose(one, other, atol=1e-12)


def test_a_band_is_kept() -> None:
    lattice = random_lattice(6, [True, False, True, False, True], 3)
    lattice.low[:], lattice.high[:] = (0, 0, 2, 3, 4), (2, 4, 5, 6, 6)
    ways = all_ways(lattice)
    found = marginals(lattice)
    assert found.total == pytest.approx(np.logaddexp.reduce(list(ways.values())))
    assert 0 < len(ways) < len(all_ways(random_lattice(6, [True, False, True, False, True], 3)))
    assert np.allclose(found.inside.sum(1), 1)


def test_too_few_frames_have_no_way() -> None:
    assert marginals(random_lattice(2, [False, False, False], 1)).total < -1e29
