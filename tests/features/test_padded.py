from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchaudio

from speechctc.config.schema import FeatureConfig
from speechctc.features import extractor
from speechctc.features.extractor import local_cmn
from speechctc.features.padded import (
    Moments,
    delta,
    derivatives,
    net_input,
    sliding_cmn,
    sliding_cmn_one,
    static_features,
)

CONFIG = FeatureConfig()
Around = tuple[float, float] | None


def noise(samples: int, seed: int = 0) -> torch.Tensor:
    return 0.1 * torch.randn(samples, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (4, 0), (0, 3), (9, 2), (300, 300)])
def test_a_frame_is_less_the_mean_of_those_around_it_by_power(before: int, after: int) -> None:
    config = FeatureConfig(mels=4, energy=False, shift_ms=100, cmn_window_ms=(100 * before, 100 * after))
    lengths = [1, 2, 19, 40]
    static = 5 + 4 * torch.randn(4, 40, 4)
    ours = sliding_cmn(static, torch.tensor(lengths), config)
    for k, length in enumerate(lengths):
        row = static[k, :length].numpy().astype(np.float64)
        power = np.exp(np.maximum(row.mean(1), 0))
        power = np.array([power[max(t - 10, 0) : t + 11].mean() if power[t] > 1 else 1.0 for t in range(length)])
        for t in range(length):
            around = slice(max(t - before, 0), t + after + 1)
            centred = row[t] - np.average(row[around], axis=0, weights=power[around])
            wanted = centred if power[t] > 1 else [max(each, -5.0) for each in centred]
            np.testing.assert_allclose(ours[k, t].numpy(), wanted, atol=2e-6)


def test_a_long_silence_of_zeros_hardly_moves_the_mean() -> None:
    config = FeatureConfig(cmn_window_ms=(30_000, 30_000))
    samples, silence = noise(64_000), torch.zeros(16_000 * 9)
    with_it = static_features(torch.cat([silence, samples, silence]), config)
    inner = slice(900, 900 + 398)
    alone = sliding_cmn_one(static_features(samples, config), config)
    plain = with_it[inner] - with_it.mean(0)
    assert (plain - alone).abs().median() > 10
    torch.testing.assert_close(sliding_cmn_one(with_it, config)[inner], alone, atol=0.5, rtol=0)
    late = sliding_cmn_one(with_it, FeatureConfig(cmn_window_ms=(500, 500)))[-300:]
    assert late.abs().max() < 1e-3  # zeros and nothing else around: no rounding error of the louder past is blown up


@pytest.mark.parametrize("centre", [sliding_cmn_one, extractor.sliding_cmn, local_cmn])
@pytest.mark.parametrize("kind", ["zeros", "constant", "left by MP3"])
def test_what_16_bits_do_not_hold_is_no_further_below_the_mean_than_a_room(
    centre: Callable[[Any, FeatureConfig], Any], kind: str
) -> None:
    config = FeatureConfig(cmn_window_ms=(10_000, 5_000))
    pauses = {
        "zeros": torch.zeros(9_600),
        "constant": torch.full((9_600,), 0.25),
        "left by MP3": 3e-6 * noise(9_600, 1),
    }
    speech = noise(16_000)
    static = static_features(torch.cat([speech, pauses[kind], speech]), config)
    centred = np.asarray(centre(static if centre is sliding_cmn_one else static.numpy(), config))
    np.testing.assert_array_equal(centred[102:156], np.float32(-5.0))
    assert abs(float(centred[:90].mean())) < 0.3
    assert float(static[102:156].mean()) < float(static[:90].mean()) - 12


def test_a_quiet_room_is_left_as_it_is() -> None:
    config = FeatureConfig(cmn_window_ms=(10_000, 5_000))
    room = torch.round(20 * noise(9_600, 1)) / 32768  # the last two of 16 bits
    static = static_features(torch.cat([noise(16_000), room]), config)
    assert float(sliding_cmn_one(static, config)[102:].mean(1).max()) < -8


def test_a_quiet_speaker_beside_a_loud_one_is_centred_as_when_alone() -> None:
    config = FeatureConfig(cmn_window_ms=(10_000, 5_000))
    loud, quiet = noise(160_000), 0.1 * noise(160_000, 1)
    recordings = (torch.cat([loud, quiet]), quiet)
    both, alone = (torch.from_numpy(local_cmn(static_features(x, config).numpy(), config)) for x in recordings)
    torch.testing.assert_close(both[1210:1800], alone[210:800], atol=1e-3, rtol=0)
    assert both[:, :40].mean(0).abs().max() < 0.1


