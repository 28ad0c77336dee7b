"""IPA symbols as articulatory features, and how far two of them are apart.

A phone is where and how it is made: a consonant by place, manner and voicing, a vowel by height, backness and rounding,
as on the chart of the International Phonetic Association (2020), which the two tables below copy.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache

# Pairs are voiceless, voiced; a dot is an empty cell.
_PLACES = "bilabial labiodental dental alveolar postalveolar retroflex palatal velar uvular pharyngeal glottal".split()
_CONSONANTS = """
plosive     p b  . .  . .  t d  . .  ʈ ɖ  c ɟ  k g  q ɢ  ʡ .  ʔ .
nasal       . m  . ɱ  . .  . n  . .  . ɳ  . ɲ  . ŋ  . ɴ  . .  . .
trill       . ʙ  . .  . .  . r  . .  . .  . .  . .  . ʀ  . .  . .
tap         . .  . ⱱ  . .  . ɾ  . .  . ɽ  . .  . .  . .  . .  . .
fricative   ɸ β  f v  θ ð  . .  . .  . .  ç ʝ  x ɣ  χ ʁ  ħ ʕ  h ɦ
sibilant    . .  . .  . .  s z  ʃ ʒ  ʂ ʐ  ɕ ʑ  . .  . .  . .  . .
lateral-fr  . .  . .  . .  ɬ ɮ  . .  . .  . .  . .  . .  . .  . .
glide       . .  . ʋ  . .  . .  . .  . .  . j  . ɰ  . .  . .  . .
rhotic      . .  . .  . .  . ɹ  . .  . ɻ  . .  . .  . .  . .  . .
lateral     . .  . .  . .  . l  . .  . ɭ  . ʎ  . ʟ  . .  . .  . .
implosive   . ɓ  . .  . .  . ɗ  . .  . ᶑ  . ʄ  . ɠ  . ʛ  . .  . .
click       ʘ .  ǀ .  ǀ .  ǃ .  ǂ .  . .  ǂ .  . .  . .  . .  . .
"""
_HEIGHTS = "close near-close close-mid mid open-mid near-open open".split()
# Pairs are unrounded, rounded; front, central, back.
_VOWELS = """
i y  ɨ ʉ  ɯ u
ɪ ʏ  . .  . ʊ
e ø  ɘ ɵ  ɤ o
. .  ə .  . .
ɛ œ  ɜ ɞ  ʌ ɔ
æ .  ɐ .  . .
a ɶ  . .  ɑ ɒ
"""
_SAME = {
    "ɡ": "g",
    "ʧ": "tʃ",
    "ʤ": "dʒ",
    "ʦ": "ts",
    "ʣ": "dz",
    "ʨ": "tɕ",
    "ʥ": "dʑ",
    "ɚ": "ə˞",
    "ɝ": "ɜ˞",
    "ɫ": "l",
    "ʍ": "w̥",
}
_STRESS = "ˈˌ'."
_TIES = "\u0361\u035c"
_MANNERS = {  # how close an obstruction, and whether it is a nasal's, a lateral's, a rhotic's, a sibilant's
    "plosive": (6, 0, 0, 0, 0),
    "implosive": (6, 0, 0, 0, 0),
    "click": (7, 0, 0, 0, 0),
    "nasal": (5, 1, 0, 0, 0),
    "trill": (3, 0, 0, 1, 0),
    "tap": (4, 0, 0, 1, 0),
    "fricative": (3, 0, 0, 0, 0),
    "sibilant": (3, 0, 0, 0, 1),
    "lateral-fr": (3, 0, 1, 0, 1),
    "glide": (1, 0, 0, 0, 0),
    "rhotic": (1, 0, 0, 1, 0),
    "lateral": (1, 0, 1, 0, 0),
}


@dataclass(frozen=True)
class Sound:
    """One sound: a consonant, or a vowel. Of an affricate or a diphthong there are two.

    Attributes
    ----------
    vowel : bool
    closeness : float
        0 for an open vowel up to 7 for a click: how far the mouth is closed.
    place : float
        From the lips, 0, to the glottis, 10; of vowels front to back, in the same unit.
    voiced, rounded, nasal, lateral, rhotic, sibilant, other : bool
        `other` is a click's or an implosive's, or an ejective's way of moving air.
    """

    vowel: bool
    closeness: float
    place: float
    voiced: bool = True
    rounded: bool = False
    nasal: bool = False
    lateral: bool = False
    rhotic: bool = False
    sibilant: bool = False
    other: bool = False


_WEIGHTS = {"voiced": 1.0, "rounded": 0.7, "nasal": 1.5, "lateral": 1.5, "rhotic": 1.2, "sibilant": 1.2, "other": 0.7}
FAR = 6.0
"""A distance from which two phones have nothing in common that would help."""


def _table() -> dict[str, Sound]:
    sounds = {}
    for line in _CONSONANTS.strip().splitlines():
        manner, *cells = line.split()
        close, nasal, lateral, rhotic, sibilant = _MANNERS[manner]
        for column, symbol in enumerate(cells):
            sound = Sound(False, close, column // 2, bool(column % 2), False, bool(nasal), bool(lateral))
            sounds[symbol] = replace(
                sound, rhotic=bool(rhotic), sibilant=bool(sibilant), other=manner in ("implosive", "click")
            )
    for height, line in enumerate(_VOWELS.strip().splitlines()):
        for column, symbol in enumerate(line.split()):
            sounds[symbol] = Sound(True, 0.5 * (6 - height) * 0.9, 6 + column // 2, rounded=bool(column % 2))
    glide = sounds["j"]
    sounds["w"] = replace(glide, place=7, rounded=True)
    sounds["ɥ"] = replace(glide, rounded=True)
    sounds["ɧ"] = replace(sounds["ʃ"], place=6)
    del sounds["."]
    return sounds


SOUNDS = _table()
_MARKS = {
    "\u0303": {"nasal": True},
    "\u0325": {"voiced": False},
    "\u030a": {"voiced": False},
    "\u032c": {"voiced": True},
    "˞": {"rhotic": True},
    "ʷ": {"rounded": True},
    "ʼ": {"other": True},
}


@lru_cache(maxsize=4096)
def plain(label: str) -> str:
    """Return an IPA label without stress, ties and other spellings of the same; length and diacritics stay."""
    text = unicodedata.normalize("NFD", label)
    text = text.replace("c\u0327", "ç")
    text = "".join(_SAME.get(letter, letter) for letter in text if letter not in _STRESS + _TIES)
    return text.replace(":", "ː")


@lru_cache(maxsize=4096)
def sounds_of(label: str) -> tuple[Sound, ...]:
    """Return the first and the last sound of an IPA label, for most the same.

    There is none where a letter is not on the chart, or more than two are: a word, not a phone.
    """
    sounds: list[Sound] = []
    for letter in plain(label):
        if letter in SOUNDS:
            sounds.append(SOUNDS[letter])
        elif letter in _MARKS and sounds:
            sounds[-1] = replace(sounds[-1], **_MARKS[letter])
        elif unicodedata.category(letter) not in ("Mn", "Lm", "Sk"):
            return ()
    return (sounds[0], sounds[-1]) if 0 < len(sounds) < 3 else ()


def distance(a: str, b: str) -> float:
    """Return how far two IPA labels are apart in their features: 0 for the same, infinite for what is not IPA."""
    first, second = sounds_of(a), sounds_of(b)
    if not first or not second:
        return float("inf")
    return sum(_apart(x, y) for x, y in zip(first, second, strict=True)) / 2


def _apart(a: Sound, b: Sound) -> float:
    """Return the distance of two sounds: a consonant and a vowel are far apart, but for glides and close vowels."""
    kinds = 3.0 if a.vowel != b.vowel else 0.0
    place = (1.2 if a.vowel and b.vowel else 0.6) * abs(a.place - b.place)
    close = (1.0 if a.vowel and b.vowel else 0.6) * abs(a.closeness - b.closeness)
    return kinds + place + close + sum(w for name, w in _WEIGHTS.items() if getattr(a, name) != getattr(b, name))
