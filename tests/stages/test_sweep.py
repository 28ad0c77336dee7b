import json
from pathlib import Path

import pytest

from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.stages.sweep import plan_trials, split_values, sweep, table
from speechctc.stages.train import train
from speechctc.training.runs import locked_folder
from speechctc.training.trainer import Stopped
from tests.command import Command
from tests.train_helpers import Recorder


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-4,3e-4", ["1e-4", "3e-4"]),
        ("[8, 8],[16]", ["[8, 8]", "[16]"]),
        ("{a: 1, b: 2}", ["{a: 1, b: 2}"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("", []),
        ("é, '[',\u00a0x", ["é", "'['", "\u00a0x"]),
        ("[1,2", ["[1,2"]),
    ],
)
def test_values_are_split_at_commas_outside_brackets(text: str, values: list[str]) -> None:
    assert split_values(text) == values


def test_every_combination_has_a_folder_of_its_own() -> None:
    common, trials = plan_trials(["train.lr=1e-4,3e-4", "model.convs=[8],[8, 8]", "train.epochs=3"], Path("s"))
    assert common == ["train.epochs=3"]
    assert [trial.settings for trial in trials] == [
        (lr, convs) for lr in ("train.lr=1e-4", "train.lr=3e-4") for convs in ("model.convs=[8]", "model.convs=[8, 8]")
    ]
    assert len({trial.run for trial in trials}) == 4 and trials[0].run == Path("s/lr=1e-4_convs=_8")
    with pytest.raises(InputError, match="several values"):
        plan_trials(["train.epochs=3"], Path("s"))


def test_keys_of_one_name_are_told_apart() -> None:
    _, trials = plan_trials(["train.lr=1,2", "train.finetune.lr=3,4"], Path("s"))
    assert trials[0].run.name == "train.lr=1_train.finetune.lr=3"


def test_a_wrong_setting_is_said_before_any_training(extracted: Path, here: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean 'train\.lr'"):
        sweep(str(extracted), ["train.ler=1,2"], here / "s", Recorder())
    assert not (here / "s").exists()


def test_two_sweeps_in_one_folder_do_not_write_over_each_others_table(extracted: Path, here: Path) -> None:
    with locked_folder(here / "s", "sweeping"), pytest.raises(InputError, match="another process is sweeping in this"):
        sweep(str(extracted), ["train.lr=0.01,1e-9", "train.epochs=1"], here / "s", Recorder())
    assert [path.name for path in (here / "s").iterdir()] == ["lock"]


def test_trials_are_trained_and_listed_and_not_done_twice(extracted: Path, here: Path, speechctc: Command) -> None:
    settings = ["train.lr=0.01,1e-9", "train.epochs=4"]
    first = speechctc("sweep", "--config", extracted, "--run", "s", *settings)
    assert first.status == 0, first.err
    rows = [line.split() for line in first.out.splitlines()]
    assert rows[0][:2] == ["dev", "PER"] and len(rows) == 3
    assert float(rows[1][0]) < float(rows[2][0]) and "train.lr=0.01" in rows[1]
    assert (here / "runs" / "latest").resolve() == (here / "s" / "lr=0.01").resolve()
    steps = (here / "s" / "lr=0.01" / "metrics.jsonl").read_text()
    listed = json.loads((here / "s" / "sweep.json").read_text())
    assert [row["dev_per"] for row in listed] == sorted(row["dev_per"] for row in listed)
    recorder = Recorder()
    assert table(sweep(str(extracted), settings, Path("s"), recorder)) == first.out.rstrip("\n")
    assert (here / "s" / "lr=0.01" / "metrics.jsonl").read_text() == steps
    assert json.loads((here / "s" / "sweep.json").read_text())[0]["dev_per"] == listed[0]["dev_per"]
    assert sum("all of it is done already" in line for line in recorder.said) == 2


def test_a_trial_that_fails_is_listed_with_its_reason(extracted: Path, here: Path) -> None:
    outcomes = sweep(str(extracted), ["features.mels=20,30", "train.epochs=1"], here / "s", Recorder())
    assert outcomes[0].per is not None and outcomes[1].per is None
    assert "features.mels=20 (now 30)" in (outcomes[1].problem or "")


def test_a_stopped_trial_ends_the_sweep(
    extracted: Path, here: Path, speechctc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sweep", "--config", extracted, "--run", "s", "train.lr=0.01,0.02", "train.epochs=1")

    def stop(config: Config, resume: bool, reporter: Reporter) -> None:
        train(config, resume, reporter)
        raise Stopped(130)

    with monkeypatch.context() as once:
        once.setattr("speechctc.stages.sweep.train", stop)
        first = speechctc(*words)
    assert first.status == 130 and "the same command goes on" in first.err and not (here / "s" / "lr=0.02").exists()
    again = speechctc(*words)
    assert again.status == 0 and "lr=0.01: dev PER" in again.err and len(again.out.splitlines()) == 3, again.err


def test_two_trials_in_one_folder_are_refused() -> None:
    with pytest.raises(InputError, match="both be trained in s/dir=a_b"):
        plan_trials(["data.dir=a/b,a_b"], Path("s"))
