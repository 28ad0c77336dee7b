"""Check with how many threads torch trains fastest."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Set

import torch

from speechctc.core.cores import cores
from speechctc.stages.doctor.finding import Finding, finding

ROUNDS = 7  # steps that are timed with each number of threads
CLEARLY = 1.25  # times as long, before other threads are advised
THREAD_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def check_threads() -> list[Finding]:
    """Return a finding if a training step is clearly quicker with one thread, or with all cores, than as it is."""
    threads, there = torch.get_num_threads(), cores()
    return advise_threads(threads, there, measure_threads({1, threads, there}))


def measure_threads(counts: Set[int]) -> dict[int, float]:
    """Time a small step of training, forward and backward, with these numbers of threads; return medians in seconds.

    The numbers take turns, so that what else the machine does at the time slows all of them.
    """
    net = torch.nn.Sequential(*(torch.nn.Conv1d(96, 96, 5, padding=2) for _ in range(3)))
    x = torch.linspace(-1, 1, 4 * 96 * 200).reshape(4, 96, 200)
    before, times = torch.get_num_threads(), {count: list[float]() for count in sorted(counts)}
    try:
        for _ in range(ROUNDS):
            for count, found in times.items():
                torch.set_num_threads(count)
                began = time.perf_counter()
                net(x).sum().backward()
                found.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(before)
    return {count: statistics.median(found[1:]) for count, found in times.items()}  # the first one warms up


def advise_threads(threads: int, there: int, seconds: Mapping[int, float]) -> list[Finding]:
    """Return a finding if `threads` took clearly longer than the best of the other numbers that were measured.

    Parameters
    ----------
    threads, there : int
        Threads that torch uses, and cores that this process may use.
    seconds : mapping from int to float
        What a step took with each number of threads.
    """
    best = min(seconds, key=lambda count: seconds[count])
    if seconds[threads] < CLEARLY * seconds[best]:
        return []
    milliseconds = [f"{count}: {1000 * seconds[count]:.0f} ms" for count in sorted(seconds)]
    busy = best < threads <= there
    why = "other programs use the cores" if busy else "cores are idle" if best > threads else "threads share cores"
    values = {"why": why, "more": ", or end the other programs" if busy else "", "times": ", ".join(milliseconds)}
    settings = [f"{name}={os.environ[name]}" for name in THREAD_SETTINGS if name in os.environ]
    return [finding("threads", settings, "note", threads=threads, cores=there, best=best, **values)]
