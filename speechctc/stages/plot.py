"""Draw the curves of training runs over one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.core import written
from speechctc.core.errors import InputError, first_few
from speechctc.pages.figures import draw_curves, picture_form
from speechctc.training.runs import Run


def plot(folders: Sequence[Path], out: Path, overwrite: bool = False) -> list[str]:
    """Draw the runs in these folders; return a line on each.

    Raises
    ------
    InputError
        matplotlib is not installed, a folder holds no epochs, or `out` has another ending than .png, .svg or .pdf, or
        was made or changed by hand.
    """
    form = picture_form(out)
    written.refuse_changed([out], overwrite)
    # runs/sweep/* names the logs of a sweep, too
    beside = [path for path in folders if path.is_file()] if any(path.is_dir() for path in folders) else []
    runs = {str(folder): read_epochs(folder) for folder in dict.fromkeys(folders) if folder not in beside}
    written.write_bytes(out, draw_curves(runs, form), overwrite)
    lines = [_line(name, epochs) for name, epochs in runs.items()]
    return lines + (
        [f"passed over, no folders of runs: {first_few([str(path) for path in beside], 3)}"] if beside else []
    )


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
    epochs = run.epochs()
    needed = {"epoch", "loss", "dev_loss", "dev_per", "blank_share", "lr"}
    if not epochs:
        raise InputError(f"{run.metrics}: no epoch in it", "wait for the first epoch to end")
    for number, epoch in enumerate(epochs, start=1):
        if not all(isinstance(epoch.get(key), int | float) for key in needed):
            raise InputError(f"{run.metrics}, line {number}: not an epoch's record", "restore it, or leave the run out")
    return epochs


def _line(name: str, epochs: Sequence[dict[str, Any]]) -> str:
    best = min(epochs, key=lambda epoch: float(epoch["dev_per"]))
    return f"{name}: {len(epochs)} epochs, lowest dev PER {best['dev_per']:.2f} % in epoch {best['epoch']}"
