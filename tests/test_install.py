"""`scripts/install` with a Python of ours in its place: what it installs, and what it says where that cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BROKEN = "ERROR: No matching distribution found for pymdown-extensions==13.1"
PYTHON = f"""#!/bin/sh
case "$*" in
    *ensurepip*) exit $NO_ENSUREPIP ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    *pip*--constraint*) echo "$*" >> asked; [ -z "$NO_PINS" ] || {{ echo "{BROKEN}" >&2; exit 1; }} ;;
    *pip*) echo "$*" >> asked; exit $NO_RANGES ;;
esac
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a script of bash")


def install(here: Path, *extra: str, **settings: str) -> tuple[int, list[str], list[str]]:
    """Install in a copy; return the status, the lines said, and how pip was called."""
    (here / "scripts").mkdir(exist_ok=True)
    for name in ("scripts/install", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, here / name)
    python, asked = here / "python", here / "asked"
    python.write_text(PYTHON)
    python.chmod(0o755)
    asked.write_text("")
    no = {"PYTHON": str(python), "NO_ENSUREPIP": "0", "NO_PINS": "", "NO_RANGES": "0"}
    command = ["bash", str(here / "scripts" / "install"), *extra]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **no, **settings}, timeout=60)
    return done.returncode, done.stderr.splitlines(), asked.read_text().splitlines()


def test_the_demo_asks_for_less_than_the_tests_and_nothing_is_installed_twice(here: Path) -> None:
    def extras(*extra: str) -> list[str]:
        status, _, asked = install(here, *extra)
        assert status == 0 and all("--constraint constraints.txt" in line for line in asked)
        return [line.partition("--editable ")[2].split()[0] for line in asked]

    assert extras("demo") == [".[demo]"] and extras("demo") == []
    assert extras() == [".[dev]"] and extras() == extras("demo") == []


def test_a_copy_that_was_installed_over_the_checkout_gives_way(here: Path) -> None:
    install(here)
    place = here / ".venv/lib/python3.11/site-packages/speechctc-0.1.0.dist-info"
    place.mkdir(parents=True)
    (place / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///there"}')
    assert install(here)[2] == []
    (place / "direct_url.json").write_text('{"dir_info": {}, "url": "file:///there"}')  # as after pip install .
    assert any("--editable" in line for line in install(here)[2])


def test_pins_that_cannot_be_had_give_way_to_the_ranges_in_one_line(here: Path) -> None:
    status, said, asked = install(here, NO_PINS="yes")
    assert status == 0 and len(asked) == 2 and "--constraint" not in asked[1]
    wanted = f"the exact versions of constraints.txt cannot be had ({BROKEN}); taking what pyproject.toml allows"
    assert said[1:] == [wanted]
    assert install(here)[2] == []


def test_what_cannot_be_installed_is_said_in_one_line_and_tried_again(here: Path) -> None:
    status, said, _ = install(here, NO_PINS="yes", NO_RANGES="1")
    assert status == 2 and said[-1].startswith("scripts/install: pip could not install") and ".venv/pip.log" in said[-1]
    assert len(install(here)[2]) == 1


def test_a_python_that_makes_no_environments_is_named(here: Path) -> None:
    status, (line,), asked = install(here, NO_ENSUREPIP="1")
    assert status == 2 and "sudo apt install python3-venv" in line and not asked and not (here / ".venv").exists()


def test_a_python_that_does_not_run_is_named(here: Path) -> None:
    assert install(here, PYTHON="none")[1][0].startswith("scripts/install: none does not run; set PYTHON to")
