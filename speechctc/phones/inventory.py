"""Phone labels and their spellings; inventories: the sets of TIMIT and CMU, found sets, class numbers; texts of phones.

The blank is class 0 and phones count from 1: a net over an inventory of N phones has N + 1 classes.

References
----------
.. [1] K.-F. Lee and H.-W. Hon, "Speaker-independent phone recognition using hidden Markov models", IEEE Trans. ASSP
   37(11), 1989, table I: TIMIT's 61 labels to 48 for training and 39 for scoring, the glottal stop q left out.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from speechctc.core.bundled import bundled_texts
from speechctc.core.errors import InputError, first_few

TABLES = bundled_texts(__file__)


def pairs(text: str) -> dict[str, str]:
    """Return a table that is written as pairs of two words, a ``>`` between them."""
    return dict(pair.split(">") for pair in text.split())


TIES = "\u0361\u035c"  # the tie bars above and below two letters, as in `t͡s`
EQUIVALENTS = pairs(TABLES["equivalents"])  # characters that are another way to write an IPA symbol, and that symbol
_CONTROLS = map(chr, (*range(0x20), *range(0x7F, 0xA0)))
_SHAPES = str.maketrans(EQUIVALENTS | pairs(TABLES["look_alikes"]) | dict.fromkeys((*TIES, *_CONTROLS), ""))
_DIGITS = str.maketrans("˥˦˧˨˩¹²³⁴⁵", "5432112345")
_RAISED = str.maketrans("ʰʷʲ", "hwj")
_TONE_LETTERS, _TONE_MARKS = frozenset("˥˦˧˨˩"), frozenset("\u0300\u0301\u0302\u0304\u030b\u030c\u030f")
LETTER_TONES = "˥˦˧˨˩ꜛꜜ↗↘⁰¹²³⁴⁵⁶⁷⁸⁹"  # tones that are written after a letter, not on it
_STRESS = "'ˌ"  # before a label; the shape of ˈ is '


def nfc(label: str) -> str:
    """Return the label in Unicode's composed form, NFC: ``ã`` as one character, not as a letter and a tilde."""
    return label if label.isascii() else unicodedata.normalize("NFC", label)


def seen(label: str) -> str:
    """Return a label without characters of format, which fonts do not show: spaces of no width, marks of direction."""
    return label if label.isascii() else "".join(sign for sign in label if unicodedata.category(sign) != "Cf")


def tones_joined(label: str) -> str:
    """Return a label in NFD, with diacritics between two parts of a tone before them: ``o˥˧̃˧˩`` as ``õ˥˧˧˩``."""
    signs = unicodedata.normalize("NFD", label)
    runs = groupby(signs, key=lambda sign: sign in LETTER_TONES or unicodedata.combining(sign) > 0)
    parts = ("".join(sorted(run, key=lambda sign: sign in LETTER_TONES) if marks else run) for marks, run in runs)
    return "".join(parts)


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
    shape = nfc(seen(tones_joined(label).translate(_SHAPES)))
    shape = shape.lstrip(_STRESS) or shape
    capitals = len(shape) > 1 and shape.isascii() and (shape.isupper() or shape.istitle())
    return shape.lower() if capitals else shape


def with_code_points(label: str) -> str:
    """Return a label with the code points of its characters, to tell look-alikes apart: ``ɡ = U+0261``."""
    return f"{label} = {' '.join(f'U+{ord(sign):04X}' for sign in label)}"


BLANK = 0
FOUND = "found"
# Labels of pauses, in TIMIT and elsewhere. A pause has no limit to its duration.
SILENCES = frozenset(("h#", "pau", "epi", "sil", "sp", "spn", "<sil>", "SIL", "<p:>", "_", "#"))


TIMIT61 = tuple(TABLES["timit61"].split())
CMU39 = tuple(TABLES["cmu39"].split())

TIMIT_TO_48, _48_TO_39 = pairs(TABLES["timit_to_48"]), pairs(TABLES["48_to_39"])
# TIMIT's 61 labels to those of the 48 and of the 39 [1]_; labels that stay as they are, are not in the tables.
TIMIT_TO_39 = {phone: _48_TO_39.get(to, to) for phone, to in TIMIT_TO_48.items()} | _48_TO_39
TIMIT48 = tuple(sorted({TIMIT_TO_48.get(phone, phone) for phone in TIMIT61} - {"q"}))
TIMIT39 = tuple(sorted({TIMIT_TO_39.get(phone, phone) for phone in TIMIT61} - {"q"}))

# TIMIT's closures, and the phones that they begin.
BURSTS = {f"{stop}cl": (stop, *more) for stop, more in zip("bdgptk", ((), ("jh",), (), (), ("ch",), ()), strict=True)}

NAMED = {"timit61": TIMIT61, "timit48": TIMIT48, "timit39": TIMIT39, "cmu39": CMU39}


