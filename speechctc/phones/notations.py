"""Notations of phones, IPA, X-SAMPA, ARPABET and Praat's: in which labels are, and how they are written in another.

A user's table may say what each label is read as.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from speechctc.core.errors import InputError, first_few
from speechctc.core.text_files import read_text
from speechctc.phones.articulation import SOUNDS, ipa, is_arpabet, plain, sounds_of, spelling
from speechctc.phones.inventory import CMU39, SILENCES, TIMIT61, nfc, spelling_key

Notation = Literal["ipa", "xsampa", "arpabet"]
CHOICES = ("own", "ipa", "xsampa", "arpabet")
MIXED = 3  # labels that also stand in IPA, from which a corpus has two notations
TABLE = Path(__file__).with_name("xsampa.tsv")
_SURE = frozenset("@{}\\`")
_CAPITALS = frozenset("ABCDEGHIJKLMNOPQRSTUVXYZ")
_REMARK = re.compile(r"[<\[({*].*[>\])}*]")  # <p:>, [noise]
MIN_SIGNS = 3  # signs that only X-SAMPA has, from which labels are taken for it
_ONLY_XSAMPA = frozenset('ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@{}&?\\`"%_~=:<>^')


class Symbols(NamedTuple):
    """How phones are written, by the model's labels; and what the user should know about it, or ``""``."""

    written: Mapping[str, str]
    note: str = ""


def choose_symbols(phones: Sequence[str], choice: str) -> Symbols:
    """Return how phones are written.

    Parameters
    ----------
    phones : sequence of str
        The labels of a model.
    choice : str
        ``"own"`` (as they are), ``"ipa"``, ``"xsampa"``, ``"arpabet"``, or a file: a table of two columns without a
        header, a label and its symbol. A label that has no symbol stays as it is; pauses do, too.

    Raises
    ------
    InputError
        The choice is neither a notation nor a file, or the table gives a label several symbols.
    """
    if choice == "own":
        return Symbols({})
    if choice in CHOICES:
        kind = notation_of(phones)
        found = {phone: _written(phone, kind, choice) for phone in phones if phone not in SILENCES}
    elif Path(choice).is_file():
        table = read_map(Path(choice)).phones
        if several := [label for label, symbols in table.items() if len(symbols) != 1]:
            what = f"{choice}: not one symbol for {first_few(several, 3)}"
            raise InputError(what, "a line has a label, a tab, a symbol")
        found = {phone: table[nfc(phone)][0] if nfc(phone) in table else None for phone in phones}
    else:
        raise InputError(f"--symbols {choice}: no such file", f"choose one of {', '.join(CHOICES)}, or give a table")
    written = {phone: symbol for phone, symbol in found.items() if symbol is not None}
    return Symbols(written, _note(choice, written, [phone for phone, symbol in found.items() if symbol is None]))


def notation_of(phones: Sequence[str]) -> Notation:
    """Return the notation that labels seem to be in: ARPABET, X-SAMPA, or else IPA."""
    if is_arpabet(phones):
        return "arpabet"
    signs = "".join(phone for phone in phones if phone not in SILENCES)
    return "xsampa" if signs.isascii() and _ONLY_XSAMPA.intersection(signs) else "ipa"


def is_xsampa(labels: Iterable[str]) -> bool:
    """Return whether the labels of a corpus are surely X-SAMPA or SAMPA.

    Nearly all are ASCII, and one phone each in X-SAMPA. They have two signs or more that no other notation has:
    ``@``, ``{`` and the like, or capitals beside their small letters, such as ``S`` beside ``s``. They are not ARPABET,
    have no tones as digits (``a1`` and ``a2``), and are not all of one sign with many digits, as in DISC of CELEX.
    """
    own = sorted({label for label in labels if label not in SILENCES and not _REMARK.fullmatch(label)})
    if is_arpabet(own) or _is_disc(own) or _has_tone_digits(own):
        return False
    read = [label for label in own if label.isascii() and (sound := from_xsampa(label)) and _is_short(sound)]
    signs = set("".join(read))
    are_sure = len(signs & _SURE | _capitals_beside(signs)) >= MIN_SIGNS
    return len(read) >= 0.9 * len(own) and are_sure and not _are_kirshenbaum(signs)


