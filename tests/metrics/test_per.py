"""PER, its interval and paired tests: by hand, by the definition, and on systems made alike or different."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from speechctc.metrics.per import EditCounts, edit_counts
from speechctc.metrics.reliability import DRAWS, compare_errors, draw_rates, matched_pairs, reliability


def distance_by_hand(a: Sequence[object], b: Sequence[object]) -> int:
    """Wagner and Fischer's table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def test_errors_are_the_edit_distance() -> None:
    rng = random.Random(1)
    for _ in range(200):
        a, b = ([rng.choice("aa b ch d".split()) for _ in range(rng.randrange(12))] for _ in range(2))
        counts = edit_counts(a, b)
        assert counts.errors == distance_by_hand(a, b)
        assert len(b) == len(a) - counts.deletions + counts.insertions


def test_counts_add_up_over_utterances() -> None:
    pairs: list[tuple[list[str], list[str]]] = [(["a", "b"], ["a"]), (["a"], ["a", "c"]), ([], [])]
    total = sum((edit_counts(*pair) for pair in pairs), start=EditCounts())
    assert total == EditCounts(0, 1, 1, 3, 3)
    assert total.per == pytest.approx(200 / 3)


def test_nothing_to_find_has_no_errors_unless_something_was_heard() -> None:
    for hypothesis, rank in (([], 0.0), (["a"], 100.0)):
        counts = edit_counts([], hypothesis)
        assert math.isnan(counts.per) and counts.per_or_none is None and counts.rank == rank
        assert counts.to_text() == f"none ({len(hypothesis)} inserted)"


def counted(errors: int, phones: int) -> EditCounts:
    return EditCounts(substitutions=errors, reference_phones=phones, utterances=1)


def test_an_interval_over_utterances_is_the_binomials() -> None:
    """For utterances of one phone each the bootstrap is a binomial draw, whose percentiles are known exactly."""
    utterances, wrong = 400, 120
    counts = [counted(int(k < wrong), 1) for k in range(utterances)]
    told = reliability(counts, [""] * utterances)
    share, log = wrong / utterances, np.log(np.arange(1, utterances + 1)).cumsum()
    k = np.arange(utterances + 1)
    factorial = np.concatenate([[0.0], log])
    pmf = np.exp(factorial[-1] - factorial - factorial[::-1] + k * np.log(share) + (utterances - k) * np.log(1 - share))
    low, high = (100 * np.searchsorted(pmf.cumsum(), p) / utterances for p in (0.025, 0.975))
    assert (told.low, told.high) == pytest.approx((low, high), abs=0.26)  # one error is 0.25
    assert (told.over, told.speakers) == ("utterances", None)


def test_two_utterances_have_an_interval_and_one_has_none() -> None:
    """A quarter of the draws has one of the two twice."""
    told = reliability([counted(0, 10), counted(5, 10)], ["", ""])
    assert (told.low, told.high) == (0.0, 50.0)
    alone = reliability([counted(5, 10)], [""])
    assert (alone.low, alone.high) == (None, None)


def test_only_draws_without_phones_are_dropped() -> None:
    rates = draw_rates(np.array([[1, 1], [0, 0]]))
    assert set(rates) == {100.0} and 0.7 < len(rates) / DRAWS < 0.8


def test_an_interval_over_speakers_is_that_of_all_draws() -> None:
    """With four speakers all 256 draws can be listed."""
    errors, phones = [5, 30, 10, 60], [100, 150, 90, 120]
    counts = [counted(e // 5, p // 5) for e, p in zip(errors, phones, strict=True) for _ in range(5)]
    told = reliability(counts, [name for name in "abcd" for _ in range(5)])
    draws = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1)
    pers = 100 * np.array(errors)[draws].sum(0) / np.array(phones)[draws].sum(0)
    assert (told.low, told.high) == pytest.approx(np.percentile(pers, [2.5, 97.5]), abs=1.0)
    assert (told.over, told.speakers, told.phones, told.utterances) == ("speakers", 4, 460, 20)
    own = draw_rates(np.stack([errors, phones], axis=1))
    assert (told.low, told.high) == pytest.approx((np.quantile(own, 0.025), np.quantile(own, 0.975)))
    alone = reliability(counts, ["a"] * 20)
    assert alone.over == "utterances" and alone.low is not None and told.low is not None and alone.low > told.low


@pytest.mark.parametrize(
    ("phones", "speakers", "said"),
    [(499, "abc", "499 phones (below 500)"), (500, "ab", "2 speakers"), (9, "a", "9 phones (below 500) and 1 speaker"),
     (600, "abc", ""), (600, "", "unknown speakers")],
)  # fmt: skip
def test_few_phones_or_speakers_are_little_proof(phones: int, speakers: str, said: str) -> None:
    names = list(speakers) or [""]
    counts = [counted(1, phones // len(names)) for _ in names[1:]]
    counts.append(counted(1, phones - sum(each.reference_phones for each in counts)))
    caution = reliability(counts, names).caution
    assert said in caution and bool(caution) == bool(said) and ("below" in caution) == (phones < 500)


def test_no_errors_are_not_taken_for_certainty_and_one_utterance_for_nothing() -> None:
    told = reliability([counted(0, 100)] * 3, ["a", "b", "c"])
    assert (told.low, told.high) == (0.0, 1.0)  # the rule of three: 3 in 300
    alone = reliability([counted(2, 10)], ["a"])
    assert alone.low is None and "no interval" in alone.to_text()
    assert reliability([], []).low is None


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


def test_a_speaker_counts_as_a_whole() -> None:
    first, phones = np.zeros(90), np.full(90, 10.0)
    second = np.where(np.arange(90) < 30, 3.0, 0.0)  # one of three speakers is worse, by much
    test = compare_errors(first, second, phones, ["a"] * 30 + ["b"] * 30 + ["c"] * 30)
    assert test.p_matched_pairs < 1e-6 and test.low == 0 and not test.is_significant
    assert compare_errors(first, second, phones, [""] * 90).over == "utterances"
