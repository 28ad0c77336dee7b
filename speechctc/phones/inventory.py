"""Phones: the inventories labels come from, their numbers for CTC, and the foldings that scores are named by.

The blank is class 0 and phones count from 1: a net over an inventory of N phones has N + 1 classes.

References
----------
.. [1] K.-F. Lee and H.-W. Hon, "Speaker-independent phone recognition using hidden Markov models", IEEE Trans. ASSP
   37(11), 1989, table I: TIMIT's 61 labels to 48 for training and 39 for scoring, the glottal stop q left out.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from speechctc.errors import InputError
from speechctc.phones.labels import nfc

BLANK = 0
FOUND = "found"
SILENCES = frozenset(("h#", "pau", "epi", "sil", "sp", "spn", "<sil>", "SIL", "<p:>", "_", "#"))
"""Labels of pauses, in TIMIT and elsewhere: a pause may last, where a phone may not."""


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


TIMIT61 = tuple(
    "aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh "
    "k kcl l m n ng nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh".split()
)
CMU39 = tuple(
    "aa ae ah ao aw ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw v w y z zh".split()
)
_TO_48 = _pairs(
    "ax-h:ax axr:er bcl:vcl dcl:vcl gcl:vcl pcl:cl tcl:cl kcl:cl em:m eng:ng nx:n hv:hh ux:uw h#:sil pau:sil"
)
_48_TO_39 = _pairs("ao:aa ax:ah el:l en:n ix:ih zh:sh cl:sil vcl:sil epi:sil")
_TO_39 = {phone: _48_TO_39.get(to, to) for phone, to in _TO_48.items()} | _48_TO_39
TIMIT48 = tuple(sorted({_TO_48.get(phone, phone) for phone in TIMIT61} - {"q"}))
TIMIT39 = tuple(sorted({_TO_39.get(phone, phone) for phone in TIMIT61} - {"q"}))

NAMED = {"timit61": TIMIT61, "timit48": TIMIT48, "timit39": TIMIT39, "cmu39": CMU39}


@dataclass(frozen=True)
class Inventory:
    """A set of phones in a fixed order, and their class numbers.

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
        """By the phones as they are and in NFC: the sets of older models may hold a phone in another form."""
        classes = {phone: k for k, phone in enumerate(self.phones, start=BLANK + 1)}
        return {nfc(phone): k for phone, k in classes.items()} | classes

    def normalise(self, label: str) -> str:
        """Return the label as this set spells it: lower case in named sets, no stress digit (``AH0``) in cmu39.

        Others are in Unicode's NFC, unless the set holds the label just as it is.
        """
        if self.name not in NAMED:
            return label if label in self._class_of else nfc(label)
        lower = label.lower()
        return lower[:-1] if self.name == "cmu39" and lower[-1:] in {"0", "1", "2"} else lower

    def encode(self, phones: Iterable[str]) -> list[int]:
        """Return the class number of each phone, each label normalised first.

        Raises
        ------
        InputError
            A label that is not of this set.
        """
        labels = [self.normalise(label) for label in phones]
        for label in labels:
            if label not in self._class_of:
                raise InputError(f"the label {label!r} is not of the phone set {self.name}", self._advice(label))
        return [self._class_of[label] for label in labels]

    def decode(self, classes: Iterable[int]) -> list[str]:
        """Return the phone of each class number.

        Raises
        ------
        ValueError
            The blank, or a number past the last phone: the path was not collapsed, or it is another set's.
        """
        numbers = [int(k) for k in classes]
        if any(not BLANK < k <= len(self.phones) for k in numbers):
            raise ValueError(f"classes {numbers} are not all phones of {self.name}: 1 to {len(self.phones)}")
        return [self.phones[k - 1] for k in numbers]

    def _advice(self, label: str) -> str:
        near = difflib.get_close_matches(label, self.phones, n=3, cutoff=0.4)
        # the sets that hold it, for labels of the right kind under the wrong set's name
        others = [name for name, phones in NAMED.items() if label.lower() in phones and name != self.name]
        if near and not others:
            return f"correct it (the nearest: {', '.join(near)}), or choose another set with corpus.phones"
        if others:
            return f"correct it, or set corpus.phones to a set that has it: {', '.join(others)}"
        return f"correct it (the set: {' '.join(self.phones)}), or choose another set with corpus.phones"


def check_labels(labels: Sequence[Any]) -> None:
    """See that what a file gives for phones are phones: each once, and no character that moves a cursor.

    Raises
    ------
    ValueError
        They are not; the message quotes the first.
    """
    for label in labels:
        if not isinstance(label, str) or not label:
            raise ValueError(f"the label {label!r:.60} is not a text")
        if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in label):
            raise ValueError(f"the label {label!a:.60} holds a line break or another control character")
    if len(set(labels)) != len(labels):
        raise ValueError("a label is there twice")


