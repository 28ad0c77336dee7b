"""What tests of training share: a corpus of tones extracted once, and short ways to train on it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from speechctc.config.load import load_config
from speechctc.core.progress import Reporter
from speechctc.stages.train import train
from speechctc.training.batches import Batch
from speechctc.training.dev_score import DevScore
from speechctc.training.distributed import Ranks
from speechctc.training.runs import Run
from speechctc.training.train_step import TrainStep
from speechctc.training.trainer import Trainer

Weights = dict[str, torch.Tensor]


class Recorder(Reporter):
    """Keeps what would be said."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def note(self, *texts: str) -> None:
        self.said += texts

    def warn(self, *texts: str) -> None:
        self.said += [f"warning: {text}" for text in texts]


def run_once(config: Path, run: Path, *settings: str, resume: bool = False) -> Weights:
    """Train and return the last weights."""
    train(load_config(config, [f"run={run}", *settings]), resume, Recorder())
    return load_file(run / "last" / "weights.safetensors")


def score_once(config: Path, run: Path, *settings: str, recorder: Recorder | None = None) -> DevScore:
    """Train and return the last score."""
    score = train(load_config(config, [f"run={run}", *settings]), True, recorder or Recorder()).dev
    assert score is not None
    return score


def trainer_of(config: Path, run: Path, *settings: str, recorder: Recorder | None = None) -> Trainer:
    """Return a trainer that has not begun."""
    loaded = load_config(config, [f"run={run}", *settings])
    return Trainer(loaded, Run(run), torch.device("cpu"), Ranks(), recorder or Recorder())


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def stopping(step: Callable[..., Any], stop_at: set[int]) -> Callable[..., Any]:
    """Return `TrainStep.step` during which Ctrl-C comes once at each of these steps; `step` is the original."""

    def stepped(self: TrainStep, batches: Sequence[Batch], phones: int, rate: float, number: int) -> Any:
        done = step(self, batches, phones, rate, number)
        if number + 1 in stop_at:
            stop_at.discard(number + 1)
            signal.raise_signal(signal.SIGINT)
        return done

    return stepped
