"""What a reader may do with an input, and what is a finding.

It reads the input, or raises an `InputError` in one line; it says and writes nothing else, changes nothing of the
input, and takes neither more than `SECONDS` nor more than `MEMORY`.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from speechctc.core.errors import InputError
from tests.fuzzing.lines import line_fault
from tests.fuzzing.readers import Reader
from tests.fuzzing.seeds import Files

SECONDS = 5.0  # of the processor, so that a busy machine is no finding
MEMORY = 1 << 30  # bytes
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod"}


class TooSlow(BaseException):
    """Raised in a reader that has had its time."""


class Verdict(NamedTuple):
    """What came of an input.

    Attributes
    ----------
    fault : str
        What is wrong, in a line; empty if nothing is.
    outcome : str
        What the reader said, without what differs from input to input: a new one makes an input worth keeping.
    detail : str
        The traceback, or what was said, of a fault.
    """

    fault: str
    outcome: str
    detail: str = ""


class Judge:
    """Runs a reader on inputs in a folder that is made for it, and watches what it does."""

    def __init__(self) -> None:
        self.root = Path(
            tempfile.mkdtemp(prefix="speechctc-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        )
        self.input = self.root / "input"
        self.input.mkdir()
        self.home = Path.cwd()
        self._standing: Files = {}  # what is known to lie in the folder of the input
        self._before = tempfile.tempdir, signal.signal(signal.SIGPROF, _stop)
        tempfile.tempdir = str(self.root)
        self._said = open(self.root / "said", "w+b")
        self._outside: list[str] = []
        self._watching = False
        os.chdir(self.input)
        sys.addaudithook(self._hear)

    @contextmanager
    def limited_memory(self) -> Iterator[None]:
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

    def run(self, reader: Reader, files: Files, first: bool = False) -> Verdict:
        """Let a reader read an input; the first may take any time, for what is imported and compiled."""
        self._place(files)
        self._standing = {}
        self._outside.clear()
        with warnings.catch_warnings(record=True) as warned, _Silenced(self._said) as silenced:
            warnings.simplefilter("always")
            self._watching = not first
            verdict = _call(reader, 0 if first else SECONDS)
            self._watching = False
        if verdict.fault:
            return verdict
        if warned:
            return Verdict(f"warns: {warned[0].category.__name__}", "", f"{warned[0].message}\n{warned[0].filename}")
        if (said := silenced.said()) and not said.startswith(reader.said):
            return Verdict("says something itself", said[:40], said)
        if self._outside:
            return Verdict("writes outside its folder", "", self._outside[0])
        if not (fault := self._changes(reader, files)) and not reader.makes:
            self._standing = files
        return Verdict(fault, verdict.outcome)

    def close(self) -> None:
        """Remove the folder."""
        os.chdir(self.home)
        tempfile.tempdir, handler = self._before
        signal.signal(signal.SIGPROF, handler)
        self._said.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _place(self, files: Files) -> None:
        """Write an input; files that lie there from the last are left."""
        if not self._standing or files.keys() != self._standing.keys():
            self._standing = {}
            with os.scandir(self.input) as entries:
                for entry in list(entries):
                    shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        for name, raw in files.items():
            if self._standing.get(name) != raw:
                path = f"{self.input}/{name}"
                if "/" in name:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb", buffering=0) as file:
                    file.write(raw)

    def _changes(self, reader: Reader, files: Files) -> str:
        """Say what of the input was changed, or left beside it."""
        makes, start = reader.makes or "\0", len(str(self.input)) + 1
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.input) for name in names]
        now = {path[start:]: path for path in found if os.path.isfile(path)}
        for name in sorted({*now, *files}):
            if not name.startswith(makes):
                if name not in files:
                    return "leaves a file beside the input"
                if name not in now or _content(now[name]) != files[name]:
                    return "changes the input"
        return ""

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


class _Silenced:
    """Keeps what is said, by Python or by a library, from the terminal."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._text = ""

    def __enter__(self) -> _Silenced:
        sys.stdout.flush(), sys.stderr.flush()
        self._before = [os.dup(1), os.dup(2)]
        os.dup2(self._file.fileno(), 1)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush(), sys.stderr.flush()
        for number, before in zip((1, 2), self._before, strict=True):
            os.dup2(before, number)
            os.close(before)
        if size := os.fstat(self._file.fileno()).st_size:
            self._text = os.pread(self._file.fileno(), min(size, 4000), 0).decode("utf-8", "replace")
            os.ftruncate(self._file.fileno(), 0)
            os.lseek(self._file.fileno(), 0, os.SEEK_SET)

    def said(self) -> str:
        """Return it."""
        return self._text


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def _call(reader: Reader, seconds: float) -> Verdict:
    """Call the reader, and judge how it ends."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        reader.read()
        return Verdict("", "read")
    except InputError as error:
        fault = line_fault(str(error))
        outcome = "".join(letter if letter.isalpha() and letter.isascii() else " " for letter in error.what)
        return Verdict(f"its message {fault}" if fault else "", " ".join(outcome.split()), str(error))
    except TooSlow as error:
        return Verdict(f"takes more than {SECONDS:g} s{_place_of(error)}", "", traceback.format_exc())
    except BaseException as error:
        return Verdict(f"raises {type(error).__name__}{_place_of(error)}", "", traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _place_of(error: BaseException) -> str:
    """Return where in the package an error came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "speechctc/" in f.filename]
    return f" in {Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}" if frames else ""
