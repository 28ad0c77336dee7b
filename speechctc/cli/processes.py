"""Runs a command in several processes of this machine that train together, and says in one line how one was ended."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from runpy import run_module
from typing import Any

from speechctc.core.errors import InputError
from speechctc.core.processes import end_with_parent, start_method
from speechctc.core.training_process import stop_requests

LOOK_SECONDS = 0.2  # between two looks at the processes
GRACE_SECONDS = 30.0  # that the others have to notice that one has ended


def run_together(count: int, words: Sequence[str]) -> int:
    """Run a command line in so many processes that find each other as those of torchrun do; return the exit status.

    Where one ends in an error, the others are ended. What asks this process to stop goes to all.

    Raises
    ------
    InputError
        A process was ended from outside.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    context = start_method("spawn")
    processes = [
        context.Process(target=_run, args=({**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, list(words)))
        for rank in range(count)
    ]
    asked: list[int] = []
    try:
        with stop_requests(asked.append):
            for each in processes:
                each.start()
            first, status = _wait(processes, asked)
    finally:
        for each in processes:
            if each.pid is not None:
                each.kill()
                each.join()
    if status < 0 and not asked:
        what = f"process {first} of {count} was ended from outside, by {signal.Signals(-status).name}"
        raise InputError(what, "run the same command with --resume; fewer or more processes may go on")
    return status if status >= 0 else 128 - status


def _run(environment: dict[str, str], words: list[str]) -> None:
    """Run the command line in this process, which ends with the one that started it."""
    os.environ.update(environment)
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = ["speechctc", *words]
    run_module("speechctc", run_name="__main__", alter_sys=True)


def _wait(processes: Sequence[Any], asked: list[int]) -> tuple[int, int]:
    """Wait until all have ended; give those that are left some time when one ended in an error or all are to stop.

    Return the number of the one that ended first in an error, and its status; 0 and 0 if none did.
    """
    until, told, first, alive = math.inf, False, (0, 0), True
    while alive and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        alive = any(each.is_alive() for each in processes)
        ended = [(each.exitcode, number) for number, each in enumerate(processes, 1) if each.exitcode]
        if ended and not first[0]:
            status, number = min(ended)  # one ended by a signal before those that noticed it
            first = number, status
            until = math.inf if asked else time.monotonic() + GRACE_SECONDS  # who was asked to stop saves first
        if asked and not told:
            told = True
            if sys.platform != "win32":  # a console of Windows tells all by itself
                for each in processes:
                    each.terminate()
    return first
