"""What the Praat scripts run: a command of speechctc on a recording that Praat wrote; Praat shows why it failed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from speechctc.core import files
from speechctc.core.processes import module_command


def main(wav: str, *order: str) -> None:
    """Make an empty file for a recording; or run a command on the recording, and write its last words to a file.

    Praat runs it as ``python -m speechctc.studio.praat WAV`` before it writes the recording, and then with ``WAV
    TEXTGRID ERROR COMMAND MODEL SYMBOLS LANGUAGE STRETCHES``; the last two may be empty. The latter ends with status 0
    always, because Praat would show a message without the reason. Of these files, which may lie where others read,
    none is for others.
    """
    if not order:
        os.close(os.open(wav, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return
    os.umask(0o077)
    grid, error, *rest = order
    with tempfile.TemporaryDirectory() as folder:  # the command notes beside its files that it wrote them
        answer = Path(folder) / "answer.TextGrid"
        done = subprocess.run(
            [*module_command("speechctc"), *arguments(wav, str(answer), *rest)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        if answer.exists():
            files.write_bytes(Path(grid), answer.read_bytes())
    for path in map(Path, (wav, *rest[4:])):
        if path.name.startswith("speechctc-"):  # as the script names it, never a file of the user's own
            path.unlink(missing_ok=True)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        files.write_text(Path(error), said[-1] if said else f"it ended with status {done.returncode}")


def arguments(
    wav: str, grid: str, command: str, model: str, symbols: str, language: str = "", stretches: str = ""
) -> list[str]:
    """Return the command line: decode, align or score-phones, of the whole recording or of the intervals of a tier.

    Parameters
    ----------
    wav, grid : str
        The recording, and the TextGrid to write.
    command, model, symbols : str
        As on the command line.
    language : str
        Of the words in the intervals, or the file of a dictionary; if empty, the labels are phones.
    stretches : str
        A TextGrid with a tier ``stretches``; if empty, the whole recording is recognised.
    """
    chosen = ["--model", model.strip() or "english", "--symbols", symbols.strip() or "own", "--out", grid]
    words = language.strip()
    if command != "decode":
        chosen += ["--words" if words else "--transcripts", stretches, "--tier", "stretches", "--limits"]
        if words:
            chosen += ["--dictionary" if Path(words).is_file() else "--language", words]
    elif stretches:
        chosen += ["--textgrids", stretches, "--tier", "stretches"]
    return [command, wav, *chosen]


if __name__ == "__main__":
    main(*sys.argv[1:])
