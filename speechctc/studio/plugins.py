"""Plugins for ELAN and Praat: their files, and the commands that they run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from speechctc.core import written
from speechctc.core.parallel import module_command

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


def arguments(
    audio: str, out: str, command: str, model: str, symbols: str, language: str = "", stretches: str = ""
) -> list[str]:
    """Return the command line: decode, align or score-phones, of the whole recording or of the intervals of a tier.

    Parameters
    ----------
    audio, out : str
        The recording, and the file to write.
    command, model, symbols : str
        As on the command line.
    language : str
        Of the words in the intervals, or the file of a dictionary; if empty, the labels are phones.
    stretches : str
        A TextGrid with a tier ``stretches``; if empty, the whole recording is recognised.
    """
    chosen = ["--model", model.strip() or "english", "--symbols", symbols.strip() or "own", "--out", out]
    words = language.strip()
    if command != "decode":
        chosen += ["--words" if words else "--transcripts", stretches, "--tier", "stretches", "--limits"]
        if words:
            chosen += ["--dictionary" if Path(words).is_file() else "--language", words]
    elif stretches:
        chosen += ["--textgrids", stretches, "--tier", "stretches"]
    return [command, audio, *chosen]


def run(line: list[str]) -> str:
    """Run a command line; return its last line about what is wrong, or nothing if all is well."""
    done = subprocess.run(
        [*module_command("speechctc"), *line],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if not done.returncode:
        return ""
    return lines[-1].removeprefix("speechctc: ") if lines else f"it ended with status {done.returncode}"
