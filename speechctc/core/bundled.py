"""What is installed with the package: its models, whose folders each have a README.md, and its texts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


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


@cache
def bundled_texts(module: str, name: str = "tables.yaml") -> dict[str, Any]:
    """Return a YAML file in the folder of a module's file; all values in it are texts. It is read once."""
    import yaml

    text = Path(module).with_name(name).read_text(encoding="utf-8")
    # these loaders make texts, lists and mappings alone, never an object that a file names
    return dict(yaml.load(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
