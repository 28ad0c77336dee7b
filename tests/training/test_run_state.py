"""Where a run stands, saved by name and read back, from earlier versions too."""

from __future__ import annotations

import numpy as np
import torch

from speechctc.training.epoch_plan import Limits, Progress, ResumeState

PROGRESS = Progress(3, 7, 90, 40, 2, 5.5, 31.0, 400.0, 9.25, 0.5, 77.0, 12.5, 88)


def test_progress_survives_saving() -> None:
    read = Progress.of(PROGRESS.to_tensors())
    assert read == PROGRESS
    assert [type(value) for value in vars(read).values()] == [type(value) for value in vars(PROGRESS).values()]


def test_the_order_of_the_tensors_does_not_matter() -> None:
    assert Progress.of(dict(reversed(PROGRESS.to_tensors().items()))) == PROGRESS


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
