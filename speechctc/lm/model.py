"""Language models of phones: n-grams as automata, whose tables the search reads, and the protocol of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.lm.ngram import ROOT, START, Integers, Labels, Ngram, Reals, estimate
from speechctc.phones.inventory import Inventory

END = 0  # column of the end of a sequence
AT_ONCE = 2**12  # rows that are computed together
MAX_ENTRIES = 2**29  # in one table: 2 GiB for each of the two
MAX_STRINGS = 2**25  # of an n-gram: a file has some ten bytes for each


class PhoneLM:
    """An n-gram of phones. A state is a context that was seen in training; state 0 is the start of an utterance.

    Parameters
    ----------
    log_probs : ndarray, shape = (states, classes), float32
        Log probability of each class after each context; column 0: of the end of the utterance.
    next_state : ndarray, shape = (states, classes), int32
        The state after each class: the longest context seen in training that is an end of the old context and the
        class. Column 0 is not used.
    contexts : Contexts, optional
        What the rows are computed from when they are asked for. None: they are there.

    Attributes
    ----------
    ngram : Ngram or None
        The strings that it was compiled from; files hold these. None: only the tables are known.
    classes : int
        The number of phones and 1.
    """

    def __init__(
        self, log_probs: NDArray[np.float32], next_state: NDArray[np.int32], contexts: Contexts | None = None
    ) -> None:
        self._tables = np.ascontiguousarray(log_probs), np.ascontiguousarray(next_state)
        self._contexts, self.classes = contexts, log_probs.shape[1]
        self._is_there = np.full(len(log_probs), contexts is None)
        self.ngram = contexts.ngram if contexts else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies from the strings, where they are known: the tables are many times as large."""
        if self.ngram is None:
            return PhoneLM, self._tables
        return PhoneLM.from_tensors, (self.to_tensors(), self.classes)

    @property
    def log_probs(self) -> NDArray[np.float32]:
        """The log probabilities, all computed."""
        return self.tables()[0]

    @property
    def next_state(self) -> NDArray[np.int32]:
        """The next states, all computed."""
        return self.tables()[1]

    def tables(self, states: NDArray[Any] | None = None) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return `log_probs` and `next_state`, of which the rows of these states, by default all, are computed.

        A short recording needs few of many rows, and a row takes no memory before it is computed.
        """
        contexts, wanted = self._contexts, slice(None) if states is None else states
        if contexts is None or self._is_there[wanted].all():
            return self._tables
        missing = np.flatnonzero(~self._is_there) if states is None else np.unique(states[~self._is_there[states]])
        for part in np.array_split(missing, len(missing) // AT_ONCE + 1):
            for table, rows in zip(self._tables, contexts.rows(part), strict=True):
                table[part] = rows
        self._is_there[missing] = True
        if states is None:
            self._contexts = None
        return self._tables

    @classmethod
    def learn(
        cls, sequences: Iterable[Labels], classes: int, order: int, cutoff: int = 1, threshold: float = 0.0
    ) -> PhoneLM:
        """Estimate an n-gram from sequences; see `estimate`. Column 0 holds the end of the utterance."""
        return cls.of(estimate(sequences, classes, order, cutoff, threshold))

    @classmethod
    def of(cls, ngram: Ngram) -> PhoneLM:
        """Compile an n-gram: a row of all classes for each context, with back-off applied.

        Raises
        ------
        InputError
            It has more strings than `MAX_STRINGS`, or the tables would not fit into memory.
        """
        if (strings := len(ngram.token)) > MAX_STRINGS:
            what = f"an n-gram of {strings:,} strings, where {MAX_STRINGS:,} are the most"
            raise InputError(what, "prune it, or lower its order")
        contexts = Contexts.of(ngram)
        shape = len(contexts.node), ngram.classes
        if (size := shape[0] * shape[1]) > MAX_ENTRIES:
            what = f"an n-gram of {shape[0]:,} contexts and {ngram.classes - 1} phones"
            raise InputError(f"{what} takes {size * 8 / 2**30:.0f} GiB of memory", "prune it, or lower its order")
        return cls(np.empty(shape, np.float32), np.empty(shape, np.int32), contexts)

    @classmethod
    def flat(cls, classes: int) -> PhoneLM:
        """Return an n-gram in which all classes are equally probable after any context."""
        return cls(np.full((1, classes), -np.log(classes), np.float32), np.zeros((1, classes), np.int32))

    def log_prob(self, labels: Labels, state: int = START) -> float:
        """Return the log probability of a sequence after a state, including its end."""
        return sum(self.log_prob_of_each(labels, state))

    def log_prob_of_each(self, labels: Labels, state: int = START) -> list[float]:
        """Return the log probability of each label, and of the end, after a state and the labels before it."""
        found = []
        for label in (*labels, END):
            log_probs, next_state = self.tables(np.array([state]))
            found.append(float(log_probs[state, label]))
            state = int(next_state[state, label])
        return found

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return the strings as tensors, for `from_tensors`."""
        assert self.ngram is not None
        return self.ngram.to_tensors()

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], classes: int) -> PhoneLM:
        """Undo `to_tensors`.

        Raises
        ------
        KeyError
            A tensor is missing.
        ValueError
            The tensors are not those of an n-gram over so many classes.
        InputError
            The tables would not fit into memory.
        """
        return cls.of(Ngram.from_tensors(tensors, classes))


