from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

import speechctc
from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.model.layers import output_frames, plan, receptive_field
from speechctc.model.net import ConvCTCNet, parameter_count
from tests.tiny_model import hear_around

SMALL: list[dict[str, Any]] = [
    {"convs": (6, 6), "dense": (10,)},
    {"convs": (4, 5, 5), "dense": (10, 10), "time_stride": 2, "norm": "layer", "residual": True, "pool": 2},
    {"convs": (4, 5), "dense": (6, 6, 6), "dense_span": (1, 5, 3), "norm": "layer", "residual": True, "pool": 2},
    {"convs": (4,), "dense": (), "time_stride": 3, "activation": "relu", "kernel": (3, 3), "pool": 1},
    {"convs": (4, 4), "dense": (8,), "activation": "prelu", "kernel": (5, 7)},
    {"convs": (4, 4), "dense": (8,), "activation": "silu", "init": "uniform"},
    {"convs": (4, 4), "dense": (8,), "pieces": 3},
    {"convs": (4,), "dense": (6, 7, 7), "context": 3, "context_span": 9, "time_stride": 2, "residual": True},
    {"convs": (4,), "dense": (6, 6), "context": 5, "context_span": 1, "norm": "layer", "dense_span": 3},
]


def net(values: dict[str, Any], dims: int = 13, classes: int = 5) -> ConvCTCNet:
    torch.manual_seed(0)
    made = ConvCTCNet(ModelConfig(**values), plan(ModelConfig(**values), 3, dims), classes).eval()
    hear_around(made)
    return made


def test_the_papers_net_has_the_parameters_its_description_gives() -> None:
    def conv(n_in: int, n_out: int, size: int) -> int:
        return 2 * n_out * (n_in * size + 1)

    by_hand = conv(3, 128, 15) + 3 * conv(128, 128, 15) + conv(128, 256, 15) + 5 * conv(256, 256, 15)
    by_hand += conv(256 * 13, 1024, 1) + 2 * conv(1024, 1024, 1) + 62 * 1025
    assert parameter_count(net({}, dims=41, classes=62)) == by_hand == 23_383_358


def test_the_papers_receptive_field_is_41_frames() -> None:
    assert receptive_field(ModelConfig(), FeatureConfig(deltas=0)) == 41
    assert receptive_field(ModelConfig(), FeatureConfig()) == 49


@pytest.mark.parametrize("values", SMALL)
def test_the_receptive_field_is_what_an_output_frame_sees(values: dict[str, Any]) -> None:
    model = net(values)
    length = 120
    x = torch.randn(1, 3, 13, length, requires_grad=True)
    logits, frames = model(x, torch.tensor([length]))
    logits[0, int(frames) // 2].sum().backward()
    assert x.grad is not None
    touched = x.grad.abs().sum((0, 1, 2)).nonzero().flatten()
    assert int(touched[-1] - touched[0]) + 1 == receptive_field(model.config, FeatureConfig(deltas=0))


@pytest.mark.parametrize("values", SMALL)
def test_output_frames_are_the_frames_that_come_out(values: dict[str, Any]) -> None:
    model = net(values)
    for length in (1, 2, 3, 7, 30, 31):
        logits, frames = model(torch.randn(1, 3, 13, length), torch.tensor([length]))
        assert logits.shape == (1, output_frames(length, model.config), 5)
        assert frames.tolist() == [output_frames(length, model.config)]


@pytest.mark.parametrize("values", SMALL)
def test_padding_never_changes_an_utterances_output(values: dict[str, Any]) -> None:
    model = net(
        values
    ).double()  # its rounding, 1e-16 times some hundred terms, is far below any leak, on any processor
    lengths = torch.tensor([1, 4, 17, 40])
    x = torch.randn(4, 3, 13, 53, dtype=torch.float64)
    for row, length in zip(x, lengths.tolist(), strict=True):
        row[:, :, length:] = 0
    together, frames = model(x, lengths)
    for k, length in enumerate(lengths.tolist()):
        alone, _ = model(x[k : k + 1, :, :, :length], lengths[k : k + 1])
        torch.testing.assert_close(together[k, : int(frames[k])], alone[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ["maxout", "relu"])
def test_hes_start_keeps_the_scale_through_ten_layers(activation: str) -> None:
    model = net({"activation": activation, "convs": (32,) * 10, "dense": (64,), "dropout": 0.0}, dims=12, classes=20)
    logits, _ = model(torch.randn(2, 3, 12, 60), torch.tensor([60, 60]))
    assert 0.1 < float(logits.detach().std()) < 10


def test_dropout_works_in_training_only() -> None:
    model = net({"convs": (6, 6), "dense": (10,), "dropout": 0.5})
    x, frames = torch.randn(1, 3, 13, 20), torch.tensor([20])
    assert torch.equal(model(x, frames)[0], model(x, frames)[0])
    model.train()
    assert not torch.equal(model(x, frames)[0], model(x, frames)[0])


def test_gradients_of_layers_with_bands_keep_their_layout() -> None:
    """In each layer they would else be copied to another one and back."""
    model = net({"convs": (4, 4), "dense": (16,), "pool": 2, "residual": True}).train()
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    layouts: list[bool] = []

    def watch(module: torch.nn.Module, given: object, found: torch.Tensor) -> None:
        found.register_hook(lambda each: layouts.append(each.is_contiguous(memory_format=torch.channels_last)))

    for each in (model.pool, *(layer.get_submodule("activation") for layer in model.convs)):
        each.register_forward_hook(watch)
    logits, _ = model(torch.randn(2, 3, 13, 12), torch.tensor([12, 7]))
    logits.sum().backward()
    assert layouts == [True] * 3


def test_spans_are_odd_and_one_a_layer() -> None:
    for wrong in (2, 0, (3, 3), (3,), (3, 3, 4)):
        with pytest.raises(ValueError, match="dense_span"):
            ModelConfig(dense=(8, 8, 8), dense_span=wrong)


def test_dropout_may_be_given_layer_by_layer() -> None:
    model = net({"convs": (4, 4), "dense": (8,), "dropout": (0.0, 0.1, 0.4)})
    assert [layer.activation.dropout for layer in [*model.convs, *model.dense]] == [0.0, 0.1, 0.4]
    for wrong in ((0.1, 0.2), (0.1, 0.2, 1.0), -0.1):
        with pytest.raises(ValueError, match="dropout"):
            ModelConfig(convs=(4, 4), dense=(8,), dropout=wrong)


def test_a_loaded_model_can_be_pickled_for_other_processes() -> None:
    model = speechctc.load("english", "cpu")
    sound = 0.1 * np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    assert pickle.loads(pickle.dumps(model)).decode(sound, 16000).segments == model.decode(sound, 16000).segments
