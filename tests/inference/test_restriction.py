"""A recogniser that hears only the phones of an inventory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.restriction import read_inventory, restrict
from speechctc.model.numpy_net import log_softmax
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song
from tests.train_helpers import Recorder

SONG = ["low", "mid", "high", "top", "low"]


@pytest.fixture
def here(beside_latest: Path) -> Path:
    return beside_latest


def inventory(folder: Path, text: str) -> Path:
    path = folder / "phones.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_posteriors_are_those_given_the_inventory(tiny_model: Path, tmp_path: Path) -> None:
    whole = Recogniser.load(tiny_model, "cpu")
    samples = sing(SONG, np.random.default_rng(1))[0]
    before = np.exp(log_softmax(whole.logits(samples, 16000)).astype(np.float64))
    some = restrict(whole, inventory(tmp_path, "low\nhigh top"), Recorder())
    after = np.exp(log_softmax(some.logits(samples, 16000)).astype(np.float64))
    kept = [0, *(1 + whole.phones.index(phone) for phone in ("low", "high", "top"))]
    left_out = 1 + whole.phones.index("mid")
    given = before[:, kept] / before[:, kept].sum(1, keepdims=True)  # by the definition of a conditional probability
    np.testing.assert_allclose(after[:, kept], given, atol=1e-5)
    assert not after[:, left_out].any()
    again = np.exp(log_softmax(whole.logits(samples, 16000)).astype(np.float64))
    np.testing.assert_array_equal(again, before)


def test_only_phones_of_the_inventory_are_heard_or_named(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", SONG)
    inventory(here, "low high top")
    assert "mid" in speechctc("decode", "a.wav").out
    for options in ([], ["--beam", 8], ["--format", "json", "--alternatives", 3], ["--nbest", 3]):
        done = speechctc("decode", "a.wav", "--inventory", "phones.txt", *options)
        assert done.status == 0 and "mid" not in done.out and "low" in done.out
    assert "--cluster" in one_line_error(speechctc("decode", "a.wav", "--inventory", "phones.txt", "--cluster", "x"))


def test_what_is_no_ipa_or_empty_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = Recogniser.load(tiny_model, "cpu")
    with pytest.raises(InputError, match=r"neither IPA nor labels of the model: t5, qq#"):
        restrict(model, inventory(tmp_path, "low t5 qq#"), Recorder())
    with pytest.raises(InputError, match="no phones in it"):
        read_inventory(inventory(tmp_path, " \n"))
    with pytest.raises(InputError, match="none of its phones is like"):
        restrict(model, inventory(tmp_path, "ǃ"), Recorder())


def test_phones_that_the_model_lacks_are_heard_as_the_nearest_and_named(tmp_path: Path) -> None:
    model, recorder = Recogniser.load("english", "cpu"), Recorder()
    some = restrict(model, inventory(tmp_path, "pʰ a i u t aɪ"), recorder)
    assert any("heard as the nearest" in said and "pʰ as p" in said for said in recorder.said)
    biases = some.checkpoint.weights["output.bias"].tolist()
    heard = {phone for phone, bias in zip(some.phones, biases[1:], strict=True) if bias > -1e3}
    assert {"p", "iy", "uw", "t", "ay"} <= heard and "m" not in heard and len(heard) < 10
