"""Praat's backslash symbols: how its TextGrids may write IPA."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

PRAAT = Path(__file__).with_name("praat.tsv")
_SYMBOL = re.compile(r"\\(.{0,2})")  # a backslash and two signs


def from_praat(labels: Sequence[str]) -> Sequence[str]:
    r"""Return labels with Praat's backslash symbols as Unicode, as Praat shows them: ``\sh`` as ``ʃ``.

    Where a backslash begins none of them, as in X-SAMPA, all labels stay as they are. The first time, this is logged.
    """
    found = [part for label in labels if "\\" in label for part in _SYMBOL.findall(label)]
    table = _praat() if found else {}
    if not found or not table.keys() >= set(found):
        return labels
    tell_of_praat()
    return [_SYMBOL.sub(lambda match: table[match[1]], label) if "\\" in label else label for label in labels]


@cache
def tell_of_praat() -> None:
    """Log once that labels were read as Praat shows them."""
    logging.getLogger(__name__).warning(
        "labels with Praat's backslash symbols are read as Praat shows them (\\sh as ʃ)"
    )


@cache
def _praat() -> dict[str, str]:
    """Return the two signs of each of Praat's symbols, and what it shows for them."""
    lines = (line.split("\t") for line in PRAAT.read_text(encoding="utf-8").splitlines()[1:])
    return {
        signs[1:]: "".join(chr(int(part[2:], 16)) for part in shown.split()) if shown.startswith("U+") else shown
        for signs, shown in lines
    }
