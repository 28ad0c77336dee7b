"""Paired tests: by hand, against scipy's normal distribution in a table, and on systems made alike or different."""

from __future__ import annotations

import numpy as np
import pytest

from speechctc.metrics.significance import compare_errors, matched_pairs


def test_matched_pairs_by_hand() -> None:
    # differences 1 2 0 1: mean 1, deviation sqrt(2/3), W = 1 / (0.8165 / 2) = 2.4495; the normal table: p = 0.01431
    assert matched_pairs(np.array([5.0, 4, 3, 2]), np.array([6.0, 6, 3, 3])) == pytest.approx(0.01431, abs=1e-5)


def test_matched_pairs_of_equal_few_or_shifted_errors() -> None:
    assert matched_pairs(np.ones(5), np.ones(5)) == 1.0
    assert matched_pairs(np.ones(1), np.zeros(1)) == 1.0
    assert matched_pairs(np.ones(5), np.zeros(5)) == 0.0


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
