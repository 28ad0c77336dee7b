"""Decoding with an n-gram of phones: when it is used, what it changes, and that blocks and threads change nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.lm.model import PhoneLM
from speechctc.model.checkpoint import load_checkpoint, save_checkpoint
from speechctc.stages.split_scoring import score_split
from tests.tiny_model import write_song
from tests.tones import PHONES
from tests.train_helpers import Recorder

SONG = ["low", "mid", "mid", "high", "low", "top"]


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint whose n-gram knows but one song: ``low mid high top`` again and again."""
    folder = tmp_path_factory.mktemp("lm") / "best"
    checkpoint = load_checkpoint(tiny_model / "best")
    labels = checkpoint.inventory.encode(["low", "mid", "high", "top"])
    lm = PhoneLM.learn([labels * k for k in range(1, 20)], len(PHONES) + 1, 3)
    save_checkpoint(folder, dataclasses.replace(checkpoint, lm=lm))
    return folder


@pytest.fixture
def model(run: Path) -> Recogniser:
    return Recogniser.load(run, "cpu")


def doubtful(model: Recogniser, phones: list[str], doubt: list[int], other: str) -> NDArray[np.float32]:
    """Return the logits of phones, three frames each, some of which are hardly more probable than another."""
    labels = model.inventory.encode(phones)
    logits = np.zeros((8 * len(phones), len(PHONES) + 1), np.float32)
    logits[:, 0] = 9.0
    for k, label in enumerate(labels):
        logits[8 * k + 2 : 8 * k + 5, label] = 18.0
        if k in doubt:
            logits[8 * k + 2 : 8 * k + 5, model.inventory.encode([other])[0]] = 17.8
    return logits


def test_a_damaged_ngram_is_said(run: Path, tmp_path: Path) -> None:
    checkpoint = load_checkpoint(run)
    for number, classes in enumerate((len(PHONES), len(PHONES) + 2)):
        wrong = dataclasses.replace(checkpoint, lm=PhoneLM.learn([[1]], classes, 2))
        save_checkpoint(tmp_path / str(number), wrong)
        with pytest.raises(InputError, match=f"damaged .an n-gram over {classes} classes, where 5 are wanted"):
            load_checkpoint(tmp_path / str(number))
    save_checkpoint(tmp_path / "cut", checkpoint)
    file = tmp_path / "cut" / "lm.safetensors"
    for size in (0, 50, -4):
        file.write_bytes(file.read_bytes()[:size])
        with pytest.raises(InputError, match="damaged"):
            load_checkpoint(tmp_path / "cut")


def test_where_the_net_is_in_doubt_the_ngram_decides(model: Recogniser) -> None:
    sung = ["low", "mid", "top", "top", "low", "mid", "high", "top"]
    logits = doubtful(model, sung, [2], "high")
    phones = [segment.phone for segment in model.segments_of(logits, 2.0)]
    assert phones == ["low", "mid", "high", "top"] * 2
    plain = model.configured(model.config.model_copy(update={"decode": weighed(model, 0.0)}))
    assert [segment.phone for segment in plain.segments_of(logits, 2.0)] == sung
    heard = doubtful(model, sung, [], "")
    assert [segment.phone for segment in model.segments_of(heard, 2.0)] == sung  # where it is not, it does not


class Opened:
    """A recording of which only the length is known."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def weighed(model: Recogniser, weight: float, **others: Any) -> Any:
    return model.config.decode.model_copy(update={"lm_weight": weight, **others})


def test_without_weight_the_ngram_is_not_used(run: Path, tiny_model: Path, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    plain, weightless = Recogniser.load(tiny_model, "cpu"), Recogniser.load(run, "cpu", lm_weight=0)
    assert plain.method == weightless.method == "best path"
    assert weightless.decode(tmp_path / "a.wav") == plain.decode(tmp_path / "a.wav")


def test_the_weight_of_a_config_can_be_overruled(run: Path, tiny_model: Path) -> None:
    assert "weight 0.5" in Recogniser.load(run, "cpu").method
    assert "weight 1.25" in Recogniser.load(run, "cpu", lm_weight=1.25).method
    with pytest.raises(InputError, match="decode.lm_weight"):
        Recogniser.load(run, "cpu", lm_weight=-1)
    with pytest.raises(InputError, match="no n-gram; train one with decode.lm_order=4, name one with --lm"):
        Recogniser.load(tiny_model, "cpu", lm_weight=0.5)
    assert Recogniser.load(tiny_model, "cpu", lm_weight=0).method == "best path"


def test_alignment_has_no_use_for_it(model: Recogniser, tiny_model: Path, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    ours, plain = (each.align(tmp_path / "a.wav", SONG) for each in (model, Recogniser.load(tiny_model, "cpu")))
    assert ours == plain


@pytest.mark.parametrize("beam", [2, 64])
def test_blocks_make_no_difference(model: Recogniser, monkeypatch: pytest.MonkeyPatch, beam: int) -> None:
    """The same logits in blocks of any size give the same segments to the bit."""
    model = model.configured(model.config.model_copy(update={"decode": weighed(model, 0.7, beam=beam)}))
    logits = 3 * np.random.default_rng(4).standard_normal((900, len(PHONES) + 1)).astype(np.float32)
    whole = list(model.segments_of(logits, 18.0, 2))
    assert len(whole) > 100 and all(a.end <= b.start for a, b in zip(whole, whole[1:], strict=False))
    for size in (1, 7, 500):
        blocks = [logits[k : k + size] for k in range(0, len(logits), size)]
        monkeypatch.setattr(model.forward, "in_blocks", lambda *_, blocks=blocks, **__: blocks)
        assert list(model.segments(Opened(18.0), 2)) == whole  # type: ignore[arg-type]


def test_phones_come_while_the_recording_goes_on(model: Recogniser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds and a bit after their frames, however long the recording, and memory does not grow."""
    logits = doubtful(model, ["low", "mid", "high", "top"] * 200, [2, 9, 50], "low")
    seen = 0

    def blocks() -> Any:
        nonlocal seen
        for k in range(0, len(logits), 10):
            seen = k + 10
            yield logits[k : k + 10]

    monkeypatch.setattr(model.forward, "in_blocks", lambda *_, **__: blocks())
    late = [seen * model.clock.step - segment.end for segment in model.segments(Opened(128.0))]  # type: ignore[arg-type]
    assert len(late) == 800 and max(late[:-1]) < 2.8


def test_many_at_a_time_are_as_one_by_one(model: Recogniser, tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.wav" for k in range(12)]
    for k, path in enumerate(paths):
        write_song(path, (SONG * 5)[: k + 1], seed=k)
    alone = [model.decode(path) for path in paths]
    assert alone[5].phones != ()
    for _ in range(3):
        assert list(model.decode_all(paths, 4)) == alone


def test_evaluation_takes_the_weight_as_a_setting(model: Recogniser, tiny_model: Path) -> None:
    """With and without; without, it is that of the same model that never had one."""
    ours = score_split(model, "dev", [], Recorder(), "evaluating")
    without = score_split(model, "dev", ["decode.lm_weight=0"], Recorder(), "evaluating")
    plain = score_split(Recogniser.load(tiny_model, "cpu"), "dev", [], Recorder(), "evaluating")
    assert "n-gram" in ours.protocol and "best path;" in without.protocol == plain.protocol
    assert without.counts == plain.counts
    strong = score_split(model, "dev", ["decode.lm_weight=5"], Recorder(), "evaluating")
    assert strong.counts.per > plain.counts.per  # it insists on its one song
