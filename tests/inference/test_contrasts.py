"""Contrasts: which pairs are read, and how they are counted."""

from __future__ import annotations

import pytest

from speechctc.core.errors import InputError
from speechctc.inference.contrasts import OF_ENGLISH, Contrast, Tally, parse_contrasts
from speechctc.inference.segmenter import PhoneScore, Segment
from speechctc.phones.inventory import CMU39


def test_pairs_are_read_in_the_models_notation_or_in_ipa() -> None:
    assert [*map(str, parse_contrasts("th/s, l/r;v/w", CMU39))] == ["th/s", "l/r", "v/w"]
    assert parse_contrasts("θ/s iː/ɪ", CMU39) == (Contrast("th", "s"), Contrast("iy", "ih"))
    assert parse_contrasts("s/th,th/s", CMU39) == (Contrast("s", "th"),)  # a pair has no direction
    assert parse_contrasts("ʎ/j", ("a", "j", "ʎ")) == (Contrast("ʎ", "j"),)


@pytest.mark.parametrize("language", OF_ENGLISH)
def test_each_first_language_has_pairs_of_english_phones(language: str) -> None:
    found = parse_contrasts(language, CMU39)
    assert len(found) == len(OF_ENGLISH[language].split()) >= 4 and found == parse_contrasts(f"{language}-x", CMU39)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no pairs of sounds"),
        ("th/", "no pairs of sounds"),
        ("th/s/t", "no pairs of sounds"),
        ("s/s", "hears both as s"),
        ("iː/i", "hears both as iy"),
        ("th/zz", "no sound zz"),
        ("xx", "neither a pair of sounds nor a language with a list"),
        (",".join(f"{one}/{other}" for one in CMU39[:7] for other in CMU39[7:14]), "49 pairs"),
    ],
)
def test_what_is_no_contrast_of_the_model_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_contrasts(text, CMU39)


def test_a_list_of_english_is_not_read_for_another_model() -> None:
    with pytest.raises(InputError, match="lists are of sounds of English"):
        parse_contrasts("es", ("a", "ʎ", "ɾ"))


def test_contrasts_are_counted_both_ways() -> None:
    scores = [PhoneScore(0.5, 0.5, contrasts=(("s", p),)) for p in (0.9, 0.2, 0.1)]
    segments = [Segment("th", k, k + 1, 1.0, goodness=score) for k, score in enumerate(scores)]
    tally = Tally()
    tally.add([*segments, Segment("s", 3, 4, 1.0, goodness=PhoneScore(0.5, 0.5, contrasts=(("th", 0.7),)))])
    tally.add([Segment("l", 0, 1, 1.0)])
    assert tally.lines([Contrast("th", "s")]) == ["contrasts: s as th 0 of 1, th as s 2 of 3"]
    assert Tally().lines([]) == [] and "none" in Tally().lines([Contrast("l", "r")])[0]
    assert segments[1].contrast == ("th/s", 0.2)
