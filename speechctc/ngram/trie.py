"""A back-off n-gram as a trie of its strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

START = 0  # the token before the first phone; phones are the tokens from 1; the end is the token `classes`
ROOT = 0  # the node of the empty string
INDICES = ("starts", "token", "children")
REALS = ("log_prob", "backoff", "unseen")
LONGEST = 64  # tokens of a string in a file
FLOOR = -99 * float(np.log(10))  # log(0) in ARPA files
LARGEST = 1e9  # of a log probability in a file; sums of a few must not overflow in single precision
ROUNDED = 1e-3  # of a log probability that is above 0 by rounding alone


@dataclass(frozen=True, eq=False)
class Ngram:
    """Log probabilities and back-off weights of strings of tokens. Logarithms are natural.

    ``P(token | context)`` is the probability of the string if the trie has it, else ``backoff(context)`` times the
    probability after the context without its first token; a context that is not in the trie has back-off weight 1.

    Nodes are sorted by length, then by parent, then by token; node 0 is the empty string.

    Attributes
    ----------
    classes : int
        The number of phones and 1. Tokens are 0 for the start, 1 to ``classes - 1`` for phones, `classes` for the end.
    starts : ndarray, shape = (order + 2,)
        Strings of length k are the nodes ``starts[k]`` to ``starts[k + 1] - 1``.
    parent : ndarray, shape = (nodes,)
        The node of the string without its last token.
    token : ndarray, shape = (nodes,)
        The last token.
    log_prob : ndarray, shape = (nodes,)
        Log probability of the last token after the others.
    backoff : ndarray, shape = (nodes,)
        Log of the weight of shorter contexts after this string.
    unseen : float
        Log probability of a phone that has no string.
    """

    classes: int
    starts: Integers
    parent: Integers
    token: Integers
    log_prob: Reals
    backoff: Reals
    unseen: float = FLOOR

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return the n-gram as tensors, for `from_tensors`: small ones, as a node's parent follows from the counts."""
        inner = int(self.starts[-2])
        children = np.bincount(self.parent[1:], minlength=inner)
        small = np.uint8 if self.classes < 2**8 - 1 else np.int32
        arrays = {
            "starts": self.starts,
            "token": self.token.astype(small),
            "children": children.astype(small),
            "log_prob": self.log_prob,
            "backoff": self.backoff[:inner],
            "unseen": np.array(self.unseen),
            "classes": np.array(self.classes),
        }
        return {f"ngram.{name}": values for name, values in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], classes: int) -> Ngram:
        """Undo `to_tensors`; numbers of 16 bits are read too.

        Raises
        ------
        KeyError
            A tensor is missing.
        ValueError
            The tensors are not those of an n-gram over so many classes.
        """
        if (own := float(np.sum(tensors["ngram.classes"]))) != classes:
            raise ValueError(f"an n-gram over {own:g} classes, where {classes} are wanted")
        indices, reals = ([np.asarray(tensors[f"ngram.{name}"]) for name in names] for names in (INDICES, REALS))
        if {each.dtype.kind for each in reals} != {"f"} or not {each.dtype.kind for each in indices} <= set("iub"):
            raise ValueError(f"an n-gram of numbers of types {[str(each.dtype) for each in (*indices, *reals)]}")
        starts, token, children = (each.astype(np.int64) for each in indices)
        log_prob, backoff, unseen = (each.astype(np.float64) for each in reals)
        shapes = [values.shape for values in (token, log_prob, children, backoff, starts, unseen)]
        nodes, inner = len(token), len(children)
        if shapes != [(nodes,), (nodes,), (inner,), (inner,), (len(starts),), ()]:
            raise ValueError(f"an n-gram's tables of shapes {shapes}")
        if not (are_log_probs(log_prob) and are_log_probs(backoff, most=LARGEST) and are_log_probs(unseen)):
            raise ValueError("an n-gram with impossible probabilities")
        if not (_levels_fit(starts, children, nodes, classes) and 0 <= token.min() and token.max() <= classes):
            raise ValueError("an n-gram whose strings do not fit together")
        parent = np.concatenate([[ROOT], np.repeat(np.arange(inner), children)])
        whole = np.concatenate([backoff, np.zeros(nodes - inner)])
        found = cls(classes, starts, parent, token, log_prob, whole, float(unseen))
        if (np.diff(found._codes) <= 0).any():
            raise ValueError("an n-gram whose strings are not sorted")
        return found

    @property
    def order(self) -> int:
        """The length of the longest strings."""
        return len(self.starts) - 2

    @property
    def end(self) -> int:
        """The token that stands for the end of an utterance."""
        return self.classes

    def nodes(self, length: int) -> Integers:
        """Return the nodes of the strings of this length."""
        return np.arange(self.starts[length], self.starts[length + 1])

    def find(self, parent: Integers, token: Integers) -> Integers:
        """Return the node of each parent's string with the token appended, -1 where there is none."""
        wanted = parent * (self.classes + 1) + token
        at = np.minimum(np.searchsorted(self._codes, wanted), len(self._codes) - 1)
        return np.where(self._codes[at] == wanted, at, -1)

    @cached_property
    def _codes(self) -> Integers:
        codes = self.parent * (self.classes + 1) + self.token
        codes[ROOT] = -1
        return codes

    @cached_property
    def suffix(self) -> Integers:
        """By node, the longest string that ends it, is shorter, and is in the trie; shape = (nodes,)."""
        suffix = np.zeros(len(self.parent), np.int64)
        for length in range(2, self.order + 1):
            nodes = self.nodes(length)
            left, context = nodes, suffix[self.parent[nodes]]
            while len(left):
                found = self.find(context, self.token[left])
                suffix[left] = np.maximum(found, ROOT)
                more = (found < 0) & (context != ROOT)
                left, context = left[more], suffix[context[more]]
        return suffix

    def log_prob_after(self, context: Integers, token: Integers) -> Reals:
        """Return the log probability of each token after the string of a node, with back-off."""
        total = np.zeros(len(token))
        left, context = np.arange(len(token)), context.copy()
        while len(left):
            found = self.find(context[left], token[left])
            last = (found >= 0) | (context[left] == ROOT)
            total[left] += np.where(found >= 0, self.log_prob[found], np.where(last, self.unseen, 0.0))
            left = left[~last]
            total[left] += self.backoff[context[left]]
            context[left] = self.suffix[context[left]]
        return total

    @cached_property
    def has_children(self) -> NDArray[np.bool_]:
        """By node, whether a longer string begins with it; shape = (nodes,)."""
        return np.bincount(self.parent[1:], minlength=len(self.parent)) > 0


def are_log_probs(values: NDArray[np.floating], most: float = ROUNDED) -> bool:
    """Return whether all values are log probabilities, finite and small enough to be summed; weights may be above 1."""
    return bool(((-LARGEST <= values) & (values <= most)).all())


def _levels_fit(starts: Integers, children: Integers, nodes: int, classes: int) -> bool:
    """Return whether the children of each length's nodes are the nodes of the next length."""
    if not 2 < len(starts) <= LONGEST + 2 or (np.diff(starts) < 0).any():
        return False
    if (starts[0], starts[1], starts[-2], starts[-1]) != (0, 1, len(children), nodes):
        return False
    if children.min() < 0 or children.max() > classes + 1:
        return False
    total = np.concatenate([[0], np.cumsum(children)])
    return bool((total[starts[:-1]] + 1 == starts[1:]).all())
