"""A mixture of two n-grams, against their probabilities by the definition of back-off, string by string."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from speechctc.lm.mixture import best_share, mix, respelt
from speechctc.lm.model import PhoneLM
from speechctc.lm.ngram import START, Ngram, estimate

CLASSES = 5
String = tuple[int, ...]


def drawn(count: int, seed: int, shares: list[float]) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.choice(np.arange(1, CLASSES), rng.integers(0, 9), p=shares).tolist() for _ in range(count)]


ONE = estimate(drawn(40, 1, [0.4, 0.3, 0.2, 0.1]), CLASSES, 4)
OTHER = estimate(drawn(30, 2, [0.1, 0.2, 0.3, 0.4]), CLASSES, 3)


def strings(ngram: Ngram) -> dict[String, int]:
    """Return the node of each string."""
    found: dict[int, String] = {0: ()}
    for node in range(1, len(ngram.parent)):
        found[node] = (*found[int(ngram.parent[node])], int(ngram.token[node]))
    return {string: node for node, string in found.items()}


def log_prob(ngram: Ngram, string: String) -> float:
    nodes = strings(ngram)

    @cache
    def of(context: String, token: int) -> float:
        if (*context, token) in nodes:
            return float(ngram.log_prob[nodes[(*context, token)]])
        if not context:
            return ngram.unseen
        return (float(ngram.backoff[nodes[context]]) if context in nodes else 0.0) + of(context[1:], token)

    return of(string[:-1], string[-1])


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize(("one", "other"), [(ONE, OTHER), (OTHER, ONE), (ONE, estimate([], CLASSES, 2))])
def test_every_string_has_the_mean_probability_and_contexts_sum_to_one(one: Ngram, other: Ngram, share: float) -> None:
    mixed = mix(one, other, share)
    assert set(strings(mixed)) == {*strings(one), *strings(other)}
    for string in strings(mixed):
        if string and string[-1] != START:
            wanted = share * np.exp(log_prob(one, string)) + (1 - share) * np.exp(log_prob(other, string))
            assert np.exp(log_prob(mixed, string)) == pytest.approx(wanted, rel=1e-9)
    assert np.exp(PhoneLM.of(mixed).log_probs).sum(axis=1) == pytest.approx(1.0, abs=1e-5)


def test_a_share_of_all_or_nothing_leaves_one_as_it_is() -> None:
    assert mix(ONE, OTHER, 1.0) is ONE and mix(ONE, OTHER, 0.0) is OTHER


def test_an_ngram_under_other_numbers_is_the_same() -> None:
    numbers = [3, 1, 4, 2]
    there = {START: START, ONE.end: ONE.end} | dict(enumerate(numbers, start=1))
    found = respelt(ONE, numbers)
    wanted = {tuple(there[token] for token in string): log_prob(ONE, string) for string in strings(ONE) if string}
    assert {string: log_prob(found, string) for string in strings(found) if string} == wanted


def test_the_share_is_the_one_under_which_held_out_sequences_are_most_probable() -> None:
    held_out = drawn(50, 3, [0.3, 0.3, 0.2, 0.2])
    found = best_share(PhoneLM.of(ONE), PhoneLM.of(OTHER), held_out)

    def probability(share: float) -> float:
        """Return that of the sequences, each label by its own mixture of the two."""
        total = 0.0
        for labels in held_out:
            string: String = (START,)
            for token in (*labels, ONE.end):
                of = [np.exp(log_prob(ngram, (*string[-3:], token))) for ngram in (ONE, OTHER)]
                total += float(np.log(share * of[0] + (1 - share) * of[1]))
                string = (*string, token)
        return total

    shares = np.linspace(0.02, 0.98, 49)
    assert found == pytest.approx(shares[np.argmax([probability(float(each)) for each in shares])], abs=0.03)
    assert best_share(PhoneLM.of(ONE), PhoneLM.of(OTHER), []) == 0.5
