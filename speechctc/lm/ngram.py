"""N-grams of phones: the trie of their strings, estimated by interpolated modified Kneser-Ney smoothing, and pruned.

R. Kneser and H. Ney, "Improved backing-off for m-gram language modeling", ICASSP 1995; modified Kneser-Ney with one
discount for each of the counts 1, 2 and 3 or more: S. F. Chen and J. Goodman, "An empirical study of smoothing
techniques for language modeling", Computer Speech and Language 13 (1999).

Pruning leaves out the strings that matter least: A. Stolcke, "Entropy-based pruning of backoff language models", DARPA
Broadcast News Transcription and Understanding Workshop 1998.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

START = 0  # the token before the first phone; phones are the tokens from 1; the end is the token `classes`
ROOT = 0  # the node of the empty string
INDICES = ("starts", "token", "children")
REALS = ("log_prob", "backoff", "unseen")
MAX_TOKENS = 64  # tokens of a string in a file
FLOOR = -99 * float(np.log(10))  # log(0) in ARPA files
MAX_LOG = 1e9  # of a log probability in a file; sums of a few must not overflow in single precision
ROUNDED = 1e-3  # of a log probability that is above 0 by rounding alone


def log_frequencies(counts: NDArray[Any]) -> Reals:
    """Return the logarithms of the frequencies of phones, less their mean over all labels; the counts are above 0."""
    shares = counts / counts.sum()
    return np.asarray(np.log(shares) - shares @ np.log(shares))


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
    less : ndarray, shape = (classes,), optional
        What is taken from the log probability of each phone in a search, and of the end (0), at its place 0.
    """

    classes: int
    starts: Integers
    parent: Integers
    token: Integers
    log_prob: Reals
    backoff: Reals
    unseen: float = FLOOR
    less: Reals | None = None

    def relative_to(self, counts: Sequence[float]) -> Ngram:
        """Return an n-gram whose log probabilities are relative to how frequent phones were in a model's training.

        The model has learned the frequencies, and posteriors have them in. Where the n-gram's text is of another
        language, they are divided out, once for each phone (E. McDermott et al., ASRU 2019, the density ratio). Of
        the phones of the training, what is taken is 0 in the mean, so that the bonus keeps its meaning.
        """
        return replace(self, less=np.concatenate([[0.0], log_frequencies(np.maximum(counts, 1))]))

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
            "less": self.less,
        }
        return {f"ngram.{name}": values for name, values in arrays.items() if values is not None}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], classes: int) -> Ngram:
        """Undo `to_tensors`; numbers of 16 bits are read too, and files without `less`.

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
            raise ValueError("an n-gram of numbers of other types")
        starts, token, children = (each.astype(np.int64) for each in indices)
        log_prob, backoff, unseen = (each.astype(np.float64) for each in reals)
        less = np.asarray(tensors["ngram.less"], np.float64) if "ngram.less" in tensors else None
        shapes = [values.shape for values in (token, log_prob, children, backoff, starts, unseen)]
        nodes, inner = len(token), len(children)
        if (
            shapes != [(nodes,), (nodes,), (inner,), (inner,), (len(starts),), ()]
            or not (are_log_probs(log_prob) and are_log_probs(backoff, most=MAX_LOG) and are_log_probs(unseen))
            or not (less is None or (less.shape == (classes,) and (np.abs(less) < MAX_LOG).all()))
            or not (_levels_fit(starts, children, nodes, classes) and 0 <= token.min() and token.max() <= classes)
        ):
            raise ValueError("an n-gram whose tables do not fit together")
        parent = np.concatenate([[ROOT], np.repeat(np.arange(inner), children)])
        whole = np.concatenate([backoff, np.zeros(nodes - inner)])
        found = cls(classes, starts, parent, token, log_prob, whole, float(unseen), less)
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
            suffix[nodes] = self._longest_end(suffix, suffix[self.parent[nodes]], self.token[nodes])
        return suffix

    def longest_end(self, context: Integers, token: Integers) -> Integers:
        """Return the node of the longest end of each context and its token that the trie has."""
        return self._longest_end(self.suffix, context, token)

    def _longest_end(self, suffix: Integers, context: Integers, token: Integers) -> Integers:
        result, left = np.zeros(len(token), np.int64), np.arange(len(token))
        while len(left):
            found = self.find(context, token[left])
            result[left] = np.maximum(found, ROOT)
            more = (found < 0) & (context != ROOT)
            left, context = left[more], suffix[context[more]]
        return result

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
    return bool(((-MAX_LOG <= values) & (values <= most)).all())


def _levels_fit(starts: Integers, children: Integers, nodes: int, classes: int) -> bool:
    """Return whether the children of each length's nodes are the nodes of the next length."""
    if not 2 < len(starts) <= MAX_TOKENS + 2 or (np.diff(starts) < 0).any():
        return False
    if (starts[0], starts[1], starts[-2], starts[-1]) != (0, 1, len(children), nodes):
        return False
    if children.min() < 0 or children.max() > classes + 1:
        return False
    total = np.concatenate([[0], np.cumsum(children)])
    return bool((total[starts[:-1]] + 1 == starts[1:]).all())


