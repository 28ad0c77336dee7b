"""Augmentation against what the recording itself would have given, and what it must never do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchaudio
from torch import Tensor

from speechctc.config.schema import AugmentConfig, Config, CorpusConfig, FeatureConfig, ModelConfig
from speechctc.ctc import ctc_loss
from speechctc.features.padded import static_features
from speechctc.training.augment import Augmenter, least_frames
from speechctc.training.train_step import TrainStep
from tests.train_helpers import trainer_of

CPU = torch.device("cpu")
EVERYTHING = (
    "augment.speed=0.1",
    "augment.warp=0.1",
    "augment.gain_db=6",
    "augment.colour_db=3",
    "augment.noise_db=[10,40]",
    "augment.reverb=0.5",
    "augment.telephone=0.5",
    "augment.band_masks=1",
    "augment.time_masks=2",
)


def augmenter(stride: int = 1, **values: Any) -> Augmenter:
    return Augmenter(
        Config(
            corpus=CorpusConfig(kind="demo"),
            augment=AugmentConfig(**values),
            features=FeatureConfig(mels=23),
            model=ModelConfig(time_stride=stride),
        ),
        CPU,
    )


def varied_by(chosen: Augmenter, static: Tensor, frames: Tensor, *labels: Tensor) -> tuple[Tensor, Tensor]:
    static, frames = chosen.perturb_speed(static, frames, *labels)
    return chosen.perturb_spectrum(static, frames), frames


def drawing(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """Let these be the numbers from 0 to 1 that are drawn, one an utterance."""
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(values))


def labels_of(*counts: int) -> tuple[Tensor, Tensor]:
    return torch.ones(len(counts), max(counts), dtype=torch.int64).cumsum(1), torch.tensor(counts)


def speech(seconds: float) -> Tensor:
    steps = torch.arange(int(16000 * seconds))
    return 0.1 * torch.sin(steps * 0.3) * torch.sin(steps * 0.0011) + 0.02 * torch.sin(steps * 1.1)


def test_without_settings_nothing_changes() -> None:
    static, frames = torch.randn(3, 50, 24).half(), torch.tensor([50, 31, 7])
    varied, new = varied_by(augmenter(), static, frames, *labels_of(4, 3, 1))
    assert varied is static and new is frames
    features = torch.randn(3, 3, 24, 50)
    assert augmenter().mask(features, frames) is features


@pytest.mark.parametrize("factors", [(0.7, 1.3, 1.0), (1.49, 0.51, 1.01)])
def test_time_is_stretched_as_by_linear_interpolation(
    monkeypatch: pytest.MonkeyPatch, factors: tuple[float, ...]
) -> None:
    static, frames = torch.randn(3, 41, 24), torch.tensor([41, 29, 5])
    drawing(monkeypatch, *(factor - 0.5 for factor in factors))
    varied, new = varied_by(augmenter(speed=0.5), static, frames, *labels_of(2, 2, 1))
    assert new.tolist() == [round(n / f) for n, f in zip((41, 29, 5), factors, strict=True)]
    for row, old, count, was in zip(varied, static, new.tolist(), frames.tolist(), strict=True):
        places = (np.arange(count) + 0.5) * was / count - 0.5
        for band in (0, 23):
            wanted = np.interp(places, np.arange(was), old[:was, band].numpy())
            np.testing.assert_allclose(row[:count, band].numpy(), wanted, atol=3e-5)


def test_no_utterance_becomes_too_short_for_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, counts = torch.tensor([[3, 3, 2, 9], [1, 2, 2, 2]]), torch.tensor([3, 4])
    frames = torch.tensor([9, 12])
    drawing(monkeypatch, 1.0, 1.0)
    _, new = varied_by(augmenter(stride=2, speed=0.5), torch.randn(2, 12, 24), frames, labels, counts)
    assert new.tolist() == [7, 11]  # 3 labels and 1 blank, 4 and 2, at two frames each but for the last


def test_least_frames_are_where_the_loss_becomes_finite() -> None:
    torch.manual_seed(0)
    labels, counts = torch.randint(1, 3, (40, 7)), torch.randint(0, 8, (40,))
    least = least_frames(labels, counts, 1)
    logits = torch.randn(15, 40, 3)
    for frames, finite in ((least, True), (least - 1, False)):
        losses = ctc_loss(logits, labels, frames, counts, reduction="none")
        asked = frames > 0 if finite else counts > 0
        assert bool((losses.isfinite() == finite)[asked].all())


def test_the_host_knows_how_long_it_can_become(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = augmenter(speed=0.23)
    for frames in range(1, 400):
        drawing(monkeypatch, 0.0)
        _, new = varied_by(changed, torch.zeros(1, frames, 24), torch.tensor([frames]), *labels_of(1))
        assert int(new) <= changed.most_frames(frames) <= frames / 0.77 + 2


def test_the_mel_axis_is_warped_and_the_energy_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    static = torch.randn(2, 9, 24)
    drawing(monkeypatch, 0.125, 1.0)
    varied, _ = varied_by(augmenter(warp=0.2), static, torch.tensor([9, 9]), *labels_of(1, 1))
    for row, old, factor in zip(varied, static, (0.85, 1.2), strict=True):
        for frame in (0, 8):
            wanted = np.interp(np.arange(23) * factor, np.arange(23), old[frame, :23].numpy())
            np.testing.assert_allclose(row[frame, :23].numpy(), wanted, atol=3e-5)
    assert torch.equal(varied[:, :, 23], static[:, :, 23])


def test_gain_is_that_of_a_louder_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, config = speech(0.5), FeatureConfig(mels=23)
    drawing(monkeypatch, 0.75)  # half of 12 dB
    static = static_features(samples, config)[None]
    varied, _ = varied_by(augmenter(gain_db=12), static, torch.tensor([static.shape[1]]), *labels_of(1))
    louder = static_features(samples * 10 ** (6 / 20), config)
    torch.testing.assert_close(varied[0], louder, atol=2e-3, rtol=0)


def test_colour_is_smooth_lasting_and_of_the_deviation_said() -> None:
    torch.manual_seed(3)
    static = torch.randn(500, 6, 24)
    varied, _ = varied_by(augmenter(colour_db=4), static, torch.full((500,), 6), *labels_of(*[1] * 500))
    added = varied - static
    assert float((added - added[:, :1]).abs().max()) < 1e-5 and not bool(added[:, :, 23].any())  # the same all along
    curve = added[:, 0, :23] * 10 / np.log(10)
    assert 3.6 < float(curve.square().mean().sqrt()) < 4.8
    assert float(curve.diff(n=2).abs().max()) < 0.35 * float(curve.abs().max())


@pytest.mark.parametrize("snr_db", [0.0, 15.0])
def test_noise_is_that_of_a_noisy_recording(monkeypatch: pytest.MonkeyPatch, snr_db: float) -> None:
    """In the mean over time, band by band; the signal to noise ratio is one over the mel bands."""
    torch.manual_seed(1)
    samples, config = speech(4.0), FeatureConfig(mels=23)
    static, noise = static_features(samples, config), torch.randn(len(samples))
    powers = [static_features(each, config)[:, :23].exp().sum(1).mean() for each in (samples, noise)]
    noisy = samples + noise * (powers[0] / powers[1]).sqrt() * 10 ** (-snr_db / 20)
    drawing(monkeypatch, 0.0)
    noised = augmenter(noise_db=(snr_db, snr_db))
    varied, _ = varied_by(noised, static[None], torch.tensor([len(static)]), *labels_of(1))
    wanted = static_features(noisy, config)
    difference = (varied[0].mean(0) - wanted.mean(0))[:23]
    assert float(difference.abs().max()) < 0.25 and float(difference.mean().abs()) < 0.1
    assert float((wanted.mean(0) - static.mean(0))[:23].max()) > 1  # the noise is there to be heard


def test_masks_hide_stretches_no_longer_than_said_and_inside_the_utterance() -> None:
    torch.manual_seed(2)
    features, frames = torch.ones(200, 2, 24, 300), torch.tensor([300, 200, 40, 1] * 50)
    masked = augmenter(time_masks=1.0, time_mask_ms=150).mask(features, frames)
    hidden = (masked == 0)[:, 0, 0]
    assert bool(((masked == 0) == hidden[:, None, None, :]).all())
    assert not bool(hidden[3::4].any())  # one frame is not to be lost
    share = hidden[0::4].float().mean() * 300 / (3 * 7.5)  # three stretches of 0 to 15 frames
    assert 0.8 < float(share) < 1.1
    assert int(hidden[2::4].sum(1).max()) <= 8  # one stretch of a fifth at most
    banded = augmenter(band_masks=2, band_mask=5).mask(features, frames)
    hidden = (banded == 0)[:, 0, :, 0]
    assert bool(((banded == 0) == hidden[:, None, :, None]).all())
    assert int(hidden.sum(1).max()) <= 10 and 3.5 < float(hidden.sum(1).float().mean()) < 5.2
    assert bool(hidden.any(0).all())


def test_only_training_is_augmented_and_the_step_alone_decides_how(extracted: Path, here: Path) -> None:
    train_step: TrainStep = trainer_of(extracted, here / "r", *EVERYTHING).train_step
    batch = next(
        b for b in trainer_of(extracted, here / "r").data.train.batches(trainer_of(extracted, here / "r").plan()) if b
    )
    train_step.net.eval()
    assert torch.equal(train_step.forward(batch)[0], train_step.forward(batch)[0])
    outcomes = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        (logits,), frames = train_step.forward_varied(batch)
        outcomes.append((logits, frames))
    assert torch.equal(outcomes[0][0], outcomes[1][0])
    assert not torch.equal(outcomes[0][1], outcomes[2][1])


def test_reverberation_adds_the_power_of_earlier_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds of decay, decibels of direct sound, chosen or not: drawn in this order."""
    drawn = iter([torch.tensor([1 / 6, 0.5]), torch.tensor([0.4, 0.2]), torch.tensor([0.4, 0.9])])  # 0.3 s, 3 dB
    static = static_features(speech(1.0), FeatureConfig(mels=23))[None].repeat(2, 1, 1)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: next(drawn))
    changed = augmenter(reverb=0.5).perturb_spectrum(static, torch.tensor([static.shape[1]] * 2)).double()
    power, decay = static[0].double().exp(), 10 ** (-6 * 0.01 / 0.3)
    tail = torch.zeros_like(power)
    for t in range(1, len(power)):
        tail[t] = decay * (tail[t - 1] + power[t - 1])
    tail *= 10**-0.3 * (1 - decay) / decay
    torch.testing.assert_close(changed[0], (power + tail).log(), atol=1e-4, rtol=0)
    torch.testing.assert_close(changed[1], static[1].double(), atol=1e-5, rtol=0)


