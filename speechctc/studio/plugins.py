"""Plugins for ELAN and Praat: their files, and what they run, ``python -m speechctc.studio.plugins elan`` or ``praat``.

ELAN writes an XML document ``PARAM`` to standard input and reads lines: ``PROGRESS: 0.5 text`` while it waits, and at
the end ``RESULT: DONE.`` or ``RESULT: FAILED.``. All other lines are shown in its report.
"""

from __future__ import annotations

import locale
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.eaf_writer import xml_text
from speechctc.core import files, links, written
from speechctc.core.errors import InputError
from speechctc.core.processes import module_command, open_standard_streams

TEMPLATES = Path(__file__).with_name("templates")
ELAN, PRAAT = "elan-speechctc", "plugin_speechctc"
# The folder of each plugin, and the files in it.
FILES = {
    ELAN: ("speechctc.cmdi", "speechctc.sh", "speechctc.bat", "speechctc.html"),
    PRAAT: ("setup.praat", "recognise.praat", "fill.praat", "interval.praat", "procedures.praat"),
}
TASKS = {"recognise": "decode", "place": "align", "score": "score-phones"}  # of ELAN's panel, and their commands


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
        links.refuse_linked_folder(plugin)
    texts = {plugin / name: _text(name, model) for plugin in plugins for name in FILES[plugin.name]}
    written.refuse_changed(texts, overwrite)
    for path, text in texts.items():
        written.write_text(path, text, overwrite)


def _text(name: str, model: str) -> str:
    """Return a file with the paths of this Python and of the model, quoted as its language wants."""
    python, *words, _ = module_command("")
    between = ", " if name.endswith(".praat") else " "
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    text = text.replace("@MODULE@", between.join(f'"{word}"' for word in words))
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


