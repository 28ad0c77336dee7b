"""Two processes that train together, on gloo, against one that does the same sums alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file

from speechctc.training.batches import Batch
from speechctc.training.epoch_plan import ResumeState
from speechctc.training.train_step import TrainStep
from speechctc.training.trainer import Trainer
from tests.forked import Together
from tests.train_helpers import run_once, trainer_of
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no distributed engine")
SETTINGS = ("model.dropout=0.0", "train.optimizer=sgd", "train.lr=0.05", "train.batch_size=4")
EPOCH = (*SETTINGS, "train.epochs=1", "train.schedule=constant", "train.warmup_steps=0")


def start(config: Path, run: str, *settings: str) -> subprocess.Popen[str]:
    """Start two processes by torchrun; ``run=`` since torchrun takes --run for one of its own options."""
    engine = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "speechctc"]
    command = [*engine, "train", "--config", str(config), "--resume", f"run={run}", *SETTINGS, *settings]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def together(batches: list[Batch]) -> Batch:
    """Return one batch of the utterances of all."""
    frames, labels = max(b.static.shape[1] for b in batches), max(b.labels.shape[1] for b in batches)
    pad = torch.nn.functional.pad
    return Batch(
        np.concatenate([b.indices for b in batches]),
        np.concatenate([b.lengths for b in batches]),
        np.concatenate([b.counts for b in batches]),
        torch.cat([pad(b.static, (0, 0, 0, frames - b.static.shape[1])) for b in batches]),
        torch.cat([b.frames for b in batches]),
        torch.cat([pad(b.labels, (0, labels - b.labels.shape[1])) for b in batches]),
        torch.cat([b.label_counts for b in batches]),
    )


def trained_alone(trainer: Trainer, ranks: int, accumulate: int) -> tuple[list[torch.Tensor], float]:
    """Take the steps of an epoch of all ranks with one batch each; return the weights and the epoch's loss."""
    loader, total = trainer.data.train, 0.0
    plan = loader.plan(trainer._epoch_seed(), ranks)
    phones = plan.totals(loader.split.label_counts)
    turns = list(zip(*(loader.batches(plan, rank) for rank in range(ranks)), strict=True))
    trainer.train_step.net.train()
    for step, first in enumerate(range(0, plan.steps, accumulate)):
        these = slice(first, first + accumulate)
        batch = together([batch for turn in turns[these] for batch in turn if batch is not None])
        total += float(trainer.train_step.step([batch], int(phones[these].sum()), 0.05, step))
    return list(trainer.train_step.net.parameters()), total / phones.sum()


def test_accumulated_batches_are_one_large_batch(extracted: Path, here: Path) -> None:
    """The last step of the epoch has fewer; the norm of whole steps is above the limit, and clipped."""
    settings = (*EPOCH, "train.clip=0.5", "train.ema=0.9")
    whole = trainer_of(extracted, here / "whole", *settings)
    assert whole.plan().steps % 5
    weights, loss = trained_alone(whole, 1, 5)
    last = run_once(extracted, here / "r", *settings, "train.accumulate=5")
    line = json.loads((here / "r" / "metrics.jsonl").read_text())
    assert line["step"] == -(-whole.plan().steps // 5) and line["clipped_share"] == 1
    assert line["loss"] == pytest.approx(loss, rel=1e-5)
    for (name, _), value in zip(whole.train_step.net.named_parameters(), weights, strict=True):
        torch.testing.assert_close(last[f"net.{name}"], value.detach(), rtol=1e-4, atol=1e-6)


def test_the_learning_rate_counts_steps_of_the_optimiser(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = TrainStep.step
    rates: list[tuple[int, float]] = []

    def watched(self: TrainStep, batches: Sequence[Batch], phones: int, rate: float, number: int) -> Any:
        rates.append((number, rate))
        return step(self, batches, phones, rate, number)

    monkeypatch.setattr(TrainStep, "step", watched)
    settings = (*SETTINGS, "train.epochs=100", "train.schedule=constant", "train.warmup_steps=4", "train.accumulate=2")
    trainer_of(extracted, here / "r", *settings)._epoch()
    assert [number for number, _ in rates] == list(range(6))
    assert [rate for _, rate in rates[:4]] == pytest.approx([0.0125, 0.025, 0.0375, 0.05])


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 4])
def test_processes_do_what_one_would_with_their_batches_together(extracted: Path, here: Path, accumulate: int) -> None:
    settings = (*EPOCH, f"train.accumulate={accumulate}")
    arguments = ("train", "--config", extracted, "run=two", *settings)
    status = Together("speechctc", *arguments, cwd=here, log=here / "said").wait()
    said = (here / "said").read_text()
    assert status == 0, said
    assert "2 processes" in said and said.count("trained:") == 1 and said.count("epoch   1 of 1") == 1
    trainer = trainer_of(extracted, here / "alone", *SETTINGS, "train.epochs=1")
    weights, loss = trained_alone(trainer, 2, accumulate)
    line = json.loads((here / "two" / "metrics.jsonl").read_text())
    assert line["loss"] == pytest.approx(loss, rel=1e-5)
    last = load_file(here / "two" / "last" / "weights.safetensors")
    for (name, _), value in zip(trainer.train_step.net.named_parameters(), weights, strict=True):
        torch.testing.assert_close(last[f"net.{name}"], value.detach(), rtol=1e-4, atol=1e-6)
    trainer.train_step.net.load_state_dict({name[4:]: v for name, v in last.items() if name.startswith("net.")})
    score = trainer._evaluate()
    assert score is not None and score.counts.per == line["dev_per"]
    assert score.loss == pytest.approx(line["dev_loss"], rel=1e-6)
    assert json.loads((here / "two" / "run.json").read_text())["ranks"] == 2


