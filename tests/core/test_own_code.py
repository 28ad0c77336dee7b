"""The content of code that users add: what changes it, and what does not."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from speechctc.core.own_code import content

TEXT = """import numpy as np
FLOOR = 1
OTHER = 2
def window(length):
    return np.hanning(length)
def other():
    return 3
class Base:
    def level(self):
        return max(0, FLOOR)
class Mine(Base):
    def static(self, samples):
        return samples * window(len(samples))
if __name__ == "__main__":
    samples = 5
"""


def made(folder: Path, text: str) -> Any:
    """Return the class of a file's text; the file stays."""
    (folder / "mine.py").write_text(text)
    return runpy.run_path(str(folder / "mine.py"))["Mine"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hanning", "hamming"),
        ("max(0, FLOOR)", "max(1, FLOOR)"),
        ("FLOOR = 1", "FLOOR = 3"),
        ("samples *", "samples +"),
    ],
)
def test_what_a_class_uses_of_its_file_counts(tmp_path: Path, before: str, after: str) -> None:
    known = content(made(tmp_path, TEXT))
    assert content(made(tmp_path, TEXT)) == known
    assert content(made(tmp_path, TEXT.replace(before, after))) != known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("OTHER = 2", "OTHER = 4"),
        ("return 3", "return 4"),
        ("samples = 5", "samples = 6"),
        ("    def level(self):\n", '    def level(self):\n        """Say more."""\n'),
        ("def window(length):", "# a comment\ndef window(\n    length,\n):"),
    ],
)
def test_comments_layout_and_other_parts_of_the_file_do_not_count(tmp_path: Path, before: str, after: str) -> None:
    assert before in TEXT
    assert content(made(tmp_path, TEXT.replace(before, after))) == content(made(tmp_path, TEXT))


def test_without_source_the_bytecode_counts_and_is_the_same_in_each_process() -> None:
    text = "class Mine:\n    def static(self, samples):\n        return samples in {'a', 'b', 'c', 'd'}\n"
    script = "import sys; from speechctc.core.own_code import content; exec(sys.argv[1]); print(content(Mine))"
    found = [
        subprocess.run([sys.executable, "-c", script, given], check=True, capture_output=True, text=True).stdout
        for given in (text, text, text.replace("'d'", "'e'"))
    ]
    assert found[0] == found[1] != found[2]
