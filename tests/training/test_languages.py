"""Epochs balanced among languages, and dev scored by language."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speechctc.config.load import load_config
from speechctc.stages.extract import extract
from speechctc.training.batches import Batch, Languages
from speechctc.training.train_step import TrainStep
from speechctc.training.trainer import Stopped
from tests.tones import write_config
from tests.train_helpers import Recorder, run_once, same, score_once, stopping


def languages(**counts: int) -> Languages:
    return Languages(tuple(counts), np.repeat(np.arange(len(counts)), list(counts.values())))


def test_an_epoch_has_fewer_of_languages_above_the_median() -> None:
    made = languages(en=900, cy=100, it=100, mt=10)
    members = np.arange(1110)
    assert made.quotas(members, 1).tolist() == [900, 100, 100, 10]
    assert made.quotas(members, 2).tolist() == [300, 100, 100, 10], "100 times the square root of 9"
    assert made.quotas(members, 100).tolist()[0] == pytest.approx(100, abs=3)
    drawn = made.draw(members, 2, seed=5)
    assert np.bincount(made.numbers[drawn]).tolist() == [300, 100, 100, 10]
    assert len(set(drawn.tolist())) == len(drawn) and (np.diff(drawn) > 0).all()
    assert not np.array_equal(drawn, made.draw(members, 2, seed=6)), "another epoch, other utterances"
    assert np.array_equal(made.draw(members, 1, seed=5), members)
    said = "4 languages; an epoch has 300 of 900 utterances of en, and all of the other languages (train.balance=2)"
    assert made.describe(members, 2) == said
    assert made.describe(members, 1) == "4 languages; an epoch has all utterances of each (train.balance=1)"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the config of an extracted corpus of three languages, of which the first has most utterances."""
    config = write_config(tmp_path_factory.mktemp("mixed"))
    for table in config.parent.glob("table*.jsonl"):
        rows = [json.loads(line) for line in table.read_text().splitlines()]
        named = [row | {"language": ("cy", "it", "en", "en", "en", "en")[k % 6]} for k, row in enumerate(rows)]
        table.write_text("".join(json.dumps(row) + "\n" for row in named))
    extract(load_config(config), Recorder())
    return config


def test_dev_is_scored_by_language(mixed: Path, here: Path) -> None:
    recorder = Recorder()
    score = score_once(mixed, here / "r", "train.epochs=2", recorder=recorder)
    assert set(score.languages) == {"cy", "en", "it"}
    lines = (here / "r" / "metrics.jsonl").read_text().splitlines()
    of = json.loads(lines[-1])["dev_per_of"]
    assert of == score.languages
    assert any("dev PER of 3 languages: mean" in text and "en " in text for text in recorder.said)
    # the PER of all lies among those of the languages
    assert min(of.values()) <= score.counts.per <= max(of.values())


def test_balanced_epochs_are_shorter_told_and_resumed_to_the_bit(
    mixed: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("train.epochs=3", "train.balance=3", "train.batch_size=2")
    seen: list[list[int]] = []
    step = TrainStep.step

    def watched(self: TrainStep, batches: Sequence[Batch], *rest: Any) -> Any:
        (batch,) = batches
        seen.append(batch.indices.tolist())
        return step(self, batches, *rest)

    monkeypatch.setattr(TrainStep, "step", watched)
    whole = run_once(mixed, here / "whole", *settings)
    ends = [json.loads(line)["step"] for line in (here / "whole" / "metrics.jsonl").read_text().splitlines()]
    epochs = [sum(seen[begin:end], []) for begin, end in itertools.pairwise([0, *ends])]
    assert [len(epoch) for epoch in epochs] == [29] * 3, "8 of cy, 8 of it, 13 of 32 of en"
    assert set(epochs[0]) != set(epochs[1])
    monkeypatch.setattr(TrainStep, "step", stopping(step, {4, 9, 20}))
    for _ in range(3):
        with pytest.raises(Stopped):
            run_once(mixed, here / "parts", *settings, resume=True)
    assert same(whole, run_once(mixed, here / "parts", *settings, resume=True))
