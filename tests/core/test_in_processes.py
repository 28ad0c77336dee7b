import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from speechctc.core.parallel import WorkerEnded
from speechctc.core.processes import WorkFailed, in_processes
from tests.forked import Forked
from tests.waiting import wait_for


def end(number: int) -> bytes:
    """Be killed in the middle of a result, as by the kernel when memory runs out."""
    if number == 5:
        signal.setitimer(signal.ITIMER_REAL, 0.02)  # far less than it takes to send the result
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return bytes(1 << 27 if number == 5 else 100)


def filled(number: int) -> torch.Tensor:
    return torch.full((3,), float(number))


@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files in /proc")
def test_results_that_are_kept_hold_no_files_open() -> None:
    with in_processes(filled, range(60), 2) as results:
        kept = [next(results)]
        before = len(os.listdir("/proc/self/fd"))
        kept += results
        assert len(os.listdir("/proc/self/fd")) < before + 20
    assert all(torch.equal(result, filled(number)) for number, result in enumerate(kept))


def test_what_the_work_raises_is_told() -> None:
    with in_processes(int, ["1", "no number"], 1) as results, pytest.raises(WorkFailed, match="no number"):
        list(results)


def test_no_more_is_begun_than_may_wait() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    with in_processes(abs, numbers(), 2, size=lambda number: 10, most=50) as results:
        for due in range(100):
            assert next(results) == due
            assert len(taken) <= due + 7


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_worker_that_is_killed_in_the_middle_of_a_result_is_noticed() -> None:
    with in_processes(end, range(20), 2) as results, pytest.raises(WorkerEnded):
        for _ in results:
            time.sleep(0.05)


# A program whose workers load no torch: a fork of `tests.forked` starts a new server for them.
WAITING = """
import os, pathlib, sys, time
from speechctc.core.processes import in_processes
def note_and_wait(folder):
    pathlib.Path(folder, str(os.getpid())).touch()
    time.sleep(60)
if __name__ == "__main__":
    with in_processes(note_and_wait, [sys.argv[1]] * 2, 2) as results:
        next(results)
"""


def is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(WAITING, encoding="utf-8")
    (noted := tmp_path / "noted").mkdir()
    parent = Forked("parent", noted, cwd=tmp_path, log=tmp_path / "said")
    wait_for(lambda: len(os.listdir(noted)) == 2)
    parent.kill()
    parent.wait()
    pids = os.listdir(noted)
    wait_for(lambda: not any(map(is_alive, pids)))
