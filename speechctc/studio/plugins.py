"""Writes the plugins for ELAN and Praat into a folder."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from speechctc.core import written
from speechctc.core.processes import module_command

TEMPLATES = Path(__file__).with_name("templates")
ELAN, PRAAT = "elan-speechctc", "plugin_speechctc"
# The folder of each plugin, and the files in it.
FILES = {
    ELAN: ("speechctc.cmdi", "speechctc.sh", "speechctc.bat", "speechctc.html"),
    PRAAT: ("setup.praat", "recognise.praat"),
}


def install(folder: Path, model: str, overwrite: bool = False) -> list[Path]:
    """Write both plugins, which run this Python; return their files.

    Parameters
    ----------
    folder : Path
    model : str
        The model that they use unless another one is chosen in them.
    overwrite : bool
        Also replace files that a person made or changed.

    Raises
    ------
    InputError
        Files that a person made or changed would be replaced, or a plugin's folder is a link.
    """
    for plugin in FILES:
        written.refuse_linked_folder(folder / plugin)
    texts = {folder / plugin / name: _text(name, model) for plugin, names in FILES.items() for name in names}
    written.refuse_changed(texts, overwrite)
    for path, text in texts.items():
        written.write_text(path, text, overwrite)
    return list(texts)


def _text(name: str, model: str) -> str:
    """Return a file with the paths of this Python and of the model, quoted as its language wants."""
    python, *words, _ = module_command("")
    between = ", " if name.endswith(".praat") else " "
    text = (
        (TEMPLATES / name).read_text(encoding="utf-8").replace("@MODULE@", between.join(f'"{word}"' for word in words))
    )
    if name.endswith(".cmdi"):
        return text.replace("@MODEL@", escape(model, {'"': "&quot;"}))
    if name.endswith(".sh"):
        return text.replace("@PYTHON@", python.replace("'", "'\\''"))
    if name.endswith(".bat"):
        return text.replace("@PYTHON@", python.replace("%", "%%")).replace("\n", "\r\n")
    return text.replace("@PYTHON@", python.replace('"', '""')).replace("@MODEL@", model)
