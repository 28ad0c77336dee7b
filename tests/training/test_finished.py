"""What counts as a run that has come to its end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from speechctc.config.load import load_config
from speechctc.inference.calibration import Calibration
from speechctc.stages.train_runs import is_finished
from tests.train_helpers import run_once

SETTINGS = ("train.epochs=2", "model.convs=[4]", "model.dense=[8]")


@pytest.fixture(scope="module")
def trained(extracted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of two epochs, calibrated."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_once(extracted, folder, *SETTINGS)
    Calibration(phones=60).save(folder / "best")
    return folder


def finished(config: Path, run: Path, *settings: str) -> bool:
    return is_finished(load_config(config, [*SETTINGS, *settings, f"run={run}"]))


def test_a_run_that_has_done_all_its_epochs_is_finished(extracted: Path, trained: Path, here: Path) -> None:
    assert finished(extracted, trained)
    (here / "link").symlink_to(trained)
    assert finished(extracted, Path("link"))  # by whatever name its folder goes
    assert not finished(extracted, here / "none")


def test_a_run_from_before_a_key_is_finished_where_the_key_has_its_default(extracted: Path, trained: Path) -> None:
    stored = yaml.safe_load((trained / "config.yaml").read_text())
    older = {**stored, "train": {key: value for key, value in stored["train"].items() if key != "consistency"}}
    (trained / "config.yaml").write_text(yaml.safe_dump(older))
    assert finished(extracted, trained) and not finished(extracted, trained, "train.consistency=0.5")


@pytest.mark.parametrize("setting", ["train.epochs=3", "train.epochs=1", "train.lr=0.02", "train.finetune.epochs=1"])
def test_a_run_of_another_config_is_not(extracted: Path, trained: Path, setting: str) -> None:
    assert not finished(extracted, trained, setting)


def forget_calibration(run: Path) -> None:
    (run / "best" / "calibration.json").unlink()


def lose_last(run: Path) -> None:
    shutil.rmtree(run / "last")


def damage_last(run: Path) -> None:
    (run / "last" / "state.safetensors").write_bytes(b"torn")


def damage_record(run: Path) -> None:
    (run / "run.json").write_text("[1]")


def damage_config(run: Path) -> None:
    (run / "config.yaml").write_text("")


def take_other_data(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["data"]["dev"]["sha256"] = "0" * 64
    (run / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    "change", [forget_calibration, lose_last, damage_last, damage_record, damage_config, take_other_data]
)
def test_a_run_that_lacks_anything_is_not(
    extracted: Path, trained: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    assert finished(extracted, copy)
    change(copy)
    assert not finished(extracted, copy)


def test_a_run_whose_minutes_are_over_is_finished_before_its_epochs_are(extracted: Path, here: Path) -> None:
    for minutes in ("1e-6", "60"):
        settings = (*SETTINGS, "train.epochs=1", f"train.minutes={minutes}")
        run_once(extracted, here / minutes, *settings)
        Calibration(phones=60).save(here / minutes / "best")
        config = load_config(extracted, [*settings, f"run={here / minutes}"])
        more = config.model_copy(update={"train": config.train.model_copy(update={"epochs": 9})})
        text = (here / minutes / "config.yaml").read_text().replace("epochs: 1\n", "epochs: 9\n", 1)
        (here / minutes / "config.yaml").write_text(text)
        assert is_finished(more) == (minutes == "1e-6")
