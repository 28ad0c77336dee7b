"""Make an n-gram smaller: leave out the strings that matter least.

A. Stolcke, "Entropy-based pruning of backoff language models", DARPA Broadcast News Transcription and Understanding
Workshop 1998.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from speechctc.ngram.trie import Integers, Ngram, Reals

LEAST = 1e-9  # probability of all tokens that back off; less is rounding


def prune(ngram: Ngram, times: Integers, threshold: float) -> Ngram:
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
    times : ndarray, shape = (nodes,)
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
        backing_lower = _backing(context, lower, len(kept))
        before = np.exp(ngram.backoff) * backing_lower
        cost = _cost(prob, lower, before[context], backing_lower[context])
        small = times[context] / times[0] * cost < threshold
        small &= ~_begins(ngram, kept, length)[nodes]
        kept[nodes[small]] = False
        after = before + np.bincount(context[small], prob[small], minlength=len(kept))
        backing[context] = after[context]
    return _normalised(_without(ngram, kept), backing[kept])


def _probabilities(ngram: Ngram, nodes: Integers) -> tuple[Reals, Reals]:
    """Return the probability of each string's last token after the others, and after them without the first."""
    shorter = ngram.suffix[ngram.parent[nodes]]
    return np.exp(ngram.log_prob[nodes]), np.exp(ngram.log_prob_after(shorter, ngram.token[nodes]))


def _backing(context: Integers, prob: Reals, nodes: int) -> Reals:
    """Return by node the probability of the tokens that have no string after it."""
    return np.asarray(np.maximum(1 - np.bincount(context, prob, minlength=nodes), LEAST))


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


def _normalised(ngram: Ngram, backing: Reals) -> Ngram:
    """Set the back-off weights, so that all tokens that back off have the probability `backing` after each node.

    Shorter contexts come first: what follows longer ones depends on them.
    """
    ngram.backoff[:] = 0.0
    for length in range(2, ngram.order + 1):
        nodes = ngram.nodes(length)
        context = np.unique(ngram.parent[nodes])
        lower = _backing(ngram.parent[nodes], _probabilities(ngram, nodes)[1], len(backing))
        ngram.backoff[context] = np.log(backing[context] / lower[context])
    return ngram
