"""A recording on a page: where its lines are cut, its sound, and its spectrogram against a direct Fourier sum."""

from __future__ import annotations

import base64
import io
import itertools

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.pages.timeline import (
    Cell,
    SpectrogramSettings,
    Tier,
    cuts,
    gaussian,
    grey_png,
    levels_db,
    make_timeline,
    ogg_opus,
    pixels_per_second,
    spectrogram_png,
)

RATE = 8000


def tone(seconds: float, rate: int = RATE) -> NDArray[np.float32]:
    return (0.3 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


@pytest.mark.parametrize("rate", [8000, 11025, 16000])
def test_sound_has_its_length_and_its_pitch_after_reading(rate: int) -> None:
    read, found = soundfile.read(io.BytesIO(ogg_opus(tone(1.5, rate), rate)), dtype="float32")
    assert len(read) / found == pytest.approx(1.5, abs=0.001)
    spectrum = np.abs(np.fft.rfft(read))
    assert np.argmax(spectrum) / 1.5 == pytest.approx(440, abs=2)


@pytest.mark.parametrize("seconds", [0.0, 3.0, 10.0, 10.5, 47.3])
def test_pieces_cover_the_recording_and_are_cut_where_words_or_phones_start(seconds: float) -> None:
    words, phones = ([step * k for k in range(200) if step * k < seconds] for step in (1.9, 0.3))
    places = cuts(seconds, [words, phones], 1.5)
    assert places[0] == 0 and places[-1] == seconds
    assert all(0 <= b - a <= 1.5 for a, b in itertools.pairwise(places))
    assert set(places[1:-1]) <= {*words, *phones} and (seconds < 5 or set(places[1:-1]) & set(words[1:]))


def test_cells_lie_in_every_line_that_they_touch() -> None:
    cells = (Cell(0, 1, "a"), Cell(1, 2.5, "long", "right", "about"), Cell(2.5, 3, "b"))
    line = make_timeline("x", "name", tone(3), RATE, [Tier("phones", cells)])
    found = [
        [(cell.label, round(cell.start, 3), round(cell.end, 3)) for cell in strip.tiers[0].cells]
        for strip in line.strips
    ]
    assert found == [[("a", 0, 1), ("long", 1, 2.267)], [("long", 2.267, 2.5), ("b", 2.5, 3)]]
    second = line.strips[1]
    assert second.percent(79 / 30) == "50.000%" and second.percent_wide(second.tiers[0].cells[1]) == "68.182%"
    assert second.ticks == (2.5, 3.0) and {strip.width for strip in line.strips} == {340, 110}


def test_a_page_holds_the_sound_and_the_pictures() -> None:
    line = make_timeline("x", "name", tone(1), RATE, [])
    sound, found = soundfile.read(io.BytesIO(base64.b64decode(line.sound.partition(",")[2])))
    assert len(sound) / found == pytest.approx(1) and line.strips[0].picture.startswith("data:image/png;base64,")
    assert line.frequencies[0] == ("1 kHz", "81.82%")


def test_short_phones_with_long_labels_widen_the_scale() -> None:
    assert pixels_per_second([Cell(0, 1, "a")]) == 150 == pixels_per_second([])
    assert pixels_per_second([Cell(0, 0.1, "tcl")]) == 315
    assert pixels_per_second([Cell(0, 0.0, "tcl")]) == 400


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
