"""The report of a model: its numbers against the scores, and the page in a browser."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.per import EditCounts, edit_counts
from speechctc.stages import report
from speechctc.stages import report as report_tables
from speechctc.stages.evaluate import evaluation_of, score
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.report import reliability_bins, studio_command, write_report
from speechctc.stages.split_scoring import ScoredSplit
from tests.browser import browser, console, other_browser, set_screen, wait_until
from tests.command import Command, one_line_error
from tests.train_helpers import Recorder


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Recogniser:
    loaded = open_model(tiny_model, Recogniser, ModelChoice("cpu"))
    loaded.about = "A <i>model</i>"
    return loaded


@pytest.fixture(scope="module")
def scored(model: Recogniser) -> ScoredSplit:
    """Return a decoded split in which some phones are wrong, with speakers and their sex."""
    found = score(model, "test", [], Recorder())[0]
    utterances = tuple(
        each.__class__(each.id, each.audio, each.phones, f"s{k % 4}", traits=(("sex", "fm"[k % 2]),))
        for k, each in enumerate(found.utterances)
    )
    changed = ScoredSplit(utterances, found.protocol, found.folding, found.inventory)
    for number, result in enumerate(found.results):
        segments = result.segments[1:] if number % 3 == 1 else result.segments
        if number % 3 == 2:
            segments = (segments[0]._replace(phone="top" if segments[0].phone != "top" else "low"), *segments[1:])
        changed.add(number, segments)
    return changed


@pytest.fixture(scope="module")
def page(model: Recogniser, scored: ScoredSplit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    evaluation = evaluation_of(scored, "test", model)
    file.write_text(write_report(scored, evaluation, model, 2, Recorder()), encoding="utf-8")
    return file


def test_groups_add_up_to_the_whole(scored: ScoredSplit) -> None:
    tables = dict(report_tables.groups(scored))
    assert list(tables) == ["sex", "length", "speaker"]
    for bars in tables.values():
        assert sum((bar.counts for bar in bars), start=EditCounts()) == scored.counts
    assert [bar.name for bar in tables["sex"]] == ["f", "m"]
    rates = [bar.counts.per for bar in tables["speaker"]]
    assert rates == sorted(rates, reverse=True)
    first = [result.counts for result in scored.results if result.utterance.speaker == "s0"]
    bar = next(bar for bar in tables["speaker"] if bar.name == "s0")
    assert bar.counts.per == pytest.approx(100 * sum(c.errors for c in first) / sum(c.reference_phones for c in first))


def test_the_matrix_has_every_phone_once(scored: ScoredSplit) -> None:
    found = report_tables.confusion_matrix(report_tables.confusions(scored))
    counts = found.counts
    totals = [found.total(row) for row in found.rows]
    assert len({*found.rows}) == len(found.rows) and {row for row, _ in counts} <= {*found.rows}
    assert sum(totals) == counts.total() == scored.counts.reference_phones + scored.counts.insertions
    assert sum(count for (row, _), count in counts.items() if row == "inserted") == scored.counts.insertions
    assert sum(count for (_, column), count in counts.items() if column == "deleted") == scored.counts.deletions
    wrong = sum(
        count for (row, column), count in counts.items() if row != column and row != "inserted" and column != "deleted"
    )
    assert wrong == scored.counts.substitutions


def test_examples_are_the_worst_the_best_and_those_between(scored: ScoredSplit) -> None:
    chosen = report.choose(scored, 3)
    numbers = [result.number for results in chosen.values() for result in results]
    assert len(set(numbers)) == len(numbers) == 9
    rates = {key: [result.counts.per for result in results] for key, results in chosen.items()}
    others = [result.counts.per for result in scored.results if result.number not in numbers]
    assert min(rates["worst"]) >= max([*others, *rates["typical"], *rates["best"]])
    assert max(rates["best"]) <= min([*others, *rates["typical"]])
    assert all(len(results) == 8 for results in report.choose(scored, 100).values())


def test_confidences_in_bins() -> None:
    bins = reliability_bins(np.array([0.05, 0.95, 1.0, 0.97]), np.array([0.0, 1.0, 1.0, 0.0]))
    assert [each.count for each in bins] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    assert bins[9].confidence == pytest.approx(0.97333, abs=1e-5) and bins[9].right == pytest.approx(2 / 3)


def test_the_page_has_the_scores_and_escapes_what_it_shows(page: Path, scored: ScoredSplit, model: Recogniser) -> None:
    html = page.read_text(encoding="utf-8")
    assert f"{scored.counts.per:.1f} % PER" in html and "A &lt;i&gt;model&lt;/i&gt;." in html
    assert len(re.findall(r"<audio ", html)) == 6 and len(html) < 500_000
    assert not re.search(r"(src|href)=\"(?!data:|#)", html)
    commands = re.findall(r'<code class="command">speechctc studio (.*?)</code>', html)
    assert set(commands) == {str(each.utterance.audio) for each in scored.results} and len(commands) > len(
        set(commands)
    )
    assert "this PER is based on" in html
    evaluation = evaluation_of(scored, "<b>test</b>", model)
    nasty = write_report(scored, evaluation, model, 0, Recorder())
    assert "<b>" not in nasty and "<i>" not in nasty and "<audio" not in nasty


def test_the_command_that_opens_an_utterance(scored: ScoredSplit) -> None:
    part = replace(scored.results[0].utterance, audio=Path("my talks/o'clock.wav"), stretch=(83.123, 90.0))
    assert shlex.split(studio_command(part)) == ["speechctc", "studio", "my talks/o'clock.wav", "--at", "83.12"]


def test_references_without_times_are_aligned_and_recordings_that_are_gone_are_told(
    model: Recogniser, scored: ScoredSplit, tmp_path: Path
) -> None:
    good = scored.results[0]
    gone = good._replace(utterance=good.utterance.__class__("gone", tmp_path / "gone.wav", good.utterance.phones))
    with pytest.raises(InputError, match="gone.wav"):
        report.show(gone, model, scored.folding)
    example = report.show(good, model, scored.folding)
    reference, recognised = example.timeline.tiers
    assert [cell.label for cell in reference.cells] == list(good.utterance.phones)
    assert all(a.end <= b.start + 1e-6 for a, b in itertools.pairwise(reference.cells))
    kinds = [cell.kind for cell in reference.cells]
    counts = edit_counts(good.utterance.phones, good.phones)
    assert kinds.count("substituted") == counts.substitutions and kinds.count("deleted") == counts.deletions
    assert [cell.label for cell in recognised.cells] == good.phones and ", confidence " in recognised.cells[0].about


def test_by_the_command_line_a_page_is_kept_that_a_person_changed(
    speechctc: Command, beside_latest: Path, tiny_model: Path
) -> None:
    command = ("evaluate", "--report", "rep", "--examples", 1, "--json", "e.json")
    done = speechctc(*command)
    assert done.status == 0 and "wrote rep/report.html" in done.out
    page, scores = Path("rep/report.html"), json.loads(Path("e.json").read_text())
    assert [each["name"] for each in scores["protocols"]] == ["raw"] and scores["protocols"][0]["per"] == scores["per"]
    assert scores["features"] is None and "not IPA: high, low, mid, top" in done.out
    html = page.read_text(encoding="utf-8")
    assert html.count("<audio ") == 3 and "dev PER" not in html and "4 phones (found)" in html
    page.write_text("my notes")
    assert (
        "rep/report.html: exists and was made" in one_line_error(speechctc(*command)) and page.read_text() == "my notes"
    )


@pytest.mark.slow
def test_in_a_browser_the_sound_plays_from_a_phone_and_nothing_is_wrong(page: Path) -> None:
    with browser() as driver:
        driver.get(page.as_uri())
        check_page(driver)
        for width, dark in itertools.product((1400, 390), (False, True)):
            set_screen(driver, width, dark)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert not console(driver)


def rows_of(driver: Any) -> list[list[str]]:
    """Return the texts of the cells of all rows of the list that are seen."""
    return driver.execute_script(  # type: ignore[no-any-return]
        "return [...document.querySelectorAll('#all tbody tr')].filter((row) => row.offsetParent)"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    )


@pytest.mark.slow
def test_in_a_browser_all_utterances_are_sorted_filtered_and_heard(page: Path, scored: ScoredSplit) -> None:
    with browser() as driver:
        driver.get(page.as_uri())
        set_screen(driver, 1400, False)
        explore(driver, scored)
        assert not console(driver)


@pytest.mark.slow
def test_in_firefox_all_utterances_are_sorted_filtered_and_heard(
    page: Path, scored: ScoredSplit, tmp_path: Path
) -> None:
    with other_browser("Firefox", tmp_path) as driver:
        driver.get(page.as_uri())
        explore(driver, scored)
        audio = driver.find_element("css selector", ".timeline audio")
        driver.execute_script(WATCH_SEEKS, audio)
        cell = driver.find_element("css selector", ".timeline .tier .cell:nth-child(2)")
        cell.click()
        start = float(cell.get_attribute("data-start"))
        wait_until(driver, "arguments[0].played.length && arguments[0].currentTime > arguments[1]", audio, start)
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def explore(driver: Any, scored: ScoredSplit) -> None:
    """Sort, filter and play by the list of all utterances; scroll, and the contents stay."""
    heads = {each.text: each for each in driver.find_elements("css selector", "#all .sort")}
    assert list(heads)[:5] == ["utterance", "speaker", "PER", "errors", "phones"]
    for _, sign in zip(range(2), (-1, 1), strict=True):  # the highest first, then the lowest
        heads["phones"].click()
        numbers = [int(row[5]) for row in rows_of(driver)]
        assert numbers == sorted(numbers, key=lambda each: sign * each) and len(numbers) == len(scored.results)
    heads["utterance"].click()
    names = [row[1] for row in rows_of(driver)]
    assert names == sorted(names) and driver.find_elements("css selector", "th[aria-sort=ascending]")
    search = driver.find_element("css selector", "input[type=search]")
    search.send_keys("s1")
    wanted = {each.utterance.id for each in scored.results if each.utterance.speaker == "s1"}
    assert {row[1] for row in rows_of(driver) if row[2] == "s1"} == wanted
    assert f"{len(rows_of(driver))} of {len(names)}" == driver.find_element("css selector", "output").text
    search.clear()
    search.send_keys("no such utterance")
    assert rows_of(driver) == []
    driver.execute_script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", search)
    check_sounds(driver, len(names))
    driver.execute_script("document.getElementById('confidence').scrollIntoView()")
    contents = driver.find_element("css selector", "nav.contents")
    assert driver.execute_script("return scrollY") > 1000
    assert driver.execute_script("return arguments[0].getBoundingClientRect().top", contents) == 0


def check_sounds(driver: Any, count: int) -> None:
    """Play a sound of the list that is there alone, and one that a spectrogram below has too; then stop it."""
    assert len(driver.find_elements("css selector", "#all [data-sound], #all [data-like]")) == count
    player = "document.querySelector('body > audio')"
    driver.execute_script(f"{player}.loop = true")  # sounds are shorter than a look at a busy machine
    for kind in ("data-sound", "data-like"):
        button = driver.find_element("css selector", f"#all [{kind}]")
        button.click()
        wait_until(driver, f"{player}.currentTime > 0 && arguments[0].ariaPressed === 'true'", button)
        assert driver.find_element("css selector", ".unplayable").is_displayed() is False
    button.click()
    wait_until(driver, f"{player}.paused && arguments[0].ariaPressed !== 'true'", button)


@pytest.mark.slow
def test_in_a_browser_a_recording_scrolls_as_one_and_is_in_lines_on_paper(
    model: Recogniser, scored: ScoredSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speechctc.pages.timeline.pixels_per_second", lambda cells: 3000)  # a second is wide
    page = tmp_path / "report.html"
    html = write_report(scored, evaluation_of(scored, "test", model), model, 1, Recorder())
    page.write_text(html, encoding="utf-8")
    with browser() as driver:
        driver.get(page.as_uri())
        set_screen(driver, 390, False)
        box = driver.find_element("css selector", ".timeline .scroll")
        tiers, picture, scale = (box.find_elements("css selector", each)[-1] for each in (".tier", "img", ".hertz"))
        assert len(driver.find_elements("css selector", ".timeline .strip")) == len(
            driver.find_elements("css selector", ".timeline")
        )
        assert tiers.location["y"] + tiers.size["height"] <= picture.location["y"] + 1
        wide = picture.size["width"]
        assert wide == tiers.size["width"] > box.size["width"]
        at = "return arguments[0].getBoundingClientRect().left"
        before = [driver.execute_script(at, each) for each in (picture, scale)]
        driver.execute_script("arguments[0].scrollLeft = 200", box)
        assert driver.execute_script(at, picture) == pytest.approx(before[0] - 200, abs=1)
        assert driver.execute_script(at, scale) == pytest.approx(before[1], abs=1)  # it stays
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        driver.execute_script("dispatchEvent(new Event('beforeprint'))")
        widths = (
            "return [...arguments[0].parentElement.querySelectorAll('.paper')].map((it) => parseFloat(it.style.width))"
        )
        lines = driver.execute_script(widths, box)
        assert max(lines) <= 640 and sum(lines) == wide
        assert not box.is_displayed() and driver.find_element("css selector", ".paper .hertz").is_displayed()
        driver.execute_script("dispatchEvent(new Event('afterprint'))")
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        assert driver.execute_script(widths, box) == []


def test_sounds_that_are_too_much_for_a_page_are_links_to_the_recordings(
    model: Recogniser, scored: ScoredSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = scored.results[:5]
    whole = report.sounds(results, Recorder())
    assert [each.partition(",")[0] for each in whole.values()] == ["data:audio/ogg;base64"] * 5
    monkeypatch.setattr(report, "MOST_SOUND", len(whole[results[0].number]) + len(whole[results[1].number]))
    part = replace(results[2].utterance, stretch=(0.1, 0.25))
    found = report.sounds([*results[:2], results[2]._replace(utterance=part), *results[3:]], Recorder())
    assert [url.startswith("data:") for url in found.values()] == [True, True, False, False, False]
    assert found[results[2].number] == f"{part.audio.resolve().as_uri()}#t=0.10,0.25"
    html = write_report(scored, evaluation_of(scored, "test", model), model, 1, Recorder())
    links = re.findall(r'<a href="file:[^"]*" aria-label="Recording of', html)
    inside = len(re.findall(r" data-(?:sound|like)=", html))
    assert inside + len(links) == len(scored.results) and len(links) > 10
    assert f"sounds of {inside} utterances" in html and f"one of the other {len(links)}," in html


WATCH_SEEKS = """
    const own = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "currentTime");
    window.seeks = [];
    Object.defineProperty(arguments[0], "currentTime", {
      get: own.get, set(seconds) { seeks.push(seconds); own.set.call(this, seconds); },
    });
