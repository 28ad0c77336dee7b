"""The models that are installed with the package: their names, and a line on each. Each folder has a README.md."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Bundled(NamedTuple):
    """A model of the package: its folder, and what it is."""

    folder: Path
    about: str


MODELS = {
    name: Bundled(Path(__file__).parent.parent / "bundled" / name, about)
    for name, about in (
        ("english", "small, of English, in the phones of the CMU dictionary"),
        ("ipa", "small, of any language, in IPA without length, tones and diacritics"),
    )
}
"""The models by name. The first is used where none is named and there is no run."""
NAMES = " or ".join(MODELS)


def bundled_folder(model: str | Path | None) -> Path | None:
    """Return the folder of the bundled model of this name; None if there is none, or it is not installed."""
    found = MODELS.get(str(model))
    return found.folder if found and found.folder.is_dir() else None
