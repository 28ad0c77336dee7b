"""The whole way as a user who is not root, whom the system may forbid something."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tones import write_config

NOBODY = 65534


@pytest.fixture
def as_nobody() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command line as a user without rights."""
    if os.name != "posix" or os.getuid() != 0:
        pytest.skip("only root can become another user; all other tests run as this one then")

    def drop() -> None:
        os.umask(0o022)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(folder), "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {key: value for key, value in environment.items() if value}
        command = [sys.executable, "-m", "speechctc", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, preexec_fn=drop, capture_output=True, text=True, timeout=500
        )

    return run


def test_the_whole_way_without_roots_rights(
    tmp_path_factory: pytest.TempPathFactory, as_nobody: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    folder = tmp_path_factory.mktemp("nobody")
    for above in (folder.parent, folder.parent.parent):
        above.chmod(above.stat().st_mode | 0o011)
    config = write_config(folder, train=8, held_out=4)
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, NOBODY, NOBODY)
    steps = (
        ("extract", "--config", str(config)),
        ("train", "--config", str(config), "train.epochs=1"),
        ("train", "--config", str(config), "train.epochs=2", "--resume"),
        ("export", "given", "--model", "run"),
        ("sweep", "--config", str(config), "train.epochs=1", "train.lr=1e-3,2e-3", "--run", "sweep"),
        ("evaluate", "--model", "given", "--split", "test", f"corpus.tables.test={folder}/table2.jsonl"),
    )
    for step in steps:
        done = as_nobody(folder, *step)
        assert done.returncode == 0, (step, done.stdout, done.stderr)
    assert all(path.stat().st_uid == NOBODY for path in folder.rglob("*"))
