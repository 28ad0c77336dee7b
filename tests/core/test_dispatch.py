"""Who gets which item on a Dask cluster: workers that come late, are another program, lack a file, or take too long."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from speechctc.core import cluster, dispatch
from speechctc.core.cluster import on_cluster
from speechctc.core.dispatch import ClusterRun, LostItem, NotHere
from speechctc.core.errors import InputError
from speechctc.core.parallel import WorkerEnded, check_time
from tests.train_helpers import Recorder
from tests.waiting import wait_for

distributed = pytest.importorskip("distributed")


class Machines:
    """A scheduler and workers in a thread of this process, each of which has a name that the work can ask for."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.workers: dict[str, Any] = {}
        self.scheduler = self.run(self._scheduler())
        self.address: str = self.scheduler.address

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    async def _scheduler(self) -> Any:
        return await distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address="127.0.0.1:0")

    async def _worker(self, name: str, threads: int) -> Any:
        return await distributed.Worker(self.address, name=name, nthreads=threads, dashboard=False)

    def start(self, name: str, threads: int = 1) -> None:
        self.workers[name] = self.run(self._worker(name, threads))

    def start_when(self, true: Callable[[], object], name: str) -> None:
        """Start a worker, in a thread, when something becomes true."""

        def start() -> None:
            wait_for(true, 20)
            self.start(name)

        threading.Thread(daemon=True, target=start).start()

    def kill(self, name: str) -> None:
        self.run(self.workers.pop(name).close(timeout=1, nanny=False))

    def end(self) -> None:
        for each in (*self.workers.values(), self.scheduler):
            with suppress(Exception):
                self.run(each.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    monkeypatch.setattr(dispatch, "LOOK_SECONDS", 0.05)
    started = Machines()
    yield started
    started.end()


def here() -> str:
    """Return the name of the worker that this runs on."""
    return str(distributed.get_worker().name)


def named(item: int) -> tuple[int, str]:
    time.sleep(0.02)
    return item, here()


def versions_by_name() -> dict[str, str]:
    """Return the versions of a machine; those of the worker "old" are others."""
    with suppress(ValueError):
        return {"torch": "2.10.0" if here() == "old" else "2.11.0"}
    return {"torch": "2.11.0"}


def test_a_run_says_that_it_waits_for_a_worker_and_goes_on_when_one_comes(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "SILENCE_SECONDS", 0.2)
    reporter = Recorder()
    with on_cluster(machines.address, named, range(3), run=ClusterRun(warn=reporter.warn)) as results:
        machines.start_when(lambda: reporter.said, "late")
        assert list(results) == [(item, "late") for item in range(3)]
    waits, came = reporter.said
    assert "no worker for" in waits and "; waiting for up to" in waits and "dask worker tcp://127.0.0.1" in waits
    assert came.endswith("1 worker came: the work goes on")


def test_all_workers_may_go_and_others_take_over_with_what_is_shared(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each worker was sent is gone with them: those that come are sent it again."""
    monkeypatch.setattr(dispatch, "SILENCE_SECONDS", 0.2)
    reporter = Recorder()
    machines.start("first")
    with on_cluster(machines.address, plus, range(30), shared=100, run=ClusterRun(warn=reporter.warn)) as results:
        found = [next(results)]
        machines.kill("first")
        machines.start_when(lambda: reporter.said, "second")
        assert found + list(results) == list(range(100, 130))


at_once = threading.Barrier(4)


def together(item: int) -> bool:
    """Return whether four work at a time; the first two items are for who is there before the others."""
    if item < 2:
        return True
    try:
        at_once.wait(5)
    except threading.BrokenBarrierError:
        return False
    return True


def test_all_threads_of_workers_that_come_later_have_work(machines: Machines) -> None:
    at_once.reset()
    with on_cluster(machines.address, together, range(10), most=1) as results:
        machines.start("late", 4)
        assert all(results)


def plus(shared: int, item: int) -> int:
    time.sleep(0.02)
    return shared + item


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_answer_that_is_lost_with_its_worker_is_not_waited_for(is_lost: bool) -> None:
    """Dask computes it again, on that worker alone; a slow answer is asked for again."""

    class Future:
        asked = 0

        def exception(self, timeout: float) -> None:
            self.asked += 1
            if is_lost or self.asked == 1:
                raise asyncio.TimeoutError

        def result(self, timeout: float) -> str:
            return "answer"

    class WithoutCluster(dispatch.Pool):
        def __init__(self) -> None:
            self.looks = 0

        def look(self) -> None:
            self.looks += 1
            begun.future = None if is_lost else begun.future

    pool, future = WithoutCluster(), Future()
    begun = dispatch.Begun(pool, 0, "0", future=future)
    assert pool.fetch(begun, future) == (None if is_lost else (None, "answer")) and pool.looks == 1


def test_a_run_ends_when_no_worker_comes(machines: Machines) -> None:
    machines.start("only")
    with on_cluster(machines.address, named, range(200), run=ClusterRun(wait=0.3)) as results:
        next(results)
        machines.kill("only")
        with pytest.raises(InputError, match="no worker for .* s; run: dask worker tcp://.*the same command goes on"):
            list(results)


def test_a_worker_of_another_version_gets_no_work_whenever_it_joins(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "versions", versions_by_name)
    reporter = Recorder()
    machines.start("good")
    with on_cluster(machines.address, named, range(60), run=ClusterRun(warn=reporter.warn)) as results:
        found = [next(results)]
        machines.start("old")
        found += results
    assert found == [(item, "good") for item in range(60)]
    (said,) = reporter.said
    assert "has torch 2.10.0, this machine 2.11.0" in said and said.endswith("it gets no work")


upgraded = threading.Event()


def versions_that_change() -> dict[str, str]:
    """Return versions; on the worker "turncoat", others as soon as it is upgraded."""
    with suppress(ValueError):
        return {"torch": "2.12.0" if here() == "turncoat" and upgraded.is_set() else "2.11.0"}
    return {"torch": "2.11.0"}


def test_each_result_tells_the_version_of_its_worker(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was the same program as it joined, and is not later: its result is thrown away, and made again."""
    monkeypatch.setattr(cluster, "versions", versions_that_change)
    upgraded.clear()
    machines.start("turncoat")
    reporter = Recorder()
    with on_cluster(machines.address, named, range(40), most=1, run=ClusterRun(warn=reporter.warn)) as results:
        found = [next(results)]
        machines.start("good")
        upgraded.set()
        found += results
    pairs = [each for each in found if not isinstance(each, InputError)]
    assert [item for item, _ in pairs] == list(range(40))
    last_of_old = max(item for item, worker in pairs if worker == "turncoat")
    assert last_of_old < 39 and "torch 2.12.0, this machine 2.11.0" in reporter.said[0]


def in_folder(item: int) -> tuple[int, str]:
    """Work on an item that the machine "bare" lacks; item 5 is nowhere."""
    time.sleep(0.01)
    if here() == "bare" or item == 5:
        raise NotHere(f"{item}.wav: not on the worker {here()}", "share it")
    return item, here()


def test_a_machine_that_lacks_recordings_and_a_recording_that_is_nowhere(machines: Machines) -> None:
    for name in ("bare", "whole"):
        machines.start(name)
    reporter = Recorder()
    with on_cluster(machines.address, in_folder, range(20), run=ClusterRun(warn=reporter.warn)) as results:
        found = list(results)
    lost = found.pop(5)
    assert isinstance(lost, LostItem) and "5.wav: not on the worker" in str(lost)
    assert found == [(item, "whole") for item in range(20) if item != 5]
    (said,) = reporter.said
    assert "lacks recordings that others have, and is asked last" in said


asked: list[tuple[int, str]] = []


def picky(item: int) -> int:
    asked.append((item, here()))
    if item == 3:
        raise ValueError("odd")
    return item


def test_an_item_that_fails_is_tried_on_other_machines_and_then_named(machines: Machines) -> None:
    for name in "abcd":
        machines.start(name)
    asked.clear()
    run = ClusterRun(name=lambda item: f"{item}.wav")
    with on_cluster(machines.address, picky, range(8), run=run) as results:
        found = list(results)
    error = found.pop(3)
    assert found == [0, 1, 2, 4, 5, 6, 7]
    assert isinstance(error, LostItem) and "3.wav: ValueError: odd on" in str(error) and "3 tries" in str(error)
    tried = [worker for item, worker in asked if item == 3]
    assert len(tried) == 3 == len(set(tried))


def test_what_is_wrong_with_the_input_is_not_tried_again(machines: Machines) -> None:
    machines.start("a")
    asked.clear()
    with on_cluster(machines.address, refuses, [1]) as results, pytest.raises(InputError, match="not sound"):
        next(results)
    assert len(asked) == 1


def refuses(item: int) -> int:
    asked.append((item, here()))
    raise InputError("not sound", "leave it out")


release = threading.Event()


def slow(item: int) -> int:
    """Take long: item 1 looks at its time now and then, item 4 never does."""
    for _ in range(500 if item == 1 else 0):
        check_time(f"{item}.wav")
        time.sleep(0.01)
    if item == 4:
        release.wait(10)
    return item


def test_an_item_that_takes_too_long_is_named_and_its_thread_gets_no_more(machines: Machines) -> None:
    machines.start("two", 2)
    release.clear()
    reporter = Recorder()
    run = ClusterRun(name=lambda item: f"{item}.wav", limit=0.3, warn=reporter.warn)
    with on_cluster(machines.address, tolerant, range(8), run=run) as results:
        found = list(results)
    release.set()
    assert [each for each in found if isinstance(each, int)] == [0, 2, 3, 5, 6, 7]
    assert "1.wav: took longer than 0.3 s" in str(found[1]) and "4.wav: took longer than 0.3 s on" in str(found[4])
    assert "does not let go of 4.wav" in reporter.said[0]


def tolerant(item: int) -> int | InputError:
    try:
        return slow(item)
    except InputError as error:
        return error


over = threading.Event()


def test_what_ends_workers_is_given_up_and_its_neighbours_are_not(machines: Machines) -> None:
    """Each worker that gets item 2 is ended; others come."""
    ended: list[str] = []

    def watch() -> None:
        while not stop.wait(0.02):
            for name in [worker for item, worker in list(asked) if item == 2 and worker not in ended]:
                ended.append(name)
                machines.start(f"after {name}")
                machines.kill(name)

    stop = threading.Event()
    asked.clear()
    over.clear()
    for name in "ab":
        machines.start(name)
    killer = threading.Thread(target=watch)
    killer.start()
    try:
        with on_cluster(machines.address, hangs_at_two, range(6)) as results:
            found = list(results)
    finally:
        stop.set()
        over.set()
        killer.join()
    assert len(ended) == 3 and "2: the worker was lost on" in str(found.pop(2))
    assert found == [0, 1, 3, 4, 5]


def hangs_at_two(item: int) -> int:
    asked.append((item, here()))
    over.wait(60 if item == 2 else 0.01)  # however long a busy machine takes to end the worker
    return item


def test_a_scheduler_that_is_gone_ends_the_run(machines: Machines) -> None:
    machines.start("a")
    with on_cluster(machines.address, named, range(500)) as results:
        next(results)
        machines.run(machines.scheduler.close())
        with pytest.raises(WorkerEnded):
            list(results)


def fails_at_2(item: int) -> int | InputError:
    return InputError("no sound", "record it again") if item == 2 else item


class Last:
    """What is shared by the last thing that a scheduler does: it ends while this is sent."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    def __reduce__(self) -> tuple[Any, ...]:
        self.machines.run(self.machines.scheduler.close())
        return int, ()


def test_a_scheduler_that_goes_while_a_worker_is_sent_what_is_shared_ends_the_run(machines: Machines) -> None:
    machines.start("one")
    with (
        pytest.raises(WorkerEnded),
        on_cluster(machines.address, plus, range(2), shared=Last(machines)) as results,
    ):
        list(results)


def test_a_workers_metrics_have_seconds_errors_and_what_waits(machines: Machines) -> None:
    """They are those that Dask serves at /metrics of a worker; here, of this process."""
    client = pytest.importorskip("prometheus_client")
    machines.start("one")
    run = ClusterRun("decode-for-metrics", lambda item: f"{item}.wav")
    with on_cluster(machines.address, fails_at_2, range(5), run=run) as results:
        assert [type(each) for each in results].count(InputError) == 1
    told = client.generate_latest().decode()
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in told.splitlines() if line[0] != "#"}
    of = '{command="decode-for-metrics"}'
    assert found[f"speechctc_recording_seconds_count{of}"] == 5 and found[f"speechctc_recording_seconds_sum{of}"] > 0
    assert found[f"speechctc_errors_total{of}"] == 1
    assert found[f"speechctc_waiting{of}"] >= 0


def test_tasks_have_the_names_of_the_command_and_the_recording(machines: Machines) -> None:
    """Dask's dashboard groups tasks by the first part of their key."""
    from dask.utils import key_split

    machines.start("one")
    run = ClusterRun("decode", lambda item: f"{item}.wav")
    with on_cluster(machines.address, own_key, ["talks/a"], run=run) as results:
        (key,) = list[Any](results)
        (group,) = [each for each in machines.scheduler.task_prefixes if "decode" in each]
    assert (key_split(key), key[1]) == ("speechctc decode", "talks/a.wav") and group == "speechctc decode"


def own_key(item: str) -> Any:
    """Return the key of the task that this is."""
    return distributed.get_worker().get_current_task()
