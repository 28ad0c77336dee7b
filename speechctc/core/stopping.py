"""Signals: a command that is asked to stop, by SIGTERM, gives back all that it holds and ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]

STATUS = 128 + signal.SIGTERM
if sys.platform == "win32":
    _SIGNALS = (signal.SIGTERM, signal.SIGBREAK)
else:
    _SIGNALS = (signal.SIGTERM,)


class Stopped(BaseException):
    """SIGTERM came: all that is held is given back, and the process ends."""


_stopped: list[int] = []  # the signal that came


def is_stopped() -> bool:
    """Return whether SIGTERM came where it is raised."""
    return bool(_stopped)


@contextmanager
def handled(signals: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Handle signals with a function; outside the main thread, which alone can, nothing is changed."""
    try:
        before = {number: signal.signal(number, handler) for number in signals}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        if not _stopped:  # else another one would end the process before it has given all back
            for number, former in before.items():
                signal.signal(number, former)


@contextmanager
def raised_when_stopped() -> Iterator[None]:
    """Raise `Stopped` in the main thread when SIGTERM comes, once: what is half written is dropped as at an error.

    Outside the main thread nothing is changed.
    """

    def on_signal(number: int, frame: FrameType | None) -> None:
        if not _stopped:
            _stopped.append(number)
            raise Stopped

    with handled(_SIGNALS, on_signal):
        yield
