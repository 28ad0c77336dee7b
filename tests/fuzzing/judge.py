"""What a reader may do with an input, and what is a finding.

It reads the input, or raises an `InputError` in one line; it warns of nothing, changes nothing of the input, writes
nothing elsewhere, and takes neither more than `SECONDS` nor more than `MEMORY`. Hypothesis makes a finding small, and
keeps it to be tried first the next time.
"""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from speechctc.core.errors import InputError
from tests.fuzzing.links import heard
from tests.fuzzing.mutations import broken
from tests.fuzzing.readers import READERS, Reader, line_fault
from tests.fuzzing.seeds import Files

SECONDS = 5.0  # of the processor, so that a busy machine is no finding
MEMORY = 1 << 30  # bytes


class Finding(AssertionError):
    """What a reader must not do."""


class TooSlow(BaseException):
    """Raised in a reader that has had its time."""


def run(reader: Reader, files: Files, is_seed: bool = False) -> None:
    """Let a reader read an input in an empty folder; a seed is valid, and may take any time to import and compile."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, raw in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(raw)
    with warnings.catch_warnings(), heard() as names:
        warnings.simplefilter("error")
        refusal = _refusal(reader, 0 if is_seed else SECONDS)
    elsewhere = [name for name in names if not os.path.abspath(name).startswith(os.path.dirname(os.getcwd()))]
    if elsewhere and not is_seed and elsewhere != [os.devnull]:
        raise Finding(f"writes elsewhere: {elsewhere[0]}")
    if fault := line_fault(refusal):
        raise Finding(f"its message {fault}: {refusal}")
    if is_seed and refusal:
        raise Finding(f"a seed is not read: {refusal}")
    if {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()} != files:
        raise Finding("changes the input")


def _refusal(reader: Reader, seconds: float) -> str:
    """Call the reader; return its message, ``""`` if it reads."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        reader.read()
        return ""
    except InputError as error:
        return str(error)
    except TooSlow as error:
        raise Finding(f"takes more than {SECONDS:g} s") from error
    except (Exception, SystemExit) as error:
        raise Finding(f"raises {type(error).__name__}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _stop(*_: object) -> None:
    raise TooSlow


@contextmanager
def workplace() -> Iterator[None]:
    """Work in an empty folder, with a clock and a standard input of its own; all is as before at the end."""
    before = Path.cwd(), tempfile.tempdir, signal.signal(signal.SIGPROF, _stop), os.dup(0), sys.stdin
    sys.stdin = open(0, closefd=False)  # pytest's own has no handle
    logging.getLogger("speechctc.ctc.cache").setLevel(logging.ERROR)  # that numba compiles is no finding
    with tempfile.TemporaryDirectory(prefix="speechctc-fuzz-") as folder:
        os.environ.setdefault("MPLCONFIGDIR", folder)  # matplotlib speaks where it may not write to the home
        tempfile.tempdir = folder
        os.mkdir(f"{folder}/input")
        os.chdir(f"{folder}/input")
        try:
            yield
        finally:
            os.chdir(before[0])
            tempfile.tempdir = before[1]
            signal.signal(signal.SIGPROF, before[2])
            os.dup2(before[3], 0)
            os.close(before[3])
            sys.stdin = before[4]


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Let this process have so much more memory than it has now; only Linux can be asked for this."""
    if sys.platform != "linux":
        yield
        return
    words = Path("/proc/self/status").read_text().split()
    used = int(words[words.index("VmData:") + 1]) * 1024
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def try_reader(name: str, inputs: int, seeded: bool = True) -> None:
    """Raise a `Finding` with the smallest input found on which a reader does what it must not.

    Parameters
    ----------
    name : str
    inputs : int
    seeded : bool
        The same inputs each time.
    """
    reader = READERS[name]
    valid, checks = reader.seeds(), list(HealthCheck)

    @settings(
        max_examples=inputs, deadline=None, derandomize=seeded, print_blob=not seeded, suppress_health_check=checks
    )
    @given(broken(reader, valid))
    def check(files: Files) -> None:
        run(reader, files)

    with workplace():
        for files in valid:
            run(reader, files, is_seed=True)
        with _limited_memory():
            check()
