"""A back-off n-gram as a trie of its strings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

START = 0  # the token before the first phone; phones are the tokens from 1; the end is the token `classes`
ROOT = 0  # the node of the empty string
FLOOR = -99 * float(np.log(10))  # log(0) in ARPA files


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

    @cached_property
    def has_children(self) -> NDArray[np.bool_]:
        """By node, whether a longer string begins with it; shape = (nodes,)."""
        return np.bincount(self.parent[1:], minlength=len(self.parent)) > 0
