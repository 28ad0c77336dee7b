"""Gradients of nets with random weights, where frames are masked, silent or beyond an utterance's end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.ctc import ctc_loss
from speechctc.features.padded import Moments, net_input, static_features
from speechctc.model.layers import plan
from speechctc.model.net import ConvCTCNet

DEEP: dict[str, Any] = {
    "convs": (8, 8),
    "time_stride": 2,
    "dense": (32,) * 9,
    "dense_span": (1,) + (5,) * 8,
    "dropout": 0.0,
    "norm": "layer",
    "residual": True,
}
KINDS: list[dict[str, Any]] = [
    {},
    {"residual": False},
    {"init": "uniform"},
    {"activation": "relu"},
    {"activation": "prelu"},
    {"activation": "silu"},
    {"pieces": 3},
]
FRAMES = 300


def gradient(net: ConvCTCNet, features: Tensor, frames: list[int], dtype: torch.dtype | None = None) -> Tensor:
    """Return the gradient of a batch's CTC loss a phone, of all weights in a row."""
    net.zero_grad()
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        logits, lengths = net(features, torch.tensor(frames))
    labels = torch.randint(1, logits.shape[2], (1, 30), generator=torch.Generator().manual_seed(1)).expand(
        len(frames), -1
    )
    counts = torch.full((len(frames),), 30)
    loss = ctc_loss(logits.float().transpose(0, 1), labels, lengths, counts, reduction="none").sum()
    (loss / counts.sum()).backward()
    return torch.cat([weight.grad.flatten() for weight in net.parameters() if weight.grad is not None])


def first_net(**values: Any) -> ConvCTCNet:
    torch.manual_seed(0)
    config = ModelConfig(**{**DEEP, **values})
    return ConvCTCNet(config, plan(config, 3, 41), 40)


def noise(utterances: int = 2) -> Tensor:
    return torch.randn(utterances, 3, 41, FRAMES, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("values", KINDS, ids=str)
def test_masked_frames_do_not_make_gradients_grow(values: dict[str, Any]) -> None:
    net, features = first_net(**values), noise()
    usual = float(gradient(net, features, [FRAMES] * 2).norm())
    for masked in (20, 60, 120, FRAMES):
        hidden = features.clone()
        hidden[:, :, :, :masked] = 0.0
        assert float(gradient(net, hidden, [FRAMES] * 2).norm()) < 5 * usual, masked


@pytest.mark.parametrize("cmn_window_ms", [None, (10_000, 5_000)])
@pytest.mark.parametrize("silent", [0.3, 0.9, 1.0])
def test_digital_silence_does_not_make_gradients_grow(cmn_window_ms: tuple[int, int] | None, silent: float) -> None:
    config, net = FeatureConfig(cmn_window_ms=cmn_window_ms), first_net()
    samples = 0.1 * torch.randn(3 * 16000 + 240, generator=torch.Generator().manual_seed(3))
    quiet = samples.clone()
    quiet[: round(silent * len(quiet))] = 0.0
    spoken, zeros = (static_features(each, config) for each in (samples, quiet))
    mean, std = (Moments.of(spoken, config) + Moments.of(zeros, config)).normalisation()
    norms = []
    for static in (spoken, zeros):
        features = net_input(static[None], torch.tensor([len(static)]), mean, std, config)
        norms.append(float(gradient(net, features, [len(static)]).norm()))
    assert norms[1] < 5 * norms[0]
