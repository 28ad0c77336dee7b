"""The posteriors of a recording, and a transcript placed in them; what does not fit is found."""

from __future__ import annotations

import io
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core.devices import give_back_memory
from speechctc.core.errors import InputError
from speechctc.core.packed import Packed
from speechctc.ctc.graph import Band, GraphPath, graph_viterbi
from speechctc.inference.transcript import (
    CompiledTranscript,
    Fits,
    Item,
    Kind,
    compile_transcript,
    costs_of_all_placed,
    learned_costs,
    units_of,
)
from speechctc.phones.inventory import BLANK

EXACT_CELLS = 1_000_000_000  # pairs of frames and states up to which all are looked at
MAX_CELLS = 20 * EXACT_CELLS  # pairs of frames and states up to which a band is widened
WIDER = 6000  # frames on each side of where a path is near an edge in which the band is made wider, at least
REACH = (1500, 400)  # how far a band reaches from its middle line at first, in frames and in states
# By how much a class is less probable than the best of its frame at most where misfits are sought, nats: one phone that
# was said wrongly does not make its word another.
WORST = 8.0
# What a blank inside a word costs more than one between words where all words are placed, nats a frame: pauses are
# between words, and a word whose first or last sound is not heard is not torn apart by one.
INSIDE = 0.1
# Between two phones that stand alone a blank costs as much from so many frames to so many after the net has heard a
# phone: a word that was said twice is not torn apart over both, and a pause costs 4.5 nats at most.
PAUSE = 5, 50
PER_PHONE = 0.5  # what a stretch that is not in the transcript costs for each phone recognised in it, nats

Watch = Callable[[str], None]

AGREE = 3  # fewest phones in a row that must be recognised as in the transcript to be an anchor
EDGE = 6  # a path touches the edge of its band where it comes this near to it, in states


class Visit(NamedTuple):
    """A phone on the path.

    Attributes
    ----------
    unit : int
        Number of its unit; -1 for a silence between units.
    place : int
        Which phone of the unit's pronunciation it is; -1 for a silence.
    first, end : int
        Its frames, without blanks: from `first` to before `end`.
    deficit : float
        By how much the best class of each of its frames, and of the blanks before it in its unit, is more probable
        than the path, summed up; nats.
    """

    unit: int
    place: int
    first: int
    end: int
    deficit: float


class Visits(Packed[Visit]):
    """Visits in little memory."""

    form = "=4id"

    def unpack(self, place: int, numbers: tuple[Any, ...]) -> Visit:
        """Return a visit."""
        return Visit(*numbers)


class Stretch(NamedTuple):
    """Frames from `first` to before `end` without phones of the transcript; `wanted`: there is a ``*`` for them."""

    first: int
    end: int
    wanted: bool


@dataclass(frozen=True)
class Placement:
    """The most probable way to place a transcript.

    Attributes
    ----------
    score : float
        Log probability of the path, costs of misfits included; -inf if the transcript does not fit into the recording.
    classes : ndarray, shape = (n_frames,), int16
        The class of each frame; the blank in stretches without phones of the transcript.
    visits : Visits
    stretches : tuple of Stretch
    missing : tuple of (int, int)
        Units left out: the frame after which each would be, and its number.
    touched : int or None
        The first frame in which the path is near the edge of its band; None: it is nowhere, or there is no band.
    is_exact : bool
        All states were looked at in all frames.
    """

    score: float
    classes: NDArray[np.int16]
    visits: Visits
    stretches: tuple[Stretch, ...]
    missing: tuple[tuple[int, int], ...]
    touched: int | None
    is_exact: bool


def place(
    items: Sequence[Item],
    encode: Callable[[Sequence[str]], list[int]],
    posteriors: Posteriors,
    step: float,
    find_misfits: bool = False,
    silences: Sequence[int] = (),
    watch: Watch | None = None,
) -> Placement:
    """Place a transcript in a recording.

    Parameters
    ----------
    items : sequence of Item
    encode : callable
        Phones to classes.
    posteriors : Posteriors
    step : float
        Seconds from one frame to the next.
    find_misfits : bool
        Units may be missing from the recording, and the recording may hold more than the transcript. What that costs
        is learned from how well the units fit.
    silences : sequence of int
        Classes that may stand between units.
    watch : callable, optional
        Called in words with how far the search is.

    Raises
    ------
    InputError
        As `compile_transcript`.
    """
    if not find_misfits:
        return _place(compile_transcript(items, encode, posteriors.classes, None, silences), posteriors, watch)
    costs = costs_of_all_placed(sum(1 for _ in units_of(items)))
    compiled = compile_transcript(items, encode, posteriors.classes, costs, silences)
    costs = learned_costs(fits(_place(compiled, posteriors, watch, WORST)), compiled.units, step)
    del compiled  # before the next: of hours it is large
    return _place(compile_transcript(items, encode, posteriors.classes, costs, silences), posteriors, watch, WORST)


