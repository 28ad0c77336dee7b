"""What the Praat scripts run: a command of speechctc on a recording that Praat wrote; Praat shows why it failed."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from speechctc.core import files
from speechctc.studio.plugins import arguments, run


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
        wrong = run(arguments(wav, str(answer), *rest))
        if answer.exists():
            files.write_bytes(Path(grid), answer.read_bytes())
    for path in map(Path, (wav, *rest[4:])):
        if path.name.startswith("speechctc-"):  # as the script names it, never a file of the user's own
            path.unlink(missing_ok=True)
    if wrong:
        files.write_text(Path(error), wrong)


if __name__ == "__main__":
    main(*sys.argv[1:])