Labels = Sequence[int] | NDArray[np.integer[Any]]

MIN_BACKOFF_MASS = 1e-9  # probability of all tokens that back off; less is rounding


def estimate(sequences: Iterable[Labels], classes: int, order: int, cutoff: int = 1, threshold: float = 0.0) -> Ngram:
    """Estimate an n-gram.

    Parameters
    ----------
    sequences : iterable of sequence of int
        Labels of utterances, from 1 to ``classes - 1``.
    classes : int
        The number of phones and 1.
    order : int
        A phone's probability depends on the ``order - 1`` before it.
    cutoff : int
        Strings of `order` phones that occur fewer times are left out; their probability goes to the shorter ones.
    threshold : float
        Leave out what changes the n-gram by less, in nats per token (see `prune`). 0: nothing.

    Raises
    ------
    ValueError
        A label is out of range, or the order below 1.
    """
    if order < 1:
        raise ValueError(f"order {order}: must be 1 or more")
    levels = _count(_tokens(sequences, classes), classes, order)
    probs: list[Reals] = [np.ones(1)]
    shares: list[Reals] = []
    for length in range(1, len(levels)):
        kept = levels[length].counts >= (cutoff if length == order > 1 else 0)
        prob, share = _smooth(levels, length, probs[-1] if length > 1 else np.full(1, 1 / classes), kept)
        probs.append(prob[kept])
        shares.append(share)
        levels[length] = _Level(*(values[kept] for values in levels[length]))
    shares[0] = np.ones(1)  # the unigrams hold it already
    shares.append(np.ones(len(levels[-1].token)))
    starts = np.cumsum([0, *(len(level.token) for level in levels)])
    parents = [levels[0].context, *(starts[k] + level.context for k, level in enumerate(levels[1:]))]
    log_prob = np.log(np.concatenate(probs))
    log_prob[1 + START] = FLOOR  # nothing predicts it
    token = np.concatenate([level.token for level in levels])
    ngram = Ngram(classes, starts, np.concatenate(parents), token, log_prob, np.log(np.concatenate(shares)))
    return prune(ngram, np.concatenate([level.counts for level in levels]), threshold) if threshold else ngram


