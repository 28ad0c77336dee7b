"""How numbers with a sign, and years, are said: eSpeak NG reads them in the order in which they are written."""

from __future__ import annotations

import re

# Names of one and of several in English.
NAMES = {"£": ("pound", "pounds"), "$": ("dollar", "dollars"), "€": ("euro", "euros")}
_MONEY = re.compile(r"(?<![\w.,])([£$€])(\d+(?:,\d{3})*)(\.\d+)?(?![\d.,]*\d)")
_YEAR = re.compile(r"(?<![\w.,])(1[1-9]|20)(\d\d)(?![\w]|[.,]\d)")


def spoken_forms(token: str, language: str) -> tuple[str, ...]:
    """Return the ways in which a token may be said, the most usual first; for most tokens, itself alone.

    In English, ``£20`` is *20 pounds*, ``£3.50`` is *3 pounds 50*, and ``1998`` *19 98*. In other languages, the sign
    comes after the amount.

    Parameters
    ----------
    token : str
        A word of a text, with its punctuation.
    language : str
        As eSpeak NG has it.
    """
    if language.partition("-")[0] != "en":
        return (_MONEY.sub(lambda found: found[0][1:] + found[1], token),)
    if _MONEY.search(token):
        return (_MONEY.sub(_in_english, token),)
    year = _YEAR.search(token)
    if year is None or (year[1] == "20" and year[2] < "10") or year[2] == "00":
        return (token,)
    second = year[2] if year[2] >= "10" else f"oh {year[2][1]}"
    return f"{token[: year.start()]}{year[1]} {second}{token[year.end() :]}", token


def _in_english(found: re.Match[str]) -> str:
    """Return an amount of money in words and numbers."""
    sign, whole, part = found[1], found[2], found[3] or ".00"
    if len(part) != 3:
        return f"{whole}{part} {NAMES[sign][1]}"
    pence = "" if part == ".00" else f" {part[1:].removeprefix('0')}"
    return f"{whole} {NAMES[sign][whole != '1']}{pence}"
