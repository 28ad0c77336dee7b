"""The log posteriors of a recording: of all its frames, of the channel that is asked for, with the silence gate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.inference.recogniser import Recogniser
from tests.tiny_model import sing, write_song
from tests.tones import HERTZ, RATE

SONG = ["low", "mid", "mid", "high", "low", "top"]


@pytest.fixture
def model(tiny_model: Path) -> Recogniser:
    return Recogniser.load(tiny_model / "best", "cpu")


def test_no_phones_are_found_where_decoding_finds_none(model: Recogniser, tiny_model: Path, tmp_path: Path) -> None:
    steps = np.arange(4 * RATE) / RATE
    soundfile.write(tmp_path / "hum.wav", 0.4 * np.sin(2 * np.pi * HERTZ["mid"] * steps), RATE)
    ungated = Recogniser.load(tiny_model / "best", "cpu", min_modulation_db=0)
    assert ungated.log_posteriors(tmp_path / "hum.wav").argmax(1).any()
    assert not model.log_posteriors(tmp_path / "hum.wav").argmax(1).any()
    assert model.decode(tmp_path / "hum.wav").phones == ()


def test_posteriors_are_those_of_a_whole_recording(model: Recogniser, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    samples, rate = soundfile.read(tmp_path / "a.wav", dtype="float32")
    logits = model.logits(samples, rate)
    rows = model.log_posteriors(tmp_path / "a.wav")
    np.testing.assert_allclose(np.exp(rows).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(rows.argmax(1), logits.argmax(1))
    soundfile.write(tmp_path / "short.wav", np.zeros(9), RATE)
    assert model.log_posteriors(tmp_path / "short.wav").shape == (0, logits.shape[1])


def test_each_channel_has_its_own(model: Recogniser, tmp_path: Path) -> None:
    sounds = [sing(song, np.random.default_rng(0))[0][: 6 * RATE // 10] for song in (SONG, SONG[::-1])]
    soundfile.write(tmp_path / "two.wav", np.stack(sounds, axis=1), RATE, subtype="FLOAT")
    for channel, sound in enumerate(sounds, start=1):
        rows = model.log_posteriors(tmp_path / "two.wav", channel=channel)
        np.testing.assert_allclose(rows, model.log_posteriors(sound, RATE), atol=1e-3)
