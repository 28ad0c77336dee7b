"""Whether a word is named that holds a pause between two of its phones, and no other word."""

from __future__ import annotations

import pytest

from speechctc.inference.result import PAUSE, Recognition, Word
from speechctc.inference.segmenter import Segment


def spoken(gap: float, between: float) -> Recognition:
    """Return two words of two phones; there is a gap inside the second, and one between them."""
    times = [(0.0, 0.1), (0.1, 0.2), (0.2 + between, 0.3 + between), (0.3 + between + gap, 0.4 + between + gap)]
    segments = [Segment(phone, *each, 0.9) for phone, each in zip("abcd", times, strict=True)]
    words = [Word("one", 0.0, 0.2, 0.0, 0), Word("two", times[2][0], times[3][1], 0.0, 1)]
    return Recognition("a.wav", times[3][1] + 1, tuple(segments), words=tuple(words))


@pytest.mark.parametrize(("gap", "between", "held"), [(0.9, 0.0, True), (0.0, 0.9, False), (PAUSE - 0.05, 0.0, False)])
def test_a_pause_is_named_inside_a_word_and_not_between_words(gap: float, between: float, held: bool) -> None:
    result = spoken(gap, between)
    assert [word.word for word in result.pauses_inside] == ["two"] * held
    assert [each.get("pause_inside") for each in result.to_dict()["words"]] == [
        None,
        pytest.approx(gap) if held else None,
    ]
    assert result.pauses_text.startswith("1 word holds a pause (longest: two, 0.20 to 1.30 s: 0.9 s)" if held else "")
    assert bool(result.pauses_text) == held
