"""The languages of eSpeak NG by their codes and names, as people and corpora write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from speechctc.core.errors import InputError, first_few
from speechctc.phones.inventory import TABLES, nfc, pairs

_USUAL = pairs(TABLES["usual_languages"])
_OWN = pairs(TABLES["own_names"])
_CODES = pairs(TABLES["language_codes"]) | _OWN
_RELATED = {
    name: codes.split(",") for names, codes in pairs(TABLES["related_languages"]).items() for name in names.split(",")
}
_MIN_LETTERS = 4  # letters of a word inside a name
# What to do without a language, where words are read, and where only its phones are wanted.
ALONE = "give a dictionary alone (--dictionary, corpus.dictionary)"
LISTED = "name its phones (--inventory)"


class Voice(NamedTuple):
    """A voice of eSpeak NG: its name, the codes of its languages, the best first, and its file."""

    name: str
    languages: tuple[str, ...]
    file: str


def find_voice(language: str, voices: Sequence[Voice], instead: str = ALONE) -> Voice:
    """Return the voice of a language or accent.

    Parameters
    ----------
    language : str
        A code (``"cy"``, ``"en-us"``, of ISO 639-3 ``"cym"``), in any letter case and with ``-`` or ``_``, from which a
        region that eSpeak NG does not know is left off; or the language's English name (``"Welsh"``), or words of one
        in any order (``"Irish"`` or ``"Irish Gaelic"`` of ``"Gaelic (Irish)"``); or its own (``"Cymraeg"``).
    voices : sequence of Voice
        Those of eSpeak NG.
    instead : str
        What else to do, for the message.

    Raises
    ------
    InputError
        There is none, or words are inside several names; the message names related ones, or else the nearest.
    """
    query = _plain(language)
    for name in _also_called(query):
        if found := voice_called(name, voices):
            return found
    words = _words(query) if len(query) >= _MIN_LETTERS else set()
    inside = {each.languages[0]: each for each in reversed(voices) if words and words <= _words(each.name.lower())}
    usual = {_USUAL.get(word, "") for word in words}
    if len(inside) == 1 or (len(usual) == 1 and usual <= inside.keys()):
        return inside[(usual if len(inside) > 1 else {*inside}).pop()]
    if inside:
        fix = f"choose one: {', '.join(sorted(map(_shown, inside.values())))}"
        raise InputError(f"{language!r} is the name of several languages of eSpeak NG", fix)
    raise _unknown(language, voices, instead)


def _unknown(language: str, voices: Sequence[Voice], instead: str) -> InputError:
    """Return the error for a language that no voice speaks; it names related ones, or those of the nearest names."""
    query = _plain(language)
    base, spoken = query.partition("-")[0], {voice.languages[0]: voice for voice in reversed(voices)}
    known = {name: spoken[code] for name, code in _OWN.items() if code in spoken}
    known |= {name: voice for voice in voices for of in _names_of(voice)[2:] for name in of}
    names = [name for name in known if len(base) > 3 or name[:1] == base[:1]]
    codes = _RELATED.get(query.replace(" ", "-")) or _RELATED.get(base) or ()
    related = [spoken[code] for code in codes if code in spoken]
    alike = difflib.get_close_matches(query, names, n=3, cutoff=0.5)
    near = related or [voice_called(name, voices) or known[name] for name in alike]
    fix = f"choose a related one, or {instead}"
    if near:
        listed = first_few(list(dict.fromkeys(map(_shown, near))), 12)
        fix += f"; {'related' if related else 'the nearest by name'}: {listed}"
    return InputError(f"eSpeak NG does not speak the language {language!r}", fix)


def voice_called(name: str, voices: Sequence[Voice]) -> Voice | None:
    """Return the voice with a code or a whole English name, of those of one name the usual; None where none is."""
    query = _USUAL.get(_plain(name), _plain(name))
    names = [_names_of(voice) for voice in voices]
    for rank in range(5):
        found = [voice for voice, of in zip(voices, names, strict=True) if query in of[rank]]
        if found and (rank < 4 or len({voice.languages[0] for voice in found}) == 1):
            return found[0]
    return None


def plain_code(language: str, voices: Sequence[Voice]) -> str:
    """Return the code of the language that a code or name is of; ``""`` of none, or of a region that is left off."""
    try:
        voice = find_voice(language, voices)
    except InputError:
        return ""
    query = _plain(language)
    whole = "-" not in query or any(voice_called(name, voices) for name in islice(_also_called(query), 2))
    return voice.languages[0] if whole else ""


def alias_note(language: str, voice: Voice) -> str:
    """Return how a language is read, where its code or name is not the voice's own; else ``""``."""
    if _plain(language) in (_plain(voice.languages[0]), _plain(voice.name)):
        return ""
    return f"the language {language!r} is read as {_shown(voice)}"


def _plain(name: str) -> str:
    return nfc(name.strip().lower().replace("_", "-"))


def _shown(voice: Voice) -> str:
    return f"{voice.languages[0]} ({voice.name.strip()})"


def _also_called(query: str) -> Iterator[str]:
    """Yield a name, and its code in eSpeak NG; of a code also what is left without its last parts."""
    parts = query.split("-")
    for count in range(len(parts), 0 if len(parts[0]) < _MIN_LETTERS else len(parts) - 1, -1):
        name = "-".join(parts[:count])
        yield name
        yield _CODES.get(name.replace(" ", "-"), name)


def _words(name: str) -> set[str]:
    return set(re.findall(r"\w+", name))


def _names_of(voice: Voice) -> tuple[list[str], ...]:
    """Return by rank how a voice is called: its own code, its file, all codes, its name, what this begins with."""
    codes, name = [code.lower() for code in voice.languages], _plain(voice.name)
    return codes[:1], [voice.file.rpartition("/")[2].lower()], codes, [name], [name.partition(" (")[0]]