def fits(placed: Placement) -> Fits:
    """Return how the units of a path fit."""
    inside = [_fit(list(group)) for unit, group in groupby(placed.visits, lambda visit: visit.unit) if unit >= 0]
    deficits = np.array([each.deficit for each in inside], np.float64)
    after = np.searchsorted(
        [each.first for each in inside], [each.first for each in placed.stretches if not each.wanted]
    )
    padded = np.concatenate([[-1.0], deficits, [-1.0]])
    beside = np.zeros(len(padded), bool)
    beside[after + (padded[after + 1] > padded[after])] = True
    return Fits(
        np.array([each.unit for each in inside], np.int64),
        np.array([each.first for each in inside], np.float64),
        np.array([each.end for each in inside], np.float64),
        deficits,
        beside[1:-1],
    )


def _fit(visits: Sequence[Visit]) -> Visit:
    """Return the visits of a unit as one, with their mean deficit."""
    return visits[0]._replace(end=visits[-1].end, deficit=float(np.mean([visit.deficit for visit in visits])))


def _place(
    compiled: CompiledTranscript, posteriors: Posteriors, watch: Watch | None, worst: float = np.inf
) -> Placement:
    emissions = posteriors.with_any(PER_PHONE, worst)
    states, frames = compiled.graph.states, posteriors.frames
    band = Band.full(frames, states)
    if band.cells <= EXACT_CELLS:
        path = graph_viterbi(compiled.graph, emissions, frames, band, advance=_advance(watch, frames))
        return _placement(compiled, posteriors, path, np.zeros(0, np.int64), True)
    give_back_memory()  # of transcripts and paths before, in whose holes the arrays of this one do not fit
    wider = np.ones(frames, np.int32)  # how many times as far as at first the band reaches, by frame
    while True:
        band = anchored_band(compiled, posteriors, wider)
        path = graph_viterbi(compiled.graph, emissions, frames, band, advance=_advance(watch, frames))
        near = touches(path.states, band, states)
        is_narrow = _around(near, wider) if path.score > -np.inf else np.ones(frames, bool)
        wider[is_narrow] *= 2
        if not is_narrow.any() or 2 * band.cells > MAX_CELLS or REACH[0] * wider.max() > 2 * frames:
            return _placement(compiled, posteriors, path, near, False)


