"""The marks of IPA: tone, stress, length, and other diacritics."""

from __future__ import annotations

import unicodedata
from typing import Literal

from speechctc.phones.inventory import LETTER_TONES, TIES

Kind = Literal["tone", "stress", "length", "diacritics"]
KINDS: tuple[Kind, ...] = ("tone", "stress", "length", "diacritics")

_TONE = LETTER_TONES + "\u0300\u0301\u0302\u0304\u030b\u030c\u030f\u1dc4\u1dc5\u1dc6\u1dc7\u1dc8\u1dc9"
STRESS = "ˈˌ"
_LENGTH = "ːˑ:\u0306"
CEDILLA = "\u0327"  # ç is a letter
_KIND_OF: dict[str, Kind | None] = {
    **dict.fromkeys(_TONE, "tone"), **dict.fromkeys(STRESS, "stress"), **dict.fromkeys(_LENGTH, "length"),
    **dict.fromkeys(TIES + CEDILLA),
}  # fmt: skip


def kind_of(sign: str) -> Kind | None:
    """Return the class of a character of a label in NFD; None for letters, tie bars and all else."""
    if sign in _KIND_OF:
        return _KIND_OF[sign]
    return "diacritics" if unicodedata.category(sign) in ("Mn", "Lm", "Sk") else None


def is_tone(label: str) -> bool:
    """Return whether a label is a tone by itself, as ``corpus.tone=split`` makes it."""
    signs = unicodedata.normalize("NFD", label).replace("◌", "")
    return signs != "" and all(kind_of(sign) == "tone" for sign in signs)
