"""How labels are spelt: one Unicode form for all of them, and which ones look alike."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

_TWINS = {
    "ɡ": "g",
    ":": "ː",
    "’": "'",
    "ʼ": "'",
    "ʹ": "'",
    "ˈ": "'",
    "´": "'",
    "`": "'",
    "ʦ": "ts",
    "ʣ": "dz",
    "ʧ": "tʃ",
    "ʤ": "dʒ",
    "ʨ": "tɕ",
    "ʥ": "dʑ",
    "ɚ": "ə˞",
    "ɝ": "ɜ˞",
    "ε": "ɛ",
    "ǝ": "ə",
    "∫": "ʃ",
    "ⅼ": "l",
    "|": "ǀ",
    "‖": "ǁ",
    "!": "ǃ",
    "?": "ʔ",
    "ꞵ": "β",
    "ꭓ": "χ",
    "а": "a",  # Cyrillic letters, from here on
    "е": "e",
    "о": "o",
    "р": "p",
    "с": "c",
    "у": "y",
    "х": "x",
    "і": "i",
    "ѕ": "s",
    "ј": "j",
    "ә": "ə",
    "α": "ɑ",  # Greek letters
    "ɩ": "ι",
    "ο": "o",
    "ν": "v",
    "γ": "ɣ",
    "ϕ": "ɸ",
    "φ": "ɸ",
}
_UNSEEN = "\u0361\u035c\u200b\u200c\u200d\u2060\ufeff\u00ad"  # ties, and characters without width
_SHAPES = str.maketrans(_TWINS | dict.fromkeys(_UNSEEN, ""))


def nfc(label: str) -> str:
    """Return the label in Unicode's composed form (NFC): ``ã`` is one character, not a letter and a tilde."""
    return label if label.isascii() else unicodedata.normalize("NFC", label)


class _Forms(dict[str, str]):
    """The composed form of every label that was asked for."""

    def __missing__(self, label: str) -> str:
        self[label] = form = nfc(label)
        return form


class Spellings:
    """Brings labels to NFC, and counts those that were written otherwise."""

    def __init__(self) -> None:
        self._changed: Counter[str] = Counter()
        self._forms = _Forms()

    def read(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return the labels in NFC; equal labels are one object, so that a large corpus takes less memory."""
        raw = tuple(labels)
        composed = tuple(map(self._forms.__getitem__, raw))
        if composed != raw:
            self._changed.update(new for new, old in zip(composed, raw, strict=True) if new != old)
        return composed

    def notes(self) -> list[str]:
        """Say which labels were written otherwise, and how many; nothing where there were none."""
        twofold = {label: count for label, count in self._changed.items() if label in self._forms}
        other = {label: count for label, count in self._changed.items() if label not in self._forms}
        notes = []
        if twofold:
            notes.append(
                f"{sum(twofold.values())} labels were written in two ways, as one character and as letter and mark: "
                f"{some(sorted(twofold))}; either is read as one phone (Unicode NFC)"
            )
        if other:
            notes.append(
                f"{sum(other.values())} labels were written as letter and mark and are read as one character "
                f"(Unicode NFC): {some(sorted(other))}"
            )
        return notes


def look_alikes(labels: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the groups of labels that differ, but look alike or are two ways to write a sound (``ʦ`` and ``t͡s``)."""
    groups: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        groups.setdefault(shape(label), []).append(label)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def shape(label: str) -> str:
    """Return a label with look-alikes replaced by one of them: the same for labels that look alike."""
    return nfc(unicodedata.normalize("NFD", label).translate(_SHAPES))


def spelt_out(label: str) -> str:
    """Return a label with the numbers of its characters, to tell look-alikes apart: ``ɡ = U+0261``."""
    return f"{label} = {' '.join(f'U+{ord(sign):04X}' for sign in label)}"


def some(names: Sequence[str], most: int = 8) -> str:
    """Return names in a line, at most so many, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(counts: Counter[str], most: int = 8) -> str:
    """Return names with their counts in a line, the most frequent first."""
    return some(
        [f"{name} ({count})" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))], most
    )
