import json
import subprocess
import sys
from pathlib import Path

import pytest

from speechctc.errors import InputError
from speechctc.inference.calibration import Calibration
from speechctc.stages.sweep import Trial, outcome_of, plan_trials, split_values, sweep, table
from tests.train_helpers import Recorder


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


def test_trials_are_trained_and_listed_and_not_done_twice(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    for trial in ("lr=0.01", "lr=1e-9"):  # the small corpus need not have enough phones for it
        Calibration(phones=60).save(here / "s" / trial / "best")
    started: list[Trial] = []
    monkeypatch.setattr("speechctc.stages.sweep._start", lambda *arguments: started.append(arguments[2]))
    recorder = Recorder()
    again = sweep(str(extracted), ["train.lr=0.01,1e-9", "train.epochs=3"], Path("s"), 2, recorder)
    assert not started and table(again) == first.stdout.rstrip("\n")
    assert (here / "s" / "lr=0.01" / "metrics.jsonl").read_text() == steps
    assert json.loads((here / "s" / "sweep.json").read_text())[0]["dev_per"] == listed[0]["dev_per"]
    assert sum("done already" in line for line in recorder.said) == 2


def test_of_a_sweep_that_is_repeated_only_what_is_left_is_started(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speechctc.stages.sweep.is_finished", lambda config: config.train.lr != 0.02)
    for rate, per in (("0.01", 7.5), ("0.03", 5.25)):
        (here / "s" / f"lr={rate}" / "best").mkdir(parents=True)
        (here / "s" / f"lr={rate}" / "best" / "checkpoint.json").write_text(f'{{"dev_per": {per}, "epoch": 2}}')
    started: list[str] = []

    def start(config: str, common: list[str], trial: Trial, jobs: int) -> subprocess.Popen[bytes]:
        started.append(trial.name)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr("speechctc.stages.sweep._start", start)
    outcomes = sweep(str(extracted), ["train.lr=0.01,0.02,0.03"], here / "s", 1, Recorder())
    assert started == ["train.lr=0.02"]
    assert [outcome.per for outcome in outcomes] == [5.25, 7.5, None]
    assert outcomes[2].problem == "ended before an epoch was scored"


def test_a_trial_that_fails_is_listed_with_its_reason(extracted: Path, here: Path) -> None:
    outcomes = sweep(str(extracted), ["features.mels=20,30", "train.epochs=1"], here / "s", 2, Recorder())
    assert outcomes[0].per is not None and outcomes[1].per is None
    assert "features.mels=20 (now 30)" in (outcomes[1].problem or "")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[]", '{"dev_per": "\\u001b", "epoch": 1}', '{"dev_per": 1}', "\udc80"]
)
def test_a_trial_whose_checkpoint_is_damaged_has_no_score(tmp_path: Path, text: str) -> None:
    best = tmp_path / "a" / "best"
    best.mkdir(parents=True)
    (best / "checkpoint.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert outcome_of(Trial(("train.lr=1",), tmp_path / "a"), 0).per is None
