"""Mixes two n-grams into one: linear interpolation, with the share that makes held-out sequences most probable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from speechctc.lm.model import PhoneLM
from speechctc.lm.ngram import START, Integers, Labels, Ngram, backoff_mass, normalised

ROUNDS = 30  # of expectation maximisation: one number, which settles to three digits long before


def respelt(ngram: Ngram, numbers: Sequence[int]) -> Ngram:
    """Return an n-gram of the same phones under other numbers.

    Parameters
    ----------
    ngram : Ngram
    numbers : sequence of int
        The new number of each phone, from 1; a permutation.
    """
    places = np.array([START, *numbers, ngram.end])
    starts, parent, token, order = ngram.starts, ngram.parent.copy(), places[ngram.token], np.zeros(1, np.int64)
    place = np.zeros(len(parent), np.int64)  # by old node, the new one
    for length in range(1, ngram.order + 1):
        nodes = ngram.nodes(length)
        above = place[ngram.parent[nodes]]
        sorted_ = np.lexsort((token[nodes], above))
        place[nodes[sorted_]] = nodes
        parent[nodes] = above[sorted_]
        order = np.concatenate([order, nodes[sorted_]])
    return Ngram(ngram.classes, starts, parent, token[order], ngram.log_prob[order], ngram.backoff[order], ngram.unseen)


def best_share(one: PhoneLM, other: PhoneLM, held_out: Iterable[Labels]) -> float:
    """Return the share of the first n-gram in the mixture under which held-out sequences are most probable.

    By expectation maximisation (Jelinek and Mercer 1980). Without a sequence: one half.
    """
    sequences = [*held_out]
    probs = np.exp([[each for labels in sequences for each in lm.log_prob_of_each(labels)] for lm in (one, other)])
    share = 0.5
    for _ in range(ROUNDS if probs.size else 0):
        share = float(np.mean(share * probs[0] / (share * probs[0] + (1 - share) * probs[1])))
    return share


def mix(one: Ngram, other: Ngram, share: float) -> Ngram:
    """Return one n-gram that predicts as two together do (Stolcke 2002, section 4: static interpolation).

    Every string of either has the probability ``share`` times that of the first plus the rest times that of the
    second; back-off weights are set anew, so that probabilities after each context sum to one.

    Parameters
    ----------
    one, other : Ngram
        Of the same phones. With `share` 1 or 0, one of them as it is.
    share : float
        Of the first, from 0 to 1.
    """
    if share in (0.0, 1.0):
        return one if share else other
    shares = np.log([share, 1 - share])
    root: Integers = np.zeros(1, np.int64)
    parents, tokens, log_probs = [root], [root], [np.zeros(1)]
    starts, nodes = [0, 1], [root, root]  # by string, its node in each; -1: none
    contexts = [root, root]  # the longest end of it that is a node
    for length in range(1, max(one.order, other.order) + 1):
        context, token = _strings(one, other, nodes, length)
        predicted, found = [], []
        for k, ngram in enumerate((one, other)):
            there = np.where(nodes[k][context] >= 0, ngram.find(nodes[k][context], token), -1)
            own = contexts[k][context]
            predicted.append(ngram.log_prob_after(own, token) + shares[k])
            found.append(there)
            nodes[k], contexts[k] = there, ngram.longest_end(own, token)
        parents.append(starts[-2] + context)
        tokens.append(token)
        log_probs.append(np.logaddexp(*predicted))
        starts.append(starts[-1] + len(token))
    parent, log_prob = np.concatenate(parents), np.concatenate(log_probs)
    unseen = float(np.logaddexp(one.unseen + shares[0], other.unseen + shares[1]))
    mixed = Ngram(
        one.classes, np.array(starts), parent, np.concatenate(tokens), log_prob, np.zeros(len(parent)), unseen
    )
    after = mixed.starts[2]  # the unigrams hold all probability, and the start is never predicted
    left = backoff_mass(parent[after:], np.exp(log_prob[after:]), len(parent))
    return normalised(mixed, left)


def _strings(one: Ngram, other: Ngram, nodes: list[Integers], length: int) -> tuple[Integers, Integers]:
    """Return the strings of a length that either has: the place of the string without its last token, and that."""
    width, codes = one.classes + 1, []
    for ngram, own in zip((one, other), nodes, strict=True):
        if length > ngram.order:
            continue
        place = np.full(len(ngram.parent), -1)
        place[own[own >= 0]] = np.flatnonzero(own >= 0)
        longer = ngram.nodes(length)
        codes.append(place[ngram.parent[longer]] * width + ngram.token[longer])
    union = np.unique(np.concatenate(codes))
    return union // width, union % width
