"""Feature error rates: panphon's against panphon's own, and this package's by hand."""

from __future__ import annotations

import json
import random

import pytest

from speechctc.core.bundled import MODELS
from speechctc.metrics import per
from speechctc.metrics.per import FeatureScore, feature_score
from speechctc.phones.articulation import FAR, distance
from speechctc.phones.inventory import CMU39

Pair = tuple[list[str], list[str]]
PAIRS: list[Pair] = [
    ("p a t".split(), "b a t".split()),
    ("s t ɪ n".split(), "ʃ t n".split()),
    ("t͡ʃ eɪ n".split(), "t ʃ e n z".split()),
    ("sil m a".split(), "m sil sil a".split()),
]


def score(pairs: list[Pair], phones: list[str]) -> FeatureScore:
    found = feature_score(pairs, [""] * len(pairs), phones)
    assert isinstance(found, FeatureScore)
    return found


def test_pfer_is_panphons_own_feature_error_rate() -> None:
    pytest.importorskip("panphon", reason="panphon, of the extra pfer, is not installed")
    from panphon.distance import Distance

    strings = [["".join(label for label in side if label != "sil") for side in pair] for pair in PAIRS]
    theirs = Distance().feature_error_rate([hypothesis for _, hypothesis in strings], [ours for ours, _ in strings])
    ours = score(PAIRS, sorted({label for pair in PAIRS for side in pair for label in side}))
    assert ours.name == "PFER" and ours.rate == pytest.approx(100 * theirs)


def test_pfer_is_panphons_own_over_all_phones_of_ipa() -> None:
    pytest.importorskip("panphon", reason="panphon, of the extra pfer, is not installed")
    from panphon.distance import Distance

    facts = json.loads((MODELS["ipa"].folder / "checkpoint.json").read_text(encoding="utf-8"))
    phones, rng = facts["phones"]["list"], random.Random(0)
    pairs = [(rng.choices(phones, k=rng.randint(0, 9)), rng.choices(phones, k=rng.randint(0, 9))) for _ in range(100)]
    references, hypotheses = (["".join(side) for side in sides] for sides in zip(*pairs, strict=True))
    theirs = Distance().feature_error_rate(hypotheses, references)
    assert score(pairs, phones).rate == pytest.approx(100 * theirs)


def test_without_panphon_the_rate_is_by_the_packages_own_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per, "find_spec", lambda name: None)
    ours = score(PAIRS[:2], "p b a t s ʃ ɪ n".split())  # 7 phones: p as b, s as ʃ, ɪ deleted
    by_hand = (distance("p", "b") / FAR + distance("s", "ʃ") / FAR + 1) / 7
    assert ours.rate == pytest.approx(100 * by_hand) and ours.name != "PFER" and "not panphon's" in ours.about
    assert ours.to_text().startswith("feature error rate 1")


@pytest.mark.parametrize("has_panphon", [True, False])
def test_near_phones_cost_less_than_far_ones_in_arpabet_too(has_panphon: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_panphon:
        pytest.importorskip("panphon", reason="panphon, of the extra pfer, is not installed")
    else:
        monkeypatch.setattr(per, "find_spec", lambda name: None)
    near, far, same = (score([(["sh", "iy"], [phone, "iy"])], [*CMU39]).rate for phone in ("s", "aa", "sh"))
    assert 0 == same < near < far < 100


def test_panphon_reads_the_letter_g_of_keyboards() -> None:
    pytest.importorskip("panphon", reason="panphon, of the extra pfer, is not installed")
    assert score([(["g"], ["ɡ"])], ["g", "ɡ", "a"]).rate == 0.0


def test_labels_that_are_no_phones_are_named() -> None:
    assert feature_score([(["a", "word"], ["a"])], [""], ["a", "b", "7"]) == ["7", "word"]


def test_nothing_spoken_has_no_errors() -> None:
    assert score([([], [])], ["a", "sil"]).rate == 0.0


def test_a_phone_too_many_and_one_that_is_far_off_count_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per, "find_spec", lambda name: None)
    assert score([(["p"], ["p", "t"])], ["p", "t", "a"]).rate == 100.0
    assert distance("p", "a") > FAR
    found = score([(["p"], ["a"]), (["p"], ["p"])], ["p", "t", "a"])
    assert (found.rate, found.low, found.high) == (50.0, 0.0, 100.0)


def test_features_of_segments_by_hand() -> None:
    assert per._whole((1, 0, -1)) == pytest.approx(2.5 / 3)
    assert per._substitution((1, 0, -1, 1), (-1, 0, 0, 1)) == pytest.approx(1.5 / 4)
