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
from speechctc.stages.open_model import ModelChoice, open_model
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
    return open_model(run, Recogniser, ModelChoice("cpu"))


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


def test_where_the_net_is_in_doubt_the_ngram_decides(model: Recogniser) -> None:
    sung = ["low", "mid", "top", "top", "low", "mid", "high", "top"]
    logits = doubtful(model, sung, [2], "high")
    phones = [segment.phone for segment in model.segments_of(logits, 2.0)]
    assert phones == ["low", "mid", "high", "top"] * 2
    plain = model.configured(model.config.model_copy(update={"decode": weighed(model, 0.0)}))
    assert [segment.phone for segment in plain.segments_of(logits, 2.0)] == sung
    heard = doubtful(model, sung, [], "")
    assert [segment.phone for segment in model.segments_of(heard, 2.0)] == sung  # where it is not, it does not


def weighed(model: Recogniser, weight: float, **others: Any) -> Any:
    return model.config.decode.model_copy(update={"lm_weight": weight, **others})


def test_without_weight_the_ngram_is_not_used(run: Path, tiny_model: Path, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    plain, weightless = (
        open_model(tiny_model, Recogniser, ModelChoice("cpu")),
        open_model(run, Recogniser, ModelChoice("cpu", lm_weight=0)),
    )
    assert plain.method == weightless.method == "best path"
    assert weightless.decode(tmp_path / "a.wav") == plain.decode(tmp_path / "a.wav")


def test_the_weight_of_a_config_can_be_overruled(run: Path, tiny_model: Path) -> None:
    assert "weight 0.5" in open_model(run, Recogniser, ModelChoice("cpu")).method
    assert "weight 1.25" in open_model(run, Recogniser, ModelChoice("cpu", lm_weight=1.25)).method
    with pytest.raises(InputError, match="decode.lm_weight"):
        open_model(run, Recogniser, ModelChoice("cpu", lm_weight=-1))
    with pytest.raises(InputError, match="no n-gram; train one with decode.lm_order=4, name one with --lm"):
        open_model(tiny_model, Recogniser, ModelChoice("cpu", lm_weight=0.5))
    assert open_model(tiny_model, Recogniser, ModelChoice("cpu", lm_weight=0)).method == "best path"


def test_evaluation_takes_the_weight_as_a_setting(model: Recogniser, tiny_model: Path) -> None:
    """With and without; without, it is that of the same model that never had one."""
    ours = score_split(model, "dev", [], Recorder(), "evaluating")
    without = score_split(model, "dev", ["decode.lm_weight=0"], Recorder(), "evaluating")
    plain = score_split(open_model(tiny_model, Recogniser, ModelChoice("cpu")), "dev", [], Recorder(), "evaluating")
    assert "n-gram" in ours.protocol and "best path;" in without.protocol == plain.protocol
    assert without.counts == plain.counts
    strong = score_split(model, "dev", ["decode.lm_weight=5"], Recorder(), "evaluating")
    assert strong.counts.per > plain.counts.per  # it insists on its one song