class _Level(NamedTuple):
    """The distinct strings of one length, as indices into the strings with one token less."""

    context: Integers  # the string without its last token
    token: Integers
    suffix: Integers  # the string without its first token
    counts: Integers  # number of occurrences


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
    """Find the strings of 0 to `order` tokens that occur within a sequence.

    All strings of one token are included, in the order of the tokens, even if they do not occur.
    """
    none = np.zeros(1, dtype=np.int64)
    every, nowhere = np.arange(classes + 1), np.zeros(classes + 1, np.int64)
    counts = np.bincount(tokens, minlength=classes + 1)
    levels = [_Level(none, none, none, np.array([len(tokens)])), _Level(nowhere, every, nowhere, counts)]
    here = tokens  # the string of the level's length that ends at each token; -1: none
    for _ in range(2, order + 1):
        before = np.concatenate([[-1], here[:-1]])[: len(here)]
        valid = (before >= 0) & (tokens != START)
        codes = before[valid] * (classes + 1) + tokens[valid]
        distinct, first, inverse, count = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
        levels.append(_Level(distinct // (classes + 1), distinct % (classes + 1), here[valid][first], count))
        here = np.full(len(tokens), -1)
        here[valid] = inverse
    return levels


def _smooth(levels: list[_Level], length: int, lower: Reals, kept: NDArray[np.bool_]) -> tuple[Reals, Reals]:
    """Return the probabilities of the strings of this length, and the back-off weights of those one shorter.

    Chen and Goodman 1999, eq. 18 (interpolated): ``p(v | c) = (n(cv) - D(n(cv))) / n(c.) + gamma(c) p(v | c')``.
    The count of a string shorter than the order is the number of distinct tokens before it (Kneser and Ney 1995);
    strings at the start of an utterance have no token before them and keep their number of occurrences. The probability
    of strings that are not `kept` is shared by the shorter ones.
    """
    level, contexts = levels[length], len(levels[length - 1].token)
    count = level.counts
    if length + 1 < len(levels):
        left = np.bincount(levels[length + 1].suffix, minlength=len(count))
        count = np.where(left > 0, left, count)
    count = np.where(level.token == START, 0, count)  # the start is never predicted
    discount = _discounts(count)[np.minimum(count, 3)]
    total = np.bincount(level.context, count, minlength=contexts)
    mass = np.bincount(level.context, np.where(kept, discount, count), minlength=contexts)
    share = np.where(total > 0, mass / np.maximum(total, 1), 1.0)
    own = np.where(kept, count - discount, 0) / np.maximum(total, 1)[level.context]
    return own + share[level.context] * lower[level.suffix], share


def _discounts(count: Integers) -> Reals:
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


def prune(ngram: Ngram, counts: Integers, threshold: float) -> Ngram:
    """Leave out strings without which the n-gram predicts nearly the same.

    The longest strings are looked at first. A string goes if no longer one that stays begins with it, and if the
    relative entropy between the n-gram with it and without it is below the threshold (Stolcke 1998, section 3).
    Unigrams stay.

    How often a context occurs is counted in the text, not computed from the shorter strings: the probabilities of
    Kneser and Ney's shorter strings are not those of the phones as they occur.

    Parameters
    ----------
    ngram : Ngram
        Without back-off weights after strings that no string begins with.
    counts : ndarray, shape = (nodes,)
        How often each string occurs in the text; node 0: the number of tokens.
    threshold : float
        In nats per token.

    Returns
    -------
    Ngram
        After each context its probabilities sum to one, if those of `ngram` do.
    """
    kept = np.ones(len(ngram.parent), dtype=bool)
    backing = np.ones(len(ngram.parent))
    for length in range(ngram.order, 1, -1):
        nodes = ngram.nodes(length)
        context, prob, lower = ngram.parent[nodes], *_probabilities(ngram, nodes)
        backing_lower = backoff_mass(context, lower, len(kept))
        before = np.exp(ngram.backoff) * backing_lower
        cost = _cost(prob, lower, before[context], backing_lower[context])
        small = counts[context] / counts[0] * cost < threshold
        small &= ~_begins(ngram, kept, length)[nodes]
        kept[nodes[small]] = False
        after = before + np.bincount(context[small], prob[small], minlength=len(kept))
        backing[context] = after[context]
    return normalised(_without(ngram, kept), backing[kept])


def _probabilities(ngram: Ngram, nodes: Integers) -> tuple[Reals, Reals]:
    """Return the probability of each string's last token after the others, and after them without the first."""
    shorter = ngram.suffix[ngram.parent[nodes]]
    return np.exp(ngram.log_prob[nodes]), np.exp(ngram.log_prob_after(shorter, ngram.token[nodes]))


def backoff_mass(context: Integers, prob: Reals, nodes: int) -> Reals:
    """Return by node the probability of the tokens that have no string after it."""
    return np.asarray(np.maximum(1 - np.bincount(context, prob, minlength=nodes), MIN_BACKOFF_MASS))


def _cost(prob: Reals, lower: Reals, backing: Reals, backing_lower: Reals) -> Reals:
    """Return the relative entropy, in nats, between a context's probabilities with a string and without it."""
    old = np.log(backing / backing_lower)
    new = np.log((backing + prob) / (backing_lower + lower))
    return np.asarray(prob * (np.log(prob) - np.log(lower) - new) + backing * (old - new))


def _begins(ngram: Ngram, kept: NDArray[np.bool_], length: int) -> NDArray[np.bool_]:
    """Return by node whether a kept string of ``length + 1`` tokens begins with it."""
    begins = np.zeros(len(kept), dtype=bool)
    if length < ngram.order:
        longer = ngram.nodes(length + 1)
        begins[ngram.parent[longer[kept[longer]]]] = True
    return begins


def _without(ngram: Ngram, kept: NDArray[np.bool_]) -> Ngram:
    """Return the n-gram of the nodes that are kept."""
    number = np.cumsum(kept) - 1
    starts = np.concatenate([[0], np.cumsum(kept)[ngram.starts[1:] - 1]])
    parent, token = number[ngram.parent[kept]], ngram.token[kept]
    return Ngram(ngram.classes, starts, parent, token, ngram.log_prob[kept], ngram.backoff[kept], ngram.unseen)


def normalised(ngram: Ngram, backing: Reals) -> Ngram:
    """Set the back-off weights, so that all tokens that back off have the probability `backing` after each node.

    Shorter contexts come first: what follows longer ones depends on them.
    """
    ngram.backoff[:] = 0.0
    for length in range(2, ngram.order + 1):
        nodes = ngram.nodes(length)
        context = np.unique(ngram.parent[nodes])
        lower = backoff_mass(ngram.parent[nodes], _probabilities(ngram, nodes)[1], len(backing))
        ngram.backoff[context] = np.log(backing[context] / lower[context])
    return ngram
