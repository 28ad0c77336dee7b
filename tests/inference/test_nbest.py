"""The best sequences of a recording: the silence gate, channels and pieces are those of decoding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from tests.tiny_model import sing, write_song
from tests.tones import HERTZ, RATE

SONG = ["low", "mid", "mid", "high", "low", "top"]


@pytest.fixture
def model(tiny_model: Path) -> Recogniser:
    return Recogniser.load(tiny_model / "best", "cpu")


def best(model: Recogniser, path: Path, channel: int | None = None) -> tuple[str, ...]:
    return tuple(phone for each in model.nbest(path, 1, channel=channel) for phone in each.phones)


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
    rows = model.log_posteriors(tmp_path / "a.wav")
    np.testing.assert_allclose(np.exp(rows).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(rows.argmax(1), logits.argmax(1))
    soundfile.write(tmp_path / "short.wav", np.zeros(9), RATE)
    assert model.log_posteriors(tmp_path / "short.wav").shape == (0, logits.shape[1])
    assert best(model, tmp_path / "short.wav") == ()


def test_the_best_come_with_their_scores(model: Recogniser) -> None:
    samples, _ = sing(SONG, np.random.default_rng(0))
    found = model.nbest(samples, 4, RATE)
    assert [each.rank for each in found] == [1, 2, 3, 4] and {each.start for each in found} == {0.0}
    assert found[0].phones == tuple(SONG) and len({each.phones for each in found}) == 4
    assert sorted((each.total for each in found), reverse=True) == [each.total for each in found]
    pause = np.zeros(20 * RATE, np.float32)
    pieces = model.nbest(np.concatenate([samples, pause, samples, pause, samples]), 1, RATE)
    assert len(pieces) > 1 and pieces[1].start > 0
    assert pieces[0].phones[: len(SONG)] == tuple(SONG) and {each.rank for each in pieces} == {1}
    with pytest.raises(InputError, match="at least 1"):
        model.nbest(samples, 0, RATE)
