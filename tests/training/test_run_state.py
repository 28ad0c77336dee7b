"""Where a run stands, saved by name and read back, from earlier versions too."""

from __future__ import annotations

import torch

from speechctc.training.run_state import Progress

PROGRESS = Progress(3, 7, 90, 40, 2, 5.5, 31.0, 400.0, 9.25, 0.5, 77.0, 12.5, 88)


def test_progress_survives_saving() -> None:
    read = Progress.of(PROGRESS.to_tensors())
    assert read == PROGRESS
    assert [type(value) for value in vars(read).values()] == [type(value) for value in vars(PROGRESS).values()]


def test_the_order_of_the_tensors_does_not_matter() -> None:
    assert Progress.of(dict(reversed(PROGRESS.to_tensors().items()))) == PROGRESS


def test_the_row_of_an_earlier_version_is_read() -> None:
    row = [3, 7, 90, 40, 2, 5.5, 31.0, 400.0, 9.25, 0.5, 77.0, 12.5, 88]
    assert Progress.of({"place": torch.tensor(row, dtype=torch.float64)}) == PROGRESS
