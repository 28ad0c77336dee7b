"""Metrics of a worker of a cluster: Dask serves them at its ``/metrics`` where prometheus-client is installed."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # bounds of the histogram, seconds


class _Metrics(NamedTuple):
    seconds: Any
    errors: Any
    waiting: Any


@cache
def _metrics() -> _Metrics | None:
    """Return the metrics of this process; None without prometheus-client."""
    try:
        from prometheus_client import Counter, Gauge, Histogram
    except ImportError:
        return None
    by = ("command",)
    return _Metrics(
        Histogram("speechctc_recording_seconds", "what a recording took", by, buckets=WIDTHS),
        Counter("speechctc_errors", "recordings that ended in an error here", by),
        Gauge("speechctc_waiting", "recordings that the command has begun, and no worker has yet", by),
    )


def observe(command: str, seconds: float, is_error: bool, waiting: int) -> None:
    """Count a recording that this worker has ended.

    Parameters
    ----------
    command : str
    seconds : float
        What it took.
    is_error : bool
        It ended in an error.
    waiting : int
        Recordings that the command had begun, and no worker had, when it gave this one away.
    """
    if (metrics := _metrics()) is None:
        return
    metrics.seconds.labels(command).observe(seconds)
    metrics.errors.labels(command).inc(int(is_error))
    metrics.waiting.labels(command).set(waiting)