"""


def check_page(driver: Any) -> None:
    """Click on a phone, then go on by keyboard; check pictures and console."""
    from selenium.webdriver.common.keys import Keys

    for part in driver.find_elements("css selector", "details"):
        driver.execute_script("arguments[0].open = true", part)
    audio = driver.find_element("css selector", ".timeline audio")
    driver.execute_script(WATCH_SEEKS, audio)
    cells = driver.find_elements("css selector", ".timeline .tier:nth-of-type(1) .cell")
    starts = [float(cell.get_attribute("data-start")) for cell in cells]
    is_there = "seeks.includes(arguments[0])"
    cells[1].click()
    wait_until(driver, is_there, starts[1])
    has_played = "arguments[0].played.length && arguments[0].played.end(0) > arguments[1] + 0.05"
    wait_until(driver, has_played, audio, starts[1])
    driver.execute_script("arguments[0].pause()", audio)
    cells[1].send_keys(Keys.ARROW_RIGHT)
    assert driver.switch_to.active_element == cells[2]
    cells[2].send_keys(Keys.ENTER)
    wait_until(driver, is_there, starts[2])
    assert driver.execute_script(
        "return [...document.images].every((it) => it.complete && it.naturalWidth > 1 && it.alt)"
    )
    assert not console(driver)
