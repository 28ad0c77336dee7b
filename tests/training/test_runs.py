"""What a run's folder keeps, and what a failed start must not leave in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.core.latest_run import LATEST, latest_run, point_latest
from speechctc.stages.train import train
from speechctc.training.records import Callbacks, EpochRecord
from speechctc.training.runs import Run
from tests.train_helpers import Recorder, run_once, same


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


@pytest.mark.parametrize("takes_its_place", [True, False])
def test_a_run_that_is_moved_while_it_is_trained_does_not_write_into_another(
    extracted: Path, here: Path, takes_its_place: bool
) -> None:
    """As after ``mv run old`` and the start of another training with the name of before."""
    whole = run_once(extracted, here / "whole", "train.epochs=3")
    config = load_config(extracted, [f"run={here / 'a'}", "train.epochs=3"])
    others = {"lock": b"", "run.json": b"{}", "config.yaml": b"run: a"}

    def move(record: EpochRecord) -> None:
        if record["epoch"] == 2:
            (here / "a").rename(here / "moved")
            if takes_its_place:
                (here / "a").mkdir()
                for name, content in others.items():
                    (here / "a" / name).write_bytes(content)

    with pytest.raises(InputError, match="a: was moved or removed while it was trained, and nothing more is saved"):
        train(config, False, Recorder(), Callbacks(on_epoch=move))
    there = {path.name: path.read_bytes() for path in (here / "a").iterdir()} if (here / "a").exists() else None
    assert there == (others if takes_its_place else None)
    assert same(run_once(extracted, here / "moved", "train.epochs=3", resume=True), whole)


def test_what_a_killed_start_left_is_cleared_and_a_users_file_is_not(extracted: Path, here: Path) -> None:
    config, run = load_config(extracted, ["run=a"]), Run(Path("a"))
    Path("a").mkdir()
    run.begin(config, {"data": {}, "config": config.to_dict()}, {"dev": {}})
    run.check(load_config(extracted, ["run=a", "train.lr=0.5"]), resume=False)
    assert not any(Path("a").iterdir())
    Path("a/config.yaml").write_text("mine")
    fail_to_train(extracted, Path("a"))
    assert [path.name for path in Path("a").iterdir()] == ["config.yaml"]


@pytest.fixture(scope="module")
def trained(extracted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("damage") / "run"
    run_once(extracted, folder, "train.epochs=1")
    return folder


NESTED = "[" * 100_000
RECORDS = ("", "[1]", "{", NESTED, '{"data": {"train": 1}, "resumed": []}', '{"data": {}}')
LOGS = (
    *(b"{}\n", b"[1]\n", b'{"epoch": 1}\n{"epo', b"\xff\n", NESTED.encode(), b"\0\0\n"),
    b'{"epoch": 1, "step": 9, "loss": 1.5, "dev_loss": 1.5, "dev_per": 20.0, "blane_share": 0.1, "lr": 0.1}\n',
)
CONFIGS = (b"", b"[1]", b"\xff", b"{", b"a: &a [*a]")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        *(("run.json", text.encode(), "run.json: not the record of a run") for text in RECORDS),
        *(("metrics.jsonl", raw, r"metrics.jsonl, line \d: not an epoch's record") for raw in LOGS),
        *(("config.yaml", raw, r"config.yaml: not (the config of a run|a YAML file)") for raw in CONFIGS),
    ],
)
def test_a_damaged_file_is_said_and_nothing_is_lost(
    extracted: Path, trained: Path, here: Path, name: str, content: bytes, said: str
) -> None:
    refused(extracted, trained, here, name, content, said)


@pytest.mark.parametrize("damage", ["progress.epoch", "left", "optimizer.0.exp_avg", "plan.ranks", ""])
def test_a_state_that_is_damaged_is_said_and_nothing_is_lost(
    extracted: Path, trained: Path, here: Path, damage: str
) -> None:
    tensors = load_file(trained / "last" / "state.safetensors")
    assert not damage or damage in tensors
    if damage:
        whole = tensors[damage]
        tensors[damage] = torch.cat([whole, whole]) if whole.ndim else whole * float("nan")
    save_file(tensors, here / "state")
    content = (here / "state").read_bytes() if damage else b"torn"
    refused(
        extracted, trained, here, "last/state.safetensors", content, r"last: (its training state|the checkpoint) is"
    )


def refused(config: Path, run: Path, here: Path, name: str, content: bytes, said: str) -> None:
    """Damage a file of a copy of a run, and check that resuming is refused and changes nothing."""
    shutil.copytree(run, here / "copy")
    (here / "copy" / name).write_bytes(content)
    before = {path: path.read_bytes() for path in sorted((here / "copy").rglob("*")) if path.is_file()}
    with pytest.raises(InputError, match=said):
        train(load_config(config, ["run=copy", "train.epochs=2"]), True, Recorder())
    assert {path: path.read_bytes() for path in sorted((here / "copy").rglob("*")) if path.is_file()} == before


def test_what_a_person_put_in_place_of_the_link_to_the_latest_run_stays(here: Path) -> None:
    (here / "a").mkdir()
    (here / "runs").mkdir()
    Path("runs/latest").write_text("mine")
    point_latest(Path("a"))
    assert Path("runs/latest").read_text() == "mine"
    Path("runs/latest").unlink()
    Path("runs/latest").symlink_to("latest")  # to itself
    point_latest(Path("a"))
    assert Path("runs/latest").resolve() == here / "a" and [path.name for path in Path("runs").iterdir()] == ["latest"]


def test_without_links_latest_is_a_file_that_names_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: object, target_is_directory: bool = False) -> None:
        raise OSError(1314, "A required privilege is not held by the client")  # what Windows says

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        point_latest(Path("runs") / name)
        assert LATEST.is_file() and latest_run() == tmp_path / "runs" / name
    LATEST.write_text("my own notes\n")
    point_latest(Path("runs/one"))
    assert LATEST.read_text() == "my own notes\n" and latest_run() is None