LOOSE = """
import sys
import torch
import speechctc

def build(inputs, classes):
    layers = torch.nn.Linear(inputs, classes), torch.nn.Linear(2, 2)
    net = torch.nn.Sequential(layers[0])
    net.add_module("unused", torch.nn.Identity())
    net.unused.loose = layers[1]
    return speechctc.OwnNet(net, stride=1, sees=(0, 0))

speechctc.register_model("loose", build)
speechctc.train(sys.argv[1], ["run=two", "model.kind=loose", "train.epochs=2", "train.batch_size=4"])
"""


@pytest.mark.slow
def test_two_processes_say_each_thing_once(extracted: Path, here: Path) -> None:
    """Of a net of one's own with a layer that is not used; the compiler's note, too, where nothing is compiled yet."""
    Path("two.py").write_text(LOOSE, encoding="utf-8")
    engine = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "two.py"]
    new = {"OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(here / "code"), "PYTHONPATH": str(Path(__file__).parents[2])}
    (here / "code").mkdir(mode=0o700)
    done = subprocess.run(
        [*engine, str(extracted)], capture_output=True, text=True, env={**os.environ, **new}, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("W")]
    assert sum("so training leaves that as it is" in line for line in said) == 1, done.stderr
    assert sum("compiling what this command needs" in line for line in said) == 1, done.stderr
    assert len(said) == len(set(said)), done.stderr


@pytest.mark.slow
def test_one_process_goes_on_where_two_were_stopped(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(extracted, "r", "train.epochs=3000", "train.save_minutes=0.0001")
    wait_for((here / "r" / "metrics.jsonl").exists)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=600)
    assert (here / "r" / "last").exists(), said
    state = ResumeState.of(tensors := load_file(here / "r" / "last" / "state.safetensors"), len(tensors["left"]))
    assert state.ranks == 2 and len(state.remaining)
    done = len(state.remaining) - len(
        state.not_done(trainer_of(extracted, here / "x").data.train.split.frames, seed(state))
    )
    step = TrainStep.step
    seen: list[Any] = []

    def watched(self: TrainStep, batches: Sequence[Batch], *rest: Any) -> Any:
        seen.extend(each for batch in batches for each in batch.indices.tolist())
        return step(self, batches, *rest)

    monkeypatch.setattr(TrainStep, "step", watched)
    more = ("train.save_minutes=0.0001", f"train.epochs={state.progress.epoch + 1}")
    run_once(extracted, here / "r", *SETTINGS, *more, resume=True)
    assert len(seen) == len(set(seen)) == len(state.remaining) - done


def seed(state: ResumeState) -> int:
    return 1_000_003 + state.progress.epoch


def test_the_rate_grows_with_the_processes_if_asked() -> None:
    from speechctc.config.schema import TrainConfig
    from speechctc.training.optimise import stages

    rates = {how: stages(TrainConfig(lr=0.1, scale_lr=how), 4)[0].lr for how in ("none", "linear", "sqrt")}
    assert rates == pytest.approx({"none": 0.1, "linear": 0.4, "sqrt": 0.2})


@pytest.mark.slow
def test_a_process_that_is_killed_is_told_in_one_line_by_the_other(extracted: Path, here: Path) -> None:
    arguments = ("train", "--config", extracted, "run=r", *SETTINGS, "train.epochs=3000", "train.save_minutes=0.0001")
    two = Together("speechctc", *arguments, cwd=here, log=here / "said")
    wait_for((here / "r" / "metrics.jsonl").exists)
    two.ranks[1].kill()
    assert two.ranks[0].wait(600) == 2
    said = [line for line in (here / "said").read_text(encoding="utf-8").splitlines() if line.startswith("speechctc: ")]
    said = [line for line in said if "compil" not in line]
    assert len(said) == 1 and "another process of this training has ended" in said[0] and "--resume" in said[0]
    assert "Traceback" not in (here / "said").read_text(encoding="utf-8")


@pytest.mark.slow
def test_two_that_go_on_end_with_the_weights_of_two_that_were_never_stopped(extracted: Path, here: Path) -> None:
    """Dropout draws from the state of each process; one of them is killed between two saves within an epoch."""
    settings = ("model.dropout=0.2", "train.batch_size=4", "train.epochs=4", "train.save_minutes=0.0001")

    def begun(run: str) -> Together:
        words = ("train", "--config", extracted, f"run={run}", "--resume", *settings)
        return Together("speechctc", *words, cwd=here, log=here / f"said-{run}")

    assert begun("whole").wait() == 0, (here / "said-whole").read_text(encoding="utf-8")
    killed, state = begun("killed"), here / "killed" / "last" / "state.safetensors"
    wait_for((here / "killed" / "metrics.jsonl").exists)
    saved = state.stat().st_mtime_ns
    wait_for(lambda: state.stat().st_mtime_ns != saved)
    killed.ranks[1].kill()
    assert killed.ranks[0].wait(600) == 2
    assert begun("killed").wait() == 0, (here / "said-killed").read_text(encoding="utf-8")
    found, expected = (load_file(here / run / "last" / "weights.safetensors") for run in ("killed", "whole"))
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.slow
def test_processes_of_one_command_are_ended_in_three_lines_and_go_on_with_another_number(
    extracted: Path, here: Path
) -> None:
    def run(processes: int, *settings: str) -> subprocess.Popen[str]:
        words = ["train", "--config", str(extracted), "--run", "r", "--resume", f"--processes={processes}", *SETTINGS]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "speechctc", *words, *settings]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    running = run(2, "train.epochs=3000", "train.save_minutes=0.0001")
    wait_for(lambda: (here / "r" / "last").exists() and (here / "r" / "metrics.jsonl").exists())
    children = psutil.Process(running.pid).children(recursive=True)
    ranks = [each for each in children if "spawn_main" in " ".join(each.cmdline())]
    assert len(ranks) == 2
    max(ranks, key=lambda each: each.create_time()).kill()
    _, said = running.communicate(timeout=600)
    assert running.returncode == 2 and not any(each.is_running() for each in ranks)
    lines = [line for line in said.splitlines() if line.startswith("speechctc: ") and "loading" not in line]
    assert len(lines) <= 3 and "was ended from outside, by SIGKILL" in lines[-1] and "--resume" in lines[-1], said
    assert "Traceback" not in said
    epochs = len((here / "r" / "metrics.jsonl").read_text().splitlines())
    running = run(3, f"train.epochs={epochs + 2}")
    _, said = running.communicate(timeout=600)
    assert running.returncode == 0, said
    assert len((here / "r" / "metrics.jsonl").read_text().splitlines()) == epochs + 2


@pytest.mark.slow
def test_an_error_of_the_processes_is_the_status_of_the_command(here: Path) -> None:
    words = [sys.executable, "-m", "speechctc", "train", "--config", "none.yaml", "--processes", "2"]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    assert done.returncode == 2
    assert {line.partition(";")[0] for line in done.stderr.splitlines()} == {
        "speechctc: none.yaml: no such config file"
    }
