"""Standard input, output and error, which a program may be started without."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Open the null device on whichever of the handles 0, 1 and 2 is closed; call it before a file is opened.

    A file would else take the handle's place: what C libraries print on standard error would stand within a result,
    and ``print`` writes to standard output where Python has no standard error. `sys.stdout` stays None where standard
    output was closed, so that a command can refuse to write its result to nowhere.
    """
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == handle:
                os.set_inheritable(handle, True)  # for the programs that this one starts
            else:
                os.dup2(opened, handle)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
