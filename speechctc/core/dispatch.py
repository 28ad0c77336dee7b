"""Gives items to the workers of a Dask cluster one worker at a time, so that it is known who has what.

An item that a worker loses, cannot find or fails at goes to another machine; after `TRIES` of them it is an error of
its own. A worker that comes later is used as those that were there, after the same check. Dask serves the
metrics of a worker at its ``/metrics`` where prometheus-client is installed.
"""

from __future__ import annotations

import socket
import time
import uuid
from asyncio import CancelledError
from asyncio import TimeoutError as TimedOut
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from speechctc.core.errors import InputError, first_few, plural
from speechctc.core.parallel import LONGER, WAIT_SECONDS, WorkerEnded, set_took, time_limit

TRIES = 3  # machines that an item may fail on
AHEAD = 2  # items that a worker has for each of its threads
LOOK_SECONDS = 0.5  # between two looks at who is there
SILENCE_SECONDS = 10.0  # without a worker, after which this is said
STILL_SECONDS = 60.0  # without a result, after which this is said; and between two notes that there is no worker
GRACE = 2  # times the limit of a recording that its worker has to notice it by itself
WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # bounds of the histogram, seconds
GONE = "the worker was lost"
INSTALL = "install the same speechctc on every machine of the cluster, with its extra 'cluster'"


class LostItem(InputError):
    """No machine could do an item, which may be the fault of the machines."""


class NotHere(InputError):
    """A recording is not on the machine that should work on it."""


