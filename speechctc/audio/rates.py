"""The sample rates that recordings of speech may have."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from speechctc.core.errors import InputError

LOWEST = 1000  # Hz


class _Open(Protocol):
    samplerate: int

    def close(self) -> None: ...


def check_rate(file: _Open, path: Path | str) -> None:
    """Refuse, and close, a recording whose rate is too low for speech: read at 1 Hz, a minute would become months.

    Raises
    ------
    InputError
        It is.
    """
    if file.samplerate < LOWEST:
        file.close()
        raise InputError(
            f"{path}: its sample rate is {file.samplerate} Hz, too low for speech",
            "if that is wrong, export it again at its own rate; else leave it out",
        )
