"""What a kind of features may leave out, shown by another kind; MFCC against torchaudio's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchaudio
from torch import Tensor

from speechctc.config.load import load_config, parse_config
from speechctc.config.schema import Config, FeatureConfig
from speechctc.core.errors import InputError
from speechctc.features import extractor as kinds
from speechctc.features.activity import ActivityGate
from speechctc.features.extractor import INT16_SCALE, FeatureExtractor, Rows, extractor
from speechctc.features.padded import sliding_cmn_one, static_features
from speechctc.model.net import build_net
from speechctc.phones.inventory import named_inventory
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


SOUND = 0.1 * torch.randn(16000, generator=torch.Generator().manual_seed(3)) * torch.linspace(0, 1, 16000)
SAMPLES = SOUND.numpy()


@pytest.mark.parametrize("energy", [True, False])
@pytest.mark.parametrize(("ceps", "mels", "rate"), [(13, 23, 16000), (40, 40, 16000), (12, 20, 8000)])
def test_they_are_those_of_torchaudio(energy: bool, ceps: int, mels: int, rate: int) -> None:
    config = FeatureConfig(kind="mfcc", ceps=ceps, mels=mels, energy=energy, sample_rate=rate)
    wanted = torchaudio.compliance.kaldi.mfcc(
        SOUND[None] * INT16_SCALE,
        sample_frequency=rate,
        num_ceps=ceps,
        num_mel_bins=mels,
        use_energy=energy,
        window_type="hamming",
        htk_compat=True,
        dither=0.0,
    )
    found = torch.from_numpy(extractor(config).static(SAMPLES))
    assert found.shape == wanted.shape == (extractor(config).frames(len(SOUND)), config.static_dims)
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=1e-4)


def test_nothing_is_found_in_less_than_a_window_and_blocks_are_the_whole() -> None:
    kind = extractor(FeatureConfig(kind="mfcc"))
    assert kind.static(SAMPLES[:300]).shape == (0, 13)
    blocks = np.concatenate(list(kind.blocks(np.split(SAMPLES, range(1700, len(SAMPLES), 1700)))))
    np.testing.assert_allclose(blocks, kind.static(SAMPLES), atol=1e-3, rtol=0)


def test_the_net_takes_coefficients_as_channels() -> None:
    inventory = named_inventory("timit61")
    config = load_config("demo", ["features.kind=mfcc", "features.ceps=20"])
    net = build_net(config, inventory)
    assert net.convs[0].get_parameter("conv.weight").shape[1:] == (60, 1, 5)
    frames = torch.tensor([30])
    logits, _ = net.eval()(torch.randn(1, 3, 20, 30), frames)
    assert logits.shape == (1, 15, 62)


def test_more_coefficients_than_bands_are_refused() -> None:
    with pytest.raises(InputError, match="ceps 50 must not exceed mels 40"):
        load_config("demo", ["features.kind=mfcc", "features.ceps=50"])


def test_the_settings_that_a_base_brings_for_bands_are_named_with_their_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("base: finetune\nfeatures: {kind: mfcc}\ntrain: {init_from: ipa}\n")
    config = load_config("mine.yaml")
    with pytest.raises(InputError, match=r"augment.warp, .*train.init_from are; set augment.warp=0 ") as refused:
        extractor(config.features).check(config)
    cured = load_config("mine.yaml", refused.value.fix.removeprefix("set ").split())
    extractor(cured.features).check(cured)
    assert cured.train.init_from is None and cured.augment.noise_db is None
    assert cured.augment.time_masks == config.augment.time_masks > 0 and cured.augment.speed == config.augment.speed


@pytest.mark.parametrize("given", [{}, {"mels": 80}, {"mels": 80, "sample_rate": 48000}, {"kind": "mfcc", "mels": 23}])
def test_no_product_is_large_enough_for_blas_to_divide(
    given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenBLAS takes one thread for up to 2^18 multiplications; more threads would wait for each other."""
    config, matmul = parse_config(SETTINGS | {"features": given}, "test").features, np.matmul
    sizes: list[int] = []

    def noted(a: Rows, b: Rows, **options: Any) -> Any:
        sizes.append(a.shape[-2] * a.shape[-1] * b.shape[-1])
        return matmul(a, b, **options)

    sound = np.random.default_rng(0).normal(0, 0.1, 7 * config.sample_rate).astype(np.float32)
    wanted = extractor(config).static(sound)
    monkeypatch.setattr(np, "matmul", noted)
    found = extractor(config).static(sound)
    assert np.array_equal(found, wanted) and 0 < max(sizes) <= 2**18


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 400])
def test_products_in_groups_are_those_of_the_whole(count: int) -> None:
    random = np.random.default_rng(1)
    rows, matrix = random.normal(size=(count, 129)).astype(np.float32), random.normal(size=(129, 40)).astype(np.float32)
    found = kinds.product(rows, matrix)
    assert found.dtype == np.float32 and found.shape == (count, 40)
    np.testing.assert_allclose(found, rows.astype(float) @ matrix.astype(float), rtol=0, atol=1e-4)
