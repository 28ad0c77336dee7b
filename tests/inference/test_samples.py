"""The Python API: samples in place of files, log posteriors, what a model tells of itself, results in other forms."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import speechctc
from speechctc.audio.annotations import read_textgrid
from speechctc.core.errors import InputError
from speechctc.inference import decoder
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import SampleBlocks
from speechctc.stages.open_model import ModelChoice, open_model
from tests.tiny_model import sing, write_song
from tests.tones import HERTZ, PHONES, RATE

SONG = ["low", "mid", "mid", "high", "low", "top"]
RESULT = Recognition("a.wav", 1.0, (Segment("aa", 0.1, 0.2, 0.9, (("ae", 0.05),)), Segment("b", 0.2, 0.4, 0.5)))


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Recogniser:
    return speechctc.load(tiny_model, "cpu")


@pytest.mark.parametrize("rate", [16000, 22050])
def test_samples_give_what_their_file_gives(model: Recogniser, tmp_path: Path, rate: int) -> None:
    mono, _ = sing(SONG, np.random.default_rng(0), rate)
    stereo = np.stack([mono, 0.5 * mono], axis=1)
    for samples in (mono, stereo):
        soundfile.write(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
        whole = model.decode(tmp_path / "a.wav", alternatives=1)
        assert whole.phones == tuple(SONG)
        tensor = torch.from_numpy(samples)
        for form in (samples, tensor, samples.T.copy().T, tensor.clone().requires_grad_()):
            found = model.decode(form, rate, alternatives=1)
            assert found.segments == whole.segments and found.seconds == whole.seconds and found.file == "samples"
        assert model.align(samples, SONG, rate).segments == model.align(tmp_path / "a.wav", SONG).segments


@pytest.mark.parametrize(("dtype", "scale", "middle"), [("int16", 2**15, 0), ("int32", 2**31, 0), ("uint8", 128, 128)])
def test_whole_numbers_have_the_scale_of_their_type(model: Recogniser, dtype: str, scale: int, middle: int) -> None:
    mono, _ = sing(SONG, np.random.default_rng(0))
    whole = (mono.astype(np.float64) * scale + middle).astype(dtype)
    back = (whole.astype(np.float64) - middle) / scale
    np.testing.assert_array_equal(model.logits(whole, 16000), model.logits(back, 16000))


@pytest.mark.parametrize(
    ("samples", "rate", "words"),
    [
        (np.zeros((2, 500)), 16000, r"shape \(2, 500\).*transpose"),
        (np.zeros((5, 5, 5)), 16000, "shape"),
        (np.float32(1.0), 16000, "shape"),
        (np.full(900, np.nan), 16000, "finite"),
        (np.full(900, 12000.0), 16000, "up to 12000; scale"),
        (np.zeros(900, np.int64), 16000, "type int64"),
        (np.zeros(900, complex), 16000, "type complex"),
        ("a.wav", 16000, "has its own"),
        (np.zeros(900), None, "without a rate"),
        *((np.zeros(900), rate, "not a rate") for rate in (16, 0, -8000, 16000.5, "16000", np.nan, True)),
    ],
)
def test_what_cannot_be_a_recording_is_said(model: Recogniser, samples: Any, rate: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        model.decode(samples, rate)


def test_no_samples_and_few_have_no_phones(model: Recogniser) -> None:
    for count in (0, 1, 399):
        result = model.decode(np.zeros(count), 16000)
        assert result.phones == () and result.seconds == count / 16000


def test_a_model_tells_its_phones_and_how_far_it_sees(model: Recogniser) -> None:
    assert model.phones == tuple(sorted(PHONES))
    assert model.receptive_field == pytest.approx(0.21)  # 1 + 4 + 2 x 4 frames, and 8 of the derivatives, of 10 ms


def test_the_bundled_model_has_a_name(here: Path, tiny_model: Path) -> None:
    assert len(speechctc.load("english", "cpu").phones) == 39
    (here / "english" / "audio").mkdir(parents=True)  # a folder without a model is not meant
    assert len(speechctc.load("english", "cpu").phones) == 39
    (here / "english" / "audio").rmdir()
    (here / "english").rmdir()
    (here / "english").symlink_to(tiny_model)
    with pytest.warns(UserWarning, match="english: the model in the folder .*, not the bundled one"):
        assert len(speechctc.load("english", "cpu").phones) == 4


def test_a_result_as_a_textgrid(tmp_path: Path) -> None:
    text = RESULT.to_textgrid(tmp_path / "a.TextGrid")
    assert (tmp_path / "a.TextGrid").read_text(encoding="utf-8") == text == RESULT.to_textgrid()
    assert [label for _, _, label in read_textgrid(tmp_path / "a.TextGrid", "phones")] == ["aa", "b"]
    (tmp_path / "a.TextGrid").write_text("corrected by hand")
    with pytest.raises(InputError, match="exists already"):
        RESULT.to_textgrid(tmp_path / "a.TextGrid")
    assert (tmp_path / "a.TextGrid").read_text() == "corrected by hand"
    assert RESULT.to_textgrid(str(tmp_path / "a.TextGrid"), overwrite=True) == text


def test_a_result_as_a_data_frame() -> None:
    pytest.importorskip("pandas")
    frame = RESULT.to_dataframe()
    assert list(frame.columns) == ["file", "start", "end", "phone", "confidence"]
    assert frame.values.tolist() == [["a.wav", 0.1, 0.2, "aa", 0.9], ["a.wav", 0.2, 0.4, "b", 0.5]]
    assert Recognition("a.wav", 1.0, ()).to_dataframe().shape == (0, 5)


def test_the_examples_of_the_docstrings_run() -> None:
    for module in (speechctc, decoder):
        failed, tried = doctest.testmod(module)
        assert failed == 0 and tried >= 3


def test_types_are_shipped() -> None:
    assert (Path(speechctc.__file__).parent / "py.typed").is_file()


def test_no_phones_are_found_where_decoding_finds_none(model: Recogniser, tiny_model: Path, tmp_path: Path) -> None:
    steps = np.arange(4 * RATE) / RATE
    soundfile.write(tmp_path / "hum.wav", 0.4 * np.sin(2 * np.pi * HERTZ["mid"] * steps), RATE)
    ungated = open_model(tiny_model / "best", Recogniser, ModelChoice("cpu", min_modulation_db=0))
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


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_samples_of_16_bits_in_32_are_refused(kind: Any) -> None:
    """They were silence, and recognised as nothing; quieter ones may be silence."""
    narrow = (20000 * np.sin(np.arange(16000))).astype(np.int32)
    with pytest.raises(InputError, match="int32 up to 19999, which is silence; convert those of 16 bits"):
        SampleBlocks(kind(narrow), 16000, 16000)
    SampleBlocks(kind(narrow // 100), 16000, 16000)
    SampleBlocks(kind(narrow * 65536), 16000, 16000)
