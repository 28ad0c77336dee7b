"""Files of ELAN for tests, written by pympi-ling, with recordings beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from pympi import Elan

Labels = list[tuple[int, int, str]]  # ms, ms, label


def write_eaf(
    path: Path,
    tiers: dict[str, Labels],
    speakers: dict[str, str] | None = None,
    seconds: float = 20.0,
    audio: str | None = None,
) -> Path:
    """Write a recording of silence and a file of ELAN with tiers of labels; `audio` is the name that it links to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path.with_suffix(".wav"), np.zeros(int(8000 * seconds)), 8000)
    eaf = Elan.Eaf()
    eaf.add_linked_file(f"file:///C:/talks/{audio or path.stem + '.wav'}", mimetype="audio/x-wav")
    for name, labels in tiers.items():
        eaf.add_tier(name, part=(speakers or {}).get(name))
        for start, end, label in labels:
            eaf.add_annotation(name, start, end, label)
    eaf.remove_tier("default")
    eaf.to_file(str(path))
    return path


def letters(text: str, start: int, step: int = 100) -> Labels:
    """Return a label for each letter, one after another, in ms."""
    return [(start + k * step, start + (k + 1) * step, letter) for k, letter in enumerate(text)]
