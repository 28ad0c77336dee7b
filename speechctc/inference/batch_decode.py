"""Decode many recordings at a time; yield results in order, and errors as values."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from speechctc.config.schema import Config
from speechctc.core.cores import shared_among, threads
from speechctc.core.errors import InputError
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.streaming import ActivityGate, Forward, Logits, Rows

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 4  # most results that wait to be taken, per thread
BUNDLE = 256  # recordings to sort by length together
BATCH_FRAMES = 40_000  # most static frames in a batch on a GPU, padding included


class Decoder(Protocol):
    """What decodes: `speechctc.inference.recogniser.Recogniser`, which is built on this module."""

    device: str
    config: Config
    forward: Forward

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones of the model."""

    def decode_one(self, recording: Any, rate: int | None, alternatives: int, channel: int | None) -> Recognition:
        """Recognise one recording."""

    def segments_of(self, logits: Logits, seconds: float, alternatives: int = 0) -> Iterator[Segment]:
        """Yield the phones of a whole recording from its logits."""


def map_in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int = 0
) -> Iterator[Result | InputError]:
    """Yield ``work(item)`` of each item in order, or the `InputError` it raised.

    Parameters
    ----------
    work : callable
        Should spend most of its time without the interpreter's lock, as numpy and libsndfile do.
    items : iterable
    jobs : int
        Number of threads; 0: one for each core, or ``OMP_NUM_THREADS``.
    """
    jobs = jobs or threads()
    own: set[int] = set()
    pool = ThreadPoolExecutor(jobs, "recording", lambda: own.add(threading.get_ident()))
    waiting: deque[Future[Result | InputError]] = deque()
    try:
        with shared_among(jobs):
            for item in items:
                waiting.append(pool.submit(_attempt, work, item))
                if len(waiting) >= AHEAD * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        # An iterator that is abandoned may be closed by the garbage collector, in any thread: none can wait for itself.
        pool.shutdown(wait=threading.get_ident() not in own, cancel_futures=True)


def decode_all(
    decoder: Decoder,
    recordings: Iterable[Any],
    jobs: int = 0,
    alternatives: int = 0,
    channel: int | None = None,
    rate: int | None = None,
) -> Iterator[Recognition | InputError]:
    """Decode files or samples: on a CPU several at a time, on a GPU files in batches of similar length.

    The arguments are those of `Recogniser.decode` for each; `jobs` is as for `map_in_threads`.
    """
    if decoder.device == "cpu":
        return map_in_threads(lambda each: decoder.decode_one(each, rate, alternatives, channel), recordings, jobs)
    return decode_in_batches(decoder, recordings, jobs, alternatives, channel, rate)


class _Prepared(NamedTuple):
    recording: Any
    seconds: float
    static: Rows | None  # None if it is too long for a batch, or no file


def decode_in_batches(
    decoder: Decoder,
    recordings: Iterable[Any],
    jobs: int = 0,
    alternatives: int = 0,
    channel: int | None = None,
    rate: int | None = None,
) -> Iterator[Recognition | InputError]:
    """Decode recordings in batches of similar length; threads read files and compute features in advance."""

    def prepare(recording: Any) -> _Prepared:
        if rate is not None or not isinstance(recording, (str, Path)):
            return _Prepared(recording, 0.0, None)
        return _Prepared(recording, *decoder.forward.static(Path(recording), BATCH_FRAMES, channel))

    prepared = map_in_threads(prepare, recordings, jobs)
    while bundle := list(islice(prepared, BUNDLE)):
        short = [each for each in bundle if isinstance(each, _Prepared) and each.static is not None]
        done = {id(each): result for each, result in _batches(decoder, short, alternatives)}
        for each in bundle:
            if isinstance(each, InputError):
                yield each
            elif each.static is None:
                yield _attempt(lambda one: decoder.decode_one(one, rate, alternatives, channel), each.recording)
            else:
                yield done[id(each)]


def _batches(decoder: Decoder, items: list[_Prepared], alternatives: int) -> Iterator[tuple[_Prepared, Recognition]]:
    """Decode short recordings in batches of similar length."""

    def frames(item: _Prepared) -> int:
        return 0 if item.static is None else len(item.static)

    gate = ActivityGate(decoder.config, decoder.phones)
    left = sorted(items, key=frames, reverse=True)
    while left:
        size = max(BATCH_FRAMES // max(frames(left[0]), 1), 1)
        batch, left = left[:size], left[size:]
        statics = [item.static for item in batch if item.static is not None]
        for item, static, rows in zip(batch, statics, decoder.forward.batch(statics), strict=True):
            logits = gate.whole(static, rows)
            segments = decoder.segments_of(logits, item.seconds, alternatives)
            yield item, Recognition(str(item.recording), item.seconds, tuple(segments))


def _attempt(work: Callable[[Item], Result], item: Item) -> Result | InputError:
    try:
        return work(item)
    except InputError as error:
        return error
