from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio.sound_file import channels_differ

RATE = 8000
NOISE = np.random.default_rng(0).normal(0, 0.1, (2, 40 * RATE))
FIRST_HALF = np.arange(40 * RATE) < 20 * RATE


@pytest.mark.parametrize(
    ("channels", "differ"),
    [
        ([NOISE[0]], False),
        ([NOISE[0], NOISE[0]], False),
        ([NOISE[0], 0.3 * NOISE[0] + 0.1 * NOISE[1]], False),  # the same voice, farther away
        ([NOISE[0], 0.0001 * NOISE[1]], False),  # a channel where nobody speaks
        ([NOISE[0], np.zeros(40 * RATE)], False),
        ([NOISE[0], NOISE[1]], True),
        ([NOISE[0] * FIRST_HALF, NOISE[1] * ~FIRST_HALF], True),  # two who take turns
        ([NOISE[0], NOISE[0], NOISE[1]], True),
        ([np.full(3, 0.1), np.full(3, 0.2)], False),
        ([NOISE[0] * np.nan, NOISE[1]], False),
    ],
)
def test_channels_that_hold_different_sounds_are_told(
    tmp_path: Path, channels: list[NDArray[np.float64]], differ: bool
) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack(channels, axis=1), RATE, subtype="FLOAT")
    assert channels_differ(tmp_path / "a.wav") is differ


def test_samples_that_are_no_numbers_are_no_warning(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", NOISE[:, :RATE].T, RATE, subtype="FLOAT")
    raw = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "a.wav").write_bytes(raw[:-8] + b"\x01\x00\x80\x7f\x00\x00\x80\x7f")  # a signalling NaN, infinity
    channels_differ(tmp_path / "a.wav")
