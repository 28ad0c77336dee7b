"""A transcript to align, and the graph of CTC states that it is compiled into.

It has words or phones in order, with alternatives, optional parts and unknown stretches; the graph has what departures
from them cost.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.ctc.graph import MAX_SOURCES, NODE, StateGraph
from speechctc.phones.inventory import BLANK, Inventory, frames_needed
from speechctc.phones.nonspeech_labels import ANY
from speechctc.phones.notations import are_other_ipa

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

    @property
    def is_phone(self) -> bool:
        """Whether it is a phone that stands alone."""
        return self.pronunciations == ((self.text,),)


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
    for are_signs, part in groupby((part for word in text.split() for part in _split(word)), key=_is_sign):
        words = list(part)
        tokens += words if are_signs else [" ".join(words)]  # read at once: a word may depend on the next
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
        own = [phone for phone in inventory.phones if phone.isprintable()]  # parts of diphthongs are not
        fix = f"the model's are: {' '.join(own)}; --ignore leaves labels out, and --words reads words"
        labels = {phone for unit in units_of(items) for phones in unit.pronunciations for phone in phones}
        fix = f"labels are IPA: the model ipa has them; {fix}" if are_other_ipa(labels, own) else fix
        raise InputError(f"{file}: {error.what}", fix) from None


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


Values = NDArray[np.float64]

EXTRA_COST = 4.0  # to begin a stretch that is not in the transcript, and to end it, nats
NEVER = 1000.0  # for what should happen only where there is no other path, nats
AROUND = 5.0  # how far around a unit others say what is usual there, seconds
SPREADS = 2.0  # how many distances of the median from the upper quartile above that a deficit is unusual
GAP = 3.0  # how many unusual deficits a gap costs beside those of its units
BESIDE = 0.5  # the share of these that a unit costs beside which something else was said: another word?
# How many of them a unit costs: this times its phones to that power, for what varies evens out in a long one.
UNIT = 1.5, 0.7
MIN_UNUSUAL_DEFICIT = 2.5  # least deficit of a phone that is unusual, nats: about that of guessing among 12 phones
MIN_UNITS = 20  # units to learn from; with fewer, `MIN_UNUSUAL_DEFICIT` is unusual


class Kind(IntEnum):
    """What a state stands for."""

    node = 0
    blank = 1
    phone = 2
    silence = 3
    stretch = 4  # of a * in the transcript
    extra = 5  # not in the transcript


class CompiledTranscript(NamedTuple):
    """A graph, and what its states and arcs stand for.

    Attributes
    ----------
    graph : StateGraph
        Columns are classes of the net; the column after the last class is that of any stretch. Where all units must be
        there, the next is the blank inside a unit, and the one after that the blank between two phones: where some may
        be missing, a cost would leave out more.
    kind : ndarray, shape = (states,), int8
        A `Kind` each.
    unit : ndarray, shape = (states,), int32
        The number of the unit that the state belongs to; -1 for those between units.
    place : ndarray, shape = (states,), int32
        For phones: which phone of its pronunciation it is; else -1.
    left_out : ndarray, shape = (arcs,), int32
        Number of the unit that each arc leaves out, or -1.
    units : tuple of Unit
        In reading order.
    spine : ndarray, shape = (n,), int32
        States of the phones of all units, in order: of the first pronunciation, and of the first alternative.
    """

    graph: StateGraph
    kind: NDArray[np.int8]
    unit: NDArray[np.int32]
    place: NDArray[np.int32]
    left_out: NDArray[np.int32]
    units: tuple[Unit, ...]
    spine: NDArray[np.int32]


Arc = tuple[int, float, int]  # from which state, log weight, number of the unit that is left out or -1


class _Ends(NamedTuple):
    """How a part of the graph is left: by phones whose next frame may be another phone, through nodes, or in a gap."""

    phones: tuple[int, ...]
    nodes: tuple[Arc, ...]
    gaps: tuple[Arc, ...] = ()


class _Junction(NamedTuple):
    """The place between two parts: the phones before it, a state that all other ways pass through, and one in a gap."""

    phones: tuple[int, ...]
    through: int
    gap: int = -1

    def ends(self) -> _Ends:
        """Return the ends of an empty part."""
        return _Ends(self.phones, ((self.through, 0.0, -1),), ((self.gap, 0.0, -1),) if self.gap >= 0 else ())


def compile_transcript(
    items: Sequence[Item],
    encode: Callable[[Sequence[str]], list[int]],
    classes: int,
    costs: Costs | None = None,
    silences: Sequence[int] = (),
) -> CompiledTranscript:
    """Compile a transcript.

    Between two units, and before and after all of them, the graph has a blank and, each by choice, silences and a
    stretch that is not in the transcript. A unit that is left out is passed at a blank, a silence or such a stretch.

    Parameters
    ----------
    items : sequence of Item
    encode : callable
        Phones to classes; raises an `InputError` for a phone that is not in the model's set.
    classes : int
        Number of classes, with the blank.
    costs : Costs, optional
        Without them all units must be there, and nothing else.
    silences : sequence of int
        Classes that may stand between units.

    Raises
    ------
    InputError
        A phone is unknown, or too many ways meet at one place.
    """
    builder = _Builder(encode, classes, costs, silences)
    builder.sequence(items)
    counts = np.array(builder.counts, np.int64)
    if counts.max() > MAX_SOURCES:
        what = f"{counts.max()} ways meet between two parts of the transcript; at most {MAX_SOURCES} are possible"
        raise InputError(what, "leave out alternatives, or optional parts in a row")
    columns, sources = _shared(builder.columns), _shared(builder.sources)
    return CompiledTranscript(
        StateGraph.from_arrays(columns, counts, sources, np.asarray(builder.weights, np.float64)),
        np.asarray(builder.kinds, np.int8),
        _shared(builder.owners),
        _shared(builder.places),
        _shared(builder.left_out),
        tuple(units_of(items)),
        _shared(builder.spine),
    )


def _shared(numbers: array[int]) -> NDArray[np.int32]:
    """Return numbers as an array in the same memory: of hours, another copy is large."""
    return np.asarray(numbers, np.int32)


class _Builder:
    """Adds states and arcs in the order of the transcript."""

    def __init__(
        self, encode: Callable[[Sequence[str]], list[int]], classes: int, costs: Costs | None, silences: Sequence[int]
    ) -> None:
        self.encode, self.any, self.costs, self.silences = encode, classes, costs, silences
        self.columns, self.kinds, self.owners, self.places = array("i"), array("b"), array("i"), array("i")
        self.counts, self.sources, self.left_out, self.weights = array("i"), array("i"), array("i"), array("d")
        self.arcs: dict[int, list[Arc]] = {}  # of states that may still get more
        self.spine = array("i")
        self.units = 0

    def sequence(self, items: Sequence[Item]) -> None:
        start = self._state(NODE, Kind.node, [])
        ends = self._items(items, self._junction(_Ends((), ((start, 0.0, -1),))), True)
        last = self._junction(ends)
        self._state(NODE, Kind.node, [(last.through, 0.0, -1), *_free(last.phones)])
        self._settle()

    def _state(self, column: int, kind: Kind, arcs: list[Arc], unit: int = -1, place: int = -1) -> int:
        self.columns.append(column)
        self.kinds.append(kind)
        self.owners.append(unit)
        self.places.append(place)
        self.arcs[len(self.columns) - 1] = arcs
        return len(self.columns) - 1

    def _settle(self) -> None:
        """Store the arcs of all states so far in arrays: as lists, those of a long transcript take much memory."""
        for arcs in self.arcs.values():
            self.counts.append(len(arcs))
            for source, weight, unit in arcs:
                self.sources.append(source)
                self.weights.append(weight)
                self.left_out.append(unit)
        self.arcs = {}

    def _between(self, *items: Item) -> int:
        """Return the column of the blank between two items."""
        are_phones = all(isinstance(each, Unit) and each.is_phone for each in items)
        return self.any + 2 if are_phones and not self.costs else BLANK

    def _junction(self, ends: _Ends, column: int = BLANK) -> _Junction:
        """Add the states between two parts: a blank, silences, a stretch that is not in the transcript."""
        self._settle()
        blank = self._state(column, Kind.blank, _free(ends.phones))
        silences = [self._state(label, Kind.silence, self._follow(label, ends.phones)) for label in self.silences]
        self.arcs[blank] += _free(silences)
        phones, gap = (*ends.phones, *silences), -1
        if not (ends.nodes or self.costs):
            through = blank
        elif not self.costs:
            through = self._state(NODE, Kind.node, [(blank, 0.0, -1), *ends.nodes])
            self.arcs[blank].append((through, 0.0, -1))
        else:
            cost = -self.costs.extra
            extra = self._state(self.any, Kind.extra, [(phone, cost, -1) for phone in ends.phones])
            gap = self._state(NODE, Kind.node, list(ends.gaps)) if ends.gaps else -1
            gaps = [gap] if ends.gaps else []
            through = self._state(NODE, Kind.node, [*_free((blank, extra, *gaps)), *ends.nodes])
            self.arcs[blank].append((through, 0.0, -1))
            self.arcs[extra].append((through, cost, -1))
        for silence in silences:
            self.arcs[silence].append((through, 0.0, -1))
        return _Junction(phones, through, gap)

    def _follow(self, label: int, phones: Sequence[int]) -> list[Arc]:
        """Return arcs from phones straight to a phone: CTC needs a blank between two of the same class."""
        return _free(phone for phone in phones if self.columns[phone] != label)

    def _items(self, items: Sequence[Item], junction: _Junction, main: bool) -> _Ends:
        """Add items in a row; `main`: their phones belong to the spine."""
        ends = junction.ends()
        for number, item in enumerate(items):
            at = self._junction(ends, self._between(items[number - 1], item)) if number else junction
            if isinstance(item, Unit):
                ends = self._unit(item, at, main, number > 0 and item == items[number - 1])
            elif isinstance(item, Choice):
                ends = self._choice(item, at, main)
            else:
                stretch = self._state(self.any, Kind.stretch, [(at.through, 0.0, -1), *_free(at.phones)])
                ends = at.ends()._replace(nodes=((stretch, 0.0, -1), (at.through, 0.0, -1)))
        return ends

    def _choice(self, item: Choice, at: _Junction, main: bool) -> _Ends:
        ends = [self._items(option, at, main and not number) for number, option in enumerate(item.options)]
        phones = dict.fromkeys(phone for end in ends for phone in end.phones)
        nodes = dict.fromkeys(node for end in ends for node in end.nodes)
        return _Ends(tuple(phones), tuple(nodes), tuple(dict.fromkeys(gap for end in ends for gap in end.gaps)))

    def _unit(self, unit: Unit, at: _Junction, main: bool, is_repeated: bool) -> _Ends:
        last, inner = [], BLANK if self.costs else self.any + 1
        number, self.units = self.units, self.units + 1
        encoded = list(dict.fromkeys(tuple(self.encode(phones)) for phones in unit.pronunciations))
        for variant, labels in enumerate(encoded):
            state, blank = -1, -1
            for place, label in enumerate(labels):
                if place:
                    blank = self._state(inner, Kind.blank, _free([state]), number)
                before = [(blank, 0.0, -1), *self._follow(label, [state])] if place else None
                arcs = before or [(at.through, 0.0, -1), *self._follow(label, at.phones)]
                state = self._state(label, Kind.phone, arcs, number, place)
                if main and not variant:
                    self.spine.append(state)
            last.append(state)
        if not self.costs:
            return _Ends(tuple(last), ())
        return _Ends(tuple(last), (), self._gaps(number, at, is_repeated and not unit.is_phone))

    def _gaps(self, unit: int, at: _Junction, is_repeated: bool) -> tuple[Arc, ...]:
        """Return the arcs that leave a unit out: as the first of a gap, and as one of those that follow."""
        assert self.costs is not None
        missing = float(self.costs.missing[unit])
        first = missing + float(self.costs.gap[unit])
        if is_repeated:
            first = min(first, float(self.costs.repeat[unit]))
        return (at.through, -first, unit), *([(at.gap, -missing, unit)] if at.gap >= 0 else [])


def _free(states: Iterable[int]) -> list[Arc]:
    """Return arcs from states at no cost."""
    return [(state, 0.0, -1) for state in states]


class Costs(NamedTuple):
    """What departures from a transcript cost, in nats; all are positive.

    Attributes
    ----------
    extra : float
        To begin a stretch that is not in the transcript, and to end it; what its frames cost is in their emissions.
    gap : ndarray, shape = (units,), float64
        To begin to leave units out with this one; several in a row are one gap.
    missing : ndarray, shape = (units,), float64
        To leave a unit out.
    repeat : ndarray, shape = (units,), float64
        To leave out a word that is the same as the one before it.
    """

    extra: float
    gap: Values
    missing: Values
    repeat: Values


class Fits(NamedTuple):
    """How units fit where a first pass has placed them, in order of time; each shape = (n,).

    Attributes
    ----------
    unit : ndarray, int64
        Their numbers.
    begin, end : ndarray, float64
        Their frames: from `begin` to before `end`.
    deficit : ndarray, float64
        By how much they are less probable than the best classes of their frames, per phone, nats.
    beside : ndarray, bool
        Whether something was said before or after them that is not in the transcript.
    """

    unit: NDArray[np.int64]
    begin: Values
    end: Values
    deficit: Values
    beside: NDArray[np.bool_]


def costs_of_all_placed(units: int) -> Costs:
    """Return costs for the pass to learn from: what is said beyond the transcript is found, and no unit is left out."""
    never = np.full(units, NEVER)
    return Costs(EXTRA_COST, never, never, never)


def learned_costs(fits: Fits, units: Sequence[Unit], step: float) -> Costs:
    """Return costs learned from a path that leaves no unit out.

    A unit should be left out if it fits worse than the units around it usually do, for the net may fail in a whole part
    of a recording. With the median q2 and the upper quartile q3 of the deficits there, a deficit per phone is unusual
    from ``q3 + SPREADS (q3 - q2)`` on. Those of the whole recording count instead if this makes it less: a whole
    part of the transcript may not be said. A unit left out costs this as often as `UNIT` says, and a gap `GAP` times
    more: where the net fails, it fails for some phones in a row. The second of two equal words is more often a slip of
    the pen than said: it costs q3 for each phone.

    Parameters
    ----------
    fits : Fits
        May be empty.
    units : sequence of Unit
        All units of the transcript.
    step : float
        Seconds from one frame to the next.
    """
    phones = np.array([min(map(len, unit.pronunciations)) for unit in units], np.float64)
    times = UNIT[0] * phones ** UNIT[1]
    if len(fits.unit) < MIN_UNITS:
        return Costs(
            EXTRA_COST,
            np.full(len(units), GAP * MIN_UNUSUAL_DEFICIT),
            MIN_UNUSUAL_DEFICIT * times,
            0.5 * MIN_UNUSUAL_DEFICIT * phones,
        )
    middle, upper = _quartiles(fits, AROUND / step)
    unusual = np.minimum(_fence(middle, upper), _fence(*np.percentile(fits.deficit, (50, 75))))
    unusual = np.maximum(unusual, MIN_UNUSUAL_DEFICIT) * np.where(fits.beside, BESIDE, 1.0)
    unusual, upper = (np.interp(np.arange(len(units)), fits.unit, values) for values in (unusual, upper))
    return Costs(EXTRA_COST, GAP * unusual, unusual * times, upper * phones)


def _fence(middle: Values, upper: Values) -> Values:
    """Return from where on a deficit is unusual, by the median and the upper quartile."""
    return upper + SPREADS * (upper - middle)


def _quartiles(fits: Fits, around: float) -> tuple[Values, Values]:
    """Return the median and the upper quartile of the deficits so many frames around each unit.

    A unit counts by its length: many words that were not said have little room, and must not seem usual there.
    """
    centre, length = (fits.begin + fits.end) / 2, fits.end - fits.begin
    found = np.zeros((2, len(centre)))
    for number, (low, high) in enumerate(np.searchsorted(centre, (centre - around, centre + around)).T.tolist()):
        order = low + np.argsort(fits.deficit[low:high])
        below = np.cumsum(length[order])
        at = np.searchsorted(below, np.array((0.5, 0.75)) * below[-1])
        found[:, number] = fits.deficit[order[at]]
    return found[0], found[1]
