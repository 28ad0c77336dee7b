"""A program that is started without standard input, output or error."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from speechctc.core.processes import module_command
from tests.tiny_model import write_song

ALL = [each for size in range(1, 4) for each in itertools.combinations(range(3), size)]

REPORT = """
import os, sys
from speechctc.core.processes import open_standard_streams
open_standard_streams()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("to a program", file=sys.stderr)
os.system("echo from another")
same = [os.fstat(each).st_rdev == os.stat(os.devnull).st_rdev and os.get_inheritable(each) for each in range(3)]
os.write(file, repr((file > 2, same, sys.stdin.read(), sys.stdout is None)).encode())
"""


def closing(handles: Sequence[int], *command: object) -> list[str]:
    """Return a command that is started without some of the standard handles."""
    marks = " ".join(f"{handle}{'<' if handle == 0 else '>'}&-" for handle in handles)
    return ["sh", "-c", f'exec "$@" {marks}', "sh", *map(str, command)]


@pytest.mark.skipif(os.name == "nt", reason="its shell closes none")
@pytest.mark.parametrize("handles", ALL, ids=str)
def test_no_file_takes_the_place_of_a_standard_handle(tmp_path: Path, handles: Sequence[int]) -> None:
    subprocess.run(
        closing(handles, sys.executable, "-c", REPORT, tmp_path / "told"), capture_output=True, stdin=subprocess.DEVNULL
    )
    after, same, heard, without = eval((tmp_path / "told").read_text())
    assert after and heard == "" and without == (1 in handles)
    assert [handle for handle, is_null in enumerate(same) if is_null] == sorted({*handles, 0})


@pytest.mark.skipif(os.name == "nt", reason="its shell closes none")
def test_a_command_without_standard_input_or_error_says_one_line_or_nothing(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", ["low"])
    command = [*module_command("speechctc"), "decode"]
    for extra in ([], ["--raw", "16000"]):
        done = subprocess.run(
            closing([0], *command, "-", "--model", "english", *extra), capture_output=True, text=True, cwd=tmp_path
        )
        lines = [line for line in done.stderr.splitlines() if not line.startswith("using ")]
        assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("speechctc: "), done.stderr
    done = subprocess.run(closing([2], *command, "none.wav"), capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