class Contexts(NamedTuple):
    """The states of an n-gram's automaton.

    Attributes
    ----------
    ngram : Ngram
    node : ndarray, shape = (states,)
        The node of each state's context.
    state : ndarray, shape = (nodes,)
        The state after each node's string.
    first_child : ndarray, shape = (nodes + 1,)
        The first node whose parent is this one or a later one.
    """

    ngram: Ngram
    node: Integers
    state: Integers
    first_child: Integers

    @classmethod
    def of(cls, ngram: Ngram) -> Contexts:
        """Find the states, the start of an utterance first.

        A node without children and with back-off weight 1 has the predictions of its suffix, and needs no state.
        """
        apart = (ngram.has_children | (ngram.backoff != 0)) & (ngram.token != ngram.end)
        apart[ROOT] = True
        home = np.arange(len(apart))
        for length in range(1, ngram.order + 1):
            nodes = ngram.nodes(length)
            home[nodes] = np.where(apart[nodes], nodes, home[ngram.suffix[nodes]])
        first = home[max(int(ngram.find(np.array([ROOT]), np.array([START]))[0]), ROOT)]
        rest = np.flatnonzero(apart)
        rest = rest[(rest != first) & (rest != ROOT)]
        node = np.concatenate([[first], rest, [] if first == ROOT else [ROOT]]).astype(np.int64)
        number = np.zeros(len(apart), np.int64)
        number[node] = np.arange(len(node))
        children = np.bincount(ngram.parent[1:], minlength=len(apart))
        return cls(ngram, node, number[home], np.concatenate([[1], 1 + np.cumsum(children)]))

    def rows(self, states: Integers) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Return the rows of `PhoneLM.log_probs` and `PhoneLM.next_state` of some states."""
        ngram, wanted = self.ngram, self.node[states]
        nodes, more = np.array([ROOT]), wanted
        while len(more):  # and the contexts that they back off to
            nodes, more = np.append(nodes, more), self.node[self.state[ngram.suffix[more]]]
            more = more[more != ROOT]
        nodes = np.unique(nodes)  # the shorter ones first
        log_probs = np.full((len(nodes), ngram.classes), ngram.unseen)
        following = np.full(log_probs.shape, self.state[ROOT], np.int32)
        for length, start in enumerate(np.searchsorted(nodes, ngram.starts[:-2])):
            own = np.arange(start, np.searchsorted(nodes, ngram.starts[length + 1]))
            if length:
                shorter = np.searchsorted(nodes, self.node[self.state[ngram.suffix[nodes[own]]]])
                log_probs[own] = log_probs[shorter] + ngram.backoff[nodes[own]][:, None]
                following[own] = following[shorter]
            first, end = self.first_child[nodes[own]], self.first_child[nodes[own] + 1]
            counts = end - first
            longer = np.arange(counts.sum()) + np.repeat(end - np.cumsum(counts), counts)
            row, is_phone = np.repeat(own, counts), ngram.token[longer] != START
            row, longer = row[is_phone], longer[is_phone]
            log_probs[row, ngram.token[longer] % ngram.classes] = ngram.log_prob[longer]
            following[row, ngram.token[longer] % ngram.classes] = self.state[longer]
        following[:, END] = START
        log_probs -= 0.0 if ngram.less is None else ngram.less
        at = np.searchsorted(nodes, wanted)
        return log_probs[at].astype(np.float32), following[at]


Sequences = Sequence[Sequence[int]]

ABOUT = "lm.json"
"""The file of an LSTM's folder that says what it is."""


class LanguageModel(Protocol):
    """A probability distribution over sequences of phones; class 0 is the end, phones count from 1."""

    @property
    def inventory(self) -> Inventory:
        """The phones."""

    @property
    def kind(self) -> str:
        """A description, such as ``"4-gram"``."""

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""

    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start).

        Returns
        -------
        log_probs : ndarray, shape = (n_utterances, classes)
            Log probability of each next class.
        state : any
        """


@dataclass(frozen=True)
class NgramModel:
    """An n-gram as a language model.

    Attributes
    ----------
    lm : PhoneLM
    inventory : Inventory
    kind : str
    missing : tuple of str
        Phones that it has no probability for.
    """

    lm: PhoneLM
    inventory: Inventory
    kind: str = "n-gram"
    missing: tuple[str, ...] = ()

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        return np.array([self.lm.log_prob(labels) for labels in sequences])

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""
        return np.zeros(count, np.int64)

    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start); see `LanguageModel.step`."""
        state = state if labels is None else self.lm.next_state[state, np.asarray(labels)]
        return self.lm.log_probs[state].astype(np.float64), state


def sample(
    model: LanguageModel, count: int, seed: int, temperature: float, prefix: Sequence[int], longest: int
) -> Iterator[list[int]]:
    """Draw sequences of phones.

    Parameters
    ----------
    model : LanguageModel
    count : int
    seed : int
    temperature : float
        Log probabilities are divided by it; 0: always the most probable phone.
    prefix : sequence of int
        Beginning of each sequence.
    longest : int
        Most phones in a sequence.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        labels = list(prefix)
        log_probs, state = model.step(model.begin(1), None)
        for label in labels:
            log_probs, state = model.step(state, [label])
        while len(labels) < longest and (label := _draw(log_probs[0], temperature, rng)) != END:
            labels.append(label)
            log_probs, state = model.step(state, [label])
        yield labels


def _draw(log_probs: Reals, temperature: float, rng: np.random.Generator) -> int:
    if temperature == 0:
        return int(log_probs.argmax())
    noise = rng.gumbel(size=len(log_probs))  # the maximum of log p + Gumbel noise is a draw from p
    return int((log_probs / temperature + noise).argmax())


def find_lstm(path: Path) -> Path | None:
    """Return the folder of the model in a folder of ``lm train``: itself, its ``best`` or its ``last``."""
    places = (path, path / "best", path / "last")
    return next((folder for folder in places if (files.standing(folder) / ABOUT).is_file()), None)
