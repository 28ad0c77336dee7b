import json
import subprocess
import sys
from pathlib import Path

import pytest

from speechctc.errors import InputError
from speechctc.sweep import plan_trials, split_values, sweep, table
from tests.practice import Recorder


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-4,3e-4", ["1e-4", "3e-4"]),
        ("[8, 8],[16]", ["[8, 8]", "[16]"]),
        ("{a: 1, b: 2}", ["{a: 1, b: 2}"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("3", ["3"]),
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
        sweep(str(extracted), ["train.ler=1,2"], here / "s", 1, Recorder())
    assert not (here / "s").exists()


def test_trials_are_trained_and_listed_and_not_done_twice(extracted: Path, here: Path) -> None:
    command = [sys.executable, "-m", "speechctc", "sweep", "--config", str(extracted), "--run", "s", "--jobs", "2"]
    command += ["train.lr=0.01,1e-9", "train.epochs=3"]
    first = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stderr
    rows = [line.split() for line in first.stdout.splitlines()]
    assert rows[0][:2] == ["dev", "PER"] and len(rows) == 3
    assert float(rows[1][0]) < float(rows[2][0]) and "train.lr=0.01" in rows[1]
    assert (here / "runs" / "latest").resolve() == (here / "s" / "lr=0.01").resolve()
    steps = (here / "s" / "lr=0.01" / "metrics.jsonl").read_text()
    listed = json.loads((here / "s" / "sweep.json").read_text())
    assert [row["dev_per"] for row in listed] == sorted(row["dev_per"] for row in listed)
    again = sweep(str(extracted), ["train.lr=0.01,1e-9", "train.epochs=3"], here / "s", 2, Recorder())
    assert table(again) == table(again) and f"{again[0].per:.2f} %" in first.stdout
    assert (here / "s" / "lr=0.01" / "metrics.jsonl").read_text() == steps
    assert "done already" in (here / "s" / "lr=0.01.log").read_text()


def test_a_trial_that_fails_is_listed_with_its_reason(extracted: Path, here: Path) -> None:
    outcomes = sweep(str(extracted), ["features.mels=20,30", "train.epochs=1"], here / "s", 2, Recorder())
    assert outcomes[0].per is not None and outcomes[1].per is None
    assert "features.mels=20 (now 30)" in (outcomes[1].problem or "")
