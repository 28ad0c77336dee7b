"""MFCC against torchaudio's Kaldi-compatible ones, and what they allow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torchaudio

from speechctc.config.load import load_config
from speechctc.config.schema import FeatureConfig
from speechctc.core.errors import InputError
from speechctc.features.extractor import INT16_SCALE, extractor
from speechctc.model.net import build_net
from speechctc.phones.inventory import named_inventory

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


def test_more_coefficients_than_bands_and_masks_of_bands_are_refused() -> None:
    with pytest.raises(InputError, match="ceps 50 must not exceed mels 40"):
        load_config("demo", ["features.kind=mfcc", "features.ceps=50"])
    masked = load_config("demo", ["features.kind=mfcc", "augment.band_masks=1"])
    with pytest.raises(InputError, match="for which augment.band_masks are; set augment.band_masks=0$"):
        extractor(masked.features).check(masked)


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
