"""Whether the bundled model says that it is less sure of its phones than of English."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from speechctc.core.errors import InputError
from speechctc.inference.decoder import MIN_CONFIDENCE, MIN_CONFIDENCE_WITHOUT_LM, MIN_PHONES, Doubt
from speechctc.inference.output import OutputOptions
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.stages.decode import decode
from speechctc.stages.open_model import ModelChoice, open_model
from tests.train_helpers import Recorder


def phones(count: int, confidence: float) -> list[Segment]:
    return [Segment("a", 0.1 * k, 0.1 * (k + 1), confidence) for k in range(count)]


@pytest.fixture(scope="module")
def english() -> Recogniser:
    return open_model("english", Recogniser, ModelChoice("cpu"))


def test_only_many_unsure_phones_are_a_reason_to_doubt(english: Recogniser) -> None:
    for count, confidence, doubted in ((MIN_PHONES, 0.5, True), (MIN_PHONES - 1, 0.5, False), (MIN_PHONES, 0.9, False)):
        doubt = Doubt(english)
        assert list(doubt.seen(phones(count, confidence))) == phones(count, confidence)
        assert bool(doubt.note()) == doubted
        assert not doubted or ("--lm-weight 0" in doubt.note() and "--model ipa" in doubt.note())


def test_recordings_count_together_and_failures_pass(english: Recogniser) -> None:
    doubt = Doubt(english)
    results: list[Recognition | InputError] = [
        Recognition("a", 1.0, tuple(phones(MIN_PHONES, 0.2))),
        InputError("b", "c"),
        Recognition("d", 1.0, ()),
    ]
    assert list(doubt.watched(results)) == results and doubt.note()
    assert list(doubt.watched([Recognition("e", 9.0, tuple(phones(9 * MIN_PHONES, 0.9)))])) and not doubt.note()


def test_without_the_ngram_the_limit_is_another_and_no_advice_on_it_is_given() -> None:
    doubt = Doubt(open_model("english", Recogniser, ModelChoice("cpu", lm_weight=0)))
    list(doubt.seen(phones(MIN_PHONES, (MIN_CONFIDENCE + MIN_CONFIDENCE_WITHOUT_LM) / 2)))
    assert "another language" in doubt.note() and "--lm-weight" not in doubt.note()


def test_the_limits_are_those_that_were_measured() -> None:
    """No group of English is doubted, and 37 other languages are; all but Irish."""
    file = Path(__file__).parent.parent.parent / "benchmarks" / "foreign.csv"
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    limits: tuple[tuple[str, float, set[str]], ...] = (
        ("confidence n-gram", MIN_CONFIDENCE, {"ga"}),
        ("confidence best path", MIN_CONFIDENCE_WITHOUT_LM, {"ga"}),
    )
    for column, least, missed in limits:
        english = [float(row[column]) >= least for row in rows if row["language"] == "en"]
        others = {row["language"]: float(row[column]) >= least for row in rows if row["language"] != "en"}
        assert len(english) == 32 and all(english)
        assert len(others) == 37 and {language for language, passes in others.items() if passes} == missed


@pytest.mark.shared
@pytest.mark.parametrize(("place", "doubted"), [("languages/pt/test/audio", True), ("english/dev/audio", False)])
def test_real_speech(english: Recogniser, shared_data: Path, tmp_path: Path, place: str, doubted: bool) -> None:
    files = sorted((shared_data / place).iterdir())[:3]
    doubt, recorder = Doubt(english), Recorder()
    decode(english, files, OutputOptions("text", tmp_path / "a.txt", None), recorder, doubt=doubt)
    assert any("another language" in line for line in recorder.said) == doubted
