"""Calibration, against known probabilities; training calibrates its best checkpoint, once and by one process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import speechctc as package
from speechctc.cli import training
from speechctc.config.schema import Config
from speechctc.core.progress import Reporter
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import Calibration, Floats, log_odds
from speechctc.metrics.reliability import expected_calibration_error
from speechctc.model.checkpoint import write_about
from speechctc.stages.calibrate import calibrate_run, calibration_of, cross_validated, fit
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.sweep import sweep
from speechctc.stages.train import Trained
from speechctc.training.runs import Run
from tests.train_helpers import Recorder


def overconfident(count: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return posteriors and whether each was right, with odds of truth ``0.5 * log odds - 0.3``."""
    rng = np.random.default_rng(seed)
    posteriors: Floats = 1 / (1 + np.exp(-rng.normal(2, 2, count)))
    truth = 1 / (1 + np.exp(-(0.5 * log_odds(posteriors) - 0.3)))
    return posteriors, (rng.random(count) < truth).astype(float)


def test_fit_is_a_maximum_of_the_likelihood() -> None:
    posteriors, right = overconfident(300)
    high, low = (right.sum() + 1) / (right.sum() + 2), 1 / (len(right) - right.sum() + 2)
    targets = np.where(right > 0, high, low)

    def loss(slope: float, intercept: float) -> float:
        told = 1 / (1 + np.exp(-(slope * log_odds(posteriors) + intercept)))
        return float(-(targets * np.log(told) + (1 - targets) * np.log(1 - told)).sum())

    best = fit(posteriors, right)
    for step in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)):
        assert loss(best[0] + step[0], best[1] + step[1]) > loss(*best)


def test_calibration_error_is_what_counting_gives() -> None:
    told = np.array([0.1, 0.1, 0.1, 0.9, 0.9])
    right = np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    assert expected_calibration_error(told, right) == pytest.approx(3 / 5 * abs(1 / 3 - 0.1) + 2 / 5 * 0.4)
    assert expected_calibration_error(np.array([1.0, 1.0]), np.ones(2)) == 0.0
    assert expected_calibration_error(np.zeros(0), np.zeros(0)) == 0.0


def test_calibrating_lowers_the_error_on_phones_not_learned_from() -> None:
    posteriors, right = overconfident(2000)
    utterances = np.arange(2000) // 20
    told = cross_validated(posteriors, right, utterances)
    assert expected_calibration_error(told, right) < 0.5 * expected_calibration_error(posteriors, right)
    changed = right.copy()
    changed[utterances % 5 == 2] = 0
    again = cross_validated(posteriors, changed, utterances)
    assert np.array_equal(again[utterances % 5 == 2], told[utterances % 5 == 2])  # its own labels do not tell it


@pytest.fixture
def run(tiny_model: Path, tmp_path: Path) -> Path:
    """Return the folder of a run that is not calibrated."""
    shutil.copytree(tiny_model, tmp_path / "run")
    return tmp_path / "run"


def by_python(config: str, run: Path) -> None:
    package.train(config, [f"run={run}"], True, Recorder())


def by_command(config: str, run: Path) -> None:
    training.train_command(config, None, run, True)


def by_a_sweep(config: str, run: Path) -> None:
    sweep(config, ["train.lr=0.1,0.2"], run.parent, Recorder())


@pytest.mark.parametrize("is_main", [True, False])
@pytest.mark.parametrize("way", [by_python, by_command, by_a_sweep])
def test_training_ends_with_the_calibration_of_its_best(
    way: Callable[[str, Path], None], is_main: bool, tiny_model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(config: Config, resume: bool, reporter: Reporter, *_: object) -> Trained:
        return Trained(None, config.run, is_main)

    for module in ("train", "sweep"):
        monkeypatch.setattr(f"speechctc.stages.{module}.train", trained)
    runs = [here / f"lr={rate}" for rate in (0.1, 0.2)]
    for run in runs:
        shutil.copytree(tiny_model, run)
    helpful = Calibration(0.9, 0.1, 0.0, 60, 0.08, 0.05, 0.5, "dev")  # the tiny model is always right
    monkeypatch.setattr("speechctc.stages.calibrate.calibration_of", lambda *_: helpful)
    way("demo", runs[0])
    where = Run(runs[0]).calibration
    assert where.is_file() == is_main and Run(runs[1]).calibration.is_file() == (is_main and way is by_a_sweep)
    if is_main:
        assert Calibration.load(runs[0] / "best") == helpful
        assert open_model(runs[0], Recogniser, ModelChoice("cpu")).goodness.usual is not None
        before = where.stat().st_mtime_ns
        way("demo", runs[0])
        assert where.stat().st_mtime_ns == before


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
    assert (
        not Run(run).calibration.exists()
        and open_model(run, Recogniser, ModelChoice("cpu")).calibration == Calibration()
    )
    assert recorder.said[-1].startswith("not written: ")


def test_a_dev_split_that_is_too_small_is_said_and_no_failure(run: Path) -> None:
    recorder = Recorder()
    table = run / "dev.jsonl"
    table.write_text("")
    about = json.loads((run / "best" / "checkpoint.json").read_text())
    about["config"]["corpus"]["tables"]["dev"] = str(table)
    write_about(run / "best", about)
    assert calibrate_run(run, recorder) is None
    assert recorder.said[-1].startswith("not calibrated: ") and not Run(run).calibration.exists()