def _around(near: NDArray[np.int64], wider: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which frames are so near to some that the band is to be wider there: in the rest of hours it suffices."""
    marks = np.zeros(len(wider) + 1, np.int32)
    far = np.maximum(2 * REACH[0] * wider[near].astype(np.int64), WIDER)
    np.add.at(marks, np.maximum(near - far, 0), 1)
    np.add.at(marks, np.minimum(near + far + 1, len(wider)), -1)
    around: NDArray[np.bool_] = np.cumsum(marks[:-1], out=marks[:-1]) > 0
    return around


def _advance(watch: Watch | None, frames: int) -> Callable[[int], None] | None:
    """Return what is called with a number of frames when these are done in one of the two passes of a search."""
    if watch is None:
        return None
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        watch(f"path {100 * done // (2 * frames)} %")

    return advance


def _placement(
    compiled: CompiledTranscript, posteriors: Posteriors, path: GraphPath, touched: NDArray[np.int64], is_exact: bool
) -> Placement:
    """Return what a path says."""
    if path.score == -np.inf:
        return Placement(path.score, np.zeros(0, np.int16), Visits(), (), (), None, is_exact)
    kinds, columns = compiled.kind[path.states], compiled.graph.column[path.states]
    is_dear = (columns == posteriors.classes + 1) | ((columns == posteriors.classes + 2) & posteriors.pausing)
    columns[columns > posteriors.classes] = BLANK
    spoken = (kinds == Kind.phone) | (kinds == Kind.silence)
    classes = np.where(spoken, columns, BLANK).astype(np.int16)
    missing = [(int(frame), int(unit)) for frame, arc in path.jumps if (unit := compiled.left_out[arc]) >= 0]
    return Placement(
        path.score + INSIDE * np.count_nonzero(is_dear),
        classes,
        _visits(compiled, _deficits(columns, posteriors), path, spoken),
        tuple(_stretches(kinds)),
        tuple(missing),
        int(touched[0]) if len(touched) else None,
        is_exact,
    )


def _visits(
    compiled: CompiledTranscript, before: NDArray[np.float64], path: GraphPath, spoken: NDArray[np.bool_]
) -> Visits:
    edges = np.flatnonzero(np.diff(path.states, prepend=-1, append=-1))
    last: Visit | None = None
    visits = Visits()
    for first, end in pairwise(map(int, edges)):
        if spoken[first]:
            state = path.states[first]
            unit = int(compiled.unit[state])
            inside = last is not None and last.unit == unit and compiled.place[state] > 0
            begin = last.end if last is not None and inside else first
            deficit = float(before[end] - before[begin])
            last = Visit(unit, int(compiled.place[state]), first, end, deficit)
            visits.append(last)
    return visits


def _deficits(columns: NDArray[np.int32], posteriors: Posteriors) -> NDArray[np.float64]:
    """Return by how much the best classes before each frame are more probable than those of the path, (n_frames + 1,).

    They are summed up from the first frame.
    """
    before, every, start = np.zeros(posteriors.frames + 1), posteriors.best, 0
    for rows in posteriors.blocks():
        part = slice(start, start + len(rows))
        wanted, best = columns[part], every[part]
        own = rows[np.arange(len(rows)), np.minimum(wanted, posteriors.classes - 1)].astype(np.float64)
        before[1:][part] = np.where(wanted < posteriors.classes, np.maximum(best - own, 0.0), 0.0)
        start += len(rows)
    return np.cumsum(before, out=before)


def _stretches(kinds: NDArray[np.int8]) -> list[Stretch]:
    """Return the stretches without phones of the transcript; blanks between two of a kind are part of them."""
    edges = np.flatnonzero(np.diff(kinds, prepend=-1, append=-1))
    return [
        Stretch(first, end, kinds[first] == Kind.stretch)
        for first, end in pairwise(map(int, edges))
        if kinds[first] in (Kind.extra, Kind.stretch)
    ]


def anchored_band(compiled: CompiledTranscript, posteriors: Posteriors, wider: NDArray[np.int32]) -> Band:
    """Return a band around the anchors.

    The phones of the best path without a transcript are aligned with those of the transcript, at a minimal number of
    edits. Stretches that agree are the anchors; between two anchors the band follows a straight line.

    Parameters
    ----------
    compiled : CompiledTranscript
    posteriors : Posteriors
    wider : ndarray, shape = (n_frames,), int32
        How many times as far as `REACH` the band reaches from that line at each frame, in each direction.
    """
    from rapidfuzz.distance import Levenshtein

    onsets = np.flatnonzero(posteriors.onsets)
    found = posteriors.greedy[onsets].tolist()
    wanted = compiled.graph.column[compiled.spine].tolist()
    at, to = array("d", [0.0]), array("d", [0.0])
    for block in Levenshtein.opcodes(found, wanted):
        if block.tag == "equal" and block.src_end - block.src_start >= AGREE:
            at.extend(onsets[block.src_start : block.src_end].tolist())
            to.extend(compiled.spine[block.dest_start : block.dest_end].tolist())
    last = compiled.graph.states
    at.append(float(max(posteriors.frames, at[-1] + 1)))
    to.append(float(last))
    low, high = (np.empty(posteriors.frames, np.int32) for _ in range(2))
    for start in range(0, posteriors.frames, BLOCK):  # in float64 the whole of hours would take more than the band
        part = slice(start, start + BLOCK)
        time = np.arange(start, min(start + BLOCK, posteriors.frames))
        frames, states = (each * wider[part].astype(np.int64) for each in REACH)
        low[part] = np.maximum(np.floor(np.interp(time - frames, at, to)) - states, 0)
        high[part] = np.clip(np.ceil(np.interp(time + frames, at, to)) + states, 1, last)
    high[-1:] = last
    # Wide also beside wide ones.
    return Band(np.minimum.accumulate(low[::-1])[::-1].copy(), np.maximum.accumulate(high))


def touches(path: NDArray[np.int32], band: Band, states: int) -> NDArray[np.int64]:
    """Return the frames in which a path is near an edge of its band beyond which there are more states."""
    below = (band.low > 0) & (path < band.low + EDGE)
    above = (band.high < states) & (path >= band.high - EDGE)
    return np.flatnonzero(below | above)


IN_MEMORY = 4_000_000  # most bytes to keep in memory
BLOCK = 2000  # frames to read at a time

Rows = NDArray[np.float32]


class Posteriors:
    """Log posteriors by frame, appended in blocks and read in any order; closes its temporary file at the end.

    Parameters
    ----------
    classes : int
        With the blank, class 0.

    Attributes
    ----------
    frames : int
        Frames so far.
    judged : Posteriors or None
        Those of the net that scores phones, where that is another; closed with these.
    """

    def __init__(self, classes: int) -> None:
        self.classes, self.frames = classes, 0
        self.judged: Posteriors | None = None
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._best: list[Rows] = []
        self._greedy: list[NDArray[np.int16]] = []

    def __enter__(self) -> Posteriors:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Delete the temporary file."""
        self._file.close()
        if self.judged is not None:
            self.judged.__exit__(kind, error, at)

    def append(self, rows: Rows) -> None:
        """Append frames, shape (n, classes).

        Raises
        ------
        InputError
            The temporary file cannot be written.
        """
        self.frames += len(rows)
        self._best.append(rows.max(axis=1, initial=-np.inf))
        self._greedy.append(rows.argmax(axis=1).astype(np.int16))
        try:
            self._file.seek(0, io.SEEK_END)
            self._file.write(rows.astype(np.float32, copy=False).tobytes())
        except OSError as error:
            what = f"{tempfile.gettempdir()}: log posteriors cannot be kept there: {error.strerror or error}"
            raise InputError(what, "free some space, or name another folder in TMPDIR") from None

    def read(self, start: int, stop: int) -> Rows:
        """Return frames ``start`` to ``stop - 1``, shape (n, classes)."""
        self._file.seek(start * self.classes * 4)
        read = np.frombuffer(self._file.read((stop - start) * self.classes * 4), np.float32)
        return read.reshape(-1, self.classes)

    def part(self, start: int, stop: int) -> Posteriors:
        """Return frames ``start`` to ``stop - 1``, as far as there are any, as posteriors of their own."""
        part = Posteriors(self.classes)
        for at in range(start, min(stop, self.frames), BLOCK):
            part.append(self.read(at, min(at + BLOCK, stop, self.frames)))
        part.judged = self.judged and self.judged.part(start, stop)
        return part

    def blocks(self) -> Iterator[Rows]:
        """Yield all frames in blocks."""
        for start in range(0, self.frames, BLOCK):
            yield self.read(start, min(start + BLOCK, self.frames))

    @property
    def best(self) -> Rows:
        """The log posterior of the most probable class of each frame, shape (n_frames,)."""
        self._best = [np.concatenate([np.zeros(0, np.float32), *self._best])]
        return self._best[0]

    @property
    def greedy(self) -> NDArray[np.int16]:
        """The most probable class of each frame, shape (n_frames,)."""
        self._greedy = [np.concatenate([np.zeros(0, np.int16), *self._greedy])]
        return self._greedy[0]

    @property
    def onsets(self) -> NDArray[np.bool_]:
        """Whether a phone of the best path begins in a frame, shape (n_frames,)."""
        greedy = self.greedy
        before = np.concatenate([np.zeros(1, np.int16), greedy[:-1]])[: len(greedy)]
        begins: NDArray[np.bool_] = (greedy != 0) & (greedy != before)
        return begins

    @property
    def pausing(self) -> NDArray[np.bool_]:
        """Whether as long ago as `PAUSE` says a phone was last the most probable class, shape (n_frames,)."""
        frames = np.arange(self.frames)
        silent = frames - np.maximum.accumulate(np.where(self.greedy != BLANK, frames, -PAUSE[1] - 1))
        found: NDArray[np.bool_] = (silent > PAUSE[0]) & (silent <= PAUSE[1])
        return found

    def with_any(self, per_phone: float, worst: float = np.inf) -> Callable[[int, int], Rows]:
        """Return emissions with columns for any stretch of sound, a blank inside a unit, and one between two phones.

        A stretch costs so much for each phone found in it. A class is at most by `worst` less probable than the best of
        its frame, nats.
        """
        every, onsets, pausing = self.best, self.onsets, self.pausing

        def emissions(start: int, stop: int) -> Rows:
            best = every[start:stop]
            rows = np.maximum(self.read(start, stop), (best - np.float32(worst))[:, None])
            stretch = best - np.float32(per_phone) * onsets[start:stop]
            inside = rows[:, BLANK] - np.float32(INSIDE)
            return np.column_stack([rows, stretch, inside, np.where(pausing[start:stop], inside, rows[:, BLANK])])

        return emissions
