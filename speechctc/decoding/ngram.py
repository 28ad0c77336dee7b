"""An n-gram of phones with interpolated Kneser-Ney smoothing, as an automaton.

R. Kneser and H. Ney, "Improved backing-off for m-gram language modeling", ICASSP 1995; modified Kneser-Ney with one
discount for each of the counts 1, 2 and 3 or more: S. F. Chen and J. Goodman, "An empirical study of smoothing
techniques for language modeling", Computer Speech and Language 13 (1999).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
Labels = Sequence[int] | NDArray[np.integer[Any]]

START = 0  # state, and the token before every sequence
END = 0  # column of the end of a sequence


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
    """

    log_probs: NDArray[np.float32]
    next_state: NDArray[np.int32]

    @classmethod
    def learn(cls, sequences: Iterable[Labels], classes: int, order: int) -> PhoneLM:
        """Estimate an n-gram from sequences.

        Parameters
        ----------
        sequences : iterable of sequence of int
            Labels of utterances, from 1 to ``classes - 1``.
        classes : int
            Number of classes with the blank, whose column holds the end of the utterance.
        order : int
            A phone's probability depends on the ``order - 1`` before it.

        Raises
        ------
        ValueError
            A label is out of range, or the order below 1.
        """
        if order < 1:
            raise ValueError(f"order {order}: must be 1 or more")
        levels = _count(_tokens(sequences, classes), classes, order)
        states = _number(levels, classes)
        count = states[0][0] + 1
        probs = np.full((count, classes), 1 / classes)
        following = np.full((count, classes), states[0][0], dtype=np.int32)
        for length in range(1, order + 1):
            if len(levels[length].token):
                _smooth(levels, states, length, probs)
                _link(levels, states, length, following)
        following[:, END] = START
        return cls(np.log(probs).astype(np.float32), following)

    def log_prob(self, labels: Labels) -> float:
        """Return the log probability of a sequence, including its end."""
        state, total = START, 0.0
        for label in labels:
            total += float(self.log_probs[state, label])
            state = self.next_state[state, label]
        return total + float(self.log_probs[state, END])

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the tables as tensors, for `from_tensors`."""
        small = np.int16 if len(self.next_state) <= 2**15 else np.int32
        states = torch.from_numpy(self.next_state.astype(small))
        return {"lm.log_probs": torch.from_numpy(self.log_probs), "lm.next_state": states}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> PhoneLM:
        """Undo `to_tensors`.

        Raises
        ------
        KeyError
            A tensor is missing.
        ValueError
            The tensors are not those of an n-gram.
        """
        log_probs = tensors["lm.log_probs"].float().contiguous().numpy()
        next_state = tensors["lm.next_state"].contiguous().numpy()
        fits = log_probs.ndim == 2 and log_probs.size and log_probs.shape == next_state.shape
        if not fits or next_state.dtype not in (np.int16, np.int32):
            raise ValueError(f"an n-gram's tables of shapes {log_probs.shape} and {next_state.shape}")
        if not np.isfinite(log_probs).all() or next_state.min() < 0 or next_state.max() >= len(next_state):
            raise ValueError("an n-gram with impossible probabilities or states")
        return cls(log_probs, next_state.astype(np.int32))


class _Level(NamedTuple):
    """The distinct strings of one length, as indices into the strings with one token less."""

    context: Integers  # the string without its last token
    token: Integers
    suffix: Integers  # the string without its first token
    times: Integers  # number of occurrences


def _tokens(sequences: Iterable[Labels], classes: int) -> Integers:
    """Concatenate sequences, with the token `START` before and the token `classes` after each."""
    parts = []
    for labels in sequences:
        inner = np.asarray(labels, dtype=np.int64)
        if inner.size and (inner.min() < 1 or inner.max() >= classes):
            raise ValueError(f"labels from {inner.min()} to {inner.max()}: must be from 1 to {classes - 1}")
        parts += [np.array([START]), inner, np.array([classes])]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _count(tokens: Integers, classes: int, order: int) -> list[_Level]:
    """Find the strings of 0 to `order` tokens that occur within a sequence."""
    none = np.zeros(1, dtype=np.int64)
    levels = [_Level(none, none, none, np.array([len(tokens)]))]
    here = np.zeros(len(tokens), dtype=np.int64)  # the string of this length that ends at each token; -1: none
    for length in range(1, order + 1):
        before = np.concatenate([[-1], here[:-1]])[: len(here)] if length > 1 else here
        valid = before >= 0
        if length > 1:
            valid &= tokens != START
        codes = before[valid] * (classes + 1) + tokens[valid]
        distinct, first, inverse, count = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
        levels.append(_Level(distinct // (classes + 1), distinct % (classes + 1), here[valid][first], count))
        here = np.full(len(tokens), -1)
        here[valid] = inverse
    return levels


def _number(levels: list[_Level], classes: int) -> list[Integers]:
    """Return the state of each string that can be a context, else -1; first the start, last the empty string."""
    states, free = [], 0
    for level in levels[1:-1]:
        open_ended = level.token != classes
        states.append(np.where(open_ended, free + np.cumsum(open_ended) - 1, -1))
        free += int(open_ended.sum())
    return [np.array([free]), *states]


def _smooth(levels: list[_Level], states: list[Integers], length: int, probs: NDArray[np.float64]) -> None:
    """Compute the probabilities after contexts of ``length - 1`` tokens, from those after shorter contexts.

    Chen and Goodman 1999, eq. 18 (interpolated): ``p(v | c) = (n(cv) - D(n(cv))) / n(c.) + gamma(c) p(v | c')``.
    The count of a string shorter than the order is the number of distinct tokens before it (Kneser and Ney 1995);
    strings at the start of an utterance have no token before them and keep their number of occurrences.
    """
    level, classes = levels[length], probs.shape[1]
    count = level.times
    if length + 1 < len(levels):
        left = np.bincount(levels[length + 1].suffix, minlength=len(count))
        count = np.where(left > 0, left, count)
    real = level.token != START  # the start is never predicted
    count, token, context = count[real], level.token[real] % classes, states[length - 1][level.context[real]]
    discount = _discounts(count)[np.minimum(count, 3)]
    total = np.bincount(context, count, minlength=len(probs))
    mass = np.bincount(context, discount, minlength=len(probs))
    rows = np.flatnonzero(total)
    lower = _shorter(levels, states, length, len(probs))[rows]
    share = (mass[rows] / total[rows])[:, None]
    probs[rows] = share * (probs[lower] if length > 1 else 1 / classes)
    probs[context, token] += (count - discount) / total[context]


def _link(levels: list[_Level], states: list[Integers], length: int, following: NDArray[np.int32]) -> None:
    """Compute the next states of contexts of ``length - 1`` tokens."""
    level, classes = levels[length], following.shape[1]
    context = states[length - 1][level.context]
    rows = np.unique(context)
    following[rows] = following[_shorter(levels, states, length, len(following))[rows]]
    if length < len(states):
        inside = (level.token != START) & (level.token != classes)
        following[context[inside], level.token[inside]] = states[length][inside]


def _shorter(levels: list[_Level], states: list[Integers], length: int, count: int) -> Integers:
    """Return, for states of ``length - 1`` tokens, the state of the context without its first token."""
    shorter = np.arange(count)
    if length > 1:
        own = states[length - 1]
        shorter[own[own >= 0]] = states[length - 2][levels[length - 1].suffix][own >= 0]
    return shorter


def _discounts(count: Integers) -> NDArray[np.float64]:
    """Return the discounts of the counts 0, 1, 2, and 3 or more.

    Chen and Goodman 1999, eq. 26; if one of these is undefined or out of range, Kneser and Ney's single discount; if
    that is undefined, one half.
    """
    n1, n2, n3, n4 = (np.count_nonzero(count == k) for k in (1, 2, 3, 4))
    single = n1 / (n1 + 2 * n2) if n1 and n2 else 0.5
    if min(n1, n2, n3, n4) > 0:
        modified = np.array([1 - 2 * single * n2 / n1, 2 - 3 * single * n3 / n2, 3 - 4 * single * n4 / n3])
        if (modified > 0).all() and (modified < (1, 2, 3)).all():
            return np.concatenate([[0.0], modified])
    return np.array([0.0, single, single, single])
