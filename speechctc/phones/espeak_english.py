"""English phones of eSpeak NG, in IPA, as the 39 phones of the CMU dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from speechctc.phones.inventory import CMU39
from speechctc.phones.matching import match_phones

# Of all English accents of eSpeak NG. What is not here is the nearest by features.
_CMU = {
    ipa: cmu
    for cmu, line in (
        entry.split(maxsplit=1)
        for entry in """
aa ɑː ɑ ɒ ɒː aː | ae æ a ɛə | ah ʌ ə ɐ ɜ | ao ɔː ɔ | aw aʊ æʊ ʌʉ ɛʉ | ay aɪ ʌɪ ɑɪ ɔɪː | eh ɛ e ɛː | er ɜː ɚ ɝ ɜ˞ əɪ
ey eɪ ei æɪ eʲ eː | ih ɪ ᵻ ɨ | iy iː i | ow oʊ əʊ oː o ʌʊ əu | oy ɔɪ oɪ | uh ʊ | uw uː u ʉː ʉ
b b | ch tʃ | d d | dh ð | f f | g ɡ g | hh h | jh dʒ | k k x | l l ɫ | m m | n n | ng ŋ | p p | r ɹ r ɾʲ | s s
sh ʃ | t t ɾ ʔ | th θ t̪ | v v | w w ʍ | y j | z z | zh ʒ
""".replace("\n", "|").split("|")
        if entry.strip()
    )
    for ipa in line.split()
}
# Centring vowels are two phones of CMU's set.
_TWO = {
    "iə": ("ih", "r"),
    "ɪə": ("ih", "r"),
    "eə": ("eh", "r"),
    "ʊə": ("uh", "r"),
    "oə": ("ao", "r"),
    "ɔə": ("ao", "r"),
    "ɑə": ("aa", "r"),
}


def to_cmu(phones: Sequence[str]) -> tuple[str, ...]:
    """Return the phones of CMU's set for phones in IPA; an r that follows an r is left out.

    Phones of other languages, in words that eSpeak NG reads in those, become the nearest by features, or nothing.
    """
    return tuple(label for label, _ in cmu_sources(phones))


def cmu_sources(phones: Sequence[str]) -> list[tuple[str, int]]:
    """Return each of the phones of `to_cmu` with the index of the phone that it is for."""
    made: list[tuple[str, int]] = []
    for k, phone in enumerate(phones):
        for label in _TWO.get(phone) or _one(phone):
            if not (label == "r" and made and made[-1][0] == "r"):
                made.append((label, k))
    return made


@lru_cache(maxsize=4096)
def _one(phone: str) -> tuple[str, ...]:
    if phone in _CMU:
        return (_CMU[phone],)
    match = match_phones((phone,), CMU39).get(phone)
    return (match.phone,) if match else ()
