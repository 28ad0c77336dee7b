"""The marks of IPA: tone, stress, length, and other diacritics; they are kept, stripped or split off."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Literal

from speechctc.phones.inventory import LETTER_TONES, SILENCES, TIES, nfc, tones_joined

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
OF_TONES = "corpus.tone=strip leaves tones out, corpus.tone=split makes them labels of their own"
_WITH_DIACRITIC = str.maketrans({"ɫ": "l\u0334", "ɚ": "ə˞", "ɝ": "ɜ˞"})  # letters that Unicode does not decompose
_ARPABET = re.compile(r"(aa|ae|ah|ao|aw|ax|ay|eh|er|ey|ih|iy|ow|oy|uh|uw)([012])", re.IGNORECASE)


def kind_of(sign: str) -> Kind | None:
    """Return the class of a character of a label in NFD; None for letters, tie bars and all else."""
    if sign in _KIND_OF:
        return _KIND_OF[sign]
    return "diacritics" if unicodedata.category(sign) in ("Mn", "Lm", "Sk") else None


def is_tone(label: str) -> bool:
    """Return whether a label is a tone by itself, as ``corpus.tone=split`` makes it."""
    signs = unicodedata.normalize("NFD", label).replace("◌", "")
    return signs != "" and all(kind_of(sign) == "tone" for sign in signs)


def apply_marks(label: str, choices: Mapping[Kind, str]) -> tuple[str, ...]:
    """Return a label whose marks are kept, stripped or split off, as is chosen for each class of them.

    Parameters
    ----------
    label : str
    choices : mapping of str to str
        For classes of `KINDS`, ``"keep"``, ``"strip"`` or ``"split"``. A stress digit of ARPABET is stress.

    Returns
    -------
    tuple of str
        The label, in NFC; before it the stress and after it the other marks that are split off, neighbours of one class
        together, a mark that needs a letter on a dotted circle. Empty if nothing is left.
    """
    if label in SILENCES:
        return (label,)
    if (digit := _ARPABET.fullmatch(label)) is not None:
        choice = choices.get("stress", "keep")
        return {"keep": (label,), "strip": (digit[1],), "split": (digit[2], digit[1])}[choice]
    if len(label) == 1 and kind_of(unicodedata.normalize("NFD", label)[0]) is not None:  # a mark by itself
        return () if choices.get(kind_of(label) or "tone") == "strip" else (label,)
    kept, before, after = "", list[str](), list[str]()
    if choices.get("diacritics") == "strip":
        label = label.translate(_WITH_DIACRITIC)
    for (kind, choice), group in groupby(tones_joined(label), key=lambda sign: _choice(sign, choices)):
        signs = "".join(group)
        if choice == "keep":
            kept += signs
        elif choice == "split":
            (before if kind == "stress" else after).append(_alone(signs))
    return tuple(nfc(part) for part in (*before, kept, *after) if part)


def without_marks(label: str) -> str:
    """Return a label without tone, stress, length and other diacritics; ``""`` where it has nothing else."""
    return "".join(apply_marks(label, dict.fromkeys(KINDS, "strip")))


def rare_by_tone(counts: Mapping[str, int], fewest: int) -> list[str]:
    """Return the phones that occur fewer than `fewest` times, and without their tones that often or more."""
    toneless = {phone: apply_marks(phone, {"tone": "strip"}) for phone in counts}
    sums: Counter[tuple[str, ...]] = Counter()
    for phone, count in counts.items():
        sums[toneless[phone]] += count
    rare = (phone for phone in counts if counts[phone] < fewest <= sums[toneless[phone]])
    return [phone for phone in rare if toneless[phone]]


def _choice(sign: str, choices: Mapping[Kind, str]) -> tuple[Kind | None, str]:
    kind = kind_of(sign)
    return kind, "keep" if kind is None else choices.get(kind, "keep")


def _alone(signs: str) -> str:
    return f"◌{signs}" if unicodedata.combining(signs[0]) else signs
