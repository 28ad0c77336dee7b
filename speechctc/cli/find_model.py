"""Find the model that a command uses, and name it on standard error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.cli.options import Device
from speechctc.cli.streams import show

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser


def find_model(model: Path | None, or_bundled: bool = False) -> Path:
    """Return the folder of the model that is named, else of the latest run, else the bundled one where allowed."""
    return _find(model, or_bundled)[0]


def _find(model: Path | None, or_bundled: bool) -> tuple[Path, str]:
    from speechctc.stages.used_model import find_and_describe

    folder, line = find_and_describe(model, or_bundled)
    show(line, err=True)
    return folder, line


def load_recogniser(
    model: Path | None,
    device: Device,
    lms: Sequence[Path] = (),
    lm_weight: float | None = None,
    beam: int | None = None,
    min_modulation_db: float | None = None,
    or_bundled: bool = True,
) -> Recogniser:
    """Load the model that `find_model` finds, with these language models; its `about` describes it.

    Numbers that are not None replace those of the model's ``decode`` section.
    """
    from speechctc.core.progress import Reporter
    from speechctc.inference.language import with_language_models
    from speechctc.inference.recogniser import Recogniser

    folder, line = _find(model, or_bundled)
    recogniser = with_language_models(Recogniser.read(folder, device.value), folder, lms, lm_weight, beam, Reporter())
    settings = [] if min_modulation_db is None else [f"decode.min_modulation_db={min_modulation_db}"]
    recogniser = recogniser.with_settings(settings)
    name = line.removeprefix("using ")
    recogniser.about = name if name != line else line[:1].upper() + line[1:]
    return recogniser
