"""Every command that the documents show is run, in the order of the document, in a folder with the files it names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from speechctc.cli import app
from tests.command import run_command
from tests.conftest import made_once
from tests.documented.folder import DEMO_SETTINGS, prepare
from tests.documented.reading import ROOT, Block, blocks, documents, named

# What is appended to commands, by a pattern, to make training short or the corpus small.
SMALL_NET = ["model.convs=[4,4]", "model.dense=[8,8]", "model.dense_span=[1,3]"]
APPENDED: list[tuple[str, list[str]]] = [
    (r"speechctc (train|sweep) .*", ["train.epochs=1"]),
    (
        r"speechctc (extract|train|sweep) --config (configs/)?(demo|(small-data|english)-start)\b(?!.*corpus\.kind).*",
        DEMO_SETTINGS,
    ),
    (
        r"speechctc (extract|train|sweep) --config (configs/)?(demo|small-data|timit|zhang2016|start|english).*",
        SMALL_NET,
    ),
    (r"speechctc (extract|train) --config start .*", ["corpus.espeak.utterances=36"]),
    (r"speechctc train --config configs/zhang2016.yaml.*", ["train.finetune.epochs=1"]),
    (r"speechctc score-phones a\.wav .*--phones .*", ["--no-misfits"]),  # this recording says other phones
]
# What stands for a path that is not here: TIMIT is sold by the LDC, and a copy of the demo corpus has its layout.
REPLACED = {
    # the model of the first lesson is the one that `make` trains
    "plugins-folder --model runs/talks": "plugins-folder --model runs/first",
    "--format web --model runs/talks": "--format web --model runs/first",
    "plot runs/talks": "plot runs/first",
    "/path/to/TIMIT": "timit",
    "FOLDER": "recordings",
    "'[a.tsv, b.tsv]'": "'[train.tsv]'",
}
# Commands that are refused because a person changed a result before: the document, the command, and which time.
REFUSED = {("docs/guide/first-day.md", "speechctc decode new --format textgrid --out new", 2)}
# Before a command all TextGrids of a folder are corrected by a person, as the text says.
CORRECTED = {("docs/guide/phonetician.md", "speechctc start talks"): "talks"}
# Commands that are not run, by a pattern, and why.
NOT_RUN = {
    r"pip install .*": "it changes the environment",
    r"scripts/(demo|checks/demo_pythons|install|pin|test|check)\b.*": "it installs an environment; a workflow runs it",
    r".*--processes 2.*": "processes that train together are run by tests/training/test_distributed.py",
    r"speechctc plugins --install": "it writes into the home folder; tests/cli/test_output.py runs it in another one",
    r"speechctc studio .*": "it serves until it is interrupted; tests/studio opens it in a browser",
    r"speechctc align talk.wav --words .*": "tests/cli/test_align_words.py runs these on its files",
    r"speechctc score-phones (talk.wav|\w+ber) .*": "tests/cli/test_score_phones.py runs these on its files",
    r"speechctc calibrate .*right\.tsv.*": "it needs speech that is right; tests/stages/test_calibrate.py calibrates",
    r"speechctc measure .*": "it needs Praat; tests/cli/test_measure.py runs it on its files",
    r"speechctc align --words .*": "tests/cli/test_align_limits.py runs these on its files",
    r"speechctc decode .*--cluster .*": "tests/core/test_cluster.py decodes on a cluster",
    r"speechctc decode .*SLURM_ARRAY.*": "tests/cli/test_recording_list.py runs this script",
    r"speechctc evaluate .*\bunseen\b.*": "tests/stages/test_scored_corpus.py scores a corpus that is only a test",
    r"speechctc compare .*": "it needs two runs; tests/stages/test_compare.py compares models",
    r"speechctc train-boundaries .*": "tests/cli/test_train_boundaries.py runs it on tones",
    r"speechctc .*(phones.yaml|runs/phones).*": "it needs an encoder; tests/features/test_encoder.py makes tiny ones",
    r"speechctc export .*\.onnx .*": "tests/stages/test_export_onnx.py runs it and computes with what it writes",
    r"speechctc lm .*|speechctc decode .*(--lm |zoomple).*": "tests/cli/test_lm.py runs these on its files",
}
# Packages that programs of the documents may use, and that only tests/documented/test_recipes.py needs.
OPTIONAL = ("tensorboard", "optuna", "wandb", "mlflow")
# Commands that take long and that another document shows, and runs, in the same folder.
RUN_ELSEWHERE = {("docs/explain/maxout.md", "speechctc inspect --audio a.wav"): "docs/guide/seeing.md"}


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a prepared folder in which a model was trained on the recordings of a table; made once."""
    return made_once(tmp_path_factory, "documented", make)


