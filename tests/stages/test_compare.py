"""Models compared: a damaged one against a good one, runs that differ in the seed, and what cannot be compared."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speechctc.config.load import override, parse_config
from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.stages.evaluate import compare
from speechctc.stages.open_model import ModelChoice, open_model
from tests.command import Command, one_line_error
from tests.train_helpers import Recorder


def variant(folder: Path, *settings: str, noise: float = 0.0) -> Recogniser:
    """Return the tiny model with other settings in its config, or with noise on its weights."""
    model = open_model(folder, Recogniser, ModelChoice("cpu"))
    config = parse_config(override(model.config.to_dict(), list(settings)), "a test")
    rng, weights = np.random.default_rng(3), model.checkpoint.weights
    noisy = {name: value + noise * rng.standard_normal(value.shape, np.float32) for name, value in weights.items()}
    return Recogniser(replace(model.checkpoint, config=config, weights=noisy), model.device)


def test_a_damaged_model_is_worse_and_seeds_are_one_system(tiny_model: Path) -> None:
    models = [("a", variant(tiny_model)), ("b", variant(tiny_model, "train.seed=9", "run=other"))]
    models.append(("bad", variant(tiny_model, "train.lr=0.5", noise=0.3)))
    found = compare(models, "test", [], Recorder())
    assert [system.names for system in found.systems] == [("a", "b"), ("bad",)] and list(found.tests) == [(0, 1)]
    test, (good, bad) = found.tests[0, 1], found.systems
    assert (
        good.pers[0] == good.pers[1] and test.difference == pytest.approx(bad.mean - good.mean) and test.difference > 5
    )
    assert test.is_significant and test.low > 0
    text = found.to_text()
    assert "standard deviation 0.00" in text and "bad against a and 1 more seed: +" in text and "they differ" in text
    assert found.to_dict()["pairs"][0]["p_matched_pairs"] == test.p_matched_pairs
    assert found.caution in text and found.caution.startswith("not reliable: the tests are based on ")
    assert found.to_dict()["caution"] == found.caution
    assert "not reliable" not in replace(found, caution="").to_text()


def test_runs_with_one_seed_are_two_systems_and_are_tested(tiny_model: Path) -> None:
    long, short = variant(tiny_model), variant(tiny_model, "run=other", noise=0.3)
    found = compare([("long", long), ("short", short)], "test", [], Recorder())
    assert [system.names for system in found.systems] == [("long",), ("short",)]
    assert found.tests[0, 1].difference > 5 and "seed" not in found.to_text()
    with_third = [("long", long), ("short", short), ("third", variant(tiny_model, "train.seed=9"))]
    assert len(compare(with_third, "test", [], Recorder()).systems) == 3


def test_settings_go_to_both_models(speechctc: Command, beside_latest: Path, tiny_model: Path) -> None:
    shutil.copytree(tiny_model, "copy")
    done = speechctc("compare", tiny_model, "copy", "decode.beam=4", "--json", "c.json")
    assert done.status == 0 and Path("c.json").exists()
    assert "standard deviation" not in done.out and "24 utterances" in done.out


def test_one_model_named_twice_is_refused(speechctc: Command, beside_latest: Path, tiny_model: Path) -> None:
    Path("link").symlink_to(tiny_model)
    for other in (tiny_model, tiny_model / "best", "link"):
        assert "are the same model; name each model once" in one_line_error(speechctc("compare", tiny_model, other))


def test_what_cannot_be_compared(speechctc: Command, beside_latest: Path, tiny_model: Path) -> None:
    assert "one run cannot be compared" in one_line_error(speechctc("compare", tiny_model))
    assert "nowhere" in one_line_error(speechctc("compare", tiny_model, "nowhere"))
    other = variant(tiny_model, "score.fold={low: mid}")
    with pytest.raises(InputError, match="a is scored by none, b by custom; name one folding"):
        compare([("a", variant(tiny_model)), ("b", other)], "test", [], Recorder())
    tables = variant(tiny_model, f"corpus.tables.test={tiny_model.parent / '0.tsv'}", "corpus.tables.train=null")
    with pytest.raises(InputError, match="^b: .*0.tsv: no such file"):
        compare([("a", variant(tiny_model)), ("b", tables)], "test", [], Recorder())


def test_only_utterances_that_both_models_can_be_scored_on_count(tiny_model: Path, beside_latest: Path) -> None:
    model = open_model(tiny_model, Recogniser, ModelChoice("cpu"))
    table = model.config.corpus.tables.of("train")[0]
    rows = table.read_text(encoding="utf-8").splitlines()
    Path("fewer.jsonl").write_text("\n".join(row for row in rows if "high" not in row), encoding="utf-8")
    lacks = variant(tiny_model, f"corpus.tables.train={Path('fewer.jsonl').absolute()}", f"corpus.root={table.parent}")
    reporter = Recorder()
    found = compare([("all", model), ("lacks", lacks)], "test", [], reporter)
    assert 0 < found.utterances < 24
    said = " ".join(reporter.said)
    assert f"{24 - found.utterances} utterances left out" in said and "(lacks)" in said and "high" in said
    with pytest.raises(InputError, match="different labels: those of .*; name for both how labels are read"):
        compare([("a", model), ("b", variant(tiny_model, "corpus.ignore=[high]"))], "test", [], Recorder())
