"""Time of a training step by part: a table, and a trace for chrome://tracing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch
from torch.profiler import profile as torch_profile
from torch.profiler import record_function

from speechctc.config.schema import Config, TrainConfig
from speechctc.core import files
from speechctc.core.devices import allow_tf32, choose_device
from speechctc.core.progress import Reporter
from speechctc.training.batches import Batch, TrainingData
from speechctc.training.distributed import Ranks
from speechctc.training.optimise import stages
from speechctc.training.trainer import first_train_step

PARTS = ("data", "forward", "loss", "backward", "reduce", "optimiser")
WARM_UP = 3  # steps before the profile begins


@dataclass(frozen=True)
class StepTimes:
    """Seconds by part, over some steps.

    Attributes
    ----------
    steps, frames : int
    seconds : dict of str to float
        By part, plus ``other`` and the total, ``wall``.
    trace : Path
    """

    steps: int
    frames: int
    seconds: dict[str, float]
    trace: Path

    def to_text(self) -> str:
        """Return the table as text."""
        wall = self.seconds["wall"]
        lines = [f"{self.steps} steps in {wall:.2f} s, {self.frames / wall:,.0f} frames/s"]
        for part in (*PARTS, "other"):
            seconds = self.seconds.get(part, 0.0)
            lines.append(f"  {part:<10}{1e3 * seconds / self.steps:9.2f} ms a step {100 * seconds / wall:6.1f} %")
        return "\n".join([*lines, f"trace: {self.trace} (open it in chrome://tracing)"])


def profile(config: Config, steps: int, reporter: Reporter) -> StepTimes:
    """Take steps as the first of a run are taken, and time their parts.

    Parameters
    ----------
    config : Config
        Its run's folder is neither read nor written; the trace is written beside it.
    steps : int
        Steps to time, at least 1; some others are taken before.
    reporter : Reporter

    Raises
    ------
    InputError
        There are no features, or they are of another config.
    """
    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    data = TrainingData(config, device, reporter)
    stage = stages(config.train)[0]
    train_step = first_train_step(config, data, stage, Ranks(), reporter)
    train_step.net.train()
    of_steps, seconds, frames = _endless(data, config.train), defaultdict[str, float](float), 0

    @contextmanager
    def clock(part: str) -> Iterator[None]:
        began = time.perf_counter()
        with record_function(part):
            yield
            if device.type == "cuda":  # each part waits for its kernels
                torch.cuda.synchronize(device)
        seconds[part] += time.perf_counter() - began

    for number in range(WARM_UP):
        train_step.step(*next(of_steps), stage.lr, number)
    train_step.clock = clock
    with torch_profile(acc_events=True) as recorded:  # else torch warns that a second cycle would clear the first
        began = time.perf_counter()
        for number in range(WARM_UP, WARM_UP + steps):
            with clock("data"):
                batches, labels = next(of_steps)
            train_step.step(batches, labels, stage.lr, number)
            frames += sum(int(batch.lengths.sum()) for batch in batches)
        wall = time.perf_counter() - began
    trace = config.run.with_name(f"{config.run.name}.trace.json")
    files.write_file(trace, lambda draft: recorded.export_chrome_trace(str(draft)))
    rest = max(wall - sum(seconds.values()), 0.0)
    return StepTimes(steps, frames, {**seconds, "other": rest, "wall": wall}, trace)


def _endless(data: TrainingData, config: TrainConfig) -> Iterator[tuple[list[Batch], int]]:
    """Yield the batches of each step and their number of labels, epoch after epoch."""
    for seed in count(config.seed):
        batches = (batch for batch in data.train.batches(data.train.plan(seed, 1)) if batch is not None)
        while step := list(islice(batches, config.accumulate)):
            yield step, sum(int(batch.counts.sum()) for batch in step)
