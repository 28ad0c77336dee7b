"""The versions and the git revision that a result was computed with."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from speechctc import __version__


def provenance() -> dict[str, Any]:
    """Return the versions and, if the package runs from a git checkout of it, the revision."""
    return {
        "versions": {
            "speechctc": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "git": git_revision(Path(__file__).resolve().parent.parent),
    }


@functools.cache
def git_revision(root: Path) -> str | None:
    """Return the git revision of this folder, with the suffix ``-dirty`` if files were changed since; None without git.

    A repository in a parent folder is ignored: it is not the package's. No program that the repository's config names
    is run, and nothing is written.
    """
    repository = root / ".git"
    if not repository.exists():
        return None
    command = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"]
    command += [f"--git-dir={repository}", f"--work-tree={root}"]
    command += ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
