"""Spellings of phone labels: their Unicode form, and several spellings of one phone."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from speechctc.core.errors import first_few
from speechctc.core.text_files import read_tables

TABLES = read_tables(__file__)


def pairs(text: str) -> dict[str, str]:
    """Return a table that is written as pairs of two words, a ``>`` between them."""
    return dict(pair.split(">") for pair in text.split())


TIES = "\u0361\u035c"  # the tie bars above and below two letters, as in `t͡s`
EQUIVALENTS = pairs(TABLES["equivalents"])  # characters that are another way to write an IPA symbol, and that symbol
_SHAPES = str.maketrans(EQUIVALENTS | pairs(TABLES["look_alikes"]) | dict.fromkeys(TIES + TABLES["invisible"], ""))
_DIGITS = str.maketrans("˥˦˧˨˩¹²³⁴⁵", "5432112345")
_RAISED = str.maketrans("ʰʷʲ", "hwj")
_TONE_LETTERS, _TONE_MARKS = frozenset("˥˦˧˨˩"), frozenset("\u0300\u0301\u0302\u0304\u030b\u030c\u030f")
_STRESS = "'ˌ"  # before a label; the shape of ˈ is '


def nfc(label: str) -> str:
    """Return the label in Unicode's composed form, NFC: ``ã`` as one character, not as a letter and a tilde."""
    return label if label.isascii() else unicodedata.normalize("NFC", label)


class _Forms(dict[str, str]):
    """The composed form of every label that was asked for."""

    def __missing__(self, label: str) -> str:
        self[label] = form = nfc(label)
        return form


class Spellings:
    """Convert labels to NFC, and count those that were in another form."""

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
        """Return which labels were in another form and how often, in words; nothing where there were none."""
        twofold = {label: count for label, count in self._changed.items() if label in self._forms}
        other = {label: count for label, count in self._changed.items() if label not in self._forms}
        notes = []
        if twofold:
            what = f"{_labels(twofold)} written in two ways, as one character and as letter and mark"
            notes.append(f"{what}: {first_few(sorted(twofold))}; both are read as one phone (Unicode NFC)")
        if other:
            what = f"{_labels(other)} written as a letter with a mark, now read as one character"
            notes.append(f"{what} (Unicode NFC): {first_few(sorted(other))}")
        return notes


def _labels(counts: Mapping[str, int]) -> str:
    count = sum(counts.values())
    return "1 label was" if count == 1 else f"{count} labels were"


def spelling_variants(labels: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the groups of different labels that may be one phone.

    Labels of a group look alike (``g`` and ``ɡ``), are two notations of a sound (``ʦ`` and ``t͡s``, ``kh``, ``kʰ``) or
    of a tone (``53`` and ``˥˧``), have tones as marks and as letters (``á`` and ``a˥˧``), or differ only in a stress
    mark before them or in capitals (``AA`` and ``aa``; but ``tS`` and ``ts`` are two phones of SAMPA).
    """
    groups: dict[str, list[str]] = {}
    toned: dict[str, list[str]] = {}
    for label in sorted(set(labels)):
        groups.setdefault(spelling_key(label).translate(_RAISED | _DIGITS), []).append(label)
        toned.setdefault(_toneless(label), []).append(label)
    found = [tuple(group) for group in groups.values() if len(group) > 1]
    return found + [tuple(own) for group in toned.values() if len(own := _in_two_notations(group)) > 1]


def _toneless(label: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFD", label) if sign not in _TONE_LETTERS | _TONE_MARKS)


def _in_two_notations(labels: Iterable[str]) -> list[str]:
    """Return the labels that have a tone, if some have it as a mark and others as letters; else none."""
    signs = {label: frozenset(unicodedata.normalize("NFD", label)) for label in labels}
    marks, letters = ([one for one in signs if signs[one] & kind] for kind in (_TONE_MARKS, _TONE_LETTERS))
    return sorted({*marks, *letters}) if marks and letters and {*marks} != {*letters} else []


def spelling_key(label: str) -> str:
    """Return a form of the label that is the same for labels that look alike or are two notations of a sound."""
    shape = nfc(unicodedata.normalize("NFD", label).translate(_SHAPES))
    shape = shape.lstrip(_STRESS) or shape
    capitals = len(shape) > 1 and shape.isascii() and (shape.isupper() or shape.istitle())
    return shape.lower() if capitals else shape


def with_code_points(label: str) -> str:
    """Return a label with the code points of its characters, to tell look-alikes apart: ``ɡ = U+0261``."""
    return f"{label} = {' '.join(f'U+{ord(sign):04X}' for sign in label)}"
