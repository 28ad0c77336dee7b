"""Whether changes of scores are called beyond chance as often as they should be, and names of pages."""

from __future__ import annotations

import base64
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speechctc.audio.conditions import RATE, measure
from speechctc.phones.articulation import KEY_WORDS
from speechctc.stages import by_speaker
from speechctc.stages.by_speaker import LEVEL, Said, Scores, change_of, pages_of, sound_of, speakers_of
from tests.browser import browser, other_browser, set_screen


def said(scores: list[float], recordings: int, phone: str = "a") -> list[Said]:
    """Return places of a sound, spread over recordings."""
    return [Said("x", f"{k % recordings}", None, phone, score, "", "", 0.0, 0.1) for k, score in enumerate(scores)]


@pytest.mark.parametrize("recordings", [5, 8])
def test_chance_alone_is_seldom_called_a_change(recordings: int) -> None:
    """Recordings have noise of their own, which counts where there are enough of them."""
    rng = np.random.default_rng(1)
    ps = []
    for _ in range(200):
        one, other = (
            said(
                [*(0.5 + 0.1 * rng.normal(size=2 * recordings) + 0.1 * np.tile(rng.normal(size=recordings), 2))],
                recordings,
            )
            for _ in range(2)
        )
        ps.append(change_of(one, other).p)
    assert 0.005 <= np.mean(np.array(ps) < LEVEL) <= 0.095  # 3 standard deviations around 0.05
    risen = [change_of(said([*(0.8 + 0.1 * rng.normal(size=16))], 8), said([0.5] * 16, 8)) for _ in range(3)]
    assert all(
        each.p < 0.001 and each.interval and 0.1 < each.interval[0] < 0.3 < each.interval[1] + 0.1 for each in risen
    )


@pytest.mark.parametrize("recordings", [5, 8])
def test_the_same_text_is_compared_place_by_place(recordings: int) -> None:
    """Places differ more than dates: the same rise is beyond chance where places are told apart, and seldom if not."""
    rng = np.random.default_rng(2)
    same, risen, unpaired = [], [], []
    for _ in range(200):
        places = np.clip(rng.normal(0.5, 0.25, size=16), 0, 1)
        one, other = (said([*(places + 0.06 * rng.normal(size=16))], recordings) for _ in range(2))
        named = [[each._replace(place=f"a b {k}") for k, each in enumerate(part)] for part in (one, other)]
        better = [each._replace(score=each.score + 0.1) for each in named[0]]
        same.append(change_of(named[0], named[1]).p)
        risen.append(change_of(better[::-1], named[1]))
        unpaired.append(change_of([each._replace(place="") for each in better], other).p)
    assert 0.005 <= np.mean(np.array(same) < LEVEL) <= 0.095
    assert np.mean([each.interval[0] < 0.1 < each.interval[1] for each in risen if each.interval]) > 0.9
    assert all(each.rise == pytest.approx(each.now - each.before) for each in risen)
    assert np.mean([each.p < LEVEL for each in risen]) > 0.9 > 0.5 > np.mean(np.array(unpaired) < LEVEL)


