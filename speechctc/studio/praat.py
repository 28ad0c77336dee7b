"""What the Praat script runs: decodes a recording into a TextGrid, or writes why not into a file that Praat shows."""

from __future__ import annotations

import sys
from pathlib import Path

from speechctc.core import files
from speechctc.core.errors import InputError


def main(wav: str, grid: str, error: str, model: str, symbols: str) -> None:
    """Write the TextGrid of a recording, or else the file `error`.

    Praat runs it as ``python -m speechctc.studio.praat WAV TEXTGRID ERROR MODEL SYMBOLS``. It ends with status 0
    always, because Praat would show a message without the reason.
    """
    try:
        from speechctc.inference.recogniser import Recogniser
        from speechctc.phones.notations import choose_symbols

        recogniser = Recogniser.load(Path(model.strip() or "english"))
        written = choose_symbols(recogniser.phones, symbols).written
        files.write_text(Path(grid), recogniser.decode(Path(wav)).renamed(written).to_textgrid())
    except InputError as reason:
        files.write_text(Path(error), str(reason))
    except Exception as reason:
        files.write_text(Path(error), f"{type(reason).__name__}: {reason}")


if __name__ == "__main__":
    main(*sys.argv[1:6])
