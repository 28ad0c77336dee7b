"""What a reader may do with an input, and what is a finding.

It reads the input, or raises an `InputError` in one line; it says and writes nothing else, changes nothing of the
input, and takes neither more than `SECONDS` nor more than `MEMORY`. Hypothesis makes a finding small, and keeps it to
be tried first the next time.
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
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, given, settings

from speechctc.core.errors import InputError
from tests.fuzzing.lines import line_fault
from tests.fuzzing.mutations import broken
from tests.fuzzing.readers import READERS, Reader
from tests.fuzzing.seeds import Files

SECONDS = 5.0  # of the processor, so that a busy machine is no finding
MEMORY = 1 << 30  # bytes
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod"}


class Finding(AssertionError):
    """What a reader must not do."""


class TooSlow(BaseException):
    """Raised in a reader that has had its time."""


class Judge:
    """Runs a reader on inputs in a folder that is made for it, and watches what it does."""

    def __init__(self) -> None:
        memory = "/dev/shm"
        self.root = Path(tempfile.mkdtemp(prefix="speechctc-fuzz-", dir=memory if os.path.isdir(memory) else None))
        self.input = self.root / "input"
        self.input.mkdir()
        self._before = Path.cwd(), tempfile.tempdir, signal.signal(signal.SIGPROF, _stop)
        tempfile.tempdir = str(self.root)
        self._outside: list[str] = []
        self._watching = False
        os.chdir(self.input)
        sys.addaudithook(self._hear)

    def run(self, reader: Reader, files: Files, first: bool = False) -> None:
        """Let a reader read an input; the first is valid, and may take any time for what is imported and compiled."""
        for path in self.input.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name, raw in files.items():
            (self.input / name).parent.mkdir(parents=True, exist_ok=True)
            (self.input / name).write_bytes(raw)
        self._outside.clear()
        with warnings.catch_warnings(record=True) as warned, _silenced(self.root / "said"):
            warnings.simplefilter("always")
            self._watching = not first
            try:
                refusal = _refusal(reader, 0 if first else SECONDS)
            finally:
                self._watching = False
        said = (self.root / "said").read_bytes().decode("utf-8", "replace")
        now = {str(path.relative_to(self.input)): path for path in self.input.rglob("*") if path.is_file()}
        kept = {name for name, raw in files.items() if name in now and now[name].read_bytes() == raw}
        changed = [*({*now, *files} - kept)]
        for finding in (
            f"its message {line_fault(refusal)}: {refusal}" if line_fault(refusal) else "",
            f"a seed is not read: {refusal}" if first and refusal else "",
            f"warns: {warned[0].message}, {warned[0].filename}" if warned else "",
            f"says something itself: {said}" if said and not said.startswith(reader.said) else "",
            f"writes outside its folder: {self._outside[0]}" if self._outside else "",
            f"changes the input: {changed}" if changed else "",
        ):
            if finding:
                raise Finding(finding)

    def close(self) -> None:
        """Remove the folder."""
        home, tempfile.tempdir, handler = self._before
        os.chdir(home)
        signal.signal(signal.SIGPROF, handler)
        shutil.rmtree(self.root, ignore_errors=True)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note what is written outside the folder."""
        if not self._watching or (event != "open" and event not in _CHANGES):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        if isinstance(arguments[0], (str, bytes)):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not f"{path}/".startswith(f"{self.root}/") and path != os.devnull:
                self._outside.append(f"{event} {path}")


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooSlow


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


@contextmanager
def _silenced(file: Path) -> Iterator[None]:
    """Keep what is said, by Python or by a library, from the terminal, in a file."""
    before = os.dup(1), os.dup(2)
    with open(file, "wb") as said:
        for number in (1, 2):
            os.dup2(said.fileno(), number)
        try:
            yield
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            for number, each in zip((1, 2), before, strict=True):
                os.dup2(each, number)
                os.close(each)


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
    valid, judge = reader.seeds(), Judge()
    before, sys.stdin = (os.dup(0), sys.stdin), open(0, closefd=False)  # pytest's own has no handle
    logging.getLogger("speechctc.ctc.cache").setLevel(logging.ERROR)  # that numba compiles is no finding
    os.environ.setdefault("MPLCONFIGDIR", str(judge.root))  # matplotlib speaks where it may not write to the home
    checks = list(HealthCheck)

    @settings(
        max_examples=inputs, deadline=None, derandomize=seeded, print_blob=not seeded, suppress_health_check=checks
    )
    @given(broken(reader, valid))
    def check(files: Files) -> None:
        judge.run(reader, files)

    try:
        for files in valid:
            judge.run(reader, files, first=True)
        with _limited_memory():
            check()
    finally:
        judge.close()
        os.dup2(before[0], 0)
        os.close(before[0])
        sys.stdin = before[1]
