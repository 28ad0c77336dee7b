"""eSpeak NG's names of phonemes as phones in IPA: one label for each phone, without stress and tone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from speechctc.phones.articulation import SOUNDS

# Names that are not IPA, in some of its languages.
_NAMES = dict(
    pair.split(">")
    for pair in (
        'A>ɑ N>ŋ S>ʃ X>χ dZ>dʒ tS>tʃ l#>l̥ r#>r̥ tl#>tl̥ l->ɫ t[>t̪ e->e u->ʉ u">ʉ tɕh>tɕʰ ph>pʰ s.>ʂ i.>ɨ r.>ɽ n^>ɲ '
        "k`>kʼ t`>tʼ tʃ`>tʃʼ ss>sː sx>ɧ aa>aː ee>eː nɡ>ŋ inɡ>iŋ Φ>ɸ ε>ɛ"
    ).split()
)
_VOWELS = "".join(symbol for symbol, sound in SOUNDS.items() if sound.vowel) + "ɚɝ"
_CONSONANTS = "".join(symbol for symbol, sound in SOUNDS.items() if not sound.vowel) + "ɡɫ"
# One or two vowels with their modifiers, or anything before the next vowel.
_PHONE = re.compile(f"(?:[{_VOWELS}][^{_VOWELS}{_CONSONANTS}]*){{1,2}}|[^{_VOWELS}]+")
_LONG = re.compile("[:ː]+")
_LANGUAGE = re.compile(r"\((.*)\)")
_MODIFIERS = ("Lm", "Mn", "Sk")  # Unicode's categories of length, aspiration, diacritics


class Piece(NamedTuple):
    """A phone made from a phoneme of eSpeak NG.

    Attributes
    ----------
    label : str
        In IPA.
    phoneme, last : int
        The indices of its first and last phoneme: a modifier is a phoneme of eSpeak NG, and part of the phone before.
    part, parts : int
        It is part number `part` of `parts` equal parts of that phoneme: a vowel with r is two phones.
    language : str
        The language that the phoneme belongs to.
    """

    label: str
    phoneme: int
    last: int
    part: int
    parts: int
    language: str


def pieces(names: Sequence[str], language: str) -> list[Piece]:
    """Return the phones of phonemes that eSpeak NG named in IPA.

    Pauses are left out. A phoneme that is only a modifier, such as ``ʲ``, is joined to the phone before it. A vowel and
    a consonant in one phoneme (``ɔːɹ``), or more than two vowels (``aɪɚ``), are divided.

    Parameters
    ----------
    names : sequence of str
        Without stress marks. ``(en)`` says that what follows is in another language.
    language : str
        The language of the first.
    """
    made: list[Piece] = []
    joined = False  # whether the phoneme before was a phone
    for k, name in enumerate(names):
        if switch := _LANGUAGE.fullmatch(name):
            language = switch.group(1)
            continue
        labels = _labels(name)
        if labels and joined and _only_modifiers(labels[0]):
            made[-1] = made[-1]._replace(label=unicodedata.normalize("NFC", made[-1].label + labels[0]), last=k)
            continue
        if labels and not _only_modifiers(labels[0]):
            made += [Piece(label, k, k, part, len(labels), language) for part, label in enumerate(labels)]
        joined = bool(labels)
    return made


@lru_cache(maxsize=4096)
def _labels(name: str) -> tuple[str, ...]:
    """Return the labels of one name: usually one, and none for a pause."""
    name = _LONG.sub("ː", _NAMES.get(name, name).strip("_ˈˌ").replace("?", "ʔ"))
    letters = unicodedata.normalize("NFD", name).replace("c\u0327", "ç")
    return tuple(unicodedata.normalize("NFC", part) for part in _PHONE.findall(letters))


def _only_modifiers(label: str) -> bool:
    return all(unicodedata.category(letter) in _MODIFIERS for letter in label)
