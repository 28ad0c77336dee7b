"""What a line for the user must be: one line, not too long, that a terminal can show."""

from __future__ import annotations

import unicodedata

LONGEST = 2000  # characters of a message


def line_fault(line: str) -> str:
    """Return what is wrong with a line for the user; nothing if it is one line that a terminal can show."""
    if len(line) > LONGEST:
        return f"has {len(line)} characters"
    bad = next((letter for letter in line if unicodedata.category(letter) in ("Cc", "Zl", "Zp")), None)
    return f"holds the character {bad!a}" if bad is not None else ""


def check_line(line: str) -> None:
    """See that a line that is said to the user is one line."""
    fault = line_fault(line)
    assert not fault, f"what is said {fault}"
