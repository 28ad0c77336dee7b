"""A step's time on a GPU: eagerly, as a replayed CUDA graph, with a cold L2 cache; and the floors under it."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

STEP_CYCLES = 46
"""The least that a step of the lattice can take: a shuffle, a selection and four operations, one after the other."""

Step = Callable[[], Tensor]


def graph_of(step: Step) -> torch.cuda.CUDAGraph:
    """Capture a step, after three runs on a stream of its own, as torch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def by_events(run: Callable[[], object], seconds: float, cold: bool = False) -> list[float]:
    """Time runs one by one with events, in milliseconds; with `cold`, the L2 cache is filled with zeros before each."""
    others = torch.empty(2**28 if cold else 1, dtype=torch.uint8, device="cuda")  # 256 MiB: several times any L2
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 20 or (time.perf_counter() - start < seconds and len(times) < 2000):
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(20)]
        for begin, end in pairs:
            if cold:
                others.zero_()
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        times += [begin.elapsed_time(end) for begin, end in pairs]
    return times


def by_clock(run: Callable[[], object], seconds: float) -> float:
    """Time a run of many without waiting in between, in milliseconds: what the host takes, if that is more."""
    count, start = 0, time.perf_counter()
    while count < 20 or time.perf_counter() - start < seconds:
        run()
        count += 1
        if count % 50 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / count


def many_replays(graph: torch.cuda.CUDAGraph, seconds: float) -> float:
    """Time replays one after the other between two events, in milliseconds each: no gap of the host's is counted."""
    graph.replay()
    torch.cuda.synchronize()
    found: list[float] = []
    start = time.perf_counter()
    while len(found) < 5 or time.perf_counter() - start < seconds:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(50):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 50)
    return statistics.median(found)


def numbers(count: int, device: str) -> Tensor:
    """Make numbers that differ, but no random ones: after a failed capture the generator may be of no use."""
    return torch.arange(count, dtype=torch.int64, device=device)


@lru_cache(maxsize=1)
def copy_rate() -> float:
    """Measure bytes read and written a second by a large copy on the device."""
    source = numbers(2**28, "cuda")
    target = torch.empty_like(source)
    times = by_events(lambda: target.copy_(source), 0.3)
    return 2 * source.nbytes / (statistics.median(times) / 1e3)


def floors(frames: int, labels: int, classes: int, samples: int, bytes_: int) -> dict[str, str]:
    """The two floors in milliseconds: logits and gradient once at the rate of a copy; steps one after the other."""
    hertz = getattr(torch.cuda.get_device_properties(0), "clock_rate", 1.98e6) * 1e3
    return {
        "copy_tb_s": f"{copy_rate() / 1e12:.3f}",
        "floor_bytes_ms": f"{1e3 * 2 * frames * classes * samples * bytes_ / copy_rate():.4g}",
        "floor_steps_ms": f"{1e3 * frames * STEP_CYCLES / hertz:.4g}",
    }


def launches(step: Step) -> int:
    """Count what the GPU is given to do in a step: kernels, copies, fills."""
    step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.device_type.name == "CUDA")


def timed(step: Step, seconds: float, capture: bool = True) -> dict[str, str]:
    """Time a step in all ways; what fails is said in `note`, and the rest goes on.

    Without `capture` there is no graph of it: torch 2.11 does not recover from a capture that fails, and its allocator
    would believe in every later measurement that one is under way.
    """
    row = dict.fromkeys(
        ("eager_ms", "eager_events_ms", "launches", "graph_ms", "graph_cold_ms", "graph_best_ms", "note"), ""
    )

    def attempt(name: str, measure: Callable[[], float]) -> None:
        try:
            row[name] = f"{measure():.4g}"
        except Exception as error:  # a loss that cannot be captured must not cost the other figures
            with contextlib.suppress(RuntimeError):
                torch.cuda.synchronize()
            row[name] = ""
            row["note"] += f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:120]}; "

    attempt("eager_ms", lambda: by_clock(step, seconds))
    attempt("eager_events_ms", lambda: statistics.median(by_events(step, seconds)))
    attempt("launches", lambda: launches(step))
    graphs: list[torch.cuda.CUDAGraph] = []
    if not capture:
        return row | {"note": row["note"] + "not captured, as its host waits; "}
    attempt("graph_ms", lambda: (graphs.append(graph_of(step)), many_replays(graphs[0], seconds))[1])  # type: ignore[func-returns-value]
    if graphs:
        attempt("graph_cold_ms", lambda: statistics.median(by_events(graphs[0].replay, seconds, cold=True)))
        attempt("graph_best_ms", lambda: min(by_events(graphs[0].replay, seconds)))
    return row


def cudnn_loss(logits: Tensor, targets: Tensor, frames: Tensor, labels: Tensor) -> Tensor:
    """PyTorch's loss with what cuDNN takes: int32, one row of targets, blank 0. Raises if cuDNN would not be used.

    Parameters
    ----------
    logits : Tensor
        Shape (T, N, C), float32.
    targets : Tensor
        int32, one sample after the other.
    frames, labels : Tensor
        int32, shape (N,), on the device of `targets`.
    """
    log_p = logits.log_softmax(-1)
    if not torch._use_cudnn_ctc_loss(log_p, targets, frames, labels, 0):
        raise RuntimeError("cuDNN does not take this shape")
    return functional.ctc_loss(log_p, targets, frames, labels, 0, "mean")
