"""One trial of a sweep: the command line in a process that saves and leaves when the sweep's process has ended.

``python -m speechctc.cli.trial train ...``. Standard input is a pipe that the sweep holds open and writes nothing to.
"""

from __future__ import annotations

import os
import signal
import threading

from speechctc.cli.app import main


def leave_with_sweep() -> None:
    """Send this process SIGTERM when the other end of standard input is closed, as it is after any kind of end."""
    threading.Thread(target=_wait_and_leave, daemon=True).start()


def _wait_and_leave() -> None:
    os.read(0, 1)
    signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    leave_with_sweep()
    main()
