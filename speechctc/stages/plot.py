"""Draw the curves of several training runs over one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.core import written
from speechctc.core.errors import InputError, plural
from speechctc.pages.figures import draw_curves, image_format
from speechctc.training.runs import EPOCH_NUMBERS, Run


def plot(folders: Sequence[Path], out: Path, overwrite: bool = False) -> list[str]:
    """Draw the runs in these folders; return a line on each.

    Raises
    ------
    InputError
        matplotlib is not installed, a folder holds no epochs, or `out` has another ending than .png, .svg or .pdf, or
        was made or changed by hand.
    """
    form = image_format(out)
    written.refuse_changed([out], overwrite)
    named = [path for path in folders if not path.is_file()] or folders  # runs/sweep/* names its sweep.json, too
    runs = {str(folder): read_epochs(folder) for folder in dict.fromkeys(named)}
    written.write_bytes(out, draw_curves(runs, form), overwrite)
    return [_line(name, epochs) for name, epochs in runs.items()]


def read_epochs(folder: Path) -> list[dict[str, Any]]:
    """Return what a run says of its epochs.

    Raises
    ------
    InputError
        The folder holds no epochs, or a line of them is not complete.
    """
    run = Run(folder)
    if not run.metrics.exists():
        what = "no metrics.jsonl in it" if folder.is_dir() else "no such folder"
        raise InputError(f"{folder}: {what}", "name the folder of a run, such as runs/demo")
    epochs = run.epochs(EPOCH_NUMBERS)
    if not epochs:
        raise InputError(f"{run.metrics}: no epoch in it", "wait for the first epoch to end")
    return epochs


def _line(name: str, epochs: Sequence[dict[str, Any]]) -> str:
    best = min(epochs, key=lambda epoch: (float(epoch["dev_per"]), float(epoch["dev_loss"])))
    return f"{name}: {plural(len(epochs), 'epoch')}, lowest dev PER {best['dev_per']:.2f} % in epoch {best['epoch']}"
