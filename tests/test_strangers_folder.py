"""Commands in a folder where a stranger laid modules and settings: none of it is run or read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from speechctc.core.processes import module_command
from speechctc.studio.plugins import ELAN
from tests.fuzzing import writers
from tests.fuzzing.links import Writer
from tests.tones import write_config

PACKAGES = ("matplotlib", "numba", "numpy", "sitecustomize", "speechctc", "torch", "typer", "usercustomize", "yaml")


def plant(folder: Path) -> Path:
    """Lay modules and settings into a folder; return where a module leaves its name when it is run."""
    marks = folder.parent / "marks"
    marks.mkdir()
    code = f"open({str(marks)!r} + '/' + __name__, 'w')\nraise ImportError\n"
    for name in {*sys.stdlib_module_names, *PACKAGES}:
        (folder / f"{name}.py").write_text(code)
    for name in (".numba_config.yaml", "matplotlibrc"):
        (folder / name).write_bytes(b"\xff{")  # an error for whoever reads it
    return marks


def run(folder: Path, *words: str) -> str:
    """Run a command line in a folder; return what it wrote."""
    whole = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(words, cwd=folder, env=whole, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def cases(run: Path) -> dict[str, Writer]:
    """Return a writer of each command, by its name; extraction has workers."""
    words = "extract --config tones.yaml data.workers=2 features.mels=10"
    found = {"extract": Writer(lambda folder: write_config(folder, 130, 4), words)}  # a corpus that workers share
    for writer in writers.commands(run).values():
        if given := writer.words:
            found.setdefault(" ".join(given[: 1 + (given[0] == "lm")]), writer)
    found.pop("train-boundaries")  # takes long, and starts nothing
    return found


IN_TURN = """
import json, os, sys
from speechctc.cli.app import main

for folder, words in json.loads(sys.argv[1]) if __name__ == "__main__" else ():
    os.chdir(folder)
    sys.argv = ["speechctc", *words]
    try:
        main()
    except SystemExit as left:
        assert not left.code, words
"""


@pytest.mark.slow
def test_no_module_and_no_settings_of_the_working_folder_are_used(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All commands, each in its own folder: one Python imports for each what those before it did not."""
    lines, marks = [], []
    for name, writer in cases(tiny_model).items():
        here = tmp_path / name / "here"
        here.mkdir(parents=True)
        monkeypatch.chdir(here)
        writer.prepare(here)
        marks.append(plant(here))
        lines.append((str(here), writer.words))
    assert len(lines) > 15
    (tmp_path / "in_turn.py").write_text(IN_TURN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), os.pathsep)
    run(Path(lines[0][0]), *module_command("in_turn"), json.dumps(lines))
    made = tmp_path / "plugins" / "here" / "made"
    done = subprocess.run(["sh", made / ELAN / "speechctc.sh"], cwd=made.parent, input=b"", capture_output=True)
    assert b"RESULT: FAILED." in done.stdout
    assert not [mark for each in marks for mark in each.iterdir()]


@pytest.mark.slow
def test_the_studio_loads_its_model_in_a_strangers_folder(tiny_model: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    writers._songs(here)
    marks = plant(here)
    words = [*module_command("speechctc"), "studio", "--no-browser", "--model", str(tiny_model)]
    with subprocess.Popen(words, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as studio:
        assert studio.stderr is not None
        said = ""
        while "phones" not in said and (line := studio.stderr.readline()):
            said += line
        studio.terminate()
    assert "Traceback" not in said and "phones" in said and not list(marks.iterdir())
