"""Programs that tests put in the place of others."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def write_program(path: Path, script: str) -> None:
    """Write a program that runs a Python script; ``#!`` cannot name a Python in a folder with a space."""
    source = path.with_name(f"{path.name}.py")
    source.write_text(script)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n')
    path.chmod(0o755)
