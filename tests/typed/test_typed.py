"""The types of what users call are exact: mypy in its strict mode says so of a file of theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_a_users_file_is_right_by_strict_types() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "tests/typed/user.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("Success: no issues found in 1 source file"), done.stdout + done.stderr
