"""Paired tests: by hand, against scipy's normal distribution in a table, and on systems made alike or different."""

from __future__ import annotations

import numpy as np
import pytest

from speechctc.metrics.per import DRAWS, compare_errors, matched_pairs


def test_matched_pairs_by_hand() -> None:
    # differences 1 2 0 1: mean 1, deviation sqrt(2/3), W = 1 / (0.8165 / 2) = 2.4495; the normal table: p = 0.01431
    assert matched_pairs(np.array([5.0, 4, 3, 2]), np.array([6.0, 6, 3, 3])) == pytest.approx(0.01431, abs=1e-5)


def test_matched_pairs_of_equal_few_or_shifted_errors() -> None:
    assert matched_pairs(np.ones(5), np.ones(5)) == 1.0
    assert matched_pairs(np.ones(1), np.zeros(1)) == 1.0
    assert matched_pairs(np.ones(5), np.zeros(5)) == 0.0


def test_two_utterances_are_enough_for_matched_pairs() -> None:
    # differences 1 and 3: mean 2, deviation sqrt(2), W = 2 / (sqrt(2) / sqrt(2)) = 2; the normal table: p = 0.04550
    assert matched_pairs(np.array([1.0, 1]), np.array([2.0, 4])) == pytest.approx(0.0455, abs=1e-5)


def test_the_bootstrap_by_its_definition() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.integers(0, 8, (2, 40)) + np.array([[0.0], [0.5]])
    phones = rng.integers(10, 30, 40).astype(float)
    test = compare_errors(first, second, phones, [""] * 40)
    draws = np.random.default_rng(0)
    rates = np.empty(DRAWS)
    for k in range(DRAWS):
        rows = draws.integers(40, size=40)
        rates[k] = 100 * (second - first)[rows].sum() / phones[rows].sum()
    assert test.difference == pytest.approx(100 * (second - first).sum() / phones.sum())
    np.testing.assert_allclose((test.low, test.high), np.percentile(rates, [2.5, 97.5]))
    assert test.p_bootstrap == pytest.approx(2 * min((rates <= 0).mean(), (rates >= 0).mean()))
    assert 0.01 < test.p_bootstrap < 0.99, "else it would not tell"


def test_the_smallest_p_is_that_of_half_a_draw() -> None:
    test = compare_errors(np.zeros(50), np.ones(50), np.full(50, 10.0), [""] * 50)
    assert test.p_bootstrap == pytest.approx(1 / DRAWS)


def test_recordings_without_phones_say_nothing() -> None:
    none = np.zeros(3)
    test = compare_errors(none, none + 1, none, [""] * 3)
    assert (test.low, test.high, test.p_bootstrap, test.difference) == (0, 0, 1, 300)
    assert not test.is_significant


def test_a_difference_of_many_speakers_is_found() -> None:
    rng = np.random.default_rng(1)
    phones, speakers = np.full(200, 30.0), [f"s{k % 20}" for k in range(200)]
    first = rng.binomial(30, 0.30, 200).astype(float)
    test = compare_errors(first, first - rng.binomial(2, 0.5, 200), phones, speakers)
    assert test.over == "speakers" and test.utterances == 200 and test.is_significant
    assert test.low < test.difference < test.high < 0 and test.difference == pytest.approx(-100 / 30, abs=0.5)


def test_systems_that_are_alike_are_seldom_called_different() -> None:
    calls = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        first, second = rng.binomial(30, 0.3, (2, 60)).astype(float)
        calls += compare_errors(first, second, np.full(60, 30.0), [f"s{k % 12}" for k in range(60)]).is_significant
    assert calls <= 2


def test_a_speaker_counts_as_a_whole() -> None:
    first, phones = np.zeros(90), np.full(90, 10.0)
    second = np.where(np.arange(90) < 30, 3.0, 0.0)  # one of three speakers is worse, by much
    test = compare_errors(first, second, phones, ["a"] * 30 + ["b"] * 30 + ["c"] * 30)
    assert test.p_matched_pairs < 1e-6 and test.low == 0 and not test.is_significant
    assert compare_errors(first, second, phones, [""] * 90).over == "utterances"