def test_a_long_pause_does_not_become_as_loud_as_the_speech_around_it() -> None:
    config = FeatureConfig(cmn_window_ms=(10_000, 5_000))
    speech, pause = noise(64_000), 1e-3 * noise(96_000, 1)
    centred = torch.from_numpy(local_cmn(static_features(torch.cat([speech, pause, speech]), config).numpy(), config))
    assert abs(float(centred[100:350].mean())) < 0.3
    assert float(centred[550:850].mean(1).max()) < -4  # it is 13.8 nats below the speech


def test_a_louder_recording_gives_the_same_input_where_features_are_centred() -> None:
    config = FeatureConfig(cmn_window_ms=(1500, 1500))
    samples = noise(8000)
    quiet, loud = (static_features(samples * level, config)[None] for level in (0.2, 2.0))
    frames, scale = torch.tensor([quiet.shape[1]]), torch.ones(3, 41)
    inputs = [net_input(static, frames, 0 * scale, scale, config) for static in (quiet, loud)]
    torch.testing.assert_close(*inputs, rtol=0, atol=1e-4)
    plain = [net_input(static, frames, 0 * scale, scale, CONFIG) for static in (quiet, loud)]
    assert float((plain[1] - plain[0])[:, 0].mean()) == pytest.approx(2 * np.log(10), abs=1e-4)


def test_a_recording_without_frames_leaves_the_others_in_its_batch_finite() -> None:
    config = FeatureConfig(mels=4, energy=False, cmn_window_ms=(50, 50))
    scale = torch.ones(3, 4)
    assert net_input(torch.randn(2, 9, 4), torch.tensor([9, 0]), scale, scale, config).isfinite().all()


@pytest.mark.parametrize("cmn_window_ms", [None, (30.0, 20.0)])
@pytest.mark.parametrize("deltas", [0, 1, 2, 3])
def test_an_utterances_input_is_the_same_alone_and_in_a_batch(deltas: int, cmn_window_ms: Around) -> None:
    config = FeatureConfig(mels=7, deltas=deltas, cmn_window_ms=cmn_window_ms)
    lengths = [1, 2, 5, 13]
    statics = [torch.randn(n, 8) for n in lengths]
    mean, std = torch.randn(config.channels, 8), torch.rand(config.channels, 8) + 0.5
    padded = torch.full((4, 17, 8), float("nan"))
    for row, static in zip(padded, statics, strict=True):
        row[: len(static)] = static
    padded = torch.where(padded.isnan(), 1e6, padded)
    together = net_input(padded, torch.tensor(lengths), mean, std, config)
    for k, static in enumerate(statics):
        alone = net_input(static[None], torch.tensor([len(static)]), mean, std, config)[0]
        assert torch.equal(together[k, :, :, : len(static)], alone)
        assert not together[k, :, :, len(static) :].any()


@pytest.mark.parametrize("cmn_window_ms", [None, (20.0, 10.0)])
def test_moments_of_parts_add_up_and_match_numpy(cmn_window_ms: Around) -> None:
    config = FeatureConfig(mels=5, deltas=1, cmn_window_ms=cmn_window_ms)
    parts = [torch.randn(n, 6) * 3 + 7 for n in (4, 1, 11)]
    mean, std = sum((Moments.of(part, config) for part in parts), start=Moments.zero(config)).normalisation()
    stacked = []
    for part in parts:
        frames = torch.tensor([len(part)])
        stacked.append(torch.cat(derivatives(sliding_cmn(part[None], frames, config), frames, config)).numpy())
    values = np.concatenate(stacked, axis=1, dtype=np.float64)
    np.testing.assert_allclose(mean.numpy(), values.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std.numpy(), values.std(1), rtol=1e-5)


def test_a_dimension_that_never_varies_is_left_finite() -> None:
    config = FeatureConfig(mels=5, deltas=0)
    mean, std = Moments.of(torch.ones(9, 6), config).normalisation()
    assert torch.equal(std, torch.ones(1, 6)) and torch.equal(mean, torch.ones(1, 6))


@pytest.mark.parametrize("window", [3, 5, 9])
def test_a_derivative_is_torchaudios_to_the_bit(window: int) -> None:
    values = 5 * torch.randn(3, 61, 13, generator=torch.Generator().manual_seed(window))
    ours = delta(values, torch.tensor([61, 61, 61]), FeatureConfig(delta_window=window))
    theirs = torchaudio.functional.compute_deltas(values.transpose(1, 2), win_length=window).transpose(1, 2)
    assert torch.equal(ours, theirs)