def _nothing(*texts: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class ClusterRun:
    """How a run treats its cluster.

    Attributes
    ----------
    command : str
        The tasks have this name in Dask's dashboard, beside that of the item.
    name : callable
        Of an item, for messages and the dashboard.
    wait : float
        Seconds without a worker after which the run ends.
    limit : float, optional
        Seconds that an item may take.
    warn : callable
        Prints each of its arguments as a line.
    """

    command: str = "work"
    name: Callable[[Any], str] = str
    wait: float = WAIT_SECONDS
    limit: float | None = None
    warn: Callable[..., None] = _nothing


class Answer(NamedTuple):
    """What a worker sends back: the result, or what was raised, an `InputError` as it is; who it is."""

    value: Any
    error: InputError | str
    seconds: float
    versions: Mapping[str, str]
    host: str


class Order(NamedTuple):
    """What a worker is told beside its item: the command, the limit of the run, and how many items no worker has."""

    command: str
    limit: float | None
    waiting: int


def work_there(
    work: Callable[..., Any], versions: Callable[[], Mapping[str, str]], order: Order, *given: Any
) -> Answer:
    """Do the work on a worker; what it raises is part of the answer."""
    began, value, what = time.monotonic(), None, ""  # type: float, Any, InputError | str
    try:
        with time_limit(order.limit):
            value = work(*given)
    except InputError as error:
        what = error
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    observe(order.command, seconds, bool(what) or isinstance(value, InputError), order.waiting)
    return Answer(value, what, seconds, versions(), socket.gethostname())


@dataclass(eq=False)
class Begun:
    """An item that was given to a pool."""

    pool: Pool
    item: Any
    name: str
    tried: list[tuple[str, InputError | str]] = field(default_factory=list)  # the worker, and what went wrong there
    seat: Seat | None = None
    future: Any = None
    began: float | None = None  # since when its worker has a thread for it
    done: bool = False
    value: Any = None
    error: InputError | None = None
    took: tuple[float, str] | None = None

    def result(self) -> Any:
        """Wait for the result; an `InputError` that the work raised is raised."""
        while not self.done:
            self.pool.turn()
        if self.took:
            set_took(*self.took)
        if self.error is not None:
            raise self.error
        return self.value

    def finish(self, value: Any, error: InputError | None = None) -> None:
        """Keep the result, or the error."""
        self.value, self.error, self.done, self.future, self.seat = value, error, True, None, None


@dataclass(eq=False)
class Seat:
    """A worker that is used."""

    address: str
    host: str
    threads: int
    shared: tuple[Any, ...]
    given: list[Begun] = field(default_factory=list)
    late: set[Any] = field(default_factory=set)  # futures of items that took too long, whose threads are still busy
    lacks: bool = False  # it lacks recordings that others have

    @property
    def able(self) -> int:
        """How many threads can take an item."""
        return max(self.threads - len(self.late), 0)

    @property
    def about(self) -> str:
        """The machine, and its address."""
        return f"{self.host} ({self.address})"


class Pool:
    """The workers of a cluster and the items they have. One thread uses it.

    Parameters
    ----------
    client
        Dask's.
    address : str
        Of the scheduler.
    work : callable
        Of what is shared, if anything is, and an item.
    shared : tuple
        One value that each worker is sent once, or none.
    check : callable
        Returns why a worker cannot be used, by its versions; "" if it can.
    versions : callable
        Returns those of the machine it runs on.
    run : ClusterRun
    """

    def __init__(
        self,
        client: Any,
        address: str,
        work: Callable[..., Any],
        shared: tuple[Any, ...],
        check: Callable[[Mapping[str, str], str], str],
        versions: Callable[[], Mapping[str, str]],
        run: ClusterRun,
    ) -> None:
        self.client, self.address, self.work, self.shared = client, address, work, shared
        self.check, self.versions, self.run = check, versions, run
        self.seats: dict[str, Seat] = {}
        self.refused: dict[str, str] = {}  # by the address of a worker, why it is not used
        self.queue: deque[Begun] = deque()
        self.came: SimpleQueue[tuple[Begun, Any]] = SimpleQueue()
        self.key, self.count = uuid.uuid4().hex[:8], 0
        self.looked = -LOOK_SECONDS
        self.lonely = self.heard = time.monotonic()  # since when there is no worker; when a result came last
        self.said = Counter[str]()
        self.look()

    def room(self) -> int:
        """Return how many items are to be begun, with the workers that are there now."""
        return max(2 * AHEAD * sum(seat.threads for seat in self.seats.values()), AHEAD)

    def submit(self, item: Any) -> Begun:
        """Begin the work on an item as soon as a worker can take it."""
        begun = Begun(self, item, self.run.name(item))
        self.queue.append(begun)
        self.place()
        return begun

    def turn(self) -> None:
        """Take what came, or wait a moment; look who is there."""
        with suppress(Empty):
            self.take(*self.came.get(timeout=LOOK_SECONDS))
            while True:
                self.take(*self.came.get_nowait())
        if time.monotonic() - self.looked > LOOK_SECONDS:
            self.look()
        self.place()

    def take(self, begun: Begun, future: Any) -> None:
        """Take the answer to an item."""
        seat = begun.seat
        for each in self.seats.values():
            each.late.discard(future)
        if begun.future is not future or seat is None:  # it was given up meanwhile
            return
        self.heard = time.monotonic()
        self.said.pop("still", None)
        try:
            fetched = self.fetch(begun, future)
        except (Exception, CancelledError):  # the scheduler is gone, or the worker with the answer or what is shared
            self.look()
            if begun.future is future:
                self.drop(seat, GONE)
            return
        if fetched is None:
            return
        error, answer = fetched
        seat.given.remove(begun)
        begun.future = begun.seat = None
        if answer is None:  # its worker cannot unpack what it was sent, or pack the answer
            self.again(begun, seat, f"{type(error).__name__}: {error}")
            return
        begun.took = answer.seconds, answer.host
        if why := self.check(answer.versions, seat.about):
            self.refuse(seat.address, why)
            self.drop(seat, "")
            self.queue.appendleft(begun)
        elif isinstance(answer.error, InputError) and not isinstance(answer.error, NotHere):
            begun.finish(None, answer.error)
        elif answer.error:
            self.again(begun, seat, answer.error)
        else:
            self.found(begun, answer.value)

    def fetch(self, begun: Begun, future: Any) -> tuple[BaseException | None, Any] | None:
        """Return what was raised and the answer; None if a worker is lost with them: Dask would wait for ever."""
        seconds = SILENCE_SECONDS
        while begun.future is future:
            try:
                error = future.exception(timeout=seconds)
                return error, None if error else future.result(timeout=seconds)
            except TimedOut:
                seconds *= 2  # else an answer that takes longer would never be there
                self.look()
        return None

    def found(self, begun: Begun, value: Any) -> None:
        """Keep a result. A worker that lacked what another has is asked last from now on."""
        for address, why in begun.tried:
            seat = self.seats.get(address)
            if isinstance(why, NotHere) and seat and not seat.lacks:
                seat.lacks = True
                what = f"the worker {seat.about} lacks recordings that others have, and is asked last"
                self.run.warn(f"{what}: {why.what}")
        begun.finish(value)

    def again(self, begun: Begun, seat: Seat, why: InputError | str) -> None:
        """Give an item that failed to another worker, or give it up."""
        begun.tried.append((seat.address, why))
        others = [each for each in self.seats if each not in {address for address, _ in begun.tried}]
        if len(begun.tried) < TRIES and (others or not isinstance(why, NotHere)):
            self.queue.appendleft(begun)
        else:
            begun.finish(self.lost(begun, seat))

    def lost(self, begun: Begun, seat: Seat) -> LostItem:
        """Return the error of an item that nobody could do."""
        why = begun.tried[-1][1]
        if isinstance(why, NotHere):
            return LostItem(why.what, why.fix)
        times = "a try" if len(begun.tried) == 1 else f"{len(begun.tried)} tries"
        where = f"on {seat.about}, after {times}"
        return LostItem(f"{begun.name}: {why} {where}", "look at this recording alone, without a cluster")

    def place(self) -> None:
        """Give waiting items to workers."""
        if self.client.status != "running":
            raise WorkerEnded
        for _ in range(len(self.queue)):
            begun = self.queue[0]
            seat = self.choose(begun)
            if seat is None:
                return
            self.queue.popleft()
            self.count += 1
            key = (f"speechctc {self.run.command}", begun.name, self.key, self.count)
            begun.seat, begun.began = seat, None
            begun.future = self.client.submit(
                work_there,
                self.work,
                self.versions,
                Order(self.run.command, self.run.limit, len(self.queue)),
                *seat.shared,
                begun.item,
                key=key,
                workers=[seat.address],
                pure=False,
            )
            seat.given.append(begun)
            begun.future.add_done_callback(lambda future, begun=begun: self.came.put((begun, future)))

    def choose(self, begun: Begun) -> Seat | None:
        """Return the worker that is to take an item: one that has not failed at it, on another machine, with least."""
        tried = {address for address, _ in begun.tried}
        hosts = {_host(address) for address in tried}
        fresh = [each for each in self.seats.values() if each.address not in tried]
        seats = fresh or list(self.seats.values())
        seats = [each for each in seats if not each.lacks] or seats
        free = [each for each in seats if len(each.given) < AHEAD * each.able]

        def rank(seat: Seat) -> tuple[bool, bool, float]:
            has_suspect = bool(tried) and any(each.tried for each in seat.given)
            return _host(seat.address) in hosts, has_suspect, len(seat.given) / seat.able

        return min(free, key=rank, default=None)

    def look(self) -> None:
        """See who came and went, who takes too long, and whether there is anyone."""
        self.looked = time.monotonic()
        there = self.present()
        for address in [each for each in self.seats if each not in there]:
            self.drop(self.seats[address], GONE)
        for address in there:
            if address not in self.seats and address not in self.refused:
                self.welcome(address, there[address])
        for seat in list(self.seats.values()):
            self.watch(seat)
        self.speak(there)

    def present(self) -> dict[str, int]:
        """Return the workers that the scheduler has, and how many threads each has.

        Raises
        ------
        WorkerEnded
            The scheduler is gone.
        """
        if self.client.status != "running":
            raise WorkerEnded
        try:
            there: dict[str, int] = self.client.nthreads()
        except (OSError, TimeoutError, RuntimeError):
            raise WorkerEnded from None
        return there

    def welcome(self, address: str, threads: int) -> None:
        """Use a worker that came, if it is the same program, and still there when it has what is shared."""
        try:
            self.seat(address, threads)
        except (OSError, TimeoutError, RuntimeError, CancelledError):
            self.present()  # the scheduler is: it was the worker that went

    def seat(self, address: str, threads: int) -> None:
        """Check a worker, and send it what is shared."""
        found = self.client.run(self.versions, workers=[address], on_error="return")
        host = self.client.run(socket.gethostname, workers=[address], on_error="return").get(address)
        there = found.get(address)
        if there is None or isinstance(there, OSError):  # it has gone
            return
        if isinstance(there, Exception):
            self.refuse(address, f"the worker {address} cannot take work ({there}); {INSTALL}")
            return
        about = f"{host} ({address})"
        if why := self.check(there, about):
            self.refuse(address, why)
            return
        shared = tuple(self.client.scatter(each, workers=[address], hash=False) for each in self.shared)
        self.seats[address] = Seat(address, str(host), threads, shared)

    def refuse(self, address: str, why: str) -> None:
        """Name a worker that is not used, once."""
        self.refused[address] = why
        self.run.warn(f"{why}; it gets no work")

    def drop(self, seat: Seat, why: str) -> None:
        """Use a worker no more; its items go to others. `why` "": they have not failed."""
        self.seats.pop(seat.address, None)
        given, busy = list(seat.given), seat.given[: seat.able]
        seat.given.clear()
        for begun in reversed(given):
            begun.future = begun.seat = None
            if why and begun in busy:  # the others only waited there
                self.again(begun, seat, why)
            else:
                self.queue.appendleft(begun)

    def watch(self, seat: Seat) -> None:
        """Note which items of a worker have a thread, and give up those that take too long."""
        now, limit = time.monotonic(), self.run.limit
        for begun in seat.given[: seat.able]:
            begun.began = begun.began or now
            if limit is not None and now - begun.began > GRACE * limit:
                seat.given.remove(begun)
                seat.late.add(begun.future)
                self.run.warn(f"a thread of the worker {seat.about} does not let go of {begun.name}, and gets no more")
                begun.finish(LostItem(f"{begun.name}: took longer than {limit:g} s on {seat.about}", LONGER))

    def speak(self, there: Mapping[str, int]) -> None:
        """Say that the run waits, and for what; end it if that takes too long.

        Raises
        ------
        InputError
            No worker can be used, and none came.
        """
        now = time.monotonic()
        if any(seat.able for seat in self.seats.values()):
            if self.said.pop("lonely", 0):
                self.run.warn(f"{plural(len(self.seats), 'worker')} came: the work goes on")
            self.lonely = now
            have = [f"{seat.given[0].name} on {seat.host}" for seat in self.seats.values() if seat.given]
            if have and now - self.heard > STILL_SECONDS * (1 + self.said["still"]):
                self.said["still"] += 1
                self.run.warn(f"no result for {now - self.heard:.0f} s; waiting for {first_few(have, 3)}")
            return
        alone, fix = now - self.lonely, f"run: dask worker {self.address}"
        if there and all(address in self.refused for address in there) and alone > SILENCE_SECONDS / 2:
            first = next(iter(self.refused.values()))
            raise InputError(f"{self.address}: none of its workers can be used: {first}", fix)
        if alone > self.run.wait:
            raise InputError(f"{self.address}: no worker for {alone:.0f} s", f"{fix}; then the same command goes on")
        if alone > SILENCE_SECONDS + STILL_SECONDS * self.said["lonely"]:
            self.said["lonely"] += 1
            left = f"for up to {self.run.wait - alone:.0f} s more (--cluster-wait; in a config, data.cluster_wait)"
            self.run.warn(f"{self.address}: no worker for {alone:.0f} s; waiting {left}; {fix}")


def _host(address: str) -> str:
    return address.rpartition(":")[0]


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