def xsampa_in_ipa(labels: Iterable[str]) -> dict[str, str]:
    """Return each label in IPA if all are one phone each in X-SAMPA, and some are none in IPA; else nothing."""
    own = sorted({label for label in labels if label not in SILENCES})
    found = {label: from_xsampa(label) or "" for label in own}
    are_read = all(label.isascii() and _is_short(found[label]) for label in own) and not is_arpabet(own)
    return found if are_read and not all(map(sounds_of, own)) else {}


def are_other_ipa(labels: Iterable[str], phones: Sequence[str]) -> bool:
    """Return whether labels are IPA or X-SAMPA, and some are none of a model's phones, which are ARPABET."""
    own = {label for label in labels if label not in SILENCES}
    lacking = [label for label in own if label.lower().rstrip("012") not in phones]
    if not lacking or not is_arpabet(phones) or is_arpabet(list(own)):
        return False
    in_ipa = sum(sounds_of(spelling(label)) != () for label in lacking)
    surely_not = sum(len(label) > 1 for label in own) - sum(len(label) > 1 for label in lacking)
    return in_ipa > max(surely_not, len(lacking) / 2) or (
        notation_of(list(own)) == "xsampa" and bool(xsampa_in_ipa(own))
    )


def unread_notation(labels: Iterable[str]) -> str:
    """Return the name of the notation that labels seem to be in, if it is one that is not read; else ``""``."""
    own = [label for label in labels if label not in SILENCES and not _REMARK.fullmatch(label)]
    if is_arpabet(own) or not all(map(str.isascii, own)):
        return ""
    if _is_disc(own):
        return "DISC, of CELEX and LaBB-CAT"
    signs = set("".join(own))
    are_surely = _are_kirshenbaum(signs) and "@" in signs and len(_capitals_beside(signs)) >= MIN_SIGNS
    return "Kirshenbaum's, of eSpeak" if are_surely else ""


def _capitals_beside(signs: set[str]) -> set[str]:
    """Return the capitals whose small letters are there, too."""
    return {sign for sign in signs & _CAPITALS if sign.lower() in signs}


def _are_kirshenbaum(signs: set[str]) -> bool:
    """Return whether ``&`` is there, which is what ``{`` is in X-SAMPA."""
    return "&" in signs and "{" not in signs


def _is_disc(labels: Sequence[str]) -> bool:
    return all(len(label) == 1 for label in labels) and sum(label.isdecimal() for label in labels) >= MIN_SIGNS


def _has_tone_digits(labels: Iterable[str]) -> bool:
    """Return whether labels differ in a digit at their end alone."""
    digits = defaultdict[str, set[str]](set)
    for label in labels:
        if label[-1:].isdecimal():
            digits[label[:-1]].add(label[-1])
    return any(len(found) > 1 for base, found in digits.items() if base)


def _is_short(sound: str) -> bool:
    """Return whether a text in IPA has at most three sounds, as a phone has."""
    return 0 < sum(letter in SOUNDS for letter in plain(sound)) <= 3


