"""A transcript to align: words or phones in order, with alternatives, optional parts and unknown stretches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from speechctc.core.errors import InputError
from speechctc.phones.inventory import Inventory, frames_needed

ANY = "*"
SYNTAX = "()|"


class Unit(NamedTuple):
    """A word, or a phone that stands alone: what is placed, or found missing, as a whole.

    Attributes
    ----------
    text : str
    pronunciations : tuple of tuple of str
        Phones of each variant; at least one.
    """

    text: str
    pronunciations: tuple[tuple[str, ...], ...]


class AnyStretch(NamedTuple):
    """Any stretch of sound, or none: ``*``."""


class Choice(NamedTuple):
    """One of several parts of a transcript; an empty part makes the others optional: ``(a|b c|)``."""

    options: tuple[tuple[Item, ...], ...]


Item = Unit | AnyStretch | Choice
Items = tuple[Item, ...]


class Phrase(NamedTuple):
    """A part of a transcript, and the times between which it lies, in seconds."""

    start: float
    end: float
    items: Items


def phone_units(labels: Sequence[str]) -> Items:
    """Return each label as a unit."""
    return tuple(Unit(label, ((label,),)) for label in labels)


def parse_phones(
    labels: Sequence[str], known: Collection[str], read: Callable[[str], Unit] = lambda label: Unit(label, ((label,),))
) -> Items:
    """Read phones in which ``*`` stands for any stretch, and ``(a|b c|)`` for alternatives.

    Parameters
    ----------
    labels : sequence of str
        Separated by white space in the transcript; parentheses and bars may touch phones.
    known : collection of str
        Labels of the model: a label that is one of them is never taken for a sign.
    read : callable
        Returns a phone as a unit.

    Raises
    ------
    InputError
        A parenthesis has no counterpart, or a bar is outside of parentheses.
    """
    tokens = [token for label in labels for token in ([label] if label in known else _split(label))]
    return _parse(tokens, known, lambda label: (read(label),))


def parse_words(text: str, read: Callable[[str], Sequence[Unit]]) -> Items:
    """Read words in which ``*`` stands for any stretch, and ``(a|b c|)`` for alternatives.

    Parameters
    ----------
    text : str
    read : callable
        Returns the words of a piece of plain text, with their pronunciations.

    Raises
    ------
    InputError
        As `parse_phones`, or `read`.
    """
    tokens: list[str] = []
    for token in (part for word in text.split() for part in _split(word)):
        if tokens and not _is_sign(token) and not _is_sign(tokens[-1]):
            tokens[-1] += " " + token  # a whole piece is read at once: a word may depend on the next
        else:
            tokens.append(token)
    return _parse(tokens, (), lambda piece: tuple(read(piece)))


def _is_sign(token: str) -> bool:
    return token == ANY or token in tuple(SYNTAX)


def _split(label: str) -> list[str]:
    """Split a label at parentheses and bars; ``*`` is a sign only where it stands alone."""
    for sign in SYNTAX:
        label = label.replace(sign, f" {sign} ")
    return label.split()


def _parse(tokens: Sequence[str], known: Collection[str], read: Callable[[str], Items]) -> Items:
    """Parse tokens; the innermost open parenthesis is the last of the stack."""
    stack: list[list[list[Item]]] = [[[]]]
    for token in tokens:
        if token in known or not _is_sign(token):
            stack[-1][-1] += read(token)
        elif token == ANY:
            stack[-1][-1].append(AnyStretch())
        elif token == "(":
            stack.append([[]])
        elif len(stack) == 1:
            what = f"a {token!r} without a ( before it" if token == ")" else "a | outside of parentheses"
            raise InputError(what, "write alternatives as (a|b c), and what may be missing as (a|)")
        elif token == "|":
            stack[-1].append([])
        else:
            options = stack.pop()
            stack[-1][-1].append(Choice(tuple(map(tuple, options))))
    if len(stack) > 1:
        raise InputError("a ( without a ) after it", "write alternatives as (a|b c), and what may be missing as (a|)")
    return tuple(stack[0][0])


def units_of(items: Sequence[Item]) -> Iterator[Unit]:
    """Yield all units in reading order, those of every alternative too."""
    for item in items:
        if isinstance(item, Unit):
            yield item
        elif isinstance(item, Choice):
            for option in item.options:
                yield from units_of(option)


def fewest_phones(items: Sequence[Item]) -> int:
    """Return how many phones are said if of all pronunciations and alternatives the shortest ones are."""
    return sum(
        min(map(len, item.pronunciations)) if isinstance(item, Unit) else min(map(fewest_phones, item.options))
        for item in items
        if not isinstance(item, AnyStretch)
    )


def is_plain(items: Sequence[Item]) -> bool:
    """Return whether there are only units with one pronunciation."""
    return all(isinstance(item, Unit) and len(item.pronunciations) == 1 for item in items)


def check_phones(file: str, items: Items, silences: Sequence[str], inventory: Inventory) -> None:
    """Check that all phones of a transcript are phones of the model.

    Raises
    ------
    InputError
        One is not.
    """
    try:
        for phones in (phones for unit in units_of(items) for phones in unit.pronunciations):
            inventory.encode(phones)
        inventory.encode(silences)
    except InputError as error:
        raise InputError(f"{file}: {error.what}", f"the model's are: {' '.join(inventory.phones)}") from None


def check_fit(file: str, labels: Sequence[int], frames: int, seconds: float) -> None:
    """Check that phones fit into a recording.

    Parameters
    ----------
    file : str
        Named in the error.
    labels : sequence of int
    frames : int
        Output frames of the recording.
    seconds : float
        Its length.

    Raises
    ------
    InputError
        The phones need more frames than there are.
    """
    needed = frames_needed(labels)
    if needed > frames:
        repeats = needed - len(labels)
        apart = f" and {repeats} blank{'s' * (repeats > 1)} between repeated ones" if repeats else ""
        what = f"{len(labels)} phones{apart} need {needed} frames, and its {seconds:.2f} s have {frames}"
        fix = "check that these phones belong to this recording, or align with a model of a smaller model.time_stride"
        raise InputError(f"{file}: {what}", fix)
