"""The languages and accents that eSpeak NG speaks, found by code or name, and the scripts of those not in Latin."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence

from speechctc.core.errors import InputError
from speechctc.phones.espeak import Voice

LATIN = "LATIN"
_SCRIPTS = {  # the first word of a letter's Unicode name: languages in this script
    "ARABIC": "ar fa ug ur sd",
    "ARMENIAN": "hy hyw",
    "BENGALI": "bn as bpy",
    "CHEROKEE": "chr",
    "CJK": "cmn hak yue ja",
    "CYRILLIC": "ba be bg bs cv kaa kk ky mk nog ru sr tt uk uz",
    "DEVANAGARI": "hi kok mr ne",
    "ETHIOPIC": "am ti",
    "GEORGIAN": "ka xex",
    "GREEK": "el grc",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "MALAYALAM": "ml",
    "MYANMAR": "my shn",
    "ORIYA": "or",
    "SHAVIAN": "en",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
}
_READERS = {script: frozenset(languages.split()) for script, languages in _SCRIPTS.items()}


def find_voice(language: str, voices: Sequence[Voice]) -> Voice:
    """Return the voice of a language or accent.

    Parameters
    ----------
    language : str
        A code (``"cy"``, ``"en-us"``), in any letter case and with ``-`` or ``_``; or the language's English name
        (``"Welsh"``).
    voices : sequence of Voice
        Those of eSpeak NG.

    Raises
    ------
    InputError
        There is none; the message names the nearest.
    """
    wanted = language.strip().lower().replace("_", "-")
    for names in (_own_code, _file_name, _other_codes, _english_names):
        for voice in voices:
            if wanted in names(voice):
                return voice
    known = {name: voice for voice in voices for names in (_other_codes, _english_names) for name in names(voice)}
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    nearest = list(dict.fromkeys(f"{known[name].languages[0]} ({known[name].name})" for name in near))
    codes = ", ".join(sorted({voice.languages[0] for voice in voices}))
    hint = f"the nearest: {', '.join(nearest)}" if nearest else f"it speaks: {codes}"
    raise InputError(f"eSpeak NG does not speak the language {language!r}", hint)


def _own_code(voice: Voice) -> list[str]:
    return [voice.languages[0].lower()]


def _file_name(voice: Voice) -> list[str]:
    return [voice.file.rpartition("/")[2].lower()]


def _other_codes(voice: Voice) -> list[str]:
    return [code.lower() for code in voice.languages]


def _english_names(voice: Voice) -> list[str]:
    """Return the name in lower case, whole and without what is in brackets."""
    name = voice.name.lower()
    return [name, name.partition(" (")[0]]


def foreign_script(text: str, language: str) -> bool:
    """Return whether a text has a letter that a language does not write: of a script that is neither its own nor Latin.

    Parameters
    ----------
    text : str
    language : str
        Its code, with or without an accent.
    """
    base = language.partition("-")[0]
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha()}
    return any(base not in _READERS[script] for script in scripts if script in _READERS)


def scripts_of(language: str) -> set[str]:
    """Return the scripts that a language writes, if it is one of those not in Latin letters."""
    base = language.partition("-")[0]
    return {script for script, languages in _READERS.items() if base in languages}
