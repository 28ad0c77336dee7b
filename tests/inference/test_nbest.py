"""The best sequences of a recording: the silence gate, channels and pieces are those of decoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.inference.recogniser import Recogniser
from speechctc.stages.nbest import log_posteriors, nbest
from tests.tiny_model import sing, write_song
from tests.tones import HERTZ, RATE

SONG = ["low", "mid", "mid", "high", "low", "top"]


@pytest.fixture
def model(tiny_model: Path) -> Recogniser:
    return Recogniser.load(tiny_model / "best", "cpu")


def best(model: Recogniser, path: Path, channel: int | None = None) -> tuple[str, ...]:
    labels = [label for _, ranked in nbest(model, path, channel) for label in ranked[0].labels]
    return tuple(model.inventory.decode(labels))


def test_no_phones_are_found_where_decoding_finds_none(model: Recogniser, tiny_model: Path, tmp_path: Path) -> None:
    steps = np.arange(4 * RATE) / RATE
    soundfile.write(tmp_path / "hum.wav", 0.4 * np.sin(2 * np.pi * HERTZ["mid"] * steps), RATE)
    ungated = Recogniser.load(tiny_model / "best", "cpu", min_modulation_db=0)
    assert set(best(ungated, tmp_path / "hum.wav")) == {"mid"}
    assert best(model, tmp_path / "hum.wav") == model.decode(tmp_path / "hum.wav").phones == ()


def test_the_best_is_what_decoding_finds_in_each_channel(model: Recogniser, tmp_path: Path) -> None:
    sounds = [sing(song, np.random.default_rng(0))[0][: 6 * RATE // 10] for song in (SONG, SONG[::-1])]
    soundfile.write(tmp_path / "two.wav", np.stack(sounds, axis=1), RATE)
    for channel in (1, 2):
        found = best(model, tmp_path / "two.wav", channel)
        assert found == model.decode(tmp_path / "two.wav", channel=channel).phones and found
    assert best(model, tmp_path / "two.wav", 1) != best(model, tmp_path / "two.wav", 2)


def test_posteriors_are_those_of_a_whole_recording(model: Recogniser, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    samples, rate = soundfile.read(tmp_path / "a.wav", dtype="float32")
    logits = model.logits(samples, rate)
    rows = log_posteriors(model, tmp_path / "a.wav")
    np.testing.assert_allclose(np.exp(rows).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(rows.argmax(1), logits.argmax(1))
    soundfile.write(tmp_path / "short.wav", np.zeros(9), RATE)
    assert log_posteriors(model, tmp_path / "short.wav").shape == (0, logits.shape[1])
    assert best(model, tmp_path / "short.wav") == ()
