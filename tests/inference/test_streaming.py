"""What comes in blocks equals one pass over the whole, for awkward lengths, every config and every cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.features.extractor import extractor, local_cmn
from speechctc.features.padded import Moments, net_input, net_input_after_cmn, sliding_cmn_one, static_features
from speechctc.inference.streaming import cmn_blocks, local_cmn_blocks, logit_blocks
from speechctc.model.layers import plan_of, reach, receptive_field
from speechctc.model.net import ConvCTCNet
from tests.tiny_model import hear_around

NETS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"convs": (6, 6), "dense": (10,)}, {}),
    ({"convs": (4, 5, 5), "dense": (8,), "time_stride": 2, "norm": "layer", "residual": True}, {"deltas": 1}),
    ({"convs": (4, 4), "dense": (), "time_stride": 3, "activation": "relu", "kernel": (3, 3)}, {"deltas": 0}),
    ({"convs": (4,), "dense": (8,), "time_stride": 4, "kernel": (1, 7)}, {"deltas": 3, "delta_window": 9}),
    ({"convs": (4, 4), "dense": (8,), "activation": "prelu", "kernel": (5, 1)}, {"shift_ms": 12.5, "energy": False}),
    ({"convs": (4, 4), "dense": (8,), "time_stride": 2, "dense_span": 3}, {"cmn_window_ms": (330, 170), "deltas": 1}),
    ({"convs": (4,), "dense": (8, 8), "context": 3, "context_span": 15, "time_stride": 2}, {"deltas": 1}),
]


def noise(samples: int, seed: int = 0) -> NDArray[np.float32]:
    """Return noise whose loudness wanders, and pauses of digital silence."""
    rng = np.random.default_rng(seed)
    steps = np.arange(0, samples + 4000, 4000)
    loudness = np.exp(np.interp(np.arange(samples), steps, rng.normal(-4, 2, len(steps))))
    loudness[samples // 3 : samples // 3 + 900] = 0
    return np.asarray(loudness * rng.standard_normal(samples), dtype=np.float32)


def cut(values: NDArray[np.float32], sizes: list[int]) -> list[NDArray[np.float32]]:
    """Cut into pieces of these sizes, over and over."""
    pieces, start, k = [], 0, 0
    while start < len(values):
        pieces.append(values[start : start + sizes[k % len(sizes)]])
        start, k = start + sizes[k % len(sizes)], k + 1
    return pieces


class Whole:
    """A net with random weights over the features of noise, in one pass."""

    def __init__(self, model: dict[str, Any], features: dict[str, Any]) -> None:
        torch.manual_seed(1)
        self.features = FeatureConfig(mels=12, **features)
        self.model = ModelConfig(**{"dropout": 0.0, **model})
        # In float64, so that what differs is not rounding.
        self.net = ConvCTCNet(self.model, plan_of(self.model, self.features), 7).double().eval()
        hear_around(self.net)
        some = static_features(torch.from_numpy(noise(40_000, 5)), self.features)
        self.mean, self.std = Moments.of(some, self.features).normalisation()

    def apply(self, static: Tensor) -> Tensor:
        frames = torch.tensor([len(static)])
        return self.net_of(net_input(static[None], frames, self.mean, self.std, self.features))

    def apply_to_centred(self, centred: NDArray[np.float32], last: int | None = None) -> NDArray[np.float32]:
        frames, features = torch.tensor([len(centred)]), torch.from_numpy(centred)
        return self.net_of(net_input_after_cmn(features[None], frames, self.mean, self.std, self.features)).numpy()

    @torch.inference_mode()
    def net_of(self, features: Tensor) -> Tensor:
        frames = torch.tensor([features.shape[3]])
        logits: Tensor = self.net(features.double(), frames)[0][0]
        return logits.float()

    def in_blocks(self, samples: NDArray[np.float32], sizes: list[int], block_frames: int) -> Tensor:
        features = cmn_blocks(extractor(self.features).blocks(cut(samples, sizes)), self.features)
        blocks = logit_blocks(features, self.apply_to_centred, self.model, self.features, block_frames)
        return torch.from_numpy(np.concatenate([np.zeros((0, 7), np.float32), *blocks]))


@pytest.mark.parametrize("sizes", [[1, 7, 3], [50], [1000]])
@pytest.mark.parametrize("cmn_window_ms", [None, (0, 10), (40, 0), (330, 170), (60_000, 60_000)])
def test_what_is_centred_in_blocks(cmn_window_ms: tuple[float, float] | None, sizes: list[int]) -> None:
    config = FeatureConfig(mels=12, cmn_window_ms=cmn_window_ms)
    static = 9 + torch.randn(123, 13)
    blocks = torch.from_numpy(np.concatenate(list(cmn_blocks(cut(static.numpy(), sizes), config))))
    torch.testing.assert_close(blocks, sliding_cmn_one(static, config), atol=1e-6, rtol=0)


@pytest.mark.parametrize("sizes", [[1, 7, 3], [150], [1000]])
def test_a_local_mean_in_blocks(sizes: list[int]) -> None:
    """Recordings that are not longer than the sliding mean keep it."""
    config = FeatureConfig(mels=12, cmn_window_ms=(3000, 2000))
    static = 9 + torch.randn(700, 13)
    static[300:] += 7
    for frames, expected in ((700, local_cmn(static.numpy(), config)), (500, sliding_cmn_one(static[:500], config))):
        found = np.concatenate(list(local_cmn_blocks(cut(static[:frames].numpy(), sizes), config)))
        np.testing.assert_allclose(found, np.asarray(expected), atol=1e-5)


@pytest.mark.parametrize(("model", "features"), NETS)
def test_logits_in_blocks_equal_one_pass(model: dict[str, Any], features: dict[str, Any]) -> None:
    whole = Whole(model, features)
    window = extractor(whole.features).frames(10_000)
    assert window > receptive_field(whole.model, whole.features)
    for samples in (*range(399, 403), 559, 560, 561, 3_000, 16_111, 40_000):
        recording = noise(samples, samples)
        static = static_features(torch.from_numpy(recording), whole.features)
        expected = whole.apply(static) if len(static) else torch.zeros(0, 7)
        for block_frames in (1, 7, 40, 1000):
            found = whole.in_blocks(recording, [1234, 77], block_frames)
            assert found.shape == expected.shape
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_recording_of_one_block_is_one_pass_to_the_bit() -> None:
    whole = Whole(*NETS[1])
    recording = noise(20_000)
    static = static_features(torch.from_numpy(recording), whole.features)
    assert torch.equal(whole.in_blocks(recording, [20_000], 2000), whole.apply(static))


def test_less_context_than_half_the_receptive_field_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overlap is needed in full: with a frame less on each side the logits differ."""
    whole = Whole({"convs": (6, 6), "dense": (10,)}, {})
    recording = noise(40_000)
    expected = whole.apply(static_features(torch.from_numpy(recording), whole.features))
    monkeypatch.setattr("speechctc.inference.streaming.reach", lambda *_: [each - 1 for each in reach(*_)])
    assert float((whole.in_blocks(recording, [5000], 40) - expected).abs().max()) > 1e-4
