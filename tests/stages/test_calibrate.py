"""Training calibrates its best checkpoint, once and by one process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import Calibration
from speechctc.stages.calibrate import calibrate_run
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
    config, where = load_config("demo", [f"run={run}"]), Run(run).calibration
    trained = train(config, True, Recorder())
    assert (trained.calibration is not None) == where.is_file() == is_main
    if is_main:
        assert Calibration.load(run / "best") == trained.calibration
        assert Recogniser.load(run, "cpu").goodness.usual is not None
        before = where.stat().st_mtime_ns
        assert train(config, True, Recorder()).calibration is None and where.stat().st_mtime_ns == before


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
