"""A process that trains: it is the only training there, and is asked to save and stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from speechctc.core.errors import InputError
from speechctc.core.stopping import handled

_training: dict[int, object] = {}  # by process, since a fork inherits it: who trains there

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

    with handled(_SIGNALS, on_signal):
        yield


@contextmanager
def only_training() -> Iterator[None]:
    """Be the only training of this process: all threads of a process draw from the same generators of torch.

    Raises
    ------
    InputError
        Another one is under way; two would change each other's random numbers, and so their weights.
    """
    this = object()
    if _training.setdefault(os.getpid(), this) is not this:
        what = "another training is under way in this process, and each would change the other's random numbers"
        raise InputError(what, "wait for it, or train in another process")
    try:
        yield
    finally:
        _training.pop(os.getpid(), None)
