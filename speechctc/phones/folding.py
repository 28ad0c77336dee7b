"""Foldings: which phones count as one in scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from speechctc.core.errors import InputError, first_few
from speechctc.phones.inventory import CMU39, SILENCES, TIMIT48, TIMIT61, TIMIT_TO_39, TIMIT_TO_48, Inventory, nfc
from speechctc.phones.marks import KINDS, apply_marks

STRIP = "strip:"  # what a folding by classes of marks begins with


@dataclass(frozen=True)
class Folding:
    """A mapping of phones to those that they count as.

    Attributes
    ----------
    name : str
        ``"none"``, ``"timit48"``, ``"timit39"``, ``"cmu37"``, or ``"custom"`` for a mapping given by the user.
    mapping : mapping of str to str
        What a phone becomes; phones that are not in it stay as they are.
    dropped : frozenset of str
        Phones left out of references and hypotheses.
    protocol : str
        The folding in one line, printed with each score.
    """

    name: str
    mapping: Mapping[str, str]
    dropped: frozenset[str]
    protocol: str

    def apply(self, phones: Iterable[str]) -> list[str]:
        """Return the folded phones; equal neighbours that arise are not merged."""
        return [self.mapping.get(nfc(phone), phone) for phone in phones if nfc(phone) not in self.dropped]


_LEE_HON = "TIMIT folded to {} phones (Lee and Hon 1989), q dropped, neighbouring silences not merged"
_FOLDINGS = {
    fold.name: fold
    for fold in (
        Folding("none", {}, frozenset(), "phones as labelled, none folded"),
        Folding("timit48", TIMIT_TO_48, frozenset({"q"}), _LEE_HON.format(48)),
        Folding("timit39", TIMIT_TO_39, frozenset({"q"}), _LEE_HON.format(39)),
        Folding("cmu37", {"ao": "aa", "zh": "sh"}, frozenset(), "CMU phones folded to 37: ao as aa, zh as sh"),
    )
}
_TIMIT = frozenset((*TIMIT61, *TIMIT48))
_FOLDED = {"timit48": _TIMIT, "timit39": _TIMIT, "cmu37": frozenset(CMU39)}


def parse_folding(spec: str | Mapping[str, str | None]) -> Folding:
    """Return a named folding, or one of the user's mapping, in which phones mapped to nothing are dropped.

    Raises
    ------
    InputError
        No folding has that name, or the mapping has a chain (``a`` to ``b`` and ``b`` to ``c``).
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
            what = f"the folding maps {phone!r} to {to!r}, which is folded itself"
            raise InputError(what, f"map {phone!r} to the final phone")
    words = [f"{phone} as {to}" for phone, to in mapping.items()] + [f"{phone} dropped" for phone in sorted(dropped)]
    return Folding("custom", mapping, dropped, f"folded by the user's mapping: {', '.join(words) or 'nothing'}")


def choose_folding(spec: str | Mapping[str, str | None], phones: Inventory, labels: Iterable[str] = ()) -> Folding:
    """Return the folding that a config names; ``"auto"`` is timit39 for TIMIT's sets and none for others.

    ``"strip:tone,length"`` counts phones as one that differ only in these classes of marks (see `apply_marks`), and
    `labels` that are no phones of the set.

    Raises
    ------
    InputError
        There is no such folding, or it is a named one for another phone set, whose name would be wrong for the score.
    """
    if spec == "auto":
        spec = "timit39" if phones.name.startswith("timit") else "none"
    if isinstance(spec, str) and spec.startswith(STRIP):
        return _without_marks(spec, (*phones.phones, *labels))
    fold = parse_folding(spec)
    if fold.name in _FOLDED:
        others = [phone for phone in phones.phones if phone not in _FOLDED[fold.name] and phone not in SILENCES]
        if others:
            what = f"{len(others)} of the {len(phones.phones)} phones are not in the set that it folds"
            what += f" ({first_few(others, 5)})"
            fix = "set score.fold=auto, or none, or a mapping of your own phones"
            raise InputError(f"score.fold={fold.name} does not fit: {what}", fix)
    return fold


def _without_marks(spec: str, phones: Iterable[str]) -> Folding:
    """Return the folding of phones that leaves classes of marks out."""
    kinds = [kind for kind in KINDS if kind in (named := spec.removeprefix(STRIP).split(","))]
    if not set(named) <= {*KINDS}:
        raise InputError(f"there is no folding {spec!r}", f"name classes of marks: {STRIP}{','.join(KINDS)}")
    folded = {phone: "".join(apply_marks(phone, dict.fromkeys(kinds, "strip"))) for phone in phones}
    changed = {phone: to for phone, to in folded.items() if to and to != phone}
    dropped = frozenset(phone for phone, to in folded.items() if not to)
    return Folding(spec, changed, dropped, f"phones that differ only in {' and '.join(kinds)} counted as one")


def fold_labels(phones: Sequence[str], to: str) -> tuple[list[str], list[int]]:
    """Fold TIMIT's 61 labels to a smaller set of TIMIT's.

    Returns
    -------
    folded : list of str
    kept : list of int
        The index in `phones` of each folded phone, since some are dropped.
    """
    fold = parse_folding("none" if to == "timit61" else to)
    kept = [k for k, phone in enumerate(phones) if phone not in fold.dropped]
    return fold.apply(phones), kept
