"""How a process is asked to save and stop, on POSIX and on Windows."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# The signal that asks a process to save and stop, if it was started with the arguments `OWN_GROUP`.
STOP: int
OWN_GROUP: dict[str, Any]
if sys.platform == "win32":
    # SIGTERM ends a process on Windows at once. CTRL_BREAK reaches a process that leads a group of its own.
    STOP, OWN_GROUP = signal.CTRL_BREAK_EVENT, {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    _HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
else:
    STOP, OWN_GROUP = signal.SIGTERM, {}
    _HEARD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_requests(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` with the exit status when Ctrl-C or `STOP` comes; a second Ctrl-C raises KeyboardInterrupt.

    Outside the main thread, which alone can handle signals, nothing is changed.
    """
    asked = False

    def heard(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True
        handle(128 + number)

    try:
        before = {number: signal.signal(number, heard) for number in _HEARD}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
