"""Decode many recordings at a time; yield results in order, and errors as values."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.streaming import ActivityGate

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 4  # most results that wait to be taken, per thread
BUNDLE = 256  # recordings to sort by length together
BATCH_FRAMES = 40_000  # most static frames in a batch on a GPU, padding included


def map_in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int = 0
) -> Iterator[Result | InputError]:
    """Yield ``work(item)`` of each item in order, or the `InputError` it raised.

    Parameters
    ----------
    work : callable
        Should spend most of its time without the interpreter's lock, as torch and libsndfile do.
    items : iterable
    jobs : int
        Number of threads, which share torch's own threads; 0: the number of torch's threads.
    """
    threads = torch.get_num_threads()
    jobs = jobs or threads
    torch.set_num_threads(max(threads // jobs, 1))
    own: set[int] = set()
    pool = ThreadPoolExecutor(jobs, "recording", lambda: own.add(threading.get_ident()))
    waiting: deque[Future[Result | InputError]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(_attempt, work, item))
            if len(waiting) >= AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # An iterator that is abandoned may be closed by the garbage collector, in any thread: none can wait for itself.
        pool.shutdown(wait=threading.get_ident() not in own, cancel_futures=True)
        torch.set_num_threads(threads)


def decode_files(
    recogniser: Recogniser,
    paths: Iterable[Path],
    jobs: int = 0,
    alternatives: int = 0,
    channel: int | None = None,
) -> Iterator[Recognition | InputError]:
    """Decode recordings: on a CPU several at a time, on a GPU in batches of similar length."""
    if recogniser.device.type == "cpu":
        return map_in_threads(
            lambda path: recogniser.decode(path, alternatives=alternatives, channel=channel), paths, jobs
        )
    return decode_in_batches(recogniser, paths, jobs, alternatives, channel)


class _Prepared(NamedTuple):
    path: Path
    seconds: float
    static: Tensor | None  # None if it is too long for a batch


def decode_in_batches(
    recogniser: Recogniser,
    paths: Iterable[Path],
    jobs: int = 0,
    alternatives: int = 0,
    channel: int | None = None,
) -> Iterator[Recognition | InputError]:
    """Decode recordings in batches of similar length; threads read files and compute features in advance."""

    def prepare(path: Path) -> _Prepared:
        return _Prepared(path, *recogniser.forward.static(path, BATCH_FRAMES, channel))

    prepared = map_in_threads(prepare, paths, jobs)
    while bundle := list(islice(prepared, BUNDLE)):
        short = [each for each in bundle if isinstance(each, _Prepared) and each.static is not None]
        done = {id(each): result for each, result in _batches(recogniser, short, alternatives)}
        for each in bundle:
            if isinstance(each, InputError):
                yield each
            elif each.static is None:
                yield _attempt(
                    lambda path: recogniser.decode(path, alternatives=alternatives, channel=channel), each.path
                )
            else:
                yield done[id(each)]


def _batches(
    recogniser: Recogniser, items: list[_Prepared], alternatives: int
) -> Iterator[tuple[_Prepared, Recognition]]:
    """Decode short recordings in batches of similar length."""

    def frames(item: _Prepared) -> int:
        return 0 if item.static is None else len(item.static)

    gate = ActivityGate(recogniser.config, recogniser.phones)
    left = sorted(items, key=frames, reverse=True)
    while left:
        size = max(BATCH_FRAMES // max(frames(left[0]), 1), 1)
        batch, left = left[:size], left[size:]
        statics = [item.static for item in batch if item.static is not None]
        for item, static, rows in zip(batch, statics, recogniser.forward.batch(statics), strict=True):
            logits = gate.whole(static, rows.numpy())
            segments = recogniser.segments_of(logits, item.seconds, alternatives)
            yield item, Recognition(str(item.path), item.seconds, tuple(segments))


def _attempt(work: Callable[[Item], Result], item: Item) -> Result | InputError:
    try:
        return work(item)
    except InputError as error:
        return error
