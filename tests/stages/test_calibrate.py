"""Training calibrates its best checkpoint, once and by one process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.config.load import load_config
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import Calibration
from speechctc.stages.calibrate import calibrate_run, calibration_of
from speechctc.stages.train_runs import train
from speechctc.training.runs import Run
from tests.train_helpers import Recorder


@pytest.fixture
def run(tiny_model: Path, tmp_path: Path) -> Path:
    """Return the folder of a run that is not calibrated."""
    shutil.copytree(tiny_model, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("is_main", [True, False])
def test_training_ends_with_the_calibration_of_its_best(
    run: Path, is_main: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speechctc.stages.train_runs.train_rank", lambda *_: (None, is_main))
    helpful = Calibration(0.9, 0.1, 0.0, 60, 0.08, 0.05, 0.5, "dev")  # the tiny model is always right
    monkeypatch.setattr("speechctc.stages.calibrate.calibration_of", lambda *_: helpful)
    config, where = load_config("demo", [f"run={run}"]), Run(run).calibration
    trained = train(config, True, Recorder())
    assert (trained.calibration is not None) == where.is_file() == is_main
    if is_main:
        assert Calibration.load(run / "best") == trained.calibration
        assert Recogniser.load(run, "cpu").goodness.usual is not None
        before = where.stat().st_mtime_ns
        assert train(config, True, Recorder()).calibration is None and where.stat().st_mtime_ns == before


def phones_of(seed: int, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Posteriors that are as right as they say, for so many phones: there is nothing to learn but chance."""
    rng = np.random.default_rng(seed)
    posteriors = rng.uniform(0.3, 0.99, count)
    return posteriors, (rng.random(count) < posteriors).astype(np.float64), np.arange(count) // 10


def test_a_calibration_that_makes_confidences_worse_leaves_them() -> None:
    kept = 0
    for seed in range(20):
        posteriors, right, utterances = phones_of(seed, 60)
        found = calibration_of(posteriors, right, utterances, 0.0, "dev")
        assert found.helps == (found.error_after <= found.error_before)
        if not found.helps:
            kept += 1
            assert np.allclose(found.probabilities(posteriors), posteriors)
            assert "confidences stay as they were" in found.to_text()
            assert replace(found, shift=0.01).helps, "boundaries are moved all the same"
    assert 0 < kept < 20
    posteriors, right, utterances = phones_of(0, 2000)
    sure = calibration_of(posteriors**0.2, right, utterances, 0.0, "dev")  # far too sure
    assert sure.helps and sure.error_after < sure.error_before / 2 and "stay as" not in sure.to_text()


def test_what_would_not_help_is_not_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, worse = Recorder(), Calibration(1.0, 0.0, 0.0, 60, 0.05, 0.08, 0.5, "dev")
    monkeypatch.setattr("speechctc.stages.calibrate.calibration_of", lambda *_: worse)
    assert calibrate_run(run, recorder) == worse
    assert not Run(run).calibration.exists() and Recogniser.load(run, "cpu").calibration == Calibration()
    assert recorder.said[-1].startswith("not written: ")


def test_a_dev_split_that_is_too_small_is_said_and_no_failure(run: Path) -> None:
    recorder = Recorder()
    calibrated = Recogniser.load(run, "cpu")
    about = run / "best" / "checkpoint.json"
    table = run / "dev.jsonl"
    table.write_text("")
    text = about.read_text()
    dev = calibrated.config.corpus.tables.dev
    about.write_text(text.replace(f'"dev": "{dev}"', f'"dev": "{table}"'))
    assert calibrate_run(run, recorder) is None
    assert recorder.said[-1].startswith("not calibrated: ") and not Run(run).calibration.exists()
