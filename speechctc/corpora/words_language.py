"""Finds the language of a corpus of words in what its folders, its table and its rows are named."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.corpora.table_rows import Row
from speechctc.phones.espeak import LATIN, Synthesiser, Voice, find_voice, foreign_script, scripts_of


class Named(NamedTuple):
    """A language of eSpeak NG: its code, its English name, and where it is named, in words."""

    code: str
    name: str
    where: str


def named_language(rows: Sequence[Row], table: Path, folder: Path) -> Named | None:
    """Return the language that rows name, or the names of the folders of a table, if their words can be written in it.

    Parameters
    ----------
    rows : sequence of Row
    table, folder : Path
        The table, in `folder` at any depth. The names of the folders from it up to `folder` are looked at.

    Returns
    -------
    Named or None
        None if no language is named, it does not write the letters of the words, or eSpeak NG is not installed.
    """
    try:
        voices = _voices()
    except InputError:
        return None
    traits = {dict(row.traits).get("language", "") for row in rows}
    found = [(traits.pop(), "the column language")] if len(traits) == 1 else []
    inside = table.parent.relative_to(folder).parts[::-1]
    found += [(name, f"the name of the folder {name}") for name in [*inside, folder.resolve().name]]
    found.append((table.stem, f"the name of {table.name}"))
    text = " ".join(row.words for row in rows)
    for name, where in found:
        try:
            voice = find_voice(name, voices)
        except InputError:
            continue
        if writes(text, voice.languages[0]):
            return Named(voice.languages[0], voice.name, where)
    return None


def writes(text: str, language: str) -> bool:
    """Return whether a language writes a text: some of its letters are of its script, and none of a foreign one."""
    names = (unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha())
    own = scripts_of(language) or {LATIN}
    return not foreign_script(text, language) and not own.isdisjoint(names)


@cache
def _voices() -> Sequence[Voice]:
    return Synthesiser().voices()
