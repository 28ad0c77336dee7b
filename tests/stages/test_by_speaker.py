"""Whether changes of scores are called beyond chance as often as they should be, and names of pages."""

from __future__ import annotations

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.stages.by_speaker import LEVEL, Said, Scores, change_of, pages_of, sound_of, speakers_of


def said(scores: list[float], recordings: int, phone: str = "a") -> list[Said]:
    """Return places of a sound, spread over recordings."""
    return [Said("x", f"{k % recordings}", None, phone, score, "", "", 0.0, 0.1) for k, score in enumerate(scores)]


@pytest.mark.parametrize("recordings", [1, 8])
def test_chance_alone_is_seldom_called_a_change(recordings: int) -> None:
    """Recordings have noise of their own, which counts where there are enough of them."""
    rng = np.random.default_rng(1)
    ps = []
    for _ in range(200):
        one, other = (
            said(
                [*(0.5 + 0.1 * rng.normal(size=16) + (0.1 * np.tile(rng.normal(size=8), 2) if recordings > 1 else 0))],
                recordings,
            )
            for _ in range(2)
        )
        ps.append(change_of(one, other).p)
    assert 0.005 <= np.mean(np.array(ps) < LEVEL) <= 0.095  # 3 standard deviations around 0.05
    risen = [change_of(said([*(0.8 + 0.1 * rng.normal(size=16))], 8), said([0.5] * 16, 8)) for _ in range(3)]
    assert all(each.p < 0.001 and each.low < 0.3 < each.high + 0.1 and each.low > 0.1 for each in risen)


@pytest.mark.parametrize("recordings", [2, 8])
def test_the_same_text_is_compared_place_by_place(recordings: int) -> None:
    """Places differ more than dates: the same rise is beyond chance where places are told apart, and seldom if not."""
    rng = np.random.default_rng(2)
    same, risen, unpaired = [], [], []
    for _ in range(200):
        places = np.clip(rng.normal(0.5, 0.25, size=16), 0, 1)
        one, other = (said([*(places + 0.06 * rng.normal(size=16))], recordings) for _ in range(2))
        named = [[each._replace(place=f"a b {k}") for k, each in enumerate(part)] for part in (one, other)]
        better = [each._replace(score=each.score + 0.1) for each in named[0]]
        same.append(change_of(*named).p)
        risen.append(change_of(better[::-1], named[1]))
        unpaired.append(change_of([each._replace(place="") for each in better], other).p)
    assert 0.005 <= np.mean(np.array(same) < LEVEL) <= 0.095
    assert np.mean([each.low < 0.1 < each.high for each in risen]) > 0.9
    assert np.mean([each.p < LEVEL for each in risen]) > 0.9 > 0.5 > np.mean(np.array(unpaired) < LEVEL)


def test_many_sounds_need_clearer_changes() -> None:
    rng = np.random.default_rng(1)
    phones = [f"p{k}" for k in range(40)]
    now, before = (
        Scores([each for phone in phones for each in said([*rng.random(8)], 1, phone)], set()) for _ in range(2)
    )
    (speaker,) = speakers_of(now, before, {"x": "x"})
    changes = [sound.change for sound in speaker.sounds]
    assert sum(each is not None and each.p < LEVEL for each in changes) and not any(
        c and c.is_beyond_chance for c in changes
    )


def test_what_was_said_seldom_has_no_change_and_one_place_no_interval() -> None:
    one = sound_of("a", said([0.1], 1), said([0.9] * 5, 1))
    assert one.interval is None and one.change is None and not one.is_often


def test_pages_are_named_by_speakers() -> None:
    assert pages_of(["a/b", "Index", "ä", "a/b", "A_B"]) == {"a/b": "a_b", "Index": "Index-2", "ä": "ä", "A_B": "A_B-2"}
    with pytest.raises(InputError, match="the speaker of 2 recordings"):
        pages_of(["", "a", ""])
