"""What a run's folder keeps, and what a failed start must not leave in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.errors import InputError
from speechctc.stages.train import train_net
from speechctc.training.runs import Run
from tests.train_helpers import Recorder, run_once


def fail_to_train(config: Path, run: Path, *settings: str) -> None:
    with pytest.raises(InputError):
        train_net(load_config(config, [f"run={run}", *settings]), False, Recorder())


def test_a_failed_start_leaves_nothing_and_does_not_block_the_next(extracted: Path, here: Path) -> None:
    fail_to_train(extracted, here / "runs" / "a", "train.init_from=nowhere")
    fail_to_train(extracted, here / "runs" / "a", "data.dir=nowhere")
    assert not (here / "runs" / "a").exists()
    run_once(extracted, here / "runs" / "a", "train.epochs=1")


def test_a_loss_that_explodes_before_anything_is_saved_leaves_the_latest_run_as_it_was(
    extracted: Path, here: Path
) -> None:
    run_once(extracted, here / "runs" / "good", "train.epochs=1")
    fail_to_train(extracted, here / "runs" / "bad", "train.lr=1e30", "train.clip=0", "train.schedule=constant")
    assert not (here / "runs" / "bad").exists()
    assert (here / "runs" / "latest").resolve() == here / "runs" / "good"


def test_a_run_that_saved_something_is_never_cleared(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    before = sorted(path.name for path in (here / "a").iterdir())
    fail_to_train(extracted, here / "a", "train.epochs=1")
    assert sorted(path.name for path in (here / "a").iterdir()) == before


def test_what_a_killed_start_left_is_cleared_and_a_users_file_is_not(extracted: Path, here: Path) -> None:
    config, run = load_config(extracted, ["run=a"]), Run(Path("a"))
    Path("a").mkdir()
    run.begin(config, {"data": {}, "config": config.to_dict()})
    run.check(load_config(extracted, ["run=a", "train.lr=0.5"]), resume=False)
    assert not any(Path("a").iterdir())
    Path("a/config.yaml").write_text("mine")
    fail_to_train(extracted, Path("a"))
    assert [path.name for path in Path("a").iterdir()] == ["config.yaml"]


def test_a_finished_run_does_not_go_on_from_an_epoch_it_does_not_have(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "a", "train.epochs=1")
    recorder = Recorder()
    train_net(load_config(extracted, [f"run={here / 'a'}", "train.epochs=1"]), True, recorder)
    assert "all of it is done already" in recorder.said[-1]
    assert not any("epoch 2 of 1" in line for line in recorder.said), recorder.said
