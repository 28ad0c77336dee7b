"""An n-gram of phones as an automaton, whose tables the search reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.ngram.kneser_ney import Labels, estimate
from speechctc.ngram.trie import ROOT, START, Integers, Ngram, are_log_probs

END = 0  # column of the end of a sequence
MOST_ENTRIES = 2**29  # in one table: 2 GiB for each of the two


@dataclass(frozen=True, eq=False)
class PhoneLM:
    """An n-gram of phones. A state is a context that was seen in training; state 0 is the start of an utterance.

    Attributes
    ----------
    log_probs : ndarray, shape = (states, classes), float32
        Log probability of each class after each context; column 0: of the end of the utterance.
    next_state : ndarray, shape = (states, classes), int32
        The state after each class: the longest context seen in training that is an end of the old context and the
        class. Column 0 is not used.
    ngram : Ngram, optional
        The strings that it was compiled from; files hold these. None: only the tables are known.
    """

    log_probs: NDArray[np.float32]
    next_state: NDArray[np.int32]
    ngram: Ngram | None = None

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
            The tables would not fit into memory.
        """
        contexts, home = _contexts(ngram)
        number = np.zeros(len(ngram.parent), np.int64)
        number[contexts] = np.arange(len(contexts))
        size = len(contexts) * ngram.classes
        if size > MOST_ENTRIES:
            what = f"an n-gram of {len(contexts):,} contexts and {ngram.classes - 1} phones"
            raise InputError(f"{what} takes {size * 8 / 2**30:.0f} GiB of memory", "prune it, or lower its order")
        log_probs = np.full((len(contexts), ngram.classes), ngram.unseen)
        following = np.full(log_probs.shape, number[ROOT], np.int32)
        for length in range(ngram.order):
            own = np.sort(contexts[(contexts >= ngram.starts[length]) & (contexts < ngram.starts[length + 1])])
            if length:
                shorter = number[home[ngram.suffix[own]]]
                log_probs[number[own]] = log_probs[shorter] + ngram.backoff[own][:, None]
                following[number[own]] = following[shorter]
            longer = ngram.nodes(length + 1)
            longer = longer[ngram.token[longer] != START]
            row, token = number[ngram.parent[longer]], ngram.token[longer]
            log_probs[row, token % ngram.classes] = ngram.log_prob[longer]
            following[row, token % ngram.classes] = number[home[longer]]
        following[:, END] = START
        return cls(log_probs.astype(np.float32), following, ngram)

    @classmethod
    def flat(cls, classes: int) -> PhoneLM:
        """Return an n-gram in which all classes are equally probable after any context."""
        return cls(np.full((1, classes), -np.log(classes), np.float32), np.zeros((1, classes), np.int32))

    def log_prob(self, labels: Labels) -> float:
        """Return the log probability of a sequence, including its end."""
        state, total = START, 0.0
        for label in labels:
            total += float(self.log_probs[state, label])
            state = self.next_state[state, label]
        return total + float(self.log_probs[state, END])

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return the strings, or where they are not known the tables, as tensors for `from_tensors`."""
        if self.ngram is not None:
            return self.ngram.to_tensors()
        small = np.int16 if len(self.next_state) <= 2**15 else np.int32
        return {"lm.log_probs": self.log_probs, "lm.next_state": self.next_state.astype(small)}

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
        if "lm.next_state" not in tensors:
            return cls.of(Ngram.from_tensors(tensors, classes))
        reals, states = np.asarray(tensors["lm.log_probs"]), np.asarray(tensors["lm.next_state"])
        if reals.dtype.kind != "f" or states.dtype not in (np.int16, np.int32):
            raise ValueError(f"an n-gram's tables of types {reals.dtype} and {states.dtype}")
        if reals.ndim != 2 or not reals.size or reals.shape != states.shape:
            raise ValueError(f"an n-gram's tables of shapes {reals.shape} and {states.shape}")
        log_probs, next_state = reals.astype(np.float32), states.astype(np.int32)
        if log_probs.shape[1] != classes:
            raise ValueError(f"an n-gram over {log_probs.shape[1]} classes, where {classes} are wanted")
        if not are_log_probs(log_probs) or next_state.min() < 0 or next_state.max() >= len(next_state):
            raise ValueError("an n-gram with impossible probabilities or states")
        return cls(log_probs, next_state)


def _contexts(ngram: Ngram) -> tuple[Integers, Integers]:
    """Return the nodes that become states, the start of an utterance first, and for each node its state's node.

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
    return np.concatenate([[first], rest, [] if first == ROOT else [ROOT]]).astype(np.int64), home
