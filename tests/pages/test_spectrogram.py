"""Spectrograms: their levels against a direct Fourier sum, and the pictures read again by another library."""

from __future__ import annotations

import io

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.pages.timeline import SpectrogramSettings, gaussian, grey_png, levels_db, spectrogram_png

image = pytest.importorskip("PIL.Image", reason="Pillow reads the pictures again; it is in the extra dev")


def read_png(content: bytes) -> NDArray[np.uint8]:
    """Return a picture as Pillow reads it, 0 to 15."""
    with image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture.convert("L"), dtype=np.uint8) // 17


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 4), (120, 901)])
def test_png_against_pillow(shape: tuple[int, int]) -> None:
    levels = np.random.default_rng(0).integers(0, 16, shape, dtype=np.uint8)
    np.testing.assert_array_equal(read_png(grey_png(levels)), levels)


def test_levels_against_a_direct_sum() -> None:
    rng, rate = np.random.default_rng(1), 8000
    samples = rng.standard_normal(400).astype(np.float32)
    settings = SpectrogramSettings(highest=4000.0, preemphasis=6.0)
    levels = levels_db(samples, rate, settings, columns=5, rows=16)  # bins of 250 Hz: the middle of row 3 is 3125 Hz
    window = gaussian(80)
    middle = int(2.5 / 5 * 400)
    frame = samples[middle - 40 : middle + 40].astype(float) * window
    height = round(3125 / 8000 * 128) / 128 * 8000  # the bin that stands for it
    direct = abs(np.sum(frame * np.exp(-2j * np.pi * height / rate * np.arange(80)))) ** 2
    assert levels[3, 2] == pytest.approx(10 * np.log10(direct) + 6 * np.log2(3.125), abs=1e-9)


def test_a_tone_is_at_its_frequency_and_in_its_time() -> None:
    rate = 16000
    samples = np.zeros(rate, dtype=np.float32)
    steps = np.arange(rate // 4)
    samples[rate // 2 : rate // 2 + rate // 4] = 0.1 * np.sin(2 * np.pi * 2000 / rate * steps)
    picture = read_png(spectrogram_png(samples, rate, SpectrogramSettings(window_length=0.03), columns=100, rows=110))
    dark = np.argwhere(picture < 3)  # rows of 50 Hz, columns of 10 ms
    assert set(dark[:, 0]) <= {68, 69, 70, 71} and {69, 70} & set(dark[:, 0])
    assert 49 <= dark[:, 1].min() <= 51 and 73 <= dark[:, 1].max() <= 75


@pytest.mark.parametrize("count", [0, 1, 7, 16000])
def test_silence_and_very_short_recordings_are_white_pictures(count: int) -> None:
    assert (read_png(spectrogram_png(np.zeros(count, dtype=np.float32), 16000)) == 15).all()


def test_above_half_the_rate_the_picture_is_white() -> None:
    samples = np.random.default_rng(2).standard_normal(8000).astype(np.float32)
    picture = read_png(spectrogram_png(samples, 8000, columns=50, rows=110))
    assert (picture[:29] == 15).all() and (picture[32:] < 15).mean() > 0.9


def test_the_picture_of_a_long_recording_stays_small_even_for_noise() -> None:
    samples = np.random.default_rng(3).standard_normal(16000 * 30).astype(np.float32)  # noise: the worst case
    content = spectrogram_png(samples, 16000)
    assert read_png(content).shape == (120, 900) and len(content) < 48_000
