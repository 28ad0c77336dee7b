"""Broken files for every reader of outside input, some thousands of them.

A reader may read an input, or raise an `InputError` of one line; it warns of nothing, changes nothing of the input,
writes nothing elsewhere, and takes neither more than `SECONDS` nor more than `MEMORY`. Other inputs each time, and more
of them: ``FUZZ_INPUTS=10000 scripts/test tests/test_fuzz.py -k textgrid``.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from speechctc.core.errors import InputError
from tests.fuzzing.broken import Files, broken
from tests.fuzzing.links import heard
from tests.fuzzing.readers import READERS, Reader, line_fault

resource = pytest.importorskip("resource", reason="Windows has neither timers nor limits of a process")
INPUTS = int(os.environ.get("FUZZ_INPUTS", "0"))
SECONDS = 5.0  # of the processor, so that a busy machine is no finding
MEMORY = 1 << 30  # bytes


class TooSlow(BaseException):
    """Raised in a reader that has had its time."""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, with a clock and a standard input of one's own."""

    def stop(*_: object) -> None:
        raise TooSlow("too slow")

    (tmp_path / "input").mkdir()
    monkeypatch.chdir(tmp_path / "input")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", open(0, closefd=False))  # pytest's own has no handle
    stdin, clock = os.dup(0), signal.signal(signal.SIGPROF, stop)
    yield
    signal.signal(signal.SIGPROF, clock)
    os.dup2(stdin, 0)
    os.close(stdin)


def run(read: Callable[[], object], files: Files, seconds: float = SECONDS, is_valid: bool = False) -> None:
    """Let a reader read an input in an empty folder; a valid one may take any time to import and compile."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, raw in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(raw)
    refusal = ""
    with warnings.catch_warnings(), heard() as names:
        warnings.simplefilter("error")
        signal.setitimer(signal.ITIMER_PROF, 0 if is_valid else seconds)
        try:
            read()
        except InputError as error:
            refusal = str(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    here = os.path.dirname(os.getcwd())
    elsewhere = [name for name in names if not os.path.abspath(name).startswith((here, os.devnull))]
    assert is_valid or not elsewhere, "writes elsewhere"
    assert not line_fault(refusal), refusal
    assert not (is_valid and refusal), refusal
    assert {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()} == files, "changes the input"


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let this process have so much more memory than it has now; only Linux can be asked for this."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if sys.platform == "linux":
        words = Path("/proc/self/status").read_text().split()
        used = int(words[words.index("VmData:") + 1]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def hunt(reader: Reader) -> None:
    """Raise what a reader does that it must not, for the smallest input found."""
    valid, count = reader.valid(), INPUTS or reader.inputs

    @settings(max_examples=count, deadline=None, derandomize=not INPUTS, suppress_health_check=list(HealthCheck))
    @given(broken(valid))
    def check(files: Files) -> None:
        run(reader.read, files)

    for files in valid:
        run(reader.read, files, is_valid=True)
    with limited_memory():
        check()


@pytest.mark.parametrize("name", READERS)
def test_a_broken_file_is_read_or_refused_in_a_line(name: str) -> None:
    hunt(READERS[name])


def _work_on() -> None:
    while True:
        pass


FAULTS: dict[str, tuple[type[BaseException], Callable[[], object]]] = {
    "gone": (FileNotFoundError, lambda: Path("gone").read_bytes()),
    "careful": (UserWarning, lambda: warnings.warn("careful", stacklevel=1)),
    "changes the input": (AssertionError, lambda: Path("a").write_bytes(b"changed")),
    "writes elsewhere": (AssertionError, lambda: Path(__file__).open("a").close()),
    "too slow": (TooSlow, _work_on),
}


@pytest.mark.parametrize("words", FAULTS)
def test_what_a_reader_must_not_do_is_found(words: str) -> None:
    kind, read = FAULTS[words]
    with pytest.raises(kind, match=words):
        run(read, {"a": b"1"}, 0.05)


def test_a_fault_on_one_kind_of_broken_file_is_found() -> None:
    with pytest.raises(ZeroDivisionError):  # as soon as an input has fewer than three bytes
        hunt(Reader(lambda: [{"a": b"12345"}], lambda: 1 // (len(Path("a").read_bytes()) // 3)))


def test_a_line_for_the_user_is_one_short_line_without_control_characters() -> None:
    assert not line_fault("a.wav: ə is not a phone")
    assert all(line_fault(each) for each in ("a\nb", "a\x1bb", "a\x9bb", "a\u2028b", "a" * 2001))
