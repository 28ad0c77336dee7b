"""Pruning against the definition of relative entropy, computed token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from speechctc.lm.model import PhoneLM
from speechctc.lm.ngram import Ngram, estimate

CLASSES, END = 7, 7
String = tuple[int, ...]


def sequences(count: int = 60) -> list[list[int]]:
    """Return sequences in which some strings are far more frequent than others."""
    rng = np.random.default_rng(4)
    word = [[1, 2, 3], [4, 2], [5, 6, 1], [3, 3]]
    return [
        sum((word[k] for k in rng.choice(4, rng.integers(0, 6), p=[0.5, 0.3, 0.15, 0.05])), []) for _ in range(count)
    ]


def strings(ngram: Ngram) -> list[String]:
    """Return the string of each node."""
    found: list[String] = [()]
    for at in range(1, len(ngram.parent)):
        found.append((*found[ngram.parent[at]], int(ngram.token[at])))
    return found


def tables(ngram: Ngram) -> tuple[dict[String, float], dict[String, float]]:
    """Return the probabilities and the back-off weights by string."""
    names = strings(ngram)
    return dict(zip(names, np.exp(ngram.log_prob), strict=True)), dict(zip(names, np.exp(ngram.backoff), strict=True))


def after(probs: dict[String, float], weights: dict[String, float], context: String, token: int) -> float:
    """Return a probability as ARPA files define it: a context that is not listed has the weight 1."""
    if (*context, token) in probs:
        return probs[(*context, token)]
    return weights.get(context, 1.0) * after(probs, weights, context[1:], token)


def occurrences(texts: Sequence[Sequence[int]], longest: int) -> Counter[String]:
    times: Counter[String] = Counter()
    for text in texts:
        tokens = (0, *text, END)
        for length in range(longest + 1):
            times.update(tokens[k : k + length] for k in range(len(tokens) - length + (length > 0)))
    times[()] = sum(len(text) + 2 for text in texts)
    return times


def entropy_without(ngram: Ngram, string: String, times: Counter[String]) -> float:
    """Return the relative entropy between the n-gram with a string and without it, weighted by its context."""
    probs, weights = tables(ngram)
    *first, last = string
    context = tuple(first)
    fewer = {name: prob for name, prob in probs.items() if name != string}
    listed = [token for token in range(1, CLASSES + 1) if (*context, token) in fewer]
    left = 1 - sum(fewer[(*context, token)] for token in listed)
    lower = 1 - sum(after(fewer, weights, context[1:], token) for token in listed)
    changed = {**weights, context: left / lower}
    total = 0.0
    for token in range(1, CLASSES + 1):
        old, new = after(probs, weights, context, token), after(fewer, changed, context, token)
        total += old * np.log(old / new)
    return total * times[context] / times[()]


@pytest.mark.parametrize("order", [2, 3])
def test_the_longest_strings_of_little_entropy_go(order: int) -> None:
    texts = sequences()
    whole, times = estimate(texts, CLASSES, order), occurrences(texts, order)
    longest = [string for string in strings(whole) if len(string) == order]
    entropy = {string: entropy_without(whole, string, times) for string in longest}
    threshold = 1.001 * float(np.median([*entropy.values()]))
    pruned = {
        string for string in strings(estimate(texts, CLASSES, order, threshold=threshold)) if len(string) == order
    }
    assert pruned == {string for string in longest if entropy[string] >= threshold}
    assert 0 < len(pruned) < len(longest)


@pytest.mark.parametrize("threshold", [1e-5, 1e-3, 1e-2, 10.0])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_after_every_string_what_may_follow_sums_to_one(order: int, threshold: float) -> None:
    texts = sequences()
    ngram = estimate(texts, CLASSES, order, threshold=threshold)
    probs, weights = tables(ngram)
    for context in strings(estimate(texts, CLASSES, order)):
        if END not in context:
            assert sum(after(probs, weights, context, token) for token in range(1, CLASSES + 1)) == pytest.approx(1)


def test_more_goes_with_a_higher_threshold_and_unigrams_stay() -> None:
    texts = sequences()
    sizes = [len(estimate(texts, CLASSES, 4, threshold=each).parent) for each in (0, 1e-5, 1e-3, 1e-2, 10.0)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[2]
    assert sizes[-1] == 2 + CLASSES  # the empty string, the start, the phones and the end


def test_a_pruned_n_gram_predicts_other_text_better_than_a_shorter_one() -> None:
    texts = sequences(400)
    whole, pruned = (PhoneLM.of(estimate(texts[:300], CLASSES, 5, threshold=each)) for each in (0, 1e-3))
    bigram = PhoneLM.of(estimate(texts[:300], CLASSES, 2))
    loss = [sum(-lm.log_prob(text) for text in texts[300:]) for lm in (whole, pruned, bigram)]
    assert len(pruned.log_probs) < 0.4 * len(whole.log_probs)
    assert loss[1] < 1.1 * loss[0] < loss[2]


def test_probability_after_a_node_is_that_of_the_definition() -> None:
    ngram = estimate(sequences(), CLASSES, 3, threshold=1e-3)
    probs, weights = tables(ngram)
    for at, context in enumerate(strings(ngram)):
        if END in context:
            continue
        tokens = np.arange(1, CLASSES + 1)
        found = np.exp(ngram.log_prob_after(np.full(CLASSES, at), tokens))
        assert found == pytest.approx([after(probs, weights, context, int(token)) for token in tokens])