def named_inventory(name: str) -> Inventory:
    """Return a named set.

    Raises
    ------
    InputError
        There is no set of that name.
    """
    if name not in NAMED:
        near = difflib.get_close_matches(name, NAMED, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the sets are: {', '.join(NAMED)}"
        raise InputError(f"there is no phone set {name!r}", hint)
    return Inventory(name, NAMED[name])


def found(labels: Iterable[str]) -> Inventory:
    """Return the set of the labels given, in Unicode's NFC and alphabetical order."""
    return Inventory(FOUND, tuple(sorted({nfc(label) for label in set(labels)})))


@dataclass(frozen=True)
class Folding:
    """Which phones count as one when hypotheses are scored.

    Attributes
    ----------
    name : str
        ``"none"``, ``"timit48"``, ``"timit39"``, ``"cmu37"``, or ``"custom"`` for a mapping of the user's.
    mapping : mapping of str to str
        What a phone becomes; those not named stay as they are.
    dropped : frozenset of str
        Phones left out of both reference and hypothesis.
    protocol : str
        The folding in one line, to stand beside a score.
    """

    name: str
    mapping: Mapping[str, str]
    dropped: frozenset[str]
    protocol: str

    def apply(self, phones: Iterable[str]) -> list[str]:
        """Return the folded phones; like neighbours that arise are kept, not merged."""
        return [self.mapping.get(nfc(phone), phone) for phone in phones if nfc(phone) not in self.dropped]


_LEE_HON = "TIMIT folded to {} phones (Lee and Hon 1989), q dropped, neighbouring silences not merged"
_FOLDINGS = {
    fold.name: fold
    for fold in (
        Folding("none", {}, frozenset(), "phones as labelled, none folded"),
        Folding("timit48", _TO_48, frozenset({"q"}), _LEE_HON.format(48)),
        Folding("timit39", _TO_39, frozenset({"q"}), _LEE_HON.format(39)),
        Folding("cmu37", _pairs("ao:aa zh:sh"), frozenset(), "CMU phones folded to 37: ao as aa, zh as sh"),
    )
}

_TIMIT = frozenset((*TIMIT61, *TIMIT48))
_FOLDED = {"timit48": _TIMIT, "timit39": _TIMIT, "cmu37": frozenset(CMU39)}


def folding(spec: str | Mapping[str, str | None]) -> Folding:
    """Return a named folding, or one made of the user's mapping, where a phone mapped to nothing is dropped.

    Raises
    ------
    InputError
        There is no folding of that name, or the mapping chains (``a`` to ``b`` and ``b`` to ``c``).
    """
    if isinstance(spec, str):
        if spec not in _FOLDINGS:
            known = ", ".join(_FOLDINGS)
            raise InputError(f"there is no folding {spec!r}", f"choose one of: {known}; or give a mapping of phones")
        return _FOLDINGS[spec]
    mapping = {nfc(phone): nfc(to) for phone, to in spec.items() if to}
    dropped = frozenset(map(nfc, spec)) - frozenset(mapping)
    for phone, to in mapping.items():
        if to in dropped or mapping.get(to, to) != to:
            raise InputError(f"the folding maps {phone!r} to {to!r}, which it maps further", "map it to the last one")
    words = [f"{phone} as {to}" for phone, to in mapping.items()] + [f"{phone} dropped" for phone in sorted(dropped)]
    return Folding("custom", mapping, dropped, f"folded by the user's mapping: {', '.join(words) or 'nothing'}")


def choose_folding(spec: str | Mapping[str, str | None], phones: Inventory) -> Folding:
    """Return the folding a config means; ``"auto"`` is timit39 for TIMIT's sets and none for others.

    Raises
    ------
    InputError
        There is no such folding, or it is a named one of another phone set: its name beside the score would be untrue.
    """
    if spec == "auto":
        spec = "timit39" if phones.name.startswith("timit") else "none"
    fold = folding(spec)
    if fold.name in _FOLDED:
        others = [phone for phone in phones.phones if phone not in _FOLDED[fold.name] and phone not in SILENCES]
        if others:
            some = " ".join(others[:5]) + (" ..." if len(others) > 5 else "")
            raise InputError(
                f"score.fold={fold.name} does not fit: {len(others)} of the {len(phones.phones)} phones are not of the"
                f" set that it folds ({some})",
                "set score.fold=auto, or none, or a mapping of your own phones",
            )
    return fold


def fold_labels(phones: Sequence[str], to: str) -> tuple[list[str], list[int]]:
    """Fold TIMIT's 61 labels to a smaller set of TIMIT's.

    Returns
    -------
    folded : list of str
    kept : list of int
        Where in `phones` each came from, as some are dropped.
    """
    fold = folding("none" if to == "timit61" else to)
    kept = [k for k, phone in enumerate(phones) if phone not in fold.dropped]
    return fold.apply(phones), kept