def test_a_change_is_not_called_on_few_recordings_or_through_another_channel() -> None:
    rng = np.random.default_rng(3)
    low, high = ([*(middle + 0.02 * rng.normal(size=20))] for middle in (0.3, 0.7))
    for recordings, called in ((1, False), (2, False), (4, False), (5, True)):
        change = change_of(said(high, recordings), said(low, recordings))
        assert (not change.not_called) == called and (change.p < 0.01) == called and change.rise > 0.35
        assert (change.interval is None) == (recordings == 1)
    assert change_of(said(high, 8), said(low, 4)).not_called.startswith("less than 5 recordings")
    noise = (rng.normal(size=4 * RATE) / 20).astype(np.float32)
    voice = noise * (np.sin(2 * np.pi * np.arange(len(noise)) / RATE) > 0)
    spectrum = np.fft.rfft(voice)
    spectrum[len(spectrum) * 3400 // 8000 :] = 0
    narrow = np.fft.irfft(spectrum).astype(np.float32)
    sounds = voice + noise / 1000, narrow + noise / 1000, voice + noise / 50
    whole, telephone, loud = (measure(each.astype(np.float32)) for each in sounds)
    assert whole and telephone and loud and telephone.band[1] < 5100 < whole.band[1] and loud.floor > whole.floor + 15
    for channel, word in (
        (whole, ""),
        (telephone, "spectrum"),
        (loud, "noise"),
        (measure(np.clip(3 * voice, -0.1, 0.1)), "cut"),
    ):
        now = Scores(said(high, 8), set(), channels={f"{k}": channel for k in range(8) if channel})
        before = Scores(said(low, 8), set(), channels={f"{k}": whole for k in range(8)})
        (speaker,) = speakers_of(now, before, {"x": "x"})
        for sound in (speaker.whole, *speaker.sounds):
            assert sound.change and sound.change.is_beyond_chance == (not word) and word in sound.change.not_called
            assert word in sound.change.verdict


def test_many_sounds_need_clearer_changes() -> None:
    rng = np.random.default_rng(1)
    phones = [f"p{k}" for k in range(40)]
    now, before = (
        Scores([each for phone in phones for each in said([*rng.random(8)], 8, phone)], set()) for _ in range(2)
    )
    (speaker,) = speakers_of(now, before, {"x": "x"})
    changes = [sound.change for sound in speaker.sounds]
    assert sum(each is not None and each.p < LEVEL for each in changes) and not any(
        c and c.is_beyond_chance for c in changes
    )


def test_what_was_said_seldom_has_no_change_and_one_place_no_interval() -> None:
    one = sound_of("a", said([0.1], 1), said([0.9] * 5, 1))
    assert one.interval is None and one.change is None and not one.is_often


def test_several_bad_sounds_of_a_word_are_one_finding() -> None:
    places = [("ball", 0.0, "b", 0.1), ("ball", 0.0, "l", 0.15), ("ball", 0.0, "o", 0.9), ("ball", 2.0, "b", 0.1)]
    places += [("gone", 1.0, "g", 0.02), ("gone", 1.0, "n", 0.1)]
    heard = [
        Said("x", "a.wav", None, phone, score, "", word, start, start + 0.5) for word, start, phone, score in places
    ]
    (speaker,) = speakers_of(Scores(heard, set(), rates={"a.wav": 9.5}), None, {"x": "x"})
    assert [each.text for each in speaker.words] == ["gone: g 0.02, n 0.10", "ball: b 0.10, l 0.15"]
    assert speaker.rate == 9.5 and speaker.recordings == 1 and speaker.rate_before is None


def test_pages_are_named_by_speakers() -> None:
    assert pages_of(["a/b", "Index", "ä", "a/b", "A_B"]) == {"a/b": "a_b", "Index": "Index-2", "ä": "ä", "A_B": "A_B-2"}


def test_a_change_is_no_larger_than_scores_are_and_says_if_the_text_differs() -> None:
    low, high = said([0.1, 0.9] * 3, 2), said([0.9, 0.2] * 3, 2)
    change = change_of(high, low)
    assert change.interval and -1 <= change.interval[0] < change.rise < change.interval[1] <= 1
    one, other = (
        [each._replace(place=f"a {k}") for k, each in enumerate(said(scores, 5))] for scores in ([0.6] * 9, [0.5] * 9)
    )
    assert "the text differs" not in change_of(one, other).verdict
    assert "the text differs" in change_of([each._replace(place=f"b {each.place}") for each in one], other).verdict


def test_the_mean_of_a_person_has_an_interval_over_recordings_only() -> None:
    """Many phones of one recording say nothing of how recordings differ."""
    rng = np.random.default_rng(4)
    scores = [*rng.random(40)]
    assert sound_of("", said(scores, 1)).interval is None and sound_of("a", said(scores, 1)).interval
    tight = sound_of("", said([0.5 + 0.1 * (k % 2) for k in range(40)], 2))  # the recordings are 0.5 and 0.6
    assert tight.interval and tight.interval[1] - tight.interval[0] > 0.9


def test_contrasts_that_were_seldom_compared_come_last_and_what_is_left_out_is_counted() -> None:
    often, seldom = ("b", (("v", 0.1),)), ("l", (("n", 0.1),))
    places = [
        *(each._replace(contrasts=often[1], is_last=True, instead="nothing") for each in said([0.9] * 3, 3, "b")),
        *(each._replace(contrasts=(("v", 0.9),)) for each in said([0.9] * 3, 3, "b")),
        *(each._replace(contrasts=seldom[1]) for each in said([0.9], 1, "l")),
    ]
    (speaker,) = speakers_of(Scores(places, set()), None, {"x": "x"})
    assert [(each.phone, each.mistaken, each.times) for each in speaker.contrasts] == [("b", 3, 6), ("l", 1, 1)]
    assert [each[1:] for each in speaker.left_out] == [(3, 3), (0, 4)]


def test_sounds_of_right_speech_below_a_half_by_chance() -> None:
    """Of right speech, a quarter of single scores is below 0.5; means of two are there by a formula of their own."""
    assert by_speaker.usual_below([1] * 8) == pytest.approx(2, abs=0.2)
    grid = (np.arange(2000) + 0.5) / 2000  # P(x + y < 1) = integral of 2x (1 - x)^2
    assert by_speaker.usual_below([2]) == pytest.approx((2 * grid * (1 - grid) ** 2).mean(), abs=0.02)
    assert by_speaker.usual_below([50]) < 0.001


def test_the_page_of_a_class_names_who_has_no_page_and_how_each_was_recorded(tmp_path: Path) -> None:
    noise = (np.random.default_rng(5).normal(size=2 * RATE) / 20).astype(np.float32)
    channel = measure(noise)
    assert channel
    now = Scores([each._replace(instead="nothing") for each in said([0.3] * 4, 1)], {"scores"}, channels={"0": channel})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_speaker, "clips", lambda speaker: {each: "" for s in speaker.sounds for each in s.worst})
        told = by_speaker.write_speakers(tmp_path, now, None, {"x": "x", "lost": "lost"}, True)
        by_speaker.write_speakers(tmp_path / "later", now, now, {"x": "x"}, True)
    index, page = ((tmp_path / f"{name}.html").read_text() for name in ("index", "x"))
    later = [(tmp_path / "later" / f"{name}.html").read_text() for name in ("index", "x")]
    assert ["A change is called" in each for each in (index, page, *later)] == [False, False, True, True]
    assert f">Folder {tmp_path.name}, {date.today()}<" in index and f">Folder later, {date.today()}<" in later[1]
    assert "no page of lost: none of their recordings counts" in told and "No page of lost" in index
    assert "{:.0f} to {:.0f}".format(*channel.band) in index and f">{-channel.floor:.0f}<" in index
    assert "1 is as in right speech" not in index and 'id="about"' in index
    assert re.search(r'"number low2"[^>]*>0.30<.*?"number low2"[^>]*>0.30<', index)  # of all, and of x
    assert "of 100 that were left out, some 80 do" in page and "nothing (4)" in page
    assert "4 of 4 other sounds" in page and "by chance" not in page.split("What the scores are")[0]  # none is known


