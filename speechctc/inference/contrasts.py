"""Pairs of sounds that learners take for each other: which were asked for, and those of well-known first languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.inference.segmenter import Segment
from speechctc.phones.articulation import is_arpabet, match_phones

# Sounds of English, in CMU's phones, that speakers of a first language often take for each other: the sound that is
# meant, and the one that is said. They are common knowledge, and not taken from a source. M. Swan and B. Smith (eds.),
# Learner English: a teacher's guide to interference and other problems, second edition, Cambridge University Press,
# 2001, has a chapter on each of these languages, or on its group.
OF_ENGLISH: Mapping[str, str] = MappingProxyType(
    {
        "ar": "p/b v/f th/s dh/z ch/sh ih/eh",
        "de": "w/v th/s dh/z ae/eh jh/ch z/s d/t",
        "es": "iy/ih v/b z/s sh/ch y/jh dh/d ae/ah",
        "fr": "th/s dh/z iy/ih uw/uh ch/sh jh/zh",
        "hi": "v/w th/t dh/d ae/eh z/jh",
        "it": "iy/ih th/t dh/d ae/eh z/s uw/uh",
        "ja": "l/r v/b th/s dh/z s/sh f/hh ae/ah",
        "ko": "l/r f/p v/b z/jh iy/ih ae/eh th/s",
        "pl": "iy/ih ae/eh th/f dh/d ng/n z/s",
        "pt": "iy/ih ae/eh uw/uh th/t dh/d ch/sh jh/zh",
        "ru": "w/v th/s dh/z iy/ih ae/eh ng/n z/s",
        "tr": "w/v th/t dh/d ae/eh iy/ih",
        "zh": "l/r l/n v/w th/s dh/d iy/ih ae/eh z/s ng/n",
    }
)
TOO_MANY = 40  # pairs
# Probability of a sound against the other of a pair, below which it counts as that: of natives' sounds 4 of 100 do.
MISTAKEN = 0.27


class Contrast(NamedTuple):
    """Two phones of a model that are to be told apart."""

    one: str
    other: str

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"{self.one}/{self.other}"


class Contrasted(NamedTuple):
    """A sound, another that it was compared with, how often it was more probably that, and of how many times."""

    phone: str
    other: str
    mistaken: int
    times: int


class Tally(Counter[tuple[str, str, bool]]):
    """How often a phone was compared with another, and whether it was more probably that."""

    def add(self, segments: Iterable[Segment]) -> None:
        """Count the phones of a recording."""
        for each in segments:
            self.count(each.phone, each.goodness.contrasts if each.goodness else ())

    def count(self, phone: str, contrasts: Iterable[tuple[str, float]]) -> None:
        """Count a phone by its contrasts, as `PhoneScore` has them."""
        for other, probability in contrasts:
            self[phone, other, probability < MISTAKEN] += 1

    def found(self) -> list[Contrasted]:
        """Return the counts of each sound and other, in the order of the sounds."""
        pairs = dict.fromkeys(each[:2] for each in sorted(self))
        taken = [(one, other, self[one, other, True], self[one, other, False]) for one, other in pairs]
        return [Contrasted(one, other, mistaken, mistaken + right) for one, other, mistaken, right in taken]

    def lines(self, contrasts: Sequence[Contrast]) -> list[str]:
        """Return a line on what was taken for what, if there are contrasts."""
        found = [f"{each.phone} as {each.other} {each.mistaken} of {each.times}" for each in self.found()]
        return [f"contrasts: {', '.join(found) or 'none of their sounds has a score'}"] if contrasts else []


def parse_contrasts(text: str, phones: Sequence[str]) -> tuple[Contrast, ...]:
    """Read contrasts: pairs such as ``th/s,l/r``, or codes of first languages whose pairs are taken, such as ``es``.

    Parameters
    ----------
    text : str
    phones : sequence of str
        Of the model; pairs may be in IPA, too.

    Raises
    ------
    InputError
        A pair is none, the model lacks a sound of it or hears both as one, or a language is not in the list.
    """
    named = [part for part in re.split(r"[\s,;]+", text) if part]
    pairs = [pair for part in named for pair in ([part] if "/" in part else _of_language(part, phones))]
    sides = [tuple(pair.split("/")) for pair in pairs]
    if not pairs or any(len(each) != 2 or not all(each) for each in sides):
        raise InputError(f"--contrasts {text}: no pairs of sounds", "write them as th/s,l/r")
    if len(pairs) > TOO_MANY:
        raise InputError(f"--contrasts: {len(pairs)} pairs", f"choose at most {TOO_MANY}: of many, some fail by chance")
    heard = _heard([side for each in sides for side in each], phones)
    found = [Contrast(heard[one], heard[other]) for one, other in sides]
    for pair, contrast in zip(pairs, found, strict=True):
        if contrast.one == contrast.other:
            raise InputError(f"--contrasts {pair}: the model hears both as {contrast.one}", "leave it out")
    return tuple({frozenset(each): each for each in reversed(found)}.values())[::-1]


def _of_language(code: str, phones: Sequence[str]) -> list[str]:
    """Return the pairs of a first language."""
    if code.partition("-")[0] not in OF_ENGLISH:
        fix = f"write pairs, as th/s,l/r, or one of the languages {' '.join(OF_ENGLISH)}"
        raise InputError(f"--contrasts {code}: neither a pair of sounds nor a language with a list", fix)
    if not is_arpabet(phones):
        what = f"--contrasts {code}: the lists are of sounds of English, and this model has others"
        raise InputError(what, "write pairs of its sounds, or name --model english")
    return OF_ENGLISH[code.partition("-")[0]].split()


def _heard(labels: Sequence[str], phones: Sequence[str]) -> dict[str, str]:
    """Return the model's phone of each label; all are in one notation."""
    if set(labels) <= set(phones):
        return {label: label for label in labels}
    matches = match_phones(labels, phones)
    for label in sorted(labels, key=lambda label: label in phones):  # of a mixture, the strange one is named
        if label not in matches or matches[label].how == "nearness":
            near = f"; the nearest is {matches[label].phone}" if label in matches else ""
            own = " ".join(phone for phone in phones if phone.isprintable())
            raise InputError(f"--contrasts: the model has no sound {label}{near}", f"its sounds are: {own}")
    return {label: matches[label].phone for label in labels}
