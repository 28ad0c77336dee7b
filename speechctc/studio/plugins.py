"""Writes the plugins for ELAN and Praat, into a folder or into the programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from speechctc.core import written
from speechctc.core.processes import module_command

TEMPLATES = Path(__file__).with_name("templates")
ELAN, PRAAT = "elan-speechctc", "plugin_speechctc"
# The folder of each plugin, and the files in it.
FILES = {
    ELAN: ("speechctc.cmdi", "speechctc.sh", "speechctc.bat", "speechctc.html"),
    PRAAT: ("setup.praat", "recognise.praat", "fill.praat", "interval.praat", "procedures.praat"),
}


def in_folder(folder: Path) -> list[Path]:
    """Return the folders of both plugins inside a folder."""
    return [folder / plugin for plugin in FILES]


def in_programs() -> list[Path]:
    """Return the folders of the plugins inside the Praats and ELANs of this user that are found.

    Praat's preferences folder exists after its first start: version 7 has another one than those before it. That of
    ELAN is looked for where its installers put it.
    """
    home = Path.home()
    if sys.platform == "darwin":
        praats = [home / "Library/Preferences/Praat Prefs", home / "Library/Application Support/Praat"]
        elans = [*Path("/Applications").glob("ELAN*.app/Contents/app/extensions")]
    elif sys.platform == "win32":
        praats = [home / "Praat", home / "AppData/Roaming/Praat"]
        elans = [*Path(os.environ.get("PROGRAMFILES", "C:/Program Files")).glob("ELAN*/app/extensions")]
    else:
        praats = [home / ".praat-dir", Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "praat"]
        elans = [elan for place in (home, Path("/opt")) for elan in place.glob("[Ee][Ll][Aa][Nn]*/lib/app/extensions")]
    places = [*(praat / PRAAT for praat in praats), *(elan / ELAN for elan in elans)]
    return [place for place in places if place.parent.is_dir()]


def write(plugins: Sequence[Path], model: str, overwrite: bool = False) -> None:
    """Write plugins, which run this Python.

    Parameters
    ----------
    plugins : sequence of Path
        Their folders, from `in_folder` or `in_programs`.
    model : str
        The model that they use unless another one is chosen in them.
    overwrite : bool
        Also replace files that a person made or changed.

    Raises
    ------
    InputError
        Files that a person made or changed would be replaced, or a plugin's folder is a link.
    """
    for plugin in plugins:
        written.refuse_linked_folder(plugin)
    texts = {plugin / name: _text(name, model) for plugin in plugins for name in FILES[plugin.name]}
    written.refuse_changed(texts, overwrite)
    for path, text in texts.items():
        written.write_text(path, text, overwrite)


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