def test_what_a_whole_class_said_seldom_stands_in_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_speaker, "clips", lambda speaker: {each: "" for s in speaker.sounds for each in s.worst})
    places = [*said([0.9] * 4, 1), *said([0.1], 1, "b")]
    by_speaker.write_speakers(tmp_path, Scores(places, {"scores"}), None, {"x": "x"}, True)
    _, row = (tmp_path / "index.html").read_text().split('class="sort">b', 1)
    assert re.findall(r'<td class="([^"]*)"[^>]*>([^<]*)<', row.split("</tr>")[0]) == [("number", "(0.10)")] * 2


def test_scores_say_which_sounds_end_words_and_which_words_hold_a_pause(tmp_path: Path) -> None:
    def place(phone: str, start: float, end: float) -> dict[str, Any]:
        instead = [{"phones": "-", "probability": 0.9}] if phone == "t" else []
        probability = 0.1 if phone == "t" else 0.9
        return {"phone": phone, "start": start, "end": end, "score": 0.8, "probability": probability} | {
            "said_instead": instead
        }

    words = [("cat", 0.0, 1.2, 0, {"pause_inside": 0.9}), ("at", 1.2, 1.4, 1, {}), ("three", 1.4, 1.7, 2, {})]
    times = [("k", 0.0, 0.1), ("ae", 0.1, 0.2), ("t", 1.1, 1.2), ("ae", 1.2, 1.3), ("t", 1.3, 1.4)]
    times += [("th", 1.4, 1.5), ("r", 1.5, 1.6), ("iy", 1.6, 1.7)]
    result = {"file": "a.wav", "speaker": "x", "about": "scores", "segments": [place(*each) for each in times]}
    result["words"] = [{"word": w, "start": a, "end": b, "number": n} | more for w, a, b, n, more in words]
    (tmp_path / "a.json").write_text(json.dumps(result))
    read = by_speaker.read_scores([tmp_path / "a.json"])
    (speaker,) = speakers_of(read, None, {"x": "x"})
    assert speaker.left_out == [("last consonants of words", 1, 1), ("other sounds", 1, 7)]  # at is short, iy a vowel
    (remark,) = read.remarks
    assert remark.text.startswith("Doubtful: a.wav: a pause inside a word") and remark.text.endswith(" cat")


