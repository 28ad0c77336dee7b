"""Dev is scored as decoding scores it; `tests.stages.test_train` compares with `evaluate`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from speechctc.config.load import parse_config
from speechctc.inference.streaming import ActivityGate
from speechctc.training.batches import Batch
from speechctc.training.dev_score import decoded

FRAMES = 300


@pytest.mark.parametrize(("threshold", "labels"), [(0, [1, 2]), (6, [])])
def test_no_phones_are_scored_where_decoding_would_find_none(threshold: float, labels: list[int]) -> None:
    """Steady noise of three seconds, in which the net hears two phones."""
    settings = {"corpus": {"kind": "demo"}, "decode": {"min_modulation_db": threshold}}
    config = parse_config(settings, "test")
    one = np.array([0])
    static = torch.full((1, FRAMES + 7, config.features.static_dims), 10.0, dtype=torch.float16)
    counts = torch.zeros(1, dtype=torch.int64)
    batch = Batch(one, np.array([FRAMES]), one, static, torch.tensor([FRAMES]), counts[None], counts)
    logits = torch.zeros(1, FRAMES // config.model.time_stride + 3, 3)
    logits[0, :, 0], logits[0, 10, 1], logits[0, 20, 2], logits[0, -1, 1] = 5.0, 9.0, 9.0, 99.0
    outputs = torch.tensor([FRAMES // config.model.time_stride])
    gate = ActivityGate(config, ("a", "b"))
    assert list(decoded(batch, logits, outputs, gate, None)) == [labels]
