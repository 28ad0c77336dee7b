"""What a run's folder keeps, and what a failed start must not leave in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from speechctc.config.load import load_config
from speechctc.errors import InputError
from speechctc.stages.train import train
from speechctc.training.finished import is_finished
from speechctc.training.runs import Run
from tests.train_helpers import Recorder, Weights, run_once, trainer_of


def fail_to_train(config: Path, run: Path, *settings: str) -> None:
    with pytest.raises(InputError):
        train(load_config(config, [f"run={run}", *settings]), False, Recorder())


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
    train(load_config(extracted, [f"run={here / 'a'}", "train.epochs=1"]), True, recorder)
    assert "all of it is done already" in recorder.said[-1]
    assert not any("epoch 2 of 1" in line for line in recorder.said), recorder.said


@pytest.mark.parametrize(
    "name, text",
    [
        *[("run.json", text) for text in ("", "[]", '{"data": {"train": {}}, "resumed": []}', "[" * 100_000)],
        *[("metrics.jsonl", text) for text in ("\udc80", "[]\n", '{"epoch": "1"}\n', "[" * 100_000)],
        *[("config.yaml", text) for text in ("- a\n", "\udc80", "[" * 5000)],
    ],
)
def test_a_damaged_file_of_a_run_is_refused_in_a_line(here: Path, name: str, text: str) -> None:
    (here / "a" / "last").mkdir(parents=True)
    (here / "a" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    config, run = load_config("demo", ["run=a"]), Run(Path("a"))
    with pytest.raises(InputError, match=rf"^a[/\\]{name}"):
        run.check(config, resume=True)
        run.begin(config, {"data": {}, "config": config.to_dict()})
        run.log({"epoch": 1, "step": 1})
    assert (here / "a" / name).read_bytes() == text.encode("utf-8", "surrogateescape")
    assert not is_finished(config)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("plan"),
        lambda state: state.update(left=torch.ones(3, dtype=torch.uint8)),
        lambda state: state.update(plan=torch.tensor([0, 0, 0, 0])),
        lambda state: state.update(plan=torch.tensor([1, 1, 1, 2**60])),
        lambda state: state.update({"progress.epoch": torch.tensor(float("nan"))}),
        lambda state: state.update({"progress.batch": torch.tensor(-4.0)}),
        lambda state: state.update({"progress.step": torch.zeros(2)}),
        lambda state: state.update({"optimizer.0.exp_avg": torch.zeros(2)}),
        lambda state: state.update({"optimizer.900.step": torch.zeros(())}),
    ],
)
def test_a_damaged_state_is_refused_in_a_line(
    extracted: Path, one_epoch: Path, here: Path, change: Callable[[Weights], object]
) -> None:
    shutil.copytree(one_epoch, here / "a")
    state = load_file(here / "a" / "last" / "state.safetensors")
    change(state)
    save_file(state, here / "a" / "last" / "state.safetensors")
    with pytest.raises(InputError, match="state.safetensors: damaged"):
        trainer_of(extracted, here / "a", "train.epochs=2")


@pytest.fixture(scope="module")
def one_epoch(extracted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one_epoch") / "a"
    run_once(extracted, folder, "train.epochs=1")
    return folder
