"""The sample rates that recordings of speech may have."""

from __future__ import annotations

from pathlib import Path

from speechctc.errors import InputError

LOWEST = 1000  # Hz


def check_rate(rate: int, path: Path | str) -> None:
    """Refuse a rate that is too low for speech: read at 1 Hz, a minute of samples would become months.

    Raises
    ------
    InputError
        It is.
    """
    if rate < LOWEST:
        raise InputError(
            f"{path}: its sample rate is {rate} Hz, too low for speech",
            "if that is wrong, export it again at its own rate; else leave it out",
        )
