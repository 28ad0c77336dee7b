"""Training from shards to checkpoints, on a corpus of tones."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from speechctc.batches import Batch
from speechctc.config import load_config
from speechctc.errors import InputError
from speechctc.extract import extract
from speechctc.progress import Reporter
from speechctc.train import Stopped, Trainer, train
from tests.tones import write_config


class Recorder(Reporter):
    """Keeps what would be said."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(f"warning: {text}")


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    config = write_config(folder)
    extract(load_config(config), Recorder())
    return config


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_once(config: Path, run: Path, *settings: str, resume: bool = False) -> dict[str, torch.Tensor]:
    train(load_config(config, [f"run={run}", *settings]), resume, Recorder())
    return load_file(run / "last" / "weights.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_it_learns_and_leaves_a_whole_run(extracted: Path, here: Path) -> None:
    dev = train(load_config(extracted, ["run=r"]), False, Recorder())
    assert dev is not None and dev.counts.per < 10
    assert (here / "runs" / "latest").resolve() == here / "r"
    assert {path.name for path in (here / "r").iterdir()} == {"best", "last", "config.yaml", "metrics.jsonl", "lock"}
    lines = [json.loads(line) for line in (here / "r" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, 13))
    assert lines[-1]["loss"] < lines[0]["loss"]
    about = json.loads((here / "r" / "best" / "checkpoint.json").read_text())
    assert about["dev_per"] == min(line["dev_per"] for line in lines)
    assert about["phones"]["list"] == ["high", "low", "mid", "top"]


def test_the_same_seed_gives_the_same_weights_and_another_does_not(extracted: Path, here: Path) -> None:
    settings = ("train.epochs=2", "model.dropout=0.2")
    first = run_once(extracted, here / "a", *settings)
    assert same(first, run_once(extracted, here / "b", *settings))
    assert not same(first, run_once(extracted, here / "c", *settings, "train.seed=2"))


def test_stopped_at_any_step_it_goes_on_to_the_bit(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("train.epochs=3", "model.dropout=0.2", "data.chunk_mib=1")
    whole = run_once(extracted, here / "whole", *settings)
    step = Trainer._step
    stop_at = {3, 6, 11}

    def stopping(self: Trainer, batch: Batch, rate: float) -> None:
        step(self, batch, rate)
        if self.place.step + 1 in stop_at:
            stop_at.discard(self.place.step + 1)
            self.request_stop(130)

    monkeypatch.setattr(Trainer, "_step", stopping)
    for _ in range(3):
        with pytest.raises(Stopped):
            run_once(extracted, here / "parts", *settings, resume=True)
    assert same(whole, run_once(extracted, here / "parts", *settings, resume=True))
    lines = (here / "parts" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves_with_its_own_status(extracted: Path, here: Path, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "speechctc",
        "train",
        "--config",
        str(extracted),
        "--run",
        "r",
        "train.epochs=5000",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=here)
    for _ in range(600):
        if (here / "r" / "metrics.jsonl").exists():
            break
        time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "go on with --resume" in said and "Traceback" not in said
    epochs = len((here / "r" / "metrics.jsonl").read_text().splitlines())
    run_once(extracted, here / "r", f"train.epochs={epochs + 1}", resume=True)


def test_a_finished_run_resumed_says_so(extracted: Path, here: Path) -> None:
    weights = run_once(extracted, here / "r", "train.epochs=1")
    recorder = Recorder()
    assert train(load_config(extracted, [f"run={here}/r", "train.epochs=1"]), True, recorder) is None
    assert any("done already" in line for line in recorder.said)
    assert same(weights, load_file(here / "r" / "last" / "weights.safetensors"))


def test_a_run_folder_in_use_is_refused(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "r", "train.epochs=1")
    with pytest.raises(InputError, match="--resume"):
        run_once(extracted, here / "r", "train.epochs=1")
    with pytest.raises(InputError, match=r"train\.lr=0\.01 \(now 0\.5\)"):
        run_once(extracted, here / "r", "train.epochs=1", "train.lr=0.5", resume=True)


def test_two_processes_do_not_share_a_folder(extracted: Path, here: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (here / "r").mkdir()
    with open(here / "r" / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process"):
            run_once(extracted, here / "r", "train.epochs=1")


def test_a_loss_that_is_no_number_stops_with_the_batch_named(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = run_once(extracted, here / "r", "train.epochs=2")
    forward = Trainer._forward

    def poisoned(self: Trainer, batch: Batch) -> Any:
        logits, frames = forward(self, batch)
        return (logits * float("nan") if self.place.step >= 15 else logits), frames

    monkeypatch.setattr(Trainer, "_forward", poisoned)
    with pytest.raises(InputError, match=r"loss became nan at epoch 3, step 16, in the batch of u0-.*train\.lr"):
        run_once(extracted, here / "r", "train.epochs=4", resume=True)
    assert same(good, load_file(here / "r" / "last" / "weights.safetensors"))


def test_blank_collapse_is_explained_and_then_warned_of(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    settings = ["run=r", "train.epochs=5", "train.lr=1e-9", "train.schedule=constant"]
    config = load_config(extracted, settings)
    trainer_said = recorder.said
    original = Trainer._forward

    def blanks(self: Trainer, batch: Batch) -> Any:
        logits, frames = original(self, batch)
        bias = torch.zeros(logits.shape[2])
        bias[0] = 100.0
        return logits + bias, frames

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_forward", blanks)
        train(config, False, recorder)
    assert sum("usual for the first epochs" in line for line in trainer_said) == 1
    assert sum("epochs of nothing but blanks" in line for line in trainer_said) == 1


def test_the_second_stage_starts_from_the_best_weights(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    settings = ["run=r", "train.epochs=2", "train.finetune.epochs=1", "train.finetune.lr=1e-12"]
    train(load_config(extracted, settings), False, recorder)
    assert any(line.startswith("finetune: sgd") for line in recorder.said)
    best, last = (load_file(here / "r" / name / "weights.safetensors") for name in ("best", "last"))
    for name in best:
        torch.testing.assert_close(best[name], last[name], rtol=1e-6, atol=1e-7)


def test_features_of_another_config_are_refused(extracted: Path, here: Path) -> None:
    with pytest.raises(InputError, match=r"features\.mels=20 \(now 30\)"):
        run_once(extracted, here / "r", "features.mels=30")
    with pytest.raises(InputError, match="speechctc extract"):
        run_once(extracted, here / "r", "data.dir=nowhere")


def test_utterances_too_short_at_a_larger_stride_are_left_out_and_said(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    config = load_config(extracted, ["run=r", "model.time_stride=4", "train.epochs=1", "features.shift_ms=10"])
    lines = []
    folder = here / "features"
    shutil.copytree(config.data.dir, folder)
    from speechctc.shards import Extracted, read_shard, shard_path, write_shard

    path = shard_path(folder / "train", 0, 1)
    shard = read_shard(path)
    short = Extracted("short", torch.randn(12, 21), (1, 2, 3, 1, 1), shard.moments, 0.12)
    starts = np.cumsum(shard.frames.numpy()) - shard.frames.numpy()
    first = Extracted(shard.ids[0], shard.static[: int(shard.frames[0])], (1, 2), shard.moments, 1.0)
    assert starts[0] == 0
    write_shard(path, [first, short], [], shard.recipe, torch.float16)
    train(config.model_copy(update={"data": config.data.model_copy(update={"dir": folder})}), False, recorder)
    lines = [line for line in recorder.said if "left out" in line]
    assert lines and "short" in lines[0]


def test_cuda_asked_for_where_there_is_none_is_said(extracted: Path, here: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match=r"train\.device=cpu"):
        run_once(extracted, here / "r", "train.device=cuda")


def test_a_full_disk_keeps_the_old_checkpoint(extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = run_once(extracted, here / "r", "train.epochs=1")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run_once(extracted, here / "r", "train.epochs=2", resume=True)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert same(good, load_file(here / "r" / "last" / "weights.safetensors"))
