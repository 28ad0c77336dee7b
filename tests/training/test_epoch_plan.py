"""The plan of an epoch for any number of ranks; how far a run is, saved by name and read back."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from speechctc.training.batches import Loader
from speechctc.training.epoch_plan import EpochPlan, Limits, Progress, ResumeState
from tests.train_helpers import run_once

LENGTHS = np.random.default_rng(3).integers(1, 90, 61)
LABELS = np.random.default_rng(4).integers(0, 9, 61)
LIMITS = Limits(7, 300, 700)


@pytest.mark.parametrize("ranks", [1, 2, 3, 70])
@pytest.mark.parametrize("seed", [None, 5])
def test_ranks_share_every_utterance_once(ranks: int, seed: int | None) -> None:
    plan = EpochPlan(LENGTHS, np.arange(61), LIMITS, seed, ranks)
    seen = Counter(int(u) for rank in range(ranks) for batch in plan.batches(rank) for u in batch)
    assert seen == Counter(range(61))
    assert plan.steps == max(len(plan.batches(rank)) for rank in range(ranks))


def test_shares_are_of_like_size() -> None:
    lengths = np.random.default_rng(1).integers(100, 900, 1000)
    plan = EpochPlan(lengths, np.arange(1000), Limits(20, 20_000, 10**9), 1, 4)
    frames = [sum(int(lengths[batch].sum()) for batch in plan.batches(rank)) for rank in range(4)]
    assert max(frames) < 1.02 * min(frames)
    steps = [len(plan.batches(rank)) for rank in range(4)]
    assert max(steps) - min(steps) <= 1


def test_totals_are_over_the_batches_of_all_ranks_at_a_step() -> None:
    plan = EpochPlan(LENGTHS, np.arange(61), LIMITS, 1, 3)
    for step, total in enumerate(plan.totals(LABELS)):
        batches = [plan.batches(rank)[step : step + 1] for rank in range(3)]
        assert total == sum(int(LABELS[batch].sum()) for some in batches for batch in some)
    assert plan.totals(LABELS).sum() == LABELS.sum()


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 4)])
def test_an_epoch_goes_on_with_another_number_of_ranks(before: int, after: int) -> None:
    first = EpochPlan(LENGTHS, np.arange(61), LIMITS, 1, before)
    done = first.done(4)
    assert len(done) == len(set(done.tolist())) > 0
    rest = EpochPlan(LENGTHS, np.setdiff1d(np.arange(61), done), LIMITS, 1, after)
    seen = sorted([*done.tolist(), *rest.done(rest.steps).tolist()])
    assert seen == list(range(61))


def sizes(frames: list[int], limits: Limits) -> list[list[int]]:
    """Return the sizes of the batches of each chunk, where the order is kept."""
    (chunks,) = EpochPlan(np.array(frames), np.arange(len(frames)), limits, None).shares
    return [[len(batch) for batch in chunk.batches] for chunk in chunks]


@pytest.mark.parametrize(
    ("frames", "limits", "wanted"),
    [
        ([100] * 10, Limits(4, 10**6, 10**6), [[4, 4, 2]]),
        ([100] * 10, Limits(8, 300, 10**6), [[3, 3, 3, 1]]),
        ([100] * 10, Limits(8, 10**6, 400), [[4], [4], [2]]),
        ([500, 100, 100, 500], Limits(8, 300, 10**6), [[2, 1, 1]]),  # alone where longer than the limit
        ([98, 100, 100, 100], Limits(8, 299, 10**6), [[2, 2]]),  # padding counts: 3 x 100 are too many
        ([100, 96, 104, 100], Limits(8, 10**6, 400), [[4]]),  # but not in a chunk: 4 x 104 are more
        ([10] * 50 + [100] * 2, Limits(99, 10**6, 10**6), [[50, 2]]),  # mostly padding: cut where lengths differ
        ([10] + [100] * 99, Limits(10, 10**6, 10**6), [[10] * 10]),  # one batch above 5 %, the chunk below
        ([95] * 10 + [100] * 10, Limits(20, 10**6, 10**6), [[20]]),
        ([90] * 10 + [100] * 10, Limits(20, 10**6, 10**6), [[10, 10]]),
    ],
)
def test_batches_and_chunks_are_as_large_as_they_may_be(
    frames: list[int], limits: Limits, wanted: list[list[int]]
) -> None:
    assert sizes(frames, limits) == wanted


PROGRESS = Progress(3, 7, 90, 40, 2, 5.5, 31.0, 400.0, 9.25, 0.5, 77.0, 12.5, 88)


def test_the_progress_of_a_version_with_more_counters_is_read() -> None:
    earlier = PROGRESS.to_tensors() | {"progress.unlabelled": torch.tensor(1.0)}
    assert Progress.of(earlier) == PROGRESS


STATE = ResumeState(PROGRESS, 1, np.array([0, 2, 5]), Limits(20, 9000, 70_000), 3)


def same_state(tensors: dict[str, torch.Tensor]) -> bool:
    read = ResumeState.of(tensors, 6)
    rest, wanted = ({**vars(state), "remaining": state.remaining.tolist()} for state in (read, STATE))
    return rest == wanted


def test_a_state_survives_saving_in_any_order() -> None:
    tensors = STATE.to_tensors(6)
    assert tensors["plan.batch_frames"] == 9000 and tensors["left"].tolist() == [1, 0, 1, 0, 0, 1]
    assert same_state(tensors) and same_state(dict(reversed(tensors.items())))


def scored(*epochs: tuple[float, float, float]) -> tuple[int, int]:
    """The best epoch, and the epochs that patience has counted, after epochs of these PERs, losses and blank shares."""
    progress, best = Progress(), 0
    for number, epoch in enumerate(epochs, start=1):
        best = number if progress.score(*epoch) else best
    return best, progress.stale


def test_patience_counts_no_epoch_of_the_blank_phase() -> None:
    noise = [(97.0, 62.0, 0.3), (98.0, 40.0, 0.4), (98.5, 20.0, 0.5)]  # chance, while the loss falls
    silent = [(100.0, 5.0, 1.0), (100.0, 4.0, 0.99), (100.0, 4.1, 0.96), (100.0, 4.2, 1.0)]
    assert scored(*noise, *silent) == (1, 0)
    assert scored(*noise, *silent, (90.0, 3.0, 0.9)) == (8, 0)
    spoke = [*silent, (90.0, 3.0, 0.9)]
    assert scored(*spoke, (91.0, 2.9, 0.8), (90.0, 2.8, 0.8)) == (7, 2)  # PER alone counts from here
    assert scored(*spoke, (100.0, 4.0, 1.0), (100.0, 4.0, 1.0)) == (5, 2)  # it fell silent again: no blank phase
    assert scored(*[(99.0, 30.0, 0.2)] * 4) == (1, 3)  # neither blank nor learning


def test_of_equal_rates_the_lower_loss_is_better() -> None:
    assert scored((100.0, 5.0, 1.0), (100.0, 4.0, 1.0), (100.0, 4.5, 1.0)) == (2, 0)
    assert scored((50.0, 2.0, 0.5), (50.0, 1.0, 0.5), (50.0, 1.5, 0.5)) == (2, 2)
    assert scored((50.0, 2.0, 0.5), (50.0, math.nan, 0.5), (49.0, math.nan, 0.5), (49.0, 9.0, 0.5)) == (4, 1)


def test_what_patience_counts_goes_through_a_save() -> None:
    progress = Progress()
    for epoch in ((97.0, 62.0, 0.3), (100.0, 4.0, 1.0)):
        progress.score(*epoch)
    again = Progress.of(progress.to_tensors())
    assert (again.best_per, again.best_loss, again.lowest_loss) == (97.0, 62.0, 4.0)


def test_the_plan_of_an_epoch_is_made_once(extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of dev, which has no seed, is not counted."""
    seeds, plan = list[int | None](), Loader.plan

    def counted(self: Loader, seed: int | None, *others: Any) -> EpochPlan:
        seeds.append(seed)
        return plan(self, seed, *others)

    monkeypatch.setattr(Loader, "plan", counted)
    run_once(extracted, here / "r", "train.epochs=2")
    run_once(extracted, here / "r", "train.epochs=3", resume=True)
    trained = [seed for seed in seeds if seed is not None]
    assert len(trained) == len(set(trained)) == 3
