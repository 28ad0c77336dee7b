"""One set of golden vectors for the three implementations: NumPy, torch, and the JavaScript of the page.

The vectors are computed here, once for each config, in float64: the filter bank by torchaudio, the sliding mean by its
definition, the net by torch in double precision. A change of one implementation alone is seen in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from speechctc.features import filterbank
from speechctc.features.extractor import extractor, sliding_cmn
from speechctc.inference.recogniser import Recogniser
from speechctc.model.net import TorchNet, build_net
from speechctc.model.numpy_net import NumpyNet
from speechctc.stages.export import about_model
from tests.pages.node import floats, run_node
from tests.pages.test_web_modules import LOADED, babble, random_model

Array = NDArray[Any]
CONFIGS: dict[str, dict[str, Any]] = {
    "maxout": {"model": {"time_stride": 2}, "features": {"cmn_window_ms": [600, 400]}},
    "context": {
        "model": {"dense": [20, 20, 12], "context": 5, "context_span": 81, "residual": True, "norm": "layer"},
        "features": {"cmn_window_ms": [3000, 3000]},
    },
    "prelu": {"model": {"activation": "prelu", "dense_span": [1, 3]}, "features": {"deltas": 1, "energy": False}},
}
MAX_ERROR = {"static": 2e-3, "centred": 2e-3, "logits": 5e-3}


class Golden(NamedTuple):
    """What a recording becomes on its way: static features, after the sliding mean, logits; float64."""

    static: Array
    centred: Array
    logits: Array


def golden(recogniser: Recogniser, samples: Array) -> Golden:
    """Return the vectors of a recording."""
    kaldi = pytest.importorskip("torchaudio.compliance.kaldi")
    config = recogniser.config.features
    bank = kaldi.fbank(
        32768 * torch.from_numpy(samples).double()[None],
        sample_frequency=config.sample_rate,
        num_mel_bins=config.mels,
        frame_length=config.window_ms,
        frame_shift=config.shift_ms,
        low_freq=config.low_hz,
        high_freq=config.high_hz,
        preemphasis_coefficient=config.preemphasis,
        window_type=config.window,
        use_energy=config.energy,
        energy_floor=1.0,
        dither=0.0,
    ).numpy()
    static = np.roll(bank, -1, axis=1) if config.energy else bank  # here the energy comes last
    centred = static - _means(static, config) if config.cmn_window_ms else static
    checkpoint = recogniser.checkpoint
    net = build_net(recogniser.config, recogniser.inventory)
    net.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in checkpoint.weights.items()})
    net = net.double().eval()
    rows, frames = torch.from_numpy(centred)[None], torch.tensor([len(centred)])
    mean, std = (torch.from_numpy(np.array(each)).double() for each in (checkpoint.mean, checkpoint.std))
    with torch.no_grad():
        logits = net(filterbank.net_input_after_cmn(rows, frames, mean, std, config), frames)[0]
    return Golden(static, centred, logits[0].numpy())


def _means(static: Array, config: Any) -> Array:
    """Return the sliding mean: of frames by their power in the second around each, as FeatureConfig says."""
    before, after = config.cmn_frames
    near = config.power_window_frames
    loudness = np.maximum(static.mean(axis=1), 0)
    power = np.array([np.exp(loudness[max(t - near, 0) : t + near + 1]).mean() for t in range(len(static))])
    power = np.where(loudness > 0, power, 1.0)
    inside = [slice(max(min(t - before, len(static) - 1), 0), t + after + 1) for t in range(len(static))]
    return np.array([np.average(static[each], axis=0, weights=power[each]) for each in inside])


def by_numpy(recogniser: Recogniser, samples: Array, folder: Path) -> Golden:
    config = recogniser.config.features
    static = extractor(config).static(samples)
    centred = sliding_cmn(static, config)
    return Golden(static, centred, NumpyNet(recogniser.checkpoint)([centred])[0])


def by_torch(recogniser: Recogniser, samples: Array, folder: Path) -> Golden:
    config = recogniser.config.features
    static = filterbank.static_features(torch.from_numpy(samples), config)
    centred = filterbank.sliding_cmn_one(static, config).numpy()
    return Golden(static.numpy(), centred, TorchNet(recogniser.checkpoint, "cpu")([centred])[0])


def by_javascript(recogniser: Recogniser, samples: Array, folder: Path) -> Golden:
    samples.tofile(folder / "samples")
    body = """
    const { features } = model.config, { dims } = model.bank;
    const rows = model.bank.static(read("samples", Float32Array)), centred = slidingCmn(rows, dims, features);
    write("static", rows);
    write("centred", centred);
    write("logits", model.net.forward(centred));
    """
    given = {"about": about_model(recogniser), "lm": False}
    run_node(folder, {"model": "Model", "features": "slidingCmn"}, LOADED + body, given)
    config = recogniser.config.features
    widths = (config.static_dims, config.static_dims, len(recogniser.phones) + 1)
    return Golden(*(floats(folder / name).reshape(-1, each) for name, each in zip(Golden._fields, widths, strict=True)))


@cache
def made(name: str, folder: Path) -> tuple[Recogniser, Array, Golden]:
    """Return a model of a config, a recording, and its vectors."""
    recogniser = random_model(folder / name, **CONFIGS[name])
    samples = babble(np.random.default_rng(11), 2 * recogniser.config.features.sample_rate)
    return recogniser, samples, golden(recogniser, samples)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("way", [by_numpy, by_torch, by_javascript])
@pytest.mark.parametrize("name", CONFIGS)
def test_each_implementation_gives_the_golden_vectors(
    name: str, way: Callable[[Recogniser, Array, Path], Golden], models: Path
) -> None:
    recogniser, samples, expected = made(name, models)
    found = way(recogniser, samples, models / name)
    for stage in Golden._fields:
        ours, theirs = getattr(found, stage), getattr(expected, stage)
        assert ours.shape == theirs.shape and np.isfinite(ours).all() and theirs.std() > 0.1
        np.testing.assert_allclose(ours, theirs, atol=MAX_ERROR[stage], rtol=1e-4, err_msg=stage)
