"""The fewest frames, against counting and against the loss itself."""

from __future__ import annotations

import pytest
import torch

from speechctc.ctc import ctc_loss
from speechctc.ctc.problem import frames_needed

CASES = [[], [1], [1, 2], [1, 1], [1, 1, 1, 2, 1], [2, 2], [], [2]]
NEEDED = [0, 1, 2, 3, 7, 3, 0, 1]


def test_a_blank_is_counted_between_equal_labels_of_one_sample() -> None:
    counts = torch.tensor([len(case) for case in CASES])
    packed = torch.tensor([label for case in CASES for label in case])
    padded = torch.tensor([case + [1] * (6 - len(case)) for case in CASES])  # padding that equals the last label
    assert frames_needed(packed, counts).tolist() == NEEDED
    assert frames_needed(padded, counts).tolist() == NEEDED
    assert frames_needed(packed[:0], torch.tensor([0, 0])).tolist() == [0, 0]
    assert frames_needed(padded[:, :0], counts[:1].expand(len(CASES))).tolist() == [0] * len(CASES)


@pytest.mark.parametrize("packed", [False, True])
def test_the_loss_becomes_finite_there(packed: bool) -> None:
    torch.manual_seed(0)
    labels, counts = torch.randint(1, 3, (40, 7)), torch.randint(1, 8, (40,))
    inside = torch.arange(7) < counts[:, None]
    needed = frames_needed(labels[inside] if packed else labels, counts)
    logits = torch.randn(14, 40, 3)
    assert ctc_loss(logits, labels, needed, counts, reduction="none").isfinite().all()
    assert ctc_loss(logits, labels, needed - 1, counts, reduction="none").isinf().all()
