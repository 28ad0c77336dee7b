"""Writes recordings and labels in TIMIT's layout, for the tests of its reader."""

from pathlib import Path

import numpy as np
import soundfile

LABELS = "0 800 h#\n800 2000 sh\n2000 3000 iy\n3000 4000 h#\n"  # of a recording of 4000 samples


def write_utterance(
    folder: Path,
    stem: str,
    labels: str | None = LABELS,
    *,
    wav: str | None = ".WAV",
    phn: str = ".PHN",
    format: str = "WAV",
    rate: int = 16000,
    samples: int = 4000,
) -> None:
    """Write a recording, unless `wav` is None, and a .PHN file, unless `labels` is."""
    folder.mkdir(parents=True, exist_ok=True)
    if wav is not None:
        soundfile.write(folder / (stem + wav), np.zeros(samples), rate, format=format, subtype="PCM_16")
    if labels is not None:
        (folder / (stem + phn)).write_text(labels)


def write_corpus(root: Path, speakers: dict[str, list[str]], sentences: tuple[str, ...] = ("SX1", "SX2")) -> Path:
    """Write the speakers of each side, for example ``{"TRAIN": ["FABC0"]}``."""
    for side, names in speakers.items():
        for name in names:
            for sentence in sentences:
                write_utterance(root / side / "DR1" / name, sentence)
    return root
