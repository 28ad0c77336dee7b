"""Time of a training step by part: a table, and a trace for chrome://tracing."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from speechctc.core import files

PARTS = ("data", "copy", "forward", "loss", "backward", "reduce", "optimiser")


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
        with profile(activities=activities, acc_events=True) as recorded:
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
