"""The whole way as a user who is not root, whom the system may forbid something."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from speechctc.audio import sound_file
from speechctc.audio.recordings import find_recordings, left_out
from speechctc.core.errors import InputError
from speechctc.core.parallel import attempt
from tests.tiny_model import write_song
from tests.tones import write_config

NOBODY = 65534

# All is done as root before, so that nothing is imported afterwards: the interpreter may lie where only root may go.
TWICE = """
import json, os, sys
from speechctc.cli import app as cli

first, second, user, steps = *sys.argv[1:3], int(sys.argv[3]), json.loads(sys.argv[4])

def run_all(folder):
    os.chdir(folder)
    for step in steps:
        sys.argv = ["speechctc", *step]
        try:
            cli.main()
        except SystemExit as left:
            if left.code:
                sys.exit(f"{' '.join(step)} as user {os.getuid()}: status {left.code}")

run_all(first)
os.chdir(second)
os.setgroups([])
os.setgid(user)
os.setuid(user)
run_all(second)
"""


def run_twice(folders: list[Path], *steps: str) -> list[Path]:
    """Run command lines as root in the first folder, then as nobody in the second; return what is in that."""
    for path in (folders[1], *folders[1].rglob("*")):
        shutil.chown(path, NOBODY, NOBODY)
    arguments = json.dumps([step.split() for step in steps])
    command = [sys.executable, "-c", TWICE, *map(str, folders), str(NOBODY), arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    made = list(folders[1].rglob("*"))
    assert all(path.stat().st_uid == NOBODY for path in made)
    return made


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    """Yield a folder for root and one for nobody, not below pytest's own, where nobody may not go."""
    if os.name != "posix" or os.getuid() != 0:
        pytest.skip("only root can become another user; elsewhere all tests run without root's rights")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        yield [Path(first), Path(second)]


def test_what_this_user_may_not_read_is_named_and_the_rest_is_read(folders: list[Path]) -> None:
    place = folders[1]
    place.chmod(0o755)
    (place / "closed").mkdir()
    for name in ("a", "b", "closed/c"):
        write_song(place / f"{name}.wav", ["low"])
    for name in ("b.wav", "closed"):
        (place / name).chmod(0)
    os.seteuid(NOBODY)
    try:
        found = [recording.path.name for recording in find_recordings([place])]
        read = [attempt(sound_file.info, place / name) for name in found]
        lines = left_out([place])
        inside = attempt(sound_file.info, place / "closed/c.wav")
    finally:
        os.seteuid(0)
    assert found == ["a.wav", "b.wav"] and not isinstance(read[0], InputError)
    assert str(read[1]) == f"{place}/b.wav: not readable by this user; change its permissions"
    assert str(inside).endswith("c.wav: in a folder that this user may not look into; change its permissions")
    assert lines == [f"{place}: closed left out: this user may not look into it; change its permissions"]


def test_the_whole_way_without_roots_rights(folders: list[Path]) -> None:
    for folder in folders:
        write_config(folder, 16, 6)
    tables = " ".join(f"corpus.tables.{split}=table{k}.jsonl" for k, split in enumerate(("train", "dev", "test")))
    made = run_twice(
        folders,
        "extract --config tones.yaml",
        "train --config tones.yaml train.epochs=1",
        "train --config tones.yaml train.epochs=2 --resume",
        "export given --model run",
        f"evaluate --model given --split test {tables}",
    )
    assert {"checkpoint.json", "metrics.jsonl"} <= {path.name for path in made}
