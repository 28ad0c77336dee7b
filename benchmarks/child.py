"""Time and memory of a command line, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Linux counts the memory of the process that began another one as the other's: that is a small one, which runs this.
MEASURE = """
import os, sys, time
began = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
took = time.perf_counter() - began
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, took, used.ru_maxrss)
"""


class Used(NamedTuple):
    """What a command took: seconds of the processor and the clock, its peak memory, and what it said on stderr."""

    status: int
    processor_s: float
    clock_s: float
    peak_mb: float
    said: str


def run(*arguments: str, folder: Path, env: Mapping[str, str] | None = None) -> Used:
    """Run speechctc with these arguments in a folder."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-m", "speechctc", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, cwd=folder)
    status, processor, clock, peak = done.stdout.split()[-4:]  # after what the command itself printed
    return Used(int(status), float(processor), float(clock), int(peak) * 1024 / 1e6, done.stderr)
