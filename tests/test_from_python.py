"""Extraction, training and scoring called from Python do what the commands do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import speechctc
from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from tests.tones import write_config
from tests.train_helpers import Recorder


def test_a_corpus_becomes_a_scored_model(here: Path) -> None:
    config, recorder = write_config(here, 24, 6), Recorder()
    summaries = speechctc.extract(config, reporter=recorder)
    assert [(each.split, each.utterances) for each in summaries] == [("train", 24), ("dev", 6), ("test", 6)]
    trained = speechctc.train(config, ["train.epochs=8", "run=r"], reporter=recorder)
    assert trained.run == Path("r") and trained.dev is not None
    again = speechctc.train(str(config), ["train.epochs=8", "run=r"], resume=True, reporter=recorder)
    assert again.dev is None and any("done already" in line for line in recorder.said)
    model = speechctc.load(trained.run, "cpu")
    of_model, of_folder, of_latest = (
        speechctc.evaluate(each, reporter=recorder) for each in (model, trained.run, None)
    )
    assert of_model == of_folder == of_latest and of_model.split == "test" and of_model.counts.utterances == 6
    on_dev = speechctc.evaluate(model, "dev", ["decode.beam=4"], recorder)
    assert on_dev.counts.per == trained.dev.counts.per


def test_a_config_in_memory_may_be_given_and_changed(extracted: Path, here: Path) -> None:
    config = load_config(extracted, ["run=r"])
    trained = speechctc.train(config, ["train.epochs=1"], reporter=Recorder())
    assert trained.run == Path("r")
    assert load_config("r/config.yaml").train.epochs == 1 and config.train.epochs == 12


def test_errors_are_those_of_the_commands(extracted: Path, here: Path) -> None:
    with pytest.raises(InputError, match="no such config file"):
        speechctc.train("nowhere.yaml")
    with pytest.raises(InputError, match="train.epoch=3"):
        speechctc.train(load_config(extracted), ["train.epoch=3"])
    with pytest.raises(InputError, match="speechctc extract"):
        speechctc.train(extracted, ["data.dir=empty"], reporter=Recorder())
    with pytest.raises(InputError, match="nowhere"):
        speechctc.extract("demo", ["corpus.kind=textgrid", "corpus.root=nowhere"], Recorder())
    with pytest.raises(InputError, match="nothing: no such folder"):
        speechctc.evaluate("nothing")


def test_the_public_names_are_there() -> None:
    assert all(hasattr(speechctc, name) for name in speechctc.__all__)
    added = {f"register_{what}" for what in ("augmentation", "corpus", "features", "model", "optimizer", "schedule")}
    called, classes = {"evaluate", "extract", "load", "train"}, {"EpochRecord", "InputError", "OwnNet", "StepRecord"}
    assert set(speechctc.__all__) == {"__version__"} | called | classes | added
    assert speechctc.InputError is InputError


def test_what_python_gives_wrongly_is_one_line(tiny_model: Path) -> None:
    model, samples = speechctc.load(tiny_model, "cpu"), np.zeros(1600)
    with pytest.raises(InputError, match="1 among the phones is not a text"):
        model.align(samples, [1, 2], 16000)  # type: ignore[list-item]
    with pytest.raises(InputError, match="-1 alternatives; ask for 0 or more"):
        model.decode(samples, 16000, alternatives=-1)
    with pytest.raises(InputError, match="-1 alternatives"):
        model.stream(16000, alternatives=-1)
    with pytest.raises(InputError, match="nix: no such folder") as raised:
        speechctc.load("nix")
    assert "--model" not in str(raised.value)


@pytest.mark.parametrize("seed", [0, 15])
def test_refined_phones_last_even_where_the_transcript_is_wrong(seed: int) -> None:
    model, rng = speechctc.load("english", "cpu"), np.random.default_rng(seed)
    sound = rng.normal(size=8000) * 0.1 * np.abs(np.sin(np.arange(8000) / rng.uniform(300, 900)))
    said = list(rng.choice(model.phones, size=20))
    found = model.align(sound.astype(np.float32), said, 16000)
    assert model.boundaries is not None and list(found.phones) == said
    edges = [0.0, *(time for each in found.segments for time in (each.start, each.end)), 0.5]
    assert all(right >= left for left, right in zip(edges, edges[1:], strict=False))
    assert all(each.end - each.start > 0.005 - 1e-9 for each in found.segments)
