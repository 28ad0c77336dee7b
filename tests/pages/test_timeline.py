"""A recording on a page: its cells, its sound, and its spectrogram against a direct Fourier sum."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.pages.page import environment
from speechctc.pages.timeline import (
    Cell,
    SpectrogramSettings,
    Tier,
    gaussian,
    grey_png,
    levels_db,
    make_timeline,
    ogg_opus,
    pixels_per_second,
    shades,
    spectrogram_pngs,
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


def test_a_recording_is_one_strip_with_its_cells_where_they_are() -> None:
    cells = (Cell(0, 1, "a"), Cell(1, 2.5, "long", "right", "about"), Cell(2.5, 3, "b"))
    line = make_timeline("x", "name", tone(3), RATE, [Tier("phones", cells)])
    assert line.tiers[0].cells == cells and line.width == 450 and len(line.pictures) == 1
    assert line.percent(1.5) == "50.0000%" and line.ticks == (0, 0.5, 1, 1.5, 2, 2.5, 3)


def test_the_spectrogram_of_a_long_recording_is_as_if_drawn_at_once() -> None:
    samples = np.random.default_rng(4).standard_normal(RATE * 47).astype(np.float32) * np.linspace(0.1, 1, RATE * 47)
    parts = spectrogram_pngs(samples.astype(np.float32), RATE)
    assert [read_png(part).shape[1] for part in parts] == [4000, 4000, 1400]
    levels = levels_db(samples.astype(np.float32), RATE, SpectrogramSettings(), 9400, 120)
    expected = shades(levels, levels.max(), 50)
    np.testing.assert_array_equal(np.concatenate([read_png(part) for part in parts], axis=1), expected)
    line = make_timeline("x", "name", samples.astype(np.float32), RATE, [])
    assert [width for _, width in line.pictures] == ["42.5532%", "42.5532%", "14.8936%"]


def test_a_page_holds_the_sound_and_the_pictures() -> None:
    line = make_timeline("x", "name", tone(1), RATE, [])
    sound, found = soundfile.read(io.BytesIO(base64.b64decode(line.sound.partition(",")[2])))
    assert len(sound) / found == pytest.approx(1) and line.pictures[0][0].startswith("data:image/png;base64,")
    assert line.frequencies[0] == ("1 kHz", "81.82%")


def test_short_phones_with_long_labels_widen_the_scale() -> None:
    assert pixels_per_second([Cell(0, 1, "a")]) == 150 == pixels_per_second([])
    assert pixels_per_second([Cell(0, 0.1, "tcl")]) == 315
    assert pixels_per_second([Cell(0, 0.0, "tcl")]) == 400


def test_a_label_without_room_is_small_and_stands_apart() -> None:
    cells = [Cell(k / 10, (k + 1) / 10, "a") for k in range(9)] + [Cell(0.9, 0.92, "aa"), Cell(0.92, 1, "b")]
    line = make_timeline("x", "name", tone(1), RATE, [Tier("phones", tuple(cells))])
    assert [line.is_narrow(cell) for cell in cells] == [False] * 9 + [True, line.width * 0.08 < 14.5]
    show = '{% from "timeline.html" import show_timeline %}{{ show_timeline(line) }}'
    page = environment().from_string(show).render(line=line)
    assert page.count('class="cell plain narrow"') == sum(map(line.is_narrow, cells))


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
    settings = SpectrogramSettings(window_length=0.03)
    picture = read_png(spectrogram_pngs(samples, rate, settings, columns=100, rows=110)[0])
    dark = np.argwhere(picture < 3)  # rows of 50 Hz, columns of 10 ms
    assert set(dark[:, 0]) <= {68, 69, 70, 71} and {69, 70} & set(dark[:, 0])
    assert 49 <= dark[:, 1].min() <= 51 and 73 <= dark[:, 1].max() <= 75


@pytest.mark.parametrize("count", [0, 1, 7, 16000])
def test_silence_and_very_short_recordings_are_white_pictures(count: int) -> None:
    assert (read_png(spectrogram_pngs(np.zeros(count, dtype=np.float32), 16000)[0]) == 15).all()


def test_above_half_the_rate_the_picture_is_white() -> None:
    samples = np.random.default_rng(2).standard_normal(8000).astype(np.float32)
    picture = read_png(spectrogram_pngs(samples, 8000, columns=50, rows=110)[0])
    assert (picture[:29] == 15).all() and (picture[32:] < 15).mean() > 0.9


def test_the_picture_of_a_long_recording_stays_small_even_for_noise() -> None:
    samples = np.random.default_rng(3).standard_normal(16000 * 30).astype(np.float32)  # noise: the worst case
    contents = spectrogram_pngs(samples, 16000)
    assert [read_png(each).shape for each in contents] == [(120, 4000), (120, 2000)]
    assert sum(map(len, contents)) < 6000 * 54
