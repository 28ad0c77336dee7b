"""Keep ``curves.png`` of a run up to date, in a small share of the training time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speechctc.core import files
from speechctc.pages import figures

SHARE = 0.02  # of the time, at most, for drawing
FEWEST = 2  # epochs


class CurvesFile:
    """Draws the epochs of a run; without matplotlib, or with ``train.curves=false``, it draws nothing.

    Parameters
    ----------
    path : Path
        The picture.
    wanted : bool
    """

    def __init__(self, path: Path, wanted: bool) -> None:
        self.path = path
        self.note = self._promise() if wanted else ""
        self._draws = wanted and figures.is_available()
        self._next = 0.0
        self._drawn = 0

    def _promise(self) -> str:
        if figures.is_available():
            return f"curves of this run: {self.path}, kept up to date"
        return (
            f"no {self.path.name} is drawn, because matplotlib is not installed ({figures.INSTALL}); speechctc plot"
            f" {self.path.parent} draws it later"
        )

    def update(self, epochs: Sequence[dict[str, Any]], last: bool = False) -> None:
        """Draw the epochs, unless they are drawn or the last drawing is too recent; if it is the `last`, draw anyway.

        A picture must not end a training: if it cannot be drawn, it is not.
        """
        if not self._draws or len(epochs) < FEWEST or len(epochs) == self._drawn:
            return
        began = time.monotonic()
        if began < self._next and not last:
            return
        try:
            from speechctc.pages.figures import draw_curves

            files.write_bytes(self.path, draw_curves({str(self.path.parent): epochs}))
        except Exception:  # whatever matplotlib raises, of damaged fonts or folders that it cannot write to
            self._draws = False
            return
        self._drawn, now = len(epochs), time.monotonic()
        self._next = now + (now - began) / SHARE
