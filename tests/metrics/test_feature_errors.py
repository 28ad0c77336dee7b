"""Feature error rates, against panphon's own and by hand."""

from __future__ import annotations

import json
import random

import pytest

from speechctc.core.bundled import MODELS
from speechctc.metrics import feature_errors
from speechctc.metrics.feature_errors import FeatureScore, feature_score

panphon = pytest.importorskip("panphon.distance", reason="panphon, of the extra pfer, is not installed")

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
    strings = [["".join(label for label in side if label != "sil") for side in pair] for pair in PAIRS]
    theirs = panphon.Distance().feature_error_rate(
        [hypothesis for _, hypothesis in strings], [ours for ours, _ in strings]
    )
    ours = score(PAIRS, sorted({label for pair in PAIRS for side in pair for label in side}))
    assert ours.name == "PFER" and ours.rate == pytest.approx(100 * theirs)


def test_pfer_is_panphons_own_over_all_phones_of_ipa() -> None:
    facts = json.loads((MODELS["ipa"].folder / "checkpoint.json").read_text(encoding="utf-8"))
    phones, rng = facts["phones"]["list"], random.Random(0)
    pairs = [(rng.choices(phones, k=rng.randint(0, 9)), rng.choices(phones, k=rng.randint(0, 9))) for _ in range(100)]
    references, hypotheses = (["".join(side) for side in sides] for sides in zip(*pairs, strict=True))
    theirs = panphon.Distance().feature_error_rate(hypotheses, references)
    assert score(pairs, phones).rate == pytest.approx(100 * theirs)


def test_panphon_reads_the_letter_g_of_keyboards() -> None:
    assert score([(["g"], ["ɡ"])], ["g", "ɡ", "a"]).rate == 0.0


def test_labels_that_are_no_phones_are_named() -> None:
    assert feature_score([(["a", "word"], ["a"])], [""], ["a", "b", "7"]) == "no PFER: not IPA: 7, word"


def test_without_panphon_there_is_none_and_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_errors, "find_spec", lambda name: None)
    found = feature_score(PAIRS, [""] * len(PAIRS), ["a"])
    assert isinstance(found, str) and "[pfer]" in found


def test_features_of_segments_by_hand() -> None:
    assert feature_errors._whole((1, 0, -1)) == pytest.approx(2.5 / 3)
    assert feature_errors._substitution((1, 0, -1, 1), (-1, 0, 0, 1)) == pytest.approx(1.5 / 4)
