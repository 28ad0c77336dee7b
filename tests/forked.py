"""Processes that begin where torch is loaded already: forks of a server that has loaded it, once for each pytest."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self

import pytest

ROOT = Path(__file__).resolve().parent.parent


@cache
def server() -> BaseContext:
    """Start the server, if it does not run; it finds its modules by PYTHONPATH alone. On Windows there is none."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(["tests.forked_loads"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
        forkserver.ensure_running()
    return multiprocessing.get_context("forkserver")


def _run(module: str, arguments: list[str], folder: Path, environment: dict[str, str], log: Path, errors: Path) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in ((1, log), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, closefd=False)  # multiprocessing puts another file there
    sys.argv = [module, *arguments]
    sys.path.insert(0, str(folder))
    try:
        if os.sep in module:
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()


class Forked:
    """``python -m module arguments``, or with the path of a script, and as much of `subprocess.Popen` as tests use.

    What it prints goes to files.
    """

    def __init__(
        self,
        module: str,
        *arguments: object,
        cwd: Path,
        log: Path,
        errors: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log, self.errors = log, errors or log
        given = [str(each) for each in arguments]
        settings = (module, given, cwd, {**os.environ, **(environment or {})}, self.log, self.errors)
        self.process: BaseProcess = server().Process(target=_run, args=settings)  # type: ignore[attr-defined]
        self.process.start()
        atexit.register(self.process.kill)  # before Python waits for it
        assert self.process.pid is not None
        self.pid = self.process.pid

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for its end."""
        self.wait()

    @property
    def returncode(self) -> int | None:
        """Return the exit status, negative after a signal; None while it runs."""
        return self.process.exitcode

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return the exit status."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal while it runs."""
        if self.process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()

    def wait_until_it_says(self, text: str, seconds: float = 600) -> bool:
        """Wait until a text is in its standard output; return whether it came before the process ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended = self.process.exitcode is not None
            if self.log.exists() and text in self.log.read_text(encoding="utf-8"):
                return True
            if ended:
                return False
            time.sleep(0.02)
        raise AssertionError(f"it does not say {text!r}")


class Together:
    """Two processes that train together: forks with the environment of torchrun, whose output goes to one file."""

    def __init__(self, module: str, *arguments: object, cwd: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        self.ranks = [
            Forked(module, *arguments, cwd=cwd, log=log, environment={**place, "RANK": rank, "LOCAL_RANK": rank})
            for rank in "01"
        ]

    def wait(self) -> int:
        """Wait for both; return the larger of their exit statuses."""
        self.returncode = max(abs(rank.wait(600)) for rank in self.ranks)
        return self.returncode
