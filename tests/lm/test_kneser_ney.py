"""Modified Kneser-Ney against an example worked by hand; `tests.lm.test_automaton` has the recursion by the book."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from speechctc.lm.ngram import FLOOR, ROOT, Ngram, estimate
from tests.lm.test_automaton import CASES

A, B, C, END = 1, 2, 3, 4


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
    for token, prob in ((A, 0.2), (B, 0.2), (C, 0.2), (END, 0.4)):
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


@pytest.mark.parametrize("cutoff", [1, 2, 99])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_after_every_string_what_may_follow_sums_to_one(name: str, order: int, cutoff: int) -> None:
    sequences, classes = CASES[name]
    ngram = estimate(sequences, classes, order, cutoff)

    def prob(context: Sequence[int], token: int) -> float:
        string, at = (*context, token), ROOT
        for each in string:
            at = int(ngram.find(np.array([at]), np.array([each]))[0]) if at >= 0 else -1
        if at >= 0:
            return float(np.exp(ngram.log_prob[at]))
        return float(np.exp(ngram.backoff[node(ngram, *context)])) * prob(context[1:], token)

    contexts: list[tuple[int, ...]] = [()]
    for at in range(1, len(ngram.parent)):
        contexts.append((*contexts[ngram.parent[at]], int(ngram.token[at])))
    for context in contexts:
        if len(context) < order and classes not in context:
            assert sum(prob(context, token) for token in range(1, classes + 1)) == pytest.approx(1, abs=1e-9)


def test_the_suffix_of_a_string_is_in_the_trie() -> None:
    ngram = estimate([[A, B, C, A, B], [C, B]], 4, 3)
    assert ngram.suffix[node(ngram, A, B, C)] == node(ngram, B, C)
    assert ngram.suffix[node(ngram, 0, A)] == node(ngram, A) and ngram.suffix[node(ngram, A)] == ROOT
