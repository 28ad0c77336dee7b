"""Which phone of one set is which of another: by name, by a table of notations, or by the nearest features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from speechctc.phones.articulation import FAR, distance, plain
from speechctc.phones.inventory import CMU39, SILENCES, TIMIT61, folding

How = Literal["name", "table", "nearness"]

# ARPABET, as CMU's dictionary and TIMIT write it, in IPA; the first is the one distances are taken from.
_ARPABET = """
aa ɑ ɑː | ae æ | ah ʌ ə ɐ ə̥ | ao ɔ ɔː | aw aʊ aw | ax ə | ax-h ə̥ | axr ə˞ | ay aɪ aj | b b | bcl b̚
ch tʃ | d d | dcl d̚ | dh ð | dx ɾ | eh ɛ | el l̩ | em m̩ | en n̩ | eng ŋ̩ ŋ̍ | er ɜ˞ ɜː ɜ ɜ˞ː əː ə˞
ey eɪ ej | f f | g g | gcl g̚ | hh h ɦ | hv ɦ | ih ɪ ɨ | ix ɨ | iy i iː | jh dʒ | k k | kcl k̚
l l l̩ | m m m̩ | n n n̩ | ng ŋ ŋ̩ | nx ɾ̃ | ow oʊ əʊ ow | oy ɔɪ ɔj oɪ | p p | pcl p̚ | q ʔ | r ɹ r ɻ | s s
sh ʃ | t t | tcl t̚ | th θ | uh ʊ | uw u uː ʉ | ux ʉ ʉː | v v | w w | y j | z z | zh ʒ
"""
_IPA_OF = {
    entry.split()[0]: tuple(entry.split()[1:]) for line in _ARPABET.strip().splitlines() for entry in line.split("|")
}
ARPABET = frozenset(TIMIT61) | frozenset(CMU39)
# What the distances of features would get wrong, or cannot know: phones that are parts of others.
_PARTS = dict(pair.split(":") for pair in "bcl:b dcl:d gcl:g pcl:p tcl:t kcl:k nx:n dx:t em:m en:n eng:ng el:l".split())
_CLASSES = folding("timit39").mapping


class Match(NamedTuple):
    """The known phone that another begins as, and how it was found."""

    phone: str
    how: How


def match_phones(phones: Sequence[str], known: Sequence[str]) -> dict[str, Match]:
    """Find for each phone the known one that is the same, or the most like it.

    Whether a set is written in ARPABET or in IPA is told by its labels: IPA's ``y`` is not CMU's.

    Parameters
    ----------
    phones, known : sequence of str
        Two sets of labels.

    Returns
    -------
    dict of str to Match
        Of those that have a match; what is not IPA or ARPABET, or unlike all that is known, has none. A silence is
        matched with a silence only.
    """
    here, there = is_arpabet(phones), is_arpabet(known)
    matches = {phone: _match(phone, known, here, there) for phone in phones}
    return {phone: match for phone, match in matches.items() if match is not None}


def is_arpabet(phones: Sequence[str]) -> bool:
    """Tell whether most of a set's labels that are not silences are ARPABET of more than one letter, or all are."""
    labels = [_arpabet(phone) for phone in phones if phone not in SILENCES]
    return (
        bool(labels)
        and sum(label in ARPABET for label in labels) >= 0.8 * len(labels)
        and any(len(label) > 1 for label in labels if label in ARPABET)
    )


def _match(phone: str, known: Sequence[str], here: bool, there: bool) -> Match | None:
    if phone in known and (here == there or _same_in_both(phone)):
        return Match(phone, "name")
    if phone in SILENCES:
        silence = next((label for label in known if label in SILENCES), None)
        return Match(silence, "table") if silence else None
    table = _by_table(phone, known, here, there)
    if table is not None:
        return Match(table, "table")
    ours = ipa(phone, here)[0]
    others = [label for label in known if label not in SILENCES]
    near = min(others, key=lambda label: distance(ours, ipa(label, there)[0]), default=None)
    if near is None or distance(ours, ipa(near, there)[0]) >= FAR:
        return None
    return Match(near, "nearness")


def _by_table(phone: str, known: Sequence[str], here: bool, there: bool) -> str | None:
    """Return the known phone that the table gives for this one."""
    if here and there:
        label = _arpabet(phone)
        spelled = {_arpabet(each): each for each in known}
        return next(
            (spelled[each] for each in (label, _CLASSES.get(label), _PARTS.get(label)) if each in spelled), None
        )
    if here == there and not here:
        return next((label for label in known if plain(label) == plain(phone)), None)
    ours = [plain(each) for each in ipa(phone, here)]
    ranks = {label: _first_shared([plain(each) for each in ipa(label, there)], ours) for label in known}
    found = min(
        (label for label in known if ranks[label] is not None), key=lambda label: ranks[label] or 0, default=None
    )
    if found is None and here:  # TIMIT's closures and syllabic consonants, for a set in IPA
        part = _PARTS.get(_arpabet(phone))
        return _by_table(part, known, here, there) if part else None
    return found


def _first_shared(spellings: Sequence[str], ours: Sequence[str]) -> int | None:
    """Return how unusual the most usual spelling is that two phones share."""
    shared = [place + ours.index(spelling) for place, spelling in enumerate(spellings) if spelling in ours]
    return min(shared, default=None)


def ipa(label: str, arpabet: bool) -> tuple[str, ...]:
    """Return a label's spellings in IPA, the most usual first."""
    return _IPA_OF.get(_arpabet(label), (label,)) if arpabet else (label,)


def _same_in_both(label: str) -> bool:
    """Tell whether a label means the same in ARPABET as in IPA."""
    return plain(label) in {plain(each) for each in _IPA_OF.get(label, ())}


def _arpabet(label: str) -> str:
    """Return a label as the tables have it: in lower case, without a stress digit."""
    lower = label.lower()
    return lower[:-1] if lower[-1:] in {"0", "1", "2"} else lower
