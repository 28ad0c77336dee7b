"""The recogniser that ELAN runs: reads its parameters from standard input, and writes tiers of phones.

ELAN writes an XML document ``PARAM`` to standard input and reads lines: ``PROGRESS: 0.5 text`` while it waits, and at
the end ``RESULT: DONE.`` or ``RESULT: FAILED.``. All other lines are shown in its report.
"""

from __future__ import annotations

import locale
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.eaf import xml_text
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.studio.plugins import arguments
from speechctc.studio.plugins import run as run_command

TASKS = {"recognise": "decode", "place": "align", "score": "score-phones"}


def main() -> None:
    """Do what ELAN asks for a recording, and say how it ended."""
    try:
        say("PROGRESS: 0.01 reading the parameters")
        run(read_parameters(sys.stdin.buffer.read()))
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
    if "<!DOCTYPE" in text:
        raise InputError("standard input: a document type in ELAN's parameters", "run this from ELAN")
    try:
        root = ElementTree.fromstring(text.partition("?>")[2] if text.lstrip().startswith("<?xml") else text)
    except ElementTree.ParseError as error:
        raise InputError(f"standard input: not ELAN's parameters ({error})", "run this from ELAN") from None
    return {each.get("name", ""): (each.text or "").strip() for each in root.iter("param")}


def run(parameters: Mapping[str, str]) -> None:
    """Recognise, place or score the phones of ``source``, and write them to the tier file ``phones``.

    Raises
    ------
    InputError
        A parameter is missing or wrong, or the recording cannot be read.
    """
    source, out = parameters.get("source", ""), parameters.get("phones", "")
    if not source or not out:
        missing = "source (the recording)" if not source else "phones (where the tiers are written)"
        raise InputError(f"ELAN gave no {missing}", "choose one in the panel of the recogniser")
    channel, task = parameters.get("channel", ""), parameters.get("task") or "recognise"
    if channel and not channel.isdecimal():
        raise InputError(f"channel {channel!r} is not a number from 1", "leave it empty for the mean of all")
    if task not in TASKS:
        raise InputError(f"task {task!r} is none of {', '.join(TASKS)}", "choose one in the panel")
    if task != "recognise" and not parameters.get("stretches"):
        raise InputError(f"to {task} needs a tier of transcripts", "choose one in the panel of the recogniser")
    seconds = sound_file.info(Path(source)).seconds
    spans = read_spans(Path(parameters["stretches"])) if parameters.get("stretches") else None
    with tempfile.TemporaryDirectory() as folder:
        answer, stretches = Path(folder) / "answer.json", ""
        if spans is not None:
            stretches = str(Path(folder) / "stretches.TextGrid")
            if task == "recognise":
                spans = [span._replace(label="x") for span in spans]
            last = max([seconds, *(span.end for span in spans)])
            files.write_text(
                Path(stretches), textgrid_text(last, {"stretches": [span for span in spans if span.label]})
            )
        model, symbols, language = (parameters.get(name, "") for name in ("model", "symbols", "language"))
        line = arguments(source, str(answer), TASKS[task], model, symbols, language, stretches)
        say("PROGRESS: 0.1 at work")
        wrong = run_command([*line, "--channel", channel] if channel else line)
        found = files.read_json(answer)[0]["segments"] if answer.exists() else None
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
    main()