PRINTED, PAGE = 718, 1032  # pixels of A4 between margins of 10 mm, of 14 mm at the foot


@pytest.fixture
def of_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the pages of twelve learners, who all say the sound th badly, and one of whom z."""
    pytest.importorskip("selenium", reason="selenium, of the extra dev, is not installed")
    rng, phones = np.random.default_rng(3), sorted(KEY_WORDS)
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
    return tmp_path


def test_the_page_of_a_class_is_sorted_by_a_learner_and_printed_whole(of_class: Path) -> None:
    with browser() as driver:
        sort_class(driver, of_class)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": PRINTED, "height": 700, "deviceScaleFactor": 1, "mobile": False},
        )
        assert driver.execute_script("return document.documentElement.scrollWidth") <= PRINTED
        assert driver.execute_script("return document.querySelector('.class').getBoundingClientRect().right") <= PRINTED
        assert (
            driver.execute_script(
                "const cuts = (box) => box.scrollHeight > box.clientHeight + 1;"
                "return [...document.querySelectorAll('.scroll')].filter(cuts).length"
            )
            == 0
        ), "what a box hides on the screen, paper lacks"
        head = "getComputedStyle(document.querySelector('.class thead .sort')).display"
        assert driver.execute_script(f"return {head}") == "contents"  # Chromium repeats no buttons on the next page
        table = "document.querySelector('.class').getBoundingClientRect().bottom"
        top = "document.querySelector('.each').getBoundingClientRect().top"
        assert len(KEY_WORDS) > 35 and driver.execute_script(f"return {table} - {top}") <= PAGE, "it is on one page"
        sheets = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
        assert base64.b64decode(sheets).count(b"/Type /Page\n") == 2
        driver.get((of_class / "learner05.html").as_uri())
        seen = "return [...document.querySelectorAll('.practise button')].map((each) => each.innerText)"
        assert {*driver.execute_script(seen)} == {"w"}, "without what means to play"
        driver.execute_script(
            "document.body.insertAdjacentHTML('beforeend', '<details><p id=closed>rare</p></details>')"
        )
        assert driver.execute_script(
            "return document.querySelector('#closed').checkVisibility({contentVisibilityAuto: true})"
        )
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        see_learner(driver, of_class)


def test_on_a_narrow_screen_only_the_large_table_of_a_class_goes_on_beyond_it(of_class: Path) -> None:
    with browser() as driver:
        set_screen(driver, 390, False)
        driver.get((of_class / "index.html").as_uri())
        hidden = "[...document.querySelectorAll('p, caption, h2, .learners td')].filter((each) => each.offsetWidth &&"
        hidden += " each.getBoundingClientRect().right > innerWidth).length"
        assert driver.execute_script(f"return {hidden}") == 0


def test_firefox_sorts_a_class_and_shows_a_learner(of_class: Path) -> None:
    with other_browser("Firefox", of_class) as driver:
        sort_class(driver, of_class)
        see_learner(driver, of_class)


def sort_class(driver: Any, folder: Path) -> None:
    """See the weakest sounds; a click on a learner sorts the sounds."""
    driver.get((folder / "index.html").as_uri())
    weakest = driver.find_elements("css selector", "table:not(.class):not(.learners) tbody tr")
    assert len(weakest) == 5 and weakest[0].text.startswith("th [θ] as in think 0.10 36 t (36) learner00")
    for button in driver.find_elements("css selector", ".class thead .sort"):
        if button.text.strip() == "learner05":
            button.click()
    assert [row.text.split()[0] for row in driver.find_elements("css selector", ".class tbody tr")][:3] == [
        "all",
        "z",
        "th",
    ]


def see_learner(driver: Any, folder: Path) -> None:
    """See what a learner has to work on."""
    driver.get((folder / "learner05.html").as_uri())
    first = driver.find_element("css selector", ".practise li").text
    assert first.startswith("z [z] as in zoo: 0.05 (0.05 to 0.05), 3 times, heard as t (3)") and "▶ w" in first
