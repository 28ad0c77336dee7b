"""What a kind of features may leave out, shown by a kind that is not log powers of bands."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from speechctc.config.load import parse_config
from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.features import extractor as kinds
from speechctc.features.activity import ActivityGate
from speechctc.features.extractor import FeatureExtractor, Rows, extractor
from speechctc.features.filterbank import net_input, sliding_cmn_one, static_features
from speechctc.inference.segmenter import FrameClock
from speechctc.inference.streaming import Forward
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.net import build_net, net_of
from speechctc.phones.inventory import Inventory
from speechctc.training.augment import Augmenter

SETTINGS = {
    "corpus": {"kind": "demo"},
    "features": {"mels": 6, "energy": False, "cmn_window_ms": [300, 200], "shift_ms": 8, "window_ms": 20},
    "model": {"convs": [4, 4], "dense": [8], "time_stride": 2, "dropout": 0.0},
}


class Ranges(FeatureExtractor):
    """The smallest and largest sample of parts of the window: no powers, and of either sign."""

    def static(self, samples: Rows) -> Rows:
        if not self.frames(len(samples)):
            return np.zeros((0, self.config.static_dims), np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(samples, self.window)[:: self.shift]
        parts = windows[:, : self.window // 3 * 3].reshape(len(windows), 3, -1)
        return np.concatenate([parts.min(2), parts.max(2)], axis=1)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    """Return a config whose features are of the other kind."""
    monkeypatch.setitem(kinds.KINDS, "mel", Ranges)
    return parse_config(SETTINGS, "test")


def samples(seconds: float) -> Tensor:
    return 0.1 * torch.randn(int(16000 * seconds), generator=torch.Generator().manual_seed(1))


def test_logits_in_blocks_are_those_of_one_pass(config: Config) -> None:
    torch.manual_seed(2)
    inventory = Inventory("found", ("a", "b"))
    shape = (config.features.channels, config.features.static_dims)
    checkpoint = Checkpoint.of(
        config, inventory, build_net(config, inventory), torch.zeros(shape), torch.ones(shape), {}, {}, None
    )
    sound = samples(4.0)
    static = static_features(sound, config.features)
    frames = torch.tensor([len(static)])
    with torch.inference_mode():
        inputs = net_input(static[None], frames, torch.zeros(shape), torch.ones(shape), config.features)
        wanted, _ = net_of(checkpoint).eval()(inputs, frames)
    forward = Forward(checkpoint)
    for gated in (False, True):
        found = np.concatenate(list(forward.in_blocks(iter(np.split(sound.numpy(), 40)), 60, gated)))
        np.testing.assert_allclose(found, wanted[0].numpy(), atol=1e-4)
    clock = FrameClock.of(config.features, config.model)
    assert clock.step == pytest.approx(0.016) and clock.half == pytest.approx(0.01)


def test_frames_weigh_alike_in_the_sliding_mean(config: Config) -> None:
    static = static_features(samples(2.0), config.features).double()
    before, after = config.features.cmn_frames
    wanted = [row - static[max(t - before, 0) : t + after + 1].mean(0) for t, row in enumerate(static)]
    torch.testing.assert_close(
        sliding_cmn_one(static, config.features).double(), torch.stack(wanted), atol=1e-5, rtol=0
    )


def test_steady_sound_is_not_gated(config: Config) -> None:
    logits = np.random.default_rng(0).normal(size=(150, 3)).astype(np.float32)
    assert ActivityGate(config, ("a", "b")).whole(np.ones((300, 6), np.float32), logits) is logits


def test_augmentation_of_bands_is_refused_and_that_of_time_is_not(config: Config) -> None:
    assert extractor(config.features).bands == 0
    fine = {**SETTINGS, "augment": {"speed": 0.1, "time_masks": 2}}
    Augmenter(parse_config(fine, "test"), torch.device("cpu"))
    for key, value in (("warp", 0.1), ("reverb", 0.5), ("band_masks", 1), ("noise_db", [5, 20]), ("gain_db", 3)):
        with pytest.raises(
            InputError, match=f"no log powers of bands, for which augment.{key} are; set augment.{key}=(0|null)$"
        ):
            Augmenter(parse_config({**SETTINGS, "augment": {key: value}}, "test"), torch.device("cpu"))
