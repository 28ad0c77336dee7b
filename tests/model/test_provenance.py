import os
import subprocess
from pathlib import Path

import pytest

from speechctc.model.checkpoint import git_revision


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *names, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path) -> str:
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "f").write_text(folder.name)
    git(folder, "add", "f")
    git(folder, "commit", "-q", "-m", "one")
    return git(folder, "rev-parse", "HEAD")


def test_the_revision_is_that_of_this_very_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    revision = commit(mine)
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert git_revision(mine) == revision
    (mine / "site-packages").mkdir()
    assert git_revision(mine / "site-packages") is None, "a stranger's repository further up"


def test_changes_are_marked_and_no_program_of_the_repository_is_run(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    revision = commit(mine)
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    hook.chmod(0o755)
    git(mine, "config", "core.fsmonitor", str(hook))
    (mine / "f").write_text("changed")
    index = (mine / ".git" / "index").read_bytes()
    assert git_revision(mine) == f"{revision}-dirty"
    assert not (tmp_path / "was-run").exists()
    assert (mine / ".git" / "index").read_bytes() == index
