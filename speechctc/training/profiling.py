"""Time of a training step by part: a table, and a trace for chrome://tracing."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as torch_profile

from speechctc.config.schema import Config, TrainConfig
from speechctc.core import files
from speechctc.core.devices import allow_tf32, choose_device
from speechctc.core.progress import Reporter
from speechctc.training.batches import Batch, TrainingData
from speechctc.training.distributed import Ranks
from speechctc.training.optimise import stages
from speechctc.training.trainer import first_learner

PARTS = ("data", "copy", "forward", "loss", "backward", "reduce", "optimiser")
WARM_UP = 3  # steps before the profile begins


class Profile:
    """Sums the time of each part: the host's on a CPU, between two CUDA events on a GPU.

    Parameters
    ----------
    device : torch.device
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = defaultdict(float)
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Time a part, and name it in the trace."""
        began = time.perf_counter()
        edges = self._edges()
        with record_function(part):
            yield
        if edges is None:
            self.seconds[part] += time.perf_counter() - began
        else:
            edges[1].record()
            self._events.append((part, *edges))

    def move(self, source: str, target: str, seconds: float) -> None:
        """Transfer seconds from one part to another."""
        self.seconds[source] -= seconds
        self.seconds[target] += seconds

    @contextmanager
    def recording(self, trace: Path) -> Iterator[None]:
        """Return a context that profiles everything inside it and writes the trace."""
        on_gpu = self.device.type == "cuda"
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
        if not on_gpu:  # else the profiler's library reports as an error that it found none
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        with torch_profile(activities=activities, acc_events=True) as recorded:
            began = time.perf_counter()
            yield
            if on_gpu:
                torch.cuda.synchronize(self.device)
            self.seconds["wall"] = time.perf_counter() - began
        for part, first, last in self._events:
            self.seconds[part] += first.elapsed_time(last) / 1e3
        busy = sum(self.seconds[part] for part in PARTS)
        if on_gpu:  # the parts include gaps between kernels: the busy time is the sum of the kernels
            kernels = [event for event in recorded.events() if event.device_type == DeviceType.CUDA]
            busy = sum(event.self_device_time_total for event in kernels) / 1e6
        self.seconds["idle"] = max(self.seconds["wall"] - busy, 0.0)
        files.write_file(trace, lambda draft: recorded.export_chrome_trace(str(draft)))

    def _edges(self) -> tuple[torch.cuda.Event, torch.cuda.Event] | None:
        if self.device.type != "cuda":
            return None
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        return first, last


@dataclass(frozen=True)
class StepTimes:
    """Seconds by part, over some steps.

    Attributes
    ----------
    steps, frames : int
    seconds : dict of str to float
        By part, plus ``idle`` and the total, ``wall``.
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
        for part in (*PARTS, "idle"):
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
    learner = first_learner(config, data, stage, Ranks(), reporter)
    learner.net.train()
    of_steps, clock, frames = _endless(data, config.train), Profile(device), 0
    for number in range(WARM_UP):
        learner.step(*next(of_steps), stage.lr, number)
    learner.clock = clock
    trace = config.run.with_name(f"{config.run.name}.trace.json")
    with clock.recording(trace):
        for number in range(WARM_UP, WARM_UP + steps):
            waited = data.train.waited
            with clock("copy"):
                batches, labels = next(of_steps)
            clock.move("copy", "data", data.train.waited - waited)
            learner.step(batches, labels, stage.lr, number)
            frames += sum(int(batch.lengths.sum()) for batch in batches)
    return StepTimes(steps, frames, clock.seconds, trace)


def _endless(data: TrainingData, config: TrainConfig) -> Iterator[tuple[list[Batch], int]]:
    """Yield the batches of each step and their number of labels, epoch after epoch."""
    for seed in count(config.seed):
        batches = (batch for batch in data.train.batches(data.train.plan(seed, 1)) if batch is not None)
        while step := list(islice(batches, config.accumulate)):
            yield step, sum(int(batch.counts.sum()) for batch in step)
