"""Whether ratings are learned from the odds of substitutions, where no single score tells them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.inference.ratings import FILE, MOST, Ratings, cross_validated, features
from speechctc.inference.segmenter import PhoneScore

PHONES = ("a", "b", "c", "d")


def rated(count: int = 1200) -> tuple[list[str], list[str], list[PhoneScore], NDArray[np.float64]]:
    """Return phones of 24 speakers; raters mark ``b`` in place of ``a``, and a missing ``c``, and nothing else."""
    rng = np.random.default_rng(0)
    said = [str(each) for each in rng.choice(PHONES, count)]
    odds = rng.normal(-4, 4, size=(count, 5))
    wrong = [{"a": row[2], "c": row[0]}.get(phone, -9.0) for phone, row in zip(said, odds, strict=True)]
    ratings = 2 / (1 + np.exp(np.array(wrong))) + 0.2 * rng.normal(size=count)
    scores = []
    for phone, row in zip(said, odds, strict=True):
        named = tuple(pair for pair in zip(("-", *PHONES), row.tolist(), strict=True) if pair[0] != phone)
        right = 1 / (1 + np.exp([value for _, value in named]).sum())
        scores.append(PhoneScore(right, right, (), named))
    return [str(k % 24) for k in range(count)], said, scores, ratings


def test_what_was_said_instead_tells_more_than_one_score() -> None:
    speakers, said, scores, ratings = rated()
    values = features(PHONES, scores)
    _, found = cross_validated(PHONES, speakers, said, values, ratings)
    alone = np.corrcoef([each.score for each in scores], ratings)[0, 1]
    assert np.corrcoef(found, ratings)[0, 1] > 0.7 > 0.5 > alone  # at most 0.77 by a line
    shuffled = np.random.default_rng(1).permutation(ratings)
    _, nothing = cross_validated(PHONES, speakers, said, values, shuffled)
    assert abs(np.corrcoef(nothing, shuffled)[0, 1]) < 0.1


def test_weights_are_those_of_least_squares_with_rows_for_the_penalty(tmp_path: Path) -> None:
    _, _, scores, ratings = rated(60)
    values = features(PHONES, scores)
    assert values[0, 3] == pytest.approx(np.clip(scores[0].log_odds[0][1], -MOST, MOST) / MOST)
    penalty = np.sqrt(np.diag([1.0] + [10.0] * 7))
    rows, wanted = np.vstack([values, penalty]), np.append(ratings, np.zeros(8))
    expected = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    learned = Ratings.learn(PHONES, [], values, ratings, 10.0)
    np.testing.assert_allclose(learned.weights[""], expected)
    learned.save(tmp_path)
    kept = Ratings.load(tmp_path, PHONES)
    assert kept and kept.rate("a", scores[0]) == pytest.approx(values[0] @ expected, abs=1e-3)
    for text in ("{", "[]", (tmp_path / FILE).read_text().replace('"d"', '"e"')):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(InputError, match="not what this version knows of raters' scores"):
            Ratings.load(tmp_path, PHONES)