def for_praat(wav: str, *order: str) -> None:
    """Make an empty file for a recording; or run a command on the recording, and write its last words to a file.

    Praat asks with ``WAV`` before it writes the recording, and then with ``WAV TEXTGRID ERROR COMMAND MODEL SYMBOLS
    LANGUAGE STRETCHES``; the last two may be empty. The latter ends with status 0 always, because Praat would show a
    message without the reason. Of these files, which may lie where others read, none is for others.
    """
    if not order:
        os.close(os.open(wav, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return
    os.umask(0o077)
    grid, error, *rest = order
    with tempfile.TemporaryDirectory() as folder:  # the command notes beside its files that it wrote them
        answer = Path(folder) / "answer.TextGrid"
        wrong = run(arguments(wav, str(answer), *rest))
        if answer.exists():
            files.write_bytes(Path(grid), answer.read_bytes())
    for path in map(Path, (wav, *rest[4:])):
        if path.name.startswith("speechctc-"):  # as the script names it, never a file of the user's own
            path.unlink(missing_ok=True)
    if wrong:
        files.write_text(Path(error), wrong)


def for_elan() -> None:
    """Do what ELAN asks for on standard input, and say how it ended."""
    try:
        say("PROGRESS: 0.01 reading the parameters")
        answer_elan(read_parameters(sys.stdin.buffer.read()))
    except InputError as error:
        say(f"ERROR: {error}")
        say("RESULT: FAILED.")
        sys.exit(2)
    except Exception as error:  # ELAN waits for a result whatever happens
        say(f"ERROR: {type(error).__name__}: {error}")
        say("RESULT: FAILED.")
        raise
    say("RESULT: DONE.")


def say(line: str) -> None:
    """Write a line to ELAN, at once."""
    print(line, flush=True)


def read_parameters(raw: bytes) -> dict[str, str]:
    """Return the parameters of a document ``PARAM``, whose bytes may be in the encoding of the system.

    Raises
    ------
    InputError
        It is not such a document.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode(locale.getencoding() if hasattr(locale, "getencoding") else "cp1252", "replace")
    try:
        if "<!DOCTYPE" in text:
            raise ValueError("a document type")
        root = ElementTree.fromstring(text.partition("?>")[2] if text.lstrip().startswith("<?xml") else text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"standard input: not ELAN's parameters ({error})", "run this from ELAN") from None
    return {each.get("name", ""): (each.text or "").strip() for each in root.iter("param")}


def answer_elan(parameters: Mapping[str, str]) -> None:
    """Recognise, place or score the phones of ``source``, and write them to the tier file ``phones``.

    Raises
    ------
    InputError
        A parameter is missing or wrong, or the recording cannot be read.
    """
    source, out, task = (parameters.get(name, "") for name in ("source", "phones", "task"))
    command, tier = TASKS.get(task or "recognise", task), parameters.get("stretches", "")
    if not (source and out and (tier or command == "decode")):
        what = "ELAN gave no recording, no tier to write, or no tier of transcripts"
        raise InputError(what, "choose them in the panel of the recogniser")
    with tempfile.TemporaryDirectory() as folder:
        answer, stretches = Path(folder) / "answer.json", ""
        if tier:
            stretches = str(Path(folder) / "stretches.TextGrid")
            spans = [span._replace(label="x") if command == "decode" else span for span in read_spans(Path(tier))]
            last = max([sound_file.info(Path(source)).seconds, *(span.end for span in spans)])
            grid = textgrid_text(last, {"stretches": [span for span in spans if span.label]})
            files.write_text(Path(stretches), grid)
        model, symbols, language = (parameters.get(name, "") for name in ("model", "symbols", "language"))
        line = arguments(source, str(answer), command, model, symbols, language, stretches)
        say("PROGRESS: 0.1 at work")
        channel = parameters.get("channel")
        wrong = run([*line, "--channel", channel] if channel else line)
        found = files.read_json(answer, files.MOST_RESULTS)[0]["segments"] if answer.exists() else None
    if found is None:
        what, _, fix = wrong.rpartition("; ")
        raise InputError(what or fix, fix if what else "see the line above")
    if wrong:
        say(wrong)
    write_tier(Path(out), found)


def read_spans(path: Path) -> list[Interval]:
    """Return the labels of a tier file of ELAN with their times in seconds; a label may be empty.

    Raises
    ------
    InputError
        It is not such a file.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if "<!DOCTYPE" in text:
            raise ValueError("a document type")
        spans = ElementTree.fromstring(text.encode("utf-8")).iter("span")
        return sorted(
            Interval(_seconds(each.attrib["start"]), _seconds(each.attrib["end"]), (each.findtext("v") or "").strip())
            for each in spans
        )
    except (OSError, ElementTree.ParseError, LookupError, ValueError) as error:  # LookupError: an unknown encoding, too
        raise InputError(f"{path}: not a tier of ELAN ({error})", "choose the tier again") from None


def _seconds(time: str) -> float:
    return float(time) if "." in time else int(time) / 1000  # ELAN's rule: whole numbers are milliseconds


def write_tier(path: Path, segments: Sequence[Mapping[str, Any]]) -> None:
    """Write the phones of a command's JSON as a tier file of ELAN, with their confidences or scores."""
    scored = any("score" in segment for segment in segments)
    columns = "phones score said_instead" if scored else "phones confidence"
    root = ElementTree.Element("TIER", {"columns": columns})
    for segment in segments:
        start, end = (str(round(1000 * segment[key])) for key in ("start", "end"))
        span = ElementTree.SubElement(root, "span", {"start": start, "end": end})
        values = [segment["phone"]]
        if scored:
            instead = " ".join(each["phones"] for each in segment.get("said_instead") or [])
            values += [f"{segment['score']:.2f}" if segment.get("score") is not None else "", instead]
        else:
            values.append(f"{segment['confidence']:.2f}")
        for value in values:
            ElementTree.SubElement(span, "v").text = xml_text(value)
    ElementTree.indent(root, "  ")
    files.write_bytes(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


if __name__ == "__main__":
    open_standard_streams()
    for_praat(*sys.argv[2:]) if sys.argv[1] == "praat" else for_elan()
