"""Compile a transcript into a graph of CTC states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.alignment.transcript import Choice, Item, Unit, units_of
from speechctc.ctc.graph import MOST_SOURCES, NODE, StateGraph
from speechctc.errors import InputError

BLANK = 0


class Kind(IntEnum):
    """What a state stands for."""

    node = 0
    blank = 1
    phone = 2
    silence = 3
    stretch = 4  # of a * in the transcript
    extra = 5  # not in the transcript


class Costs(NamedTuple):
    """What departures from a transcript cost, in nats; all are positive.

    Attributes
    ----------
    extra : float
        To begin a stretch that is not in the transcript; what its frames cost is in their emissions.
    missing : float
        To leave a unit out, per phone.
    """

    extra: float
    missing: float


class CompiledTranscript(NamedTuple):
    """A graph, and what its states and arcs stand for.

    Attributes
    ----------
    graph : StateGraph
        Columns are classes of the net; the column after the last class is that of any stretch.
    kind : ndarray, shape = (states,), int8
        A `Kind` each.
    unit : ndarray, shape = (states,), int32
        The number of the unit that the state belongs to; -1 for those between units.
    place : ndarray, shape = (states,), int32
        For phones: which phone of its pronunciation it is; else -1.
    left_out : dict of int to int
        Number of the unit that each of these arcs leaves out.
    units : tuple of Unit
        In reading order.
    spine : ndarray, shape = (n,), int32
        States of the phones of all units, in order: of the first pronunciation, and of the first alternative.
    """

    graph: StateGraph
    kind: NDArray[np.int8]
    unit: NDArray[np.int32]
    place: NDArray[np.int32]
    left_out: dict[int, int]
    units: tuple[Unit, ...]
    spine: NDArray[np.int32]


class _Ends(NamedTuple):
    """How a part of the graph is left: by phones whose next frame may be another phone, and through nodes."""

    phones: tuple[int, ...]
    nodes: tuple[tuple[int, float, int], ...]  # state, log weight, unit left out or -1


class _Junction(NamedTuple):
    """The place between two parts: the phones before it, and a state that all the other ways pass through."""

    phones: tuple[int, ...]
    through: int


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
    kinds, units, places = (np.array(column) for column in zip(*builder.owners, strict=True))
    most = max(map(len, builder.arcs))
    if most > MOST_SOURCES:
        what = f"{most} ways meet between two parts of the transcript; at most {MOST_SOURCES} are possible"
        raise InputError(what, "leave out alternatives, or optional parts in a row")
    graph = StateGraph.build(builder.columns, [[(s, w) for s, w, _ in arcs] for arcs in builder.arcs])
    out = [unit for arcs in builder.arcs for _, _, unit in arcs]
    left_out = {arc: unit for arc, unit in enumerate(out) if unit >= 0}
    return CompiledTranscript(
        graph,
        kinds.astype(np.int8),
        units.astype(np.int32),
        places.astype(np.int32),
        left_out,
        tuple(units_of(items)),
        np.array(builder.spine, np.int32),
    )


class _Builder:
    """Adds states and arcs in the order of the transcript."""

    def __init__(
        self,
        encode: Callable[[Sequence[str]], list[int]],
        classes: int,
        costs: Costs | None,
        silences: Sequence[int],
    ) -> None:
        self.encode, self.any, self.costs, self.silences = encode, classes, costs, silences
        self.columns: list[int] = []
        self.arcs: list[list[tuple[int, float, int]]] = []
        self.owners: list[tuple[Kind, int, int]] = []
        self.spine: list[int] = []
        self.units = 0

    def sequence(self, items: Sequence[Item]) -> None:
        start = self._state(NODE, Kind.node, [])
        ends = self._items(items, self._junction(_Ends((), ((start, 0.0, -1),))), True)
        last = self._junction(ends)
        self._state(NODE, Kind.node, [(last.through, 0.0, -1), *_free(last.phones)])

    def _state(
        self, column: int, kind: Kind, arcs: list[tuple[int, float, int]], unit: int = -1, place: int = -1
    ) -> int:
        self.columns.append(column)
        self.arcs.append(arcs)
        self.owners.append((kind, unit, place))
        return len(self.columns) - 1

    def _junction(self, ends: _Ends) -> _Junction:
        """Add the states between two parts: a blank, silences, a stretch that is not in the transcript."""
        blank = self._state(BLANK, Kind.blank, _free(ends.phones))
        silences = [self._state(label, Kind.silence, self._follow(label, ends.phones)) for label in self.silences]
        self.arcs[blank] += _free(silences)
        phones = (*ends.phones, *silences)
        if not (ends.nodes or self.costs):
            through = blank
        elif not self.costs:
            through = self._state(NODE, Kind.node, [(blank, 0.0, -1), *ends.nodes])
            self.arcs[blank].append((through, 0.0, -1))
        else:
            cost = -self.costs.extra
            extra = self._state(self.any, Kind.extra, [(phone, cost, -1) for phone in ends.phones])
            through = self._state(NODE, Kind.node, [*_free((blank, extra)), *ends.nodes])
            self.arcs[blank].append((through, 0.0, -1))
            self.arcs[extra].append((through, cost, -1))
        for silence in silences:
            self.arcs[silence].append((through, 0.0, -1))
        return _Junction(phones, through)

    def _follow(self, label: int, phones: Sequence[int]) -> list[tuple[int, float, int]]:
        """Return arcs from phones straight to a phone: CTC needs a blank between two of the same class."""
        return _free(phone for phone in phones if self.columns[phone] != label)

    def _items(self, items: Sequence[Item], junction: _Junction, main: bool) -> _Ends:
        """Add items in a row; `main`: their phones belong to the spine."""
        ends = _Ends(junction.phones, ((junction.through, 0.0, -1),))
        for number, item in enumerate(items):
            at = self._junction(ends) if number else junction
            if isinstance(item, Unit):
                ends = self._unit(item, at, main)
            elif isinstance(item, Choice):
                ends = self._choice(item, at, main)
            else:
                stretch = self._state(self.any, Kind.stretch, [(at.through, 0.0, -1), *_free(at.phones)])
                ends = _Ends(at.phones, ((stretch, 0.0, -1), (at.through, 0.0, -1)))
        return ends

    def _choice(self, item: Choice, at: _Junction, main: bool) -> _Ends:
        ends = [self._items(option, at, main and not number) for number, option in enumerate(item.options)]
        phones = dict.fromkeys(phone for end in ends for phone in end.phones)
        return _Ends(tuple(phones), tuple(dict.fromkeys(node for end in ends for node in end.nodes)))

    def _unit(self, unit: Unit, at: _Junction, main: bool) -> _Ends:
        last = []
        number, self.units = self.units, self.units + 1
        encoded = list(dict.fromkeys(tuple(self.encode(phones)) for phones in unit.pronunciations))
        for variant, labels in enumerate(encoded):
            state, blank = -1, -1
            for place, label in enumerate(labels):
                if place:
                    blank = self._state(BLANK, Kind.blank, _free([state]), number)
                before = [(blank, 0.0, -1), *self._follow(label, [state])] if place else None
                arcs = before or [(at.through, 0.0, -1), *self._follow(label, at.phones)]
                state = self._state(label, Kind.phone, arcs, number, place)
                self.spine += [state] if main and not variant else []
            last.append(state)
        if not self.costs:
            return _Ends(tuple(last), ())
        cost = self.costs.missing * min(map(len, encoded))
        return _Ends(tuple(last), ((at.through, -cost, number),))


def _free(states: Iterable[int]) -> list[tuple[int, float, int]]:
    """Return arcs from states at no cost."""
    return [(state, 0.0, -1) for state in states]
