"""N-grams: pruning against the definition of relative entropy; Kneser-Ney against an example worked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from speechctc.lm.ngram import FLOOR, ROOT, Ngram, estimate

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


A, B, C, LAST = 1, 2, 3, 4


def node(ngram: Ngram, *tokens: int) -> int:
    at = ROOT
    for token in tokens:
        at = int(ngram.find(np.array([at]), np.array([token]))[0])
        assert at > 0
    return at


def test_an_example_worked_by_hand() -> None:
    """Utterances ab, ab, ac.

    Bigrams: <s>a 3, ab 2, b</s> 2, ac 1, c</s> 1; n1 = n2 = 2, n4 = 0, so one discount, 2 / (2 + 2 * 2) = 1/3.
    Unigrams by how many tokens stand before them: a 1, b 1, c 1, </s> 2; n1 = 3, n2 = 1: discount 3/5. Their total is
    5, what is taken off them 12/5, so each gets 12/25 of 1/4 on top: a = b = c = 0.4/5 + 0.12, </s> = 1.4/5 + 0.12.
    After a: total 3, taken off 2/3: back-off weight 2/9.
    """
    ngram = estimate([[A, B], [A, B], [A, C]], 4, 2)
    for token, prob in ((A, 0.2), (B, 0.2), (C, 0.2), (LAST, 0.4)):
        assert ngram.log_prob[node(ngram, token)] == pytest.approx(np.log(prob))
    assert ngram.backoff[node(ngram, A)] == pytest.approx(np.log(2 / 9))
    assert ngram.log_prob[node(ngram, A, B)] == pytest.approx(np.log((2 - 1 / 3) / 3 + 2 / 9 * 0.2))
    assert ngram.log_prob[node(ngram, A, C)] == pytest.approx(np.log((1 - 1 / 3) / 3 + 2 / 9 * 0.2))
    assert ngram.log_prob[node(ngram, 0)] == FLOOR and ngram.backoff[node(ngram, 0)] == pytest.approx(np.log(1 / 9))
    assert len(ngram.nodes(2)) == 5 and not (ngram.find(np.array([ROOT]), np.array([9])) >= 0).any()


def test_rare_strings_can_be_left_out() -> None:
    """As above, without ac, which occurs once: its probability of (1 - 1/3)/3 goes to the back-off."""
    ngram = estimate([[A, B], [A, B], [A, C]], 4, 2, cutoff=2)
    assert ngram.log_prob[node(ngram, A, B)] == pytest.approx(np.log((2 - 1 / 3) / 3 + 4 / 9 * 0.2))
    assert ngram.backoff[node(ngram, A)] == pytest.approx(np.log(4 / 9))
    assert ngram.find(np.array([node(ngram, A)]), np.array([C]))[0] < 0 and len(ngram.nodes(2)) == 3
