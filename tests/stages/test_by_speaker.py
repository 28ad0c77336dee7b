"""Whether changes of scores are called beyond chance as often as they should be, and names of pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.stages import by_speaker
from speechctc.stages.by_speaker import LEVEL, Said, Scores, change_of, pages_of, sound_of, speakers_of
from tests.browser import browser


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


PRINTED = 1047  # pixels of A4 in landscape between margins of 10 mm


def test_the_page_of_a_class_is_sorted_by_a_learner_and_printed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("selenium", reason="selenium, of the extra dev, is not installed")
    rng, phones = np.random.default_rng(3), sorted(by_speaker.KEY_WORDS)
    means = {(name, phone): rng.uniform(0.3, 0.9) for name in map("learner{:02}".format, range(12)) for phone in phones}
    means |= {(name, "th"): 0.1 for name, phone in means if phone == "th"} | {("learner05", "z"): 0.05}
    places = [
        Said(name, "f", None, phone, mean, "t" if mean < 0.2 else "", "w", 0.0, 0.1)
        for (name, phone), mean in means.items()
        for _ in range(3)
    ]
    monkeypatch.setattr(
        by_speaker, "clips", lambda speaker: {each: "data:," for sound in speaker.sounds for each in sound.worst}
    )
    by_speaker.write_speakers(
        tmp_path, Scores(places, {"scores"}), None, pages_of([each.speaker for each in places]), True
    )
    with browser() as driver:
        driver.get((tmp_path / "index.html").as_uri())
        weakest = driver.find_elements("css selector", "table:not(.class) tbody tr")
        assert len(weakest) == 5 and weakest[0].text.startswith("th [θ] 0.10 36 t 36 learner00")
        for button in driver.find_elements("css selector", ".class thead .sort"):
            if button.text.strip() == "learner05":
                button.click()
        assert [row.text.split()[0] for row in driver.find_elements("css selector", ".class tbody tr")][:3] == [
            "all",
            "z",
            "th",
        ]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": PRINTED, "height": 700, "deviceScaleFactor": 1, "mobile": False},
        )
        assert driver.execute_script("return document.documentElement.scrollWidth") <= PRINTED
        assert driver.execute_script("return document.querySelector('.class').getBoundingClientRect().right") <= PRINTED
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        driver.get((tmp_path / "learner05.html").as_uri())
        first = driver.find_element("css selector", ".practise li").text
        assert first.startswith("z [z] as in zoo: 0.05, heard as t 3") and "▶ w" in first
