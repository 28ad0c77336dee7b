"""Processes of Python that this one starts, and how a process is asked to save and stop, on POSIX and on Windows.

None of them looks for modules in the working folder. ``python -m`` and ``python -c`` look there first, also for modules
of the standard library; the folder may be a stranger's, and a file ``json.py`` in it would be run.
"""

from __future__ import annotations

import multiprocessing.util
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_RUN = "import sys; sys.path[:] = filter(None, sys.path); from runpy import run_module as run; "
_RUN += "run(sys.argv.pop(1), None, '__main__', True)"


def module_command(module: str) -> list[str]:
    """Return the command that runs a module as ``python -m`` does; arguments may follow."""
    words = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", _RUN]
    return [sys.executable, *words, module]


def start_method(name: str) -> Any:
    """Return multiprocessing's context of a name, for processes that import what this one can import."""
    util: Any = multiprocessing.util  # it gives flags to each Python that it starts, and then this process's sys.path
    util._args_from_interpreter_flags = _flags
    return multiprocessing.get_context(name)


def _flags() -> list[str]:
    own: Any = subprocess
    return [*own._args_from_interpreter_flags(), "-P" if sys.version_info >= (3, 11) else "-I"]


# The signal that asks a process to save and stop, if it was started with the arguments `OWN_GROUP`.
STOP: int
OWN_GROUP: dict[str, Any]
if sys.platform == "win32":
    # SIGTERM ends a process on Windows at once. CTRL_BREAK reaches a process that leads a group of its own.
    STOP, OWN_GROUP = signal.CTRL_BREAK_EVENT, {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
else:
    STOP, OWN_GROUP = signal.SIGTERM, {}
    _SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_requests(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` with the exit status when Ctrl-C or `STOP` comes; a second Ctrl-C raises KeyboardInterrupt.

    Outside the main thread, which alone can handle signals, nothing is changed.
    """
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True
        handle(128 + number)

    try:
        before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
