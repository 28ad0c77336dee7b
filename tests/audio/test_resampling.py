import tracemalloc
from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
import torchaudio
from numpy.typing import NDArray

from speechctc.audio import resampling

RATES = [(22254, 16000), (16001, 16000), (44101, 16000), (7919, 16000), (15999, 47999), (1_000_003, 16000)]


def noise(length: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, length).astype(np.float32)


def by_the_book(samples: NDArray[np.float32], rate: int, wanted: int) -> NDArray[np.float64]:
    """Sum a sinc in a Hann window over all samples, in float64."""
    times = np.arange(-(-len(samples) * wanted // rate)) / wanted
    cutoff = min(rate, wanted) * resampling.ROLLOFF
    crossings = (times[:, None] - np.arange(len(samples)) / rate) * cutoff
    hann = np.where(
        np.abs(crossings) < resampling.ZERO_CROSSINGS, np.cos(crossings * np.pi / 2 / resampling.ZERO_CROSSINGS), 0
    )
    result: NDArray[np.float64] = (np.sinc(crossings) * hann**2) @ samples.astype(np.float64) * cutoff / rate
    return result


@pytest.mark.parametrize(("rate", "wanted"), RATES)
@pytest.mark.parametrize("length", [1, 2, 700])
def test_each_sample_is_the_windowed_sinc_sum(rate: int, wanted: int, length: int) -> None:
    samples = noise(length, rate)
    expected = by_the_book(samples, rate, wanted)
    found = resampling.resample(samples, rate, wanted)
    assert found.shape == expected.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("rate", "wanted"), [(44100, 16000), (11025, 16000), (48000, 16000), (22050, 8000)])
def test_it_is_torchaudios_filter(rate: int, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = noise(9000)
    exact = torchaudio.functional.resample(torch.from_numpy(samples).double(), rate, wanted, resampling.ZERO_CROSSINGS)
    for most in (resampling.MAX_WEIGHTS, 0):  # by the matrix, and as ratios without one
        monkeypatch.setattr(resampling, "MAX_WEIGHTS", most)
        np.testing.assert_allclose(resampling.resample(samples, rate, wanted), exact.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("rate", "wanted"), RATES)
def test_where_blocks_are_cut_changes_no_bit(rate: int, wanted: int) -> None:
    samples = noise(7_001)
    whole = resampling.resample(samples, rate, wanted)
    for size in (1, 97, 4096):
        cuts = [*accumulate([size] * 10), 7_001]
        blocks = [samples[start:end] for start, end in pairwise([0, *cuts])]
        np.testing.assert_array_equal(np.concatenate(list(resampling.resample_blocks(blocks, rate, wanted))), whole)


@pytest.mark.parametrize("rate", [22254, 44101, 1_000_000])
def test_memory_does_not_grow_with_the_rates(rate: int) -> None:
    samples = noise(60_000)
    tracemalloc.start()
    found = resampling.resample(samples, rate, 16000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == -(-60_000 * 16000 // rate)
    assert peak < 200 * 2**20
