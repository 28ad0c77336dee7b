"""A command of speechctc, as the plugins call it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from speechctc.core.processes import module_command


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
