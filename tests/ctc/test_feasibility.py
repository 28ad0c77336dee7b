"""The fewest frames, against the loss itself."""

from __future__ import annotations

import pytest
import torch

from speechctc.ctc import ctc_loss
from speechctc.ctc.problem import frames_needed


@pytest.mark.parametrize("packed", [False, True])
def test_the_loss_becomes_finite_there(packed: bool) -> None:
    torch.manual_seed(0)
    labels, counts = torch.randint(1, 3, (40, 7)), torch.randint(0, 8, (40,))
    inside = torch.arange(7) < counts[:, None]
    needed = frames_needed(labels[inside] if packed else labels, counts)
    logits = torch.randn(14, 40, 3)
    assert ctc_loss(logits, labels, needed, counts, reduction="none").isfinite().all()
    fewer = ctc_loss(logits, labels, (needed - 1).clamp(min=0), counts, reduction="none")
    assert torch.equal(fewer.isinf(), counts > 0) and not counts.all()
    assert frames_needed(labels[:, :0], 0 * counts).tolist() == [0] * 40