def test_a_telephone_carries_the_middle_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([torch.tensor([0.75, 0.75]), torch.tensor([0.25, 0.25]), torch.tensor([0.1, 0.9])])  # 300, 3400 Hz
    static = static_features(speech(1.0), FeatureConfig(mels=23))[None].repeat(2, 1, 1)
    monkeypatch.setattr(torch, "rand", lambda *_, **__: next(drawn))
    limited, untouched = augmenter(telephone=0.5).perturb_spectrum(static, torch.tensor([static.shape[1]] * 2))
    banks = torchaudio.functional.melscale_fbanks(2000, 20.0, 8000.0, 23, 16000, None, "htk")
    centres = banks.argmax(0) * 8000 / 1999
    carried = (centres > 350) & (centres < 3300)
    outside = (centres < 250) | (centres > 3600)
    assert carried.sum() > 8 and outside.sum() > 4
    assert torch.equal(untouched, static[1])
    assert torch.equal(limited[:, :23][:, carried], static[0, :, :23][:, carried])
    assert torch.equal(limited[:, 23:], static[0, :, 23:]), "the energy stays"
    assert (limited[:, :23][:, centres > 3600] <= (static[0, :, :23][:, centres > 3600] - 13.8).clamp(min=3.01)).all()
    assert (limited[:, :23][:, outside] < static[0, :, :23][:, outside]).float().mean() > 0.9
