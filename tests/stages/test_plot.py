"""Curves of runs: the picture in a run's folder, and several runs in one picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.pages import figures
from speechctc.stages.plot import plot
from speechctc.stages.train import CurvesFile, train
from tests.train_helpers import Recorder
from tests.training.test_sentinel import record

pytest.importorskip("matplotlib")


def write_run(folder: Path, epochs: int, **values: object) -> Path:
    """Write the log of a run that was not trained."""
    folder.mkdir(parents=True)
    lines = [json.dumps({"lr": 1e-3, **record(k), **values}) for k in range(1, epochs + 1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_the_logs_of_a_sweep_among_its_runs_are_passed_over(here: Path) -> None:
    write_run(here / "sweep" / "a", 3)
    (here / "sweep" / "a.log").write_text("epoch 1")
    lines = plot(sorted((here / "sweep").iterdir()), here / "c.png")
    assert "sweep/a: 3 epochs" in lines[0] and len(lines) == 1
    with pytest.raises(InputError, match="no such folder"):
        plot([here / "sweep" / "a.log"], here / "d.png")


def test_a_run_keeps_its_curves_up_to_date(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    train(load_config(extracted, [f"run={here}/r", "train.epochs=2", "train.curves=true"]), False, recorder)
    assert (here / "r" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert f"curves of this run, from the second epoch on: {here}/r/curves.png" in recorder.said


def test_a_training_without_matplotlib_goes_on_and_says_so_once(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "is_available", lambda: False)
    recorder = Recorder()
    train(load_config(extracted, [f"run={here}/r", "train.epochs=2", "train.curves=true"]), False, recorder)
    (line,) = [line for line in recorder.said if "matplotlib" in line]
    assert "pip install '.[report]'" in line and not (here / "r" / "curves.png").exists()
    with pytest.raises(InputError, match="matplotlib, which is not installed"):
        plot([here / "r"], here / "curves.png")


def test_drawing_takes_a_small_share_of_the_time_and_never_ends_a_training(tmp_path: Path) -> None:
    curves = CurvesFile(tmp_path / "curves.png", wanted=True)
    epochs = [{"lr": 1e-3, **record(k)} for k in range(1, 5)]
    curves.update(epochs[:1])
    assert not curves.path.exists()
    curves.update(epochs[:2])
    first = curves.path.read_bytes()
    curves.update(epochs[:3])
    assert curves.path.read_bytes() == first  # the last drawing was just now
    curves.update(epochs[:3], last=True)
    assert curves.path.read_bytes() != first
    curves.path = tmp_path / "no such folder" / "c" / "curves.png"
    curves.update([{"lr": "?", **record(1)}, {}], last=True)
    assert not curves.path.exists()


def test_runs_are_laid_over_one_another(here: Path) -> None:
    runs = [write_run(Path(f"runs/{name}"), count) for name, count in (("a", 3), ("b", 1))]
    lines = plot([*runs, runs[0]], Path("curves.svg"))
    assert lines == [
        "runs/a: 3 epochs, lowest dev PER 16.67 % in epoch 3",
        "runs/b: 1 epoch, lowest dev PER 50.00 % in epoch 1",
    ]
    plot(runs, Path("curves.svg"))  # its own picture is replaced
    Path("curves.svg").write_text("mine")
    with pytest.raises(InputError, match="made or changed by hand"):
        plot(runs, Path("curves.svg"))


def test_what_cannot_be_plotted_is_refused_in_a_line(here: Path) -> None:
    run = write_run(Path("a"), 2)
    for folders, out, wrong in (
        ([run], "curves.doc", "not the ending of a picture"),
        ([run, Path("b")], "c.png", "b: no such folder"),
        ([here], "c.png", "no metrics.jsonl in it"),
        ([write_run(Path("c"), 2, loss="x")], "c.png", "line 1: not an epoch's record"),
    ):
        with pytest.raises(InputError, match=wrong):
            plot(folders, Path(out))
    assert not Path("c.png").exists()
