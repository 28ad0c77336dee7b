"""Tuned weights: the search for them, and the file that nobody's changes are lost from."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.lm.model import PhoneLM
from speechctc.lm.tuned import (
    TUNED_FILE,
    check_untouched,
    find_tuned,
    identity,
    read_tuned,
    tuned_settings,
    write_tuned,
)
from speechctc.stages.lm_tune import Point, Tuning, best_point, coarse_points, fine_points
from tests.lm.test_rescore import lstm

ONE, TWO = PhoneLM.learn([[1, 2, 3]], 4, 2), PhoneLM.learn([[1, 2, 2]], 4, 2)


def entry(lms: str, weight: float) -> dict[str, object]:
    return {"lms": lms, "lm_weight": weight, "lm_bonus": 1.0, "lm_share": 0.5, "beam": 8}


def test_a_language_model_is_known_by_what_it_computes() -> None:
    again = PhoneLM.from_tensors(ONE.to_tensors(), 4)
    assert identity(ONE, None) == identity(again, None) != identity(TWO, None)
    assert len({identity(*pair) for pair in ((ONE, None), (ONE, lstm()), (None, lstm()), (None, lstm(1)))}) == 4


def test_weights_of_each_language_model_are_kept(tmp_path: Path) -> None:
    path = tmp_path / TUNED_FILE
    assert find_tuned(tmp_path, ONE, None) is None and tuned_settings(None) == []
    for model, weight in ((ONE, 0.3), (TWO, 0.4), (ONE, 0.5)):
        write_tuned(path, entry(identity(model, None), weight))
    assert len(read_tuned(path)) == 2 and find_tuned(tmp_path, None, None) is None
    assert tuned_settings(find_tuned(tmp_path, ONE, None))[0] == "decode.lm_weight=0.5"
    assert tuned_settings(find_tuned(tmp_path, TWO, None))[0] == "decode.lm_weight=0.4"
    assert find_tuned(tmp_path, ONE, lstm()) is None


def test_what_someone_wrote_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / TUNED_FILE
    write_tuned(path, entry(identity(ONE, None), 0.3))
    path.write_text(path.read_text().replace("0.3", "0.9"))
    before = path.read_bytes()
    with pytest.raises(InputError, match="was changed by hand; move it away"):
        write_tuned(path, entry("x", 0.1))
    assert path.read_bytes() == before and tuned_settings(find_tuned(tmp_path, ONE, None))[0].endswith("=0.9")


def test_points_lie_around_the_best_and_ties_go_to_the_lowest() -> None:
    coarse = [point for group in coarse_points((0.25, 0.75)) for point in group]
    assert len(set(coarse)) == len(coarse) == 40
    best = Point(0.2, 1.0, 0.25)
    for group in fine_points(best, (0.25, 0.75)):
        assert len({point[:2] for point in group}) == 1 and len(group) == 3
        assert all(0 < point.weight <= 0.35 and 0.4 <= point.bonus <= 1.6 for point in group)
    assert any(best in group for group in fine_points(best, (0.25, 0.75)))
    errors = {Point(by, 1, 0): np.array(each) for by, each in ((0.5, [2, 2]), (0.2, [1, 3]), (0.1, [9, 9]))}
    assert best_point(errors) == Point(0.2, 1, 0)


def test_a_tuning_cut_short_is_not_in_the_way_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the weights cannot be written, at first or later, the next tuning goes on."""
    point, path, write = Point(0.0, 0.0, 0.0), tmp_path / "t.json", files.write_bytes
    tuning = Tuning({point: np.array([3, 2])}, np.array([3, 3]), 2, np.array([9, 9]), point, 2)

    def fail(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    for fails in (True, False, True, False, False):
        monkeypatch.setattr(files, "write_bytes", fail if fails else write)
        with suppress(OSError):
            write_tuned(path, {"lms": identity(ONE, None), **tuning.to_dict()})
        check_untouched(path)
    assert len(read_tuned(path)) == 1
