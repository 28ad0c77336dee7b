"""Writes the phones of a dictionary or of eSpeak NG as those of another set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from speechctc.phones.articulation import distance
from speechctc.phones.espeak_english import to_cmu
from speechctc.phones.inventory import CMU39
from speechctc.phones.matching import is_arpabet, match_phones

Source = Literal["ipa", "english", "arpabet"]
ALIKE = 1.0
"""Phones nearer than this differ less than in voicing."""


class Notation:
    """Phones as those of a set: the same ones by name or table, others as the nearest by their features.

    Parameters
    ----------
    target : sequence of str, optional
        The set; None: phones stay as they are.
    source : {"ipa", "english", "arpabet"}
        What the phones are: for English in eSpeak NG's IPA there is a table of CMU's set.
    is_open : bool
        The set may grow: only very similar phones become those of the set, others stay as they are.

    Attributes
    ----------
    nearest : dict of str to str
        The phones that became the nearest one so far.
    """

    def __init__(self, target: Sequence[str] | None, source: Source = "ipa", is_open: bool = False) -> None:
        self._target = target
        self._open = is_open
        self._to_cmu = source == "english" and target is not None and is_arpabet(target)
        # with them, a few labels are taken for ARPABET, too
        self._with = CMU39 if self._to_cmu or source == "arpabet" else ()
        self._known: dict[str, str | None] = {}
        self.nearest: dict[str, str] = {}

    def write(self, phones: Sequence[str]) -> tuple[str, ...] | None:
        """Return the phones in the set; None if one of them is unlike all of it."""
        if self._target is None:
            return tuple(phones)
        if self._to_cmu:
            phones = to_cmu(phones)
        self._learn(phones)
        written = [self._known[phone] for phone in phones]
        return tuple(label for label in written if label is not None) if None not in written else None

    def _learn(self, phones: Sequence[str]) -> None:
        new = [phone for phone in dict.fromkeys(phones) if phone not in self._known]
        if not new or self._target is None:
            return
        matches = match_phones((*new, *self._with), self._target)
        for phone in new:
            match = matches.get(phone)
            if self._open and (match is None or (match.how == "nearness" and distance(phone, match.phone) >= ALIKE)):
                self._known[phone] = phone
                continue
            self._known[phone] = match.phone if match else None
            if match and match.how == "nearness":
                self.nearest[phone] = match.phone