def make(folder: Path) -> None:
    """Prepare a folder and train a model there."""
    prepare(folder)
    tables = {"train": "train.tsv", "dev": "dev.tsv", "test": "table.tsv"}
    settings = [*(f"corpus.tables.{split}={name}" for split, name in tables.items()), "corpus.phones=cmu39"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in ("extract", "train"):
            assert run_command(command, "--config", "finetune", *settings, "run=runs/first", "train.epochs=1") == 0


@pytest.fixture
def folder(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a copy of the prepared folder."""
    shutil.copytree(template, tmp_path / "work", symlinks=True, copy_function=copy)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def copy(source: str, target: str) -> str:
    """Copy a file; link a large one, which commands replace and do not change."""
    if os.path.getsize(source) < 2**20:
        return shutil.copy2(source, target)
    os.link(source, target)
    return target


@pytest.mark.parametrize("document", [name for name in documents() if any(blocks(name))])
def test_what_a_document_shows_is_run(document: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times: dict[str, int] = {}
    names = batch()
    for block in blocks(document):
        if block.language == "python":
            if not needs(block):
                run_program(block, document, names)
            continue
        for command in block.lines:
            if (document, command) in RUN_ELSEWHERE:
                continue
            times[command] = times.get(command, 0) + 1
            refused = (document, command, times[command]) in REFUSED
            if (document, command) in CORRECTED:
                for grid in (folder / CORRECTED[document, command]).rglob("*.TextGrid"):
                    grid.write_bytes(grid.read_bytes() + b"\n")
            corrected = correct(folder / "new") if refused else {}
            status = run(command)
            said = capsys.readouterr()
            assert status == (2 if refused else 0), f"{document}: {command}: status {status}\n{said.out}{said.err}"
            assert all(path.read_bytes() == content for path, content in corrected.items())


def correct(results: Path) -> dict[Path, bytes]:
    """Change a TextGrid as a person would; return its new content."""
    grid = min(results.rglob("*.TextGrid"))
    grid.write_bytes(grid.read_bytes() + b"\n")
    return {grid: grid.read_bytes()}


def needs(block: Block) -> list[str]:
    """Return the packages of `OPTIONAL` that a program imports."""
    return [name for name in OPTIONAL if re.search(rf"^(import|from) \S*\b{name}\b", "\n".join(block.lines), re.M)]


def run_program(block: Block, document: str, names: dict[str, object]) -> None:
    """Run a program, with what those before it in the document defined; trainings are short."""
    exec(compile("\n".join(block.lines).replace("train.epochs=20", "train.epochs=1"), document, "exec"), names)


def batch() -> dict[str, object]:
    """Return the names of a script, and the tensors that the example of the loss takes for granted."""
    import torch

    lengths = {"input_lengths": torch.tensor([9, 7]), "target_lengths": torch.tensor([3, 2])}
    return {"__name__": "__main__", "logits": torch.randn(9, 2, 5), "targets": torch.randint(1, 5, (2, 3)), **lengths}


def run(command: str) -> int:
    """Run a command, with what is appended to it; return its exit status."""
    if any(re.fullmatch(pattern, command) for pattern in NOT_RUN):
        return 0
    for shown, here in REPLACED.items():
        command = command.replace(shown, here)
    appended = [setting for pattern, settings in APPENDED if re.fullmatch(pattern, command) for setting in settings]
    if command.startswith("arecord "):  # no microphone here: a WAV file in its place
        command = "cat a.wav " + command[command.index("|") :]
    words = shlex.split(command)
    if words[0] != "speechctc" and "|" not in words:
        return _shell(command)
    source = words[1] if "|" in words else words[-1] if "<" in words else None
    own = words[words.index("|") + 1 :] if "|" in words else words[:-2] if "<" in words else words
    with open(source or os.devnull, "rb") as given, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", given)
        return run_command(*own[1:], *appended)


def _shell(command: str) -> int:
    """Run a command of the shell, which moves files."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    return done.returncode


@pytest.mark.parametrize("document", documents())
def test_what_a_document_names_exists(document: str) -> None:
    commands = typer.main.get_command(app.app)
    for span in named(document):
        words = shlex.split(span)
        if words[0].startswith(("scripts/", "benchmarks/")):
            assert (ROOT / words[0]).exists(), f"{document}: {span}"
        elif len(words) > 1 and words[1] != "COMMAND" and not words[1].startswith("-"):
            command = commands.commands[words[1]]  # type: ignore[attr-defined]
            if len(words) > 2:
                command.make_context(words[1], words[2:])


def test_nothing_in_the_tables_is_out_of_date() -> None:
    shown = [(name, command) for name in documents() for block in blocks(name) for command in block.lines]
    commands = [command for _, command in shown]
    patterns = [*(pattern for pattern, _ in APPENDED), *NOT_RUN]
    assert not [pattern for pattern in patterns if not any(re.fullmatch(pattern, each) for each in commands)]
    assert not [path for path in REPLACED if not any(path in command for command in commands)]
    for document, command, number in REFUSED:
        assert shown.count((document, command)) >= number
    for (document, command), other in RUN_ELSEWHERE.items():
        assert (document, command) in shown and (other, command) in shown


def test_commands_are_found_as_a_reader_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "Words `speechctc not run`.\n\n    $ speechctc train --config demo \\\n        run=runs/two   # a comment\n"
        "    1 of 2: speechctc says\n\n```text\nspeechctc output\n```\n\n    import speechctc\n    x = 1\n"
    )
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr("tests.documented.reading.ROOT", tmp_path)
    shell = Block("shell", ("speechctc train --config demo run=runs/two",))
    assert list(blocks("page.md")) == [shell, Block("python", ("import speechctc", "x = 1"))]
    assert list(named("page.md")) == ["speechctc not run"]
