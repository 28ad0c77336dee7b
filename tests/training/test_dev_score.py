"""Dev is scored as decoding scores it; `tests.stages.test_train` compares with `evaluate`."""

from __future__ import annotations

import numpy as np
import pytest

from speechctc.config.load import parse_config
from speechctc.features.activity import ActivityGate
from speechctc.training.dev_score import decode_utterance

FRAMES = 300


@pytest.mark.parametrize(("threshold", "labels"), [(0, [1, 2]), (6, [])])
def test_no_phones_are_scored_where_decoding_would_find_none(threshold: float, labels: list[int]) -> None:
    """Steady noise of three seconds, in which the net hears two phones."""
    settings = {"corpus": {"kind": "demo"}, "decode": {"min_modulation_db": threshold}}
    config = parse_config(settings, "test")
    static = np.full((FRAMES, config.features.static_dims), 10.0, dtype=np.float32)
    logits = np.zeros((FRAMES // config.model.time_stride, 3), np.float32)
    logits[:, 0], logits[10, 1], logits[20, 2] = 5.0, 9.0, 9.0
    gate = ActivityGate(config, ("a", "b"))
    assert decode_utterance(static, logits, gate, None) == labels
