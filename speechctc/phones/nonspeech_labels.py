"""Tells labels among phones that are none: pauses, noise and unclear speech."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from speechctc.phones.inventory import SILENCES, TABLES

Kind = Literal["pause", "noise", "mark"]
ANY = "*"
"""Stands in a transcript for any stretch of sound, or none."""

SPOKEN_NOISE = "spn"  # of MFA and Kaldi: sound of a voice that is no word
PAUSES = SILENCES - {SPOKEN_NOISE} | {"", *TABLES["pause_labels"].split()}
UNCLEAR = frozenset(TABLES["noise_labels"].split())
CODES = frozenset(TABLES["noise_codes"].split())
PAUSES_IN_BRACKETS = frozenset(TABLES["pauses"].split())
EVENTS, _WITH_EVENTS = frozenset(TABLES["events"].split()), frozenset(TABLES["with_events"].split())

_LENGTH = r"(?:\d{1,2}|\d*[.,]\d+)\s*(?:s|sec|secs|seconds|ms)?|[.·…–—-]+"  # of a pause: 0.5, or dots
PAUSE = re.compile(  # SIL_S: with its place in the word, as Kaldi writes it
    rf"\(\s*(?:{_LENGTH})\s*\)|[!<]?SIL(?:_[A-Z]+)?>?|sil_[A-Z]+|sil[0-2]|[=#~+_]+"
)
_NOISE = re.compile(
    r"\*+|%[^\W\d]+|(?:SPN|spn)_[A-Z]|x{4,}|\(\([^()|]*\)\)|\(\?+\)|[<\[{][A-Z][A-Z_]+[>\]}]"
    r"|[<\[({]\W*(?i:[a-z]{3}[a-z0-9 _.:'-]*)[>\])}]"
)


@lru_cache(maxsize=4096)
def kind_of_phone(label: str) -> Kind | None:
    """Return what a label among phones is, in small letters or capitals; None: it may be a phone."""
    name = label.strip().lower().replace("ː", ":")
    inside = name.strip("<>[](){}").strip()
    in_brackets = inside != name
    if name in PAUSES or label in PAUSES or PAUSE.fullmatch(label):
        return "pause"
    if in_brackets and inside in PAUSES_IN_BRACKETS and (len(inside) > 1 or name == "<p>"):
        return "pause"
    is_noise = name in UNCLEAR or (in_brackets and is_event(inside)) or _NOISE.fullmatch(label)
    return "noise" if is_noise else None


def kind_of_mark(label: str) -> Kind | None:
    """Return what a label is that is no phone of a set, as `kind_of_phone`; short codes such as ``NSN`` are noise."""
    return kind_of_phone(label) or ("noise" if label.lower() in CODES else None)


def is_pause(label: str) -> bool:
    """Return whether a label among phones means a pause."""
    return kind_of_phone(label) == "pause"


def is_unclear(label: str) -> bool:
    """Return whether a label among phones means noise or unclear speech."""
    return kind_of_phone(label) == "noise"


def is_event(name: str) -> bool:
    """Return whether a text in small letters names a noise, such as ``laughs`` or ``loud background noise``."""
    words = re.split(r"[\s_,/-]+", name.strip("-_=!?. "))
    told = [word for word in words if word not in _WITH_EVENTS and not re.fullmatch(r"[\d:.]+", word)]
    return "-".join(words) in EVENTS or (bool(told) and all(word in EVENTS for word in told))