def mixed_notations(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Return the labels in ARPABET or X-SAMPA whose sound has a label in IPA too, each with the one in IPA.

    A corpus in two notations has many of them. Where there are fewer than three, nothing is returned: a language may
    have ``ng`` beside ``ŋ``.
    """
    of_shape = {spelling_key(label): label for label in sorted(set(labels))}
    pairs = []
    for label in of_shape.values():
        others = [other for sound in _as_ipa(label) if (other := of_shape.get(spelling_key(sound), label)) != label]
        pairs += [(label, other) for other in others[:1]]
    return pairs if len(pairs) >= MIXED else []


def _as_ipa(label: str) -> tuple[str, ...]:
    """Return the spellings in IPA of a label that is no IPA; nothing where it may be IPA as it stands."""
    if label in SILENCES or not label.isascii():
        return ()
    if len(label) > 1 and is_arpabet([label]):
        return ipa(label, arpabet=True)
    sound = from_xsampa(label) if _ONLY_XSAMPA.intersection(label) else None
    return () if sound is None else (sound,)


def to_xsampa(label: str) -> str | None:
    """Return an IPA label in X-SAMPA; None if a sign of it has no symbol."""
    return _translated(unicodedata.normalize("NFD", label).replace("c\u0327", "ç"), _tables()[0])


def from_xsampa(label: str) -> str | None:
    """Return an X-SAMPA label in IPA, in NFC; None if a part of it is not X-SAMPA."""
    if label[:1] == "=" and label[1:].isalpha():  # SAMPA has the mark of a syllabic consonant before it
        label = label[1:] + "="
    found = _translated(label, _tables()[1])
    return None if found is None else nfc(found)


def _written(phone: str, kind: Notation, to: str) -> str | None:
    if kind == to:
        return phone
    if kind == "arpabet":
        usual = ipa(phone, arpabet=True)[0]
        sound = None if usual == phone and len(phone) > 1 else usual.replace("g", "ɡ")
    else:
        sound = from_xsampa(phone) if kind == "xsampa" else phone
    if sound is None or to == "ipa":
        return sound
    write = to_xsampa if to == "xsampa" else _arpabet().get
    found = (write(spelled) for spelled in (sound if to == "xsampa" else plain(sound), spelling(sound)))
    return next(filter(None, found), None)


@cache
def _arpabet() -> dict[str, str]:
    """Return the ARPABET label of IPA symbols, the most usual first; labels of CMU's set before TIMIT's others."""
    labels = [label for label in dict.fromkeys((*CMU39, *TIMIT61)) if label not in SILENCES]
    pairs = [
        (rank, label not in CMU39, plain(symbol), label)
        for label in labels
        for rank, symbol in enumerate(ipa(label, arpabet=True))
    ]
    return {symbol: label for _, _, symbol, label in sorted(pairs, reverse=True)}


@cache
def _tables() -> tuple[dict[str, str], dict[str, str]]:
    """Return the tables from IPA to X-SAMPA and back."""
    write: dict[str, str] = {}
    read: dict[str, str] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        sign, symbol = line.split("\t")
        sign = chr(int(sign[2:], 16)) if sign.startswith("U+") else unicodedata.normalize("NFC", sign)
        write.setdefault(sign, symbol)
        read.setdefault(symbol, sign)
    return write, read


def _translated(text: str, table: Mapping[str, str]) -> str | None:
    """Replace the longest parts of a text that a table has, from left to right; None if there is a rest."""
    longest, written, at = max(map(len, table)), "", 0
    while at < len(text):
        size = next((size for size in range(longest, 0, -1) if text[at : at + size] in table), 0)
        if size == 0:
            return None
        written += table[text[at : at + size]]
        at += size
    return written


def _note(choice: str, written: Mapping[str, str], left: Sequence[str]) -> str:
    parts = [f"{len(left)} phones have no symbol in it and stay as they are: {first_few(left)}"] if left else []
    same: dict[str, list[str]] = {}
    for phone, symbol in written.items():
        same.setdefault(symbol, []).append(phone)
    if alike := [f"{' and '.join(phones)} as {symbol}" for symbol, phones in same.items() if len(phones) > 1]:
        parts.append(f"several phones are written alike: {first_few(alike)}")
    return f"--symbols {choice}: {'; '.join(parts)}" if parts else ""


class LabelMap(NamedTuple):
    """A table of labels and what each is read as; and what the user should know about how it was read, or ``""``."""

    phones: dict[str, tuple[str, ...]]
    note: str = ""


def read_map(path: Path) -> LabelMap:
    """Read a table of two columns without a header: a label, and the label or labels in its place, or nothing.

    The columns are separated by tabs, or else by semicolons, commas or spaces.

    Raises
    ------
    InputError
        The file cannot be read, is empty, or has a line that is not two columns or contradicts another.
    """
    text, note = read_text(path)
    sign = next((sign for sign in "\t;," if sign in text), " ")
    phones: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.lstrip("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.split(maxsplit=1) if sign == " " else next(csv.reader([line], delimiter=sign))
        label, *others = [unicodedata.normalize("NFC", field.strip()) for field in fields]
        if not label or len(others) > 1 or label.split() != [label]:
            raise InputError(f"{path}, line {number}: {line.strip()[:80]!r} is not two columns", "correct the line")
        to = tuple(others[0].split()) if others else ()
        if phones.setdefault(label, to) != to:
            raise InputError(f"{path}, line {number}: {label!r} stands for two things", "leave one of the lines out")
    if not phones:
        raise InputError(f"{path}: no labels in it", "a line has a label, a tab, and what it is read as")
    return LabelMap(phones, note)
