"""From eSpeak NG's phonemes to TIMIT's phones, with times.

What is exact and what is not. The order of the phones and nearly all their boundaries are the synthesiser's own.
Three things it does not mark, and they are settled here by rule:

- A stop's closure. eSpeak NG is silent before the release of a voiceless stop, and of a voiced one that follows a
  consonant; that silence, found in the samples, is labelled as the closure. A voiced stop after a vowel has no
  silence before it but a murmur that belongs to the stop's own event: the label is the release's (``b``), without
  ``bcl``, as TIMIT has it where a closure could not be told apart.
- A vowel coloured by r is one event (``A@`` in "car"): two phones of equal length (``aa r``).
- An l after a vowel and before no other is spoken within the vowel's event, and its own is empty: the two halve it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.corpora.demo.espeak import Speech

# At 175 words a minute closures are 16, 20, 24, 32, 39 or 49 ms long, the gaps between words 9; both scale with time.
CLOSURE_MS, CLOSURE_WPM = 12.5, 175
SILENT = 2  # samples of 16 bits up to this are silence: the voices used have no echo


def _table(text: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(phones.split("+")) for name, _, phones in (entry.partition(">") for entry in text.split())}


VOWELS = _table(
    "i:>iy i>iy I>ih I2>ix I#>ix eI>ey E>eh a>ae aa>ae A:>aa 0>aa O2>aa O:>ao O>ao oU>ow U>uh u:>uw V>ah "
    "3:>er 3>axr @>ax @2>ax @5>ax a#>ax aI>ay aU>aw OI>oy @L>el "
    "A@>aa+r O@>ao+r o@>ao+r e@>eh+r U@>uh+r i@3>ih+r i@>iy+ax aI3>ay+axr aI@>ay+ax aU@>aw+axr"
)
CONSONANTS = _table(
    "p>p b>b t>t t2>t t#>dx d>d k>k g>g tS>ch dZ>jh ?>q f>f v>v T>th D>dh s>s z>z S>sh Z>zh h>hh "
    "m>m n>n n->en N>ng l>l r>r r->r j>y w>w"
)
CLOSURES = {
    "p": "pcl", "b": "bcl", "t": "tcl", "d": "dcl", "k": "kcl", "g": "gcl", "ch": "tcl", "jh": "dcl",
}  # fmt: skip
GLIDE = ";"  # the passage from a close vowel to the next: no phone of its own in TIMIT


class Phone(NamedTuple):
    """A phone and the sample it starts at; it lasts until the next."""

    start: int
    label: str


class UnknownPhoneme(ValueError):
    """A phoneme of eSpeak NG without a TIMIT label: the sentence that has it does not belong into the corpus."""


def label(speech: Speech, rate: int, words_per_minute: int) -> list[Phone]:
    """Return the phones of a sentence; which they are depends on its words alone, not on who speaks it or how fast.

    Parameters
    ----------
    speech : Speech
    rate : int
        Of its samples, Hz.
    words_per_minute : int
        What it was spoken at.

    Returns
    -------
    list of Phone
        From an h# at 0 to an h# after the last sound; either may have no length, the others have some.

    Raises
    ------
    UnknownPhoneme
        The sentence has a phoneme that no sentence of this package has.
    """
    closure = rate * CLOSURE_MS / 1000 * CLOSURE_WPM / words_per_minute
    phones = [Phone(0, "h#")]
    names = [phoneme.name for phoneme in speech.phonemes]
    for k, (start, name) in enumerate(speech.phonemes):
        before, after = names[k - 1] if k else "_", names[k + 1] if k + 1 < len(names) else "_"
        if name.startswith("_"):
            _add(phones, start, "pau")
        elif name == "l" and before in VOWELS and after not in VOWELS:
            _add(phones, (phones[-1].start + start) // 2, "l")
        elif name in VOWELS:
            end = speech.phonemes[k + 1].sample if k + 1 < len(names) else len(speech.samples)
            end -= _silence_before(speech.samples, end)
            _add_vowel(phones, start, end, VOWELS[name], linked=after in ("r", "r-"))
        elif name in CONSONANTS:
            _add_consonant(phones, start, CONSONANTS[name][0], _silence_before(speech.samples, start), closure)
        elif name != GLIDE:
            raise UnknownPhoneme(f"eSpeak NG's phoneme {name!r} has no TIMIT label")
    end = phones.pop().start if phones[-1].label == "pau" else len(speech.samples)
    phones.append(Phone(end, "h#"))
    if any(later.start <= earlier.start for earlier, later in zip(phones[1:], phones[2:], strict=False)):
        raise UnknownPhoneme(f"eSpeak NG leaves no time for one of: {' '.join(phone.label for phone in phones)}")
    return phones


def _add(phones: list[Phone], start: int, label: str) -> None:
    """Append a phone; a pause joins a pause before it, and one of length 0 gives way."""
    if label == phones[-1].label == "pau":
        return
    if phones[-1] == Phone(start, "pau"):
        phones.pop()
    phones.append(Phone(start, label))


def _add_vowel(phones: list[Phone], start: int, end: int, labels: tuple[str, ...], linked: bool) -> None:
    """Append a vowel of one or two phones; its r is left to an r that follows in its own right."""
    if linked and labels[-1] == "r":
        labels = labels[:-1]
    for k, name in enumerate(labels):
        _add(phones, start + (end - start) * k // len(labels), name)


def _add_consonant(phones: list[Phone], start: int, label: str, silence: int, closure: float) -> None:
    """Append a consonant, and before a stop its closure if it can be heard and no pause hides it."""
    follows_pause = phones[-1].label in ("pau", "h#")
    if label == "q":  # nothing but silence: the closure is the phone
        start = start if follows_pause else start - silence
    elif label in CLOSURES and not follows_pause and silence >= closure:
        _add(phones, start - silence, CLOSURES[label])
    _add(phones, start, label)


def _silence_before(samples: NDArray[np.int16], start: int) -> int:
    """Return how many samples before `start` are silent."""
    loud = np.flatnonzero(np.abs(samples[max(start - 8000, 0) : start].astype(np.int32)) > SILENT)
    return int(min(start, 8000) - 1 - loud[-1]) if len(loud) else min(start, 8000)