@dataclass(frozen=True)
class Inventory:
    """A set of phones in a fixed order, which gives them their class numbers.

    Attributes
    ----------
    name : str
        One of the named sets (``"timit61"``, ``"timit48"``, ``"timit39"``, ``"cmu39"``) or ``"found"``.
    phones : tuple of str
        Phone ``phones[i]`` is class ``i + 1``; class 0 is the blank.
    """

    name: str
    phones: tuple[str, ...]

    @cached_property
    def _class_of(self) -> dict[str, int]:
        """Return the class of each phone, as it is spelt and in NFC: sets of older models may hold other forms."""
        classes = {phone: k for k, phone in enumerate(self.phones, start=BLANK + 1)}
        return {nfc(phone): k for phone, k in classes.items()} | classes

    def normalise(self, label: str) -> str:
        """Return the label in the spelling of this set.

        Named sets are in lower case, and cmu39 has no stress digits (``AH0``). Labels of other sets are in Unicode's
        NFC, unless the set contains the label as given.
        """
        if self.name not in NAMED:
            return label if label in self._class_of else nfc(label)
        lower = label.lower()
        return lower[:-1] if self.name == "cmu39" and lower[-1:] in {"0", "1", "2"} else lower

    def encode(self, phones: Iterable[str]) -> list[int]:
        """Return the class number of each phone; labels are normalised first.

        Raises
        ------
        InputError
            A label is not in this set.
        """
        labels = [self.normalise(label) for label in phones]
        for label in labels:
            if label not in self._class_of:
                raise InputError(f"the label {label!r} is not in the phone set {self.name}", self._advice(label))
        return [self._class_of[label] for label in labels]

    def decode(self, classes: Iterable[int]) -> list[str]:
        """Return the phone of each class number.

        Raises
        ------
        ValueError
            A number is 0, the blank, or larger than the number of phones.
        """
        numbers = [int(k) for k in classes]
        if any(not BLANK < k <= len(self.phones) for k in numbers):
            raise ValueError(f"the classes {numbers} are not all phones of {self.name}: 1 to {len(self.phones)}")
        return [self.phones[k - 1] for k in numbers]

    def _advice(self, label: str) -> str:
        others = [name for name, phones in NAMED.items() if label.lower() in phones and name != self.name]
        if others:  # the wrong set may have been named
            return f"correct it, or set corpus.phones to a set that contains it: {', '.join(others)}"
        near = difflib.get_close_matches(label, self.phones, n=3, cutoff=0.4)
        return f"correct it (the set: {' '.join(near or self.phones)}), or choose another set with corpus.phones"


def frames_needed(classes: Sequence[int]) -> int:
    """Return the fewest output frames that hold a sequence: one each, and a blank between equal ones."""
    return len(classes) + sum(a == b for a, b in pairwise(classes))


def check_labels(labels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return labels read from a file; they are distinct non-empty strings without control characters.

    Raises
    ------
    ValueError
        They are not; the message quotes the first wrong one.
    """
    for label in labels:
        if not isinstance(label, str) or not label:
            raise ValueError(f"the label {label!r:.60} is not text")
        if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in label):
            raise ValueError(f"the label {label!a:.60} holds a line break or another control character")
    if len(set(labels)) != len(labels):
        raise ValueError("a label occurs twice")
    return labels


def named_inventory(name: str) -> Inventory:
    """Return a named set.

    Raises
    ------
    InputError
        No set has that name.
    """
    if name not in NAMED:
        near = difflib.get_close_matches(name, NAMED, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the sets are: {', '.join(NAMED)}"
        raise InputError(f"there is no phone set {name!r}", hint)
    return Inventory(name, NAMED[name])


def inventory_of(labels: Iterable[str]) -> Inventory:
    """Return the set of distinct labels, in Unicode's NFC and alphabetical order, named ``"found"``."""
    return Inventory(FOUND, tuple(sorted({nfc(label) for label in set(labels)})))


Pronunciations = tuple[tuple[str, ...], ...]


class Word(NamedTuple):
    """A word of a text, without the punctuation around it, and its pronunciations, the most likely first.

    No pronunciations: nothing can read the word.
    """

    text: str
    pronunciations: Pronunciations


def encode_text(source: str, utterances: Sequence[Sequence[str]], inventory: Inventory) -> list[list[int]]:
    """Return the class numbers of utterances; `source` names them in messages.

    Raises
    ------
    InputError
        Words are not phones of the inventory: how many, and which.
    """
    number = {phone: k for k, phone in enumerate(inventory.phones, start=BLANK + 1)}
    spelled = [[inventory.normalise(word) for word in utterance] for utterance in utterances]
    if unknown := [phone for phones in spelled for phone in phones if phone not in number]:
        known = f"the {len(number)} phones ({inventory.name})"
        what = f"{source}: {len(unknown)} words are not of {known}: {first_few([*dict.fromkeys(unknown)])}"
        raise InputError(what, "correct them, or choose a language model or a phone set that has them")
    return [[number[phone] for phone in phones] for phones in spelled]
