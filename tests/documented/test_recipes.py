"""The programs of the documents that use packages which not every installation of the developers has."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.documented.reading import blocks
from tests.documented.test_commands import OPTIONAL, batch, folder, needs, run_program, template

__all__ = ["folder", "template"]  # fixtures
PAGE = "docs/guide/extending.md"
WRITTEN = {
    "tensorboard": "tensorboard/board/events.*",
    "optuna": "runs/study/3/best/checkpoint.json",
    "wandb": "runs/wandb/offline-run-*/*.wandb",
    "mlflow": "runs/mlflow.db",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of packages that use each other's old names
@pytest.mark.parametrize("package", OPTIONAL)
def test_a_recipe_is_run(package: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    names, programs = batch(), [block for block in blocks(PAGE) if block.language == "python"]
    first = next(block for block in programs if any(line.startswith("settings =") for line in block.lines))
    (recipe,) = (block for block in programs if package in needs(block))
    for block in (first, recipe):
        run_program(block, PAGE, names)
    assert list(folder.glob(WRITTEN[package]))
    if package == "tensorboard":
        events: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
        seen = events.EventAccumulator("tensorboard/board").Reload().Tags()["scalars"]
        assert {"step/loss", "epoch/dev_per"} <= set(seen)


def test_every_package_has_a_recipe() -> None:
    assert {package for block in blocks(PAGE) for package in needs(block)} == set(OPTIONAL) == set(WRITTEN)
