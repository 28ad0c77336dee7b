"""Draw the curves of training runs: of one while it goes on, of several over one another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.core import files, written
from speechctc.core.errors import InputError, plural, with_extra
from speechctc.pages import figures
from speechctc.pages.figures import draw_curves, image_format
from speechctc.training.runs import EPOCH_NUMBERS, Run

SHARE = 0.02  # of the time, at most, for drawing
MIN_EPOCHS = 2  # epochs


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


class CurvesFile:
    """Draws the epochs of a run; without matplotlib, or with ``train.curves=false``, it draws nothing.

    Parameters
    ----------
    path : Path
        The picture.
    wanted : bool
    """

    def __init__(self, path: Path, wanted: bool) -> None:
        self.path, self.note, self._draws = path, "", wanted and figures.is_available()
        self._next, self._drawn = 0.0, 0
        if self._draws:
            self.note = f"curves of this run, from the second epoch on: {path}"
        elif wanted:
            why = f"because matplotlib is not installed ({with_extra('report')})"
            self.note = f"no {path.name} is drawn, {why}; speechctc plot {path.parent} draws it later"

    def update(self, epochs: Sequence[dict[str, Any]], last: bool = False) -> None:
        """Draw the epochs, unless they are drawn or the last drawing is too recent; if it is the `last`, draw anyway.

        A picture must not end a training: if it cannot be drawn, it is not.
        """
        if not self._draws or len(epochs) < MIN_EPOCHS or len(epochs) == self._drawn:
            return
        began = time.monotonic()
        if began < self._next and not last:
            return
        try:
            files.write_bytes(self.path, draw_curves({str(self.path.parent): epochs}))
        except Exception:  # whatever matplotlib raises, of damaged fonts or folders that it cannot write to
            self._draws = False
            return
        self._drawn, now = len(epochs), time.monotonic()
        self._next = now + (now - began) / SHARE
