"""Find the model that a command uses, and name it on standard error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.cli.options import Device
from speechctc.cli.streams import show

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser


def find_model(model: Path | None, or_bundled: bool = False) -> Path:
    """Return the folder of the model that is named, else of the latest run, else the bundled one where allowed."""
    from speechctc.stages.used_model import find_and_describe

    folder, line = find_and_describe(model, or_bundled)
    show(line, err=True)
    return folder


def load_recogniser(
    model: Path | None,
    device: Device,
    lm_weight: float | None = None,
    min_modulation_db: float | None = None,
) -> Recogniser:
    """Load the model that `find_model` finds; settings that are not None replace those of its ``decode`` section."""
    from speechctc.inference.recogniser import Recogniser

    folder = find_model(model, or_bundled=True)
    return Recogniser.load(folder, device.value, lm_weight, min_modulation_db)
