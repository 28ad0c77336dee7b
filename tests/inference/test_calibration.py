"""Probabilities against known ones, errors against counts by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.inference.segmenter import (
    Calibration,
    Floats,
    cross_validated,
    expected_calibration_error,
    fit,
    log_odds,
)
from speechctc.metrics.edits import right_phones
from speechctc.phones.folding import parse_folding


def overconfident(count: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return posteriors and whether each was right, with odds of truth ``0.5 * log odds - 0.3``."""
    rng = np.random.default_rng(seed)
    posteriors: Floats = 1 / (1 + np.exp(-rng.normal(2, 2, count)))
    truth = 1 / (1 + np.exp(-(0.5 * log_odds(posteriors) - 0.3)))
    return posteriors, (rng.random(count) < truth).astype(float)


def test_fit_finds_the_slope_and_intercept_that_made_the_data() -> None:
    slope, intercept = fit(*overconfident(40_000))
    assert slope == pytest.approx(0.5, abs=0.03) and intercept == pytest.approx(-0.3, abs=0.06)


def test_fit_is_a_maximum_of_the_likelihood() -> None:
    posteriors, right = overconfident(300)
    high, low = (right.sum() + 1) / (right.sum() + 2), 1 / (len(right) - right.sum() + 2)
    targets = np.where(right > 0, high, low)

    def loss(slope: float, intercept: float) -> float:
        told = 1 / (1 + np.exp(-(slope * log_odds(posteriors) + intercept)))
        return float(-(targets * np.log(told) + (1 - targets) * np.log(1 - told)).sum())

    best = fit(posteriors, right)
    for step in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)):
        assert loss(best[0] + step[0], best[1] + step[1]) > loss(*best)


def test_phones_that_are_all_right_do_not_become_certain() -> None:
    posteriors: Floats = np.linspace(0.5, 1.0, 60, dtype=np.float64)
    slope, intercept = fit(posteriors, np.ones(60))
    told = Calibration(slope, intercept, phones=60).probabilities(posteriors)
    assert np.isfinite([slope, intercept]).all() and told.max() < 1.0


def test_calibration_error_is_what_counting_gives() -> None:
    told = np.array([0.1, 0.1, 0.1, 0.9, 0.9])
    right = np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    assert expected_calibration_error(told, right) == pytest.approx(3 / 5 * abs(1 / 3 - 0.1) + 2 / 5 * 0.4)
    assert expected_calibration_error(np.array([1.0, 1.0]), np.ones(2)) == 0.0
    assert expected_calibration_error(np.zeros(0), np.zeros(0)) == 0.0


def test_calibrating_lowers_the_error_on_phones_not_learned_from() -> None:
    posteriors, right = overconfident(2000)
    utterances = np.arange(2000) // 20
    told = cross_validated(posteriors, right, utterances)
    assert expected_calibration_error(told, right) < 0.5 * expected_calibration_error(posteriors, right)
    changed = right.copy()
    changed[utterances % 5 == 2] = 0
    again = cross_validated(posteriors, changed, utterances)
    assert np.array_equal(again[utterances % 5 == 2], told[utterances % 5 == 2])  # its own labels do not tell it


def test_right_phones_follow_the_minimal_alignment_after_folding() -> None:
    timit = parse_folding("timit39")
    assert right_phones(["sh", "iy"], ["zh", "iy"], timit) == [True, True]
    assert right_phones(["s", "iy", "t"], ["s", "q", "t"], timit) == [True, None, True]
    assert right_phones(["s", "iy"], ["s", "aa", "iy", "m"], parse_folding("none")) == [True, False, True, False]
    assert right_phones([], ["s"], parse_folding("none")) == [False]


def test_it_is_kept_beside_the_weights(tmp_path: Path) -> None:
    plain = Calibration.load(tmp_path)
    assert repr(plain) == repr(Calibration()) and plain.probability(0.7) == 0.7  # NaN: no == from 3.13 on
    kept = Calibration(0.5, 0.1, 0.004, 100, 0.2, 0.1, 0.9, "dev")
    kept.save(tmp_path)
    assert Calibration.load(tmp_path) == kept
    assert kept.probability(0.5) == pytest.approx(1 / (1 + np.exp(-0.1)))
    values = json.loads((tmp_path / "calibration.json").read_text())
    changes: list[dict[str, object]] = [{"format": 2}, {"extra": 1}, {"slope": "1"}, {"slope": None}, {"shift": 1e9}]
    changes += [{"slope": 10**400}, {"slope": 1e300}, {"correct": 10**400}, {"correct": -1}, {"protocol": "x" * 3000}]
    changes += [{"slope": float("nan")}, {"intercept": float("inf")}, {"phones": -1}, {"protocol": "a\n\x1b[2J"}]
    for damaged in ("{", "[]", "[" * 100_000, *(json.dumps(values | change) for change in changes)):
        (tmp_path / "calibration.json").write_text(damaged)
        with pytest.raises(InputError, match="speechctc calibrate"):
            Calibration.load(tmp_path)


def test_probabilities_of_any_slope_are_finite() -> None:
    told = Calibration(1e5, 1e5, phones=1).probabilities(np.array([0.0, 0.5, 1.0]))
    assert np.isfinite(told).all() and (told >= 0).all() and (told <= 1).all()
