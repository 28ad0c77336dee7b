"""eSpeak NG's names of phonemes as phones in IPA: one label for each phone, without stress and tone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from speechctc.phones.articulation import SOUNDS
from speechctc.phones.labels import TIES

# Names that are not IPA: where a phoneme has no name in IPA, eSpeak NG gives its own mnemonic.
_NAMES = dict(
    pair.split(">")
    for pair in (
        'A>ɑ K>tɬʰ N>ŋ S>ʃ X>χ dZ>dʒ tS>tʃ l#>l̥ m#>m̥ n#>n̥ ŋ#>ŋ̊ ɲ#>ɲ̊ r#>r̥ tl#>tl̥ l->ɫ t[>t̪ d[>d̪ u">ʉ u":>ʉː u"ː>ʉː '
        "kh>kʰ ph>pʰ th>tʰ tsh>tsʰ tɕh>tɕʰ k_h>kʰ p_h>pʰ t_h>tʰ s.>ʂ ts.>ʈʂ ts.h>ʈʂʰ r.>ɽ "
        "a.>aˤ i.>iˤ u.>uˤ a->a e->e o->ɤ u->ɯ y->y ə->ə ɛ->ɛ ɔ->ɔ ɔ+>ɔ z->z ŋ->ŋ "
        "s^>sʲ t^>tʲ d^>dʲ k^>c n^>ɲ ɣ^>ʝ ɪ^>ɪ "
        "k`>kʼ p`>pʼ q`>qʼ t`>tʼ tʃ`>tʃʼ ss>sː sx>ɧ aa>aː ee>eː Φ>ɸ ε>ɛ ᵻ>ɪ ʦ>ts ᵐ>m ᵑ>ŋ ⁿ>n e̪u>eu "
        "k̃>k ɡ̃>ɡ ɣ̃>ɣ ʃ̃>ʃ tʃ̃>tʃ dʒ̃>dʒ"
    ).split()
)
_OWN_NAMES = {  # by language: names that mean another sound there
    language: dict(pair.split(">") for pair in pairs.split())
    for language, pairs in {
        "bg": "\x01>dzʲ",
        "cmn": "i.>ɨ i̪>ɨ ər>ɚ yu>y",
        "da": "?a>aˀ ?ɑ>ɑˀ ?ε>ɛˀ ʔe>eˀ ʔi>iˀ ʔo>oˀ ʔu>uˀ ʔy>yˀ ʔœ>œˀ ʔʌ>ʌˀ",
        "hak": "i.>ɨ",
        "ko": "q>k̚ k->k͈ p->p͈ t->t͈ d->t͈ s->s͈ q->k͈",
        "ky": "oe>ø oe:>øː X>χ",
        "my": "hs>sʰ ht>tʰ ky>tɕ th>θ",
        "tn": "k->k",
        "vi": "y>ɯ yə>ɯə cr>ʈʂ t>tʰ e->ɛ ə->ə",
        # letters of Jyutping
        "yue": "b>p p>pʰ d>t t>tʰ ɡ>k k>kʰ z>ts c>tsʰ a>ɐ ai>ɐi au>ɐu anɡ>ɐŋ eo>ɵ eoi>ɵy oe>œ oenɡ>œŋ yu>y "
        "aa>aː aai>aːi aau>aːu aanɡ>aːŋ enɡ>ɛŋ e>ɛ inɡ>ɪŋ onɡ>ɔŋ o>ɔ unɡ>ʊŋ",
    }.items()
}
_UNRELEASED = {"pʰ": "p", "tʰ": "t", "kʰ": "k"}
_VOWELS = "".join(symbol for symbol, sound in SOUNDS.items() if sound.vowel) + "ɚɝ"
_CONSONANTS = "".join(symbol for symbol, sound in SOUNDS.items() if not sound.vowel) + "ɡɫ"
# One or two vowels with their modifiers, or anything before the next vowel.
_PHONE = re.compile(f"(?:[{_VOWELS}][^{_VOWELS}{_CONSONANTS}]*){{1,2}}|[^{_VOWELS}]+")
_LONG = re.compile("[:ː]+")
_UNNAMED = re.compile("[0-9`]+")  # tones, and a mark on vowels of Cherokee and Latvian
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
        labels = _labels(name, language.partition("-")[0])
        if labels and joined and _only_modifiers(labels[0]):
            made[-1] = made[-1]._replace(label=_with_modifier(made[-1].label, labels[0]), last=k)
            continue
        if labels and not _only_modifiers(labels[0]):
            made += [Piece(label, k, k, part, len(labels), language) for part, label in enumerate(labels)]
        joined = bool(labels)
    return [*map(_in_coda, made, [*made[1:], None])]


def _in_coda(piece: Piece, after: Piece | None) -> Piece:
    """Return a phone of Cantonese, whose stops are aspirated only before a vowel; those of others as they are."""
    if piece.language != "yue" or piece.label not in _UNRELEASED or (after and after.label[0] in _VOWELS):
        return piece
    return piece._replace(label=_UNRELEASED[piece.label])


@lru_cache(maxsize=4096)
def _labels(name: str, language: str) -> tuple[str, ...]:
    """Return the labels of one name: usually one, and none for a pause or a tone."""
    name = _OWN_NAMES.get(language, {}).get(name) or _NAMES.get(name, name)
    name = _UNNAMED.sub("", name.replace("nɡ", "ŋ").replace("?", "ʔ")).strip("_ˈˌ")
    name = _LONG.sub("ː", name)
    letters = unicodedata.normalize("NFD", name).replace("c\u0327", "ç")
    letters = "".join(letter for letter in letters if letter not in TIES)  # most of its languages have none
    return tuple(unicodedata.normalize("NFC", part) for part in _PHONE.findall(letters))


def _with_modifier(label: str, modifier: str) -> str:
    """Return a label with a modifier after it; one that it has already is not doubled."""
    return label if label.endswith(modifier) else unicodedata.normalize("NFC", label + modifier)


def _only_modifiers(label: str) -> bool:
    return all(unicodedata.category(letter) in _MODIFIERS for letter in label)
