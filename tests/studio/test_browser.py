"""The page in Chromium: correct by keyboard, kill the server, open again, record; no error in the console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import soundfile

pytest.importorskip("selenium", reason="selenium, of the extra dev, is not installed")

from selenium.webdriver.common.keys import Keys  # noqa: E402

from speechctc.audio.annotations import Interval, read_textgrid  # noqa: E402
from tests.browser import console, other_browser  # noqa: E402
from tests.studio import page as browser  # noqa: E402
from tests.studio.folders import write_labelled  # noqa: E402
from tests.tiny_model import write_song  # noqa: E402

pytestmark = pytest.mark.slow
SONG = ["low", "mid", "top", "high", "low", "top", "mid", "high", "mid", "low", "high", "top"]
Phones = list[tuple[float, float, str]]


@contextmanager
def opened(folder: Path, model: str, heard: Path | None = None) -> Iterator[tuple[browser.Server, browser.Page]]:
    """Open a folder in a browser whose microphone hears a recording."""
    server = browser.Server(folder, "--model", model)
    try:
        page = browser.Page(server.address, heard)
        try:
            page.wait("the model", lambda: page.text("#model") not in ("", "being loaded"))
            yield server, page
        finally:
            page.close()
    finally:
        server.close()


def six_songs(place: Path) -> Path:
    """Return a folder with six recordings."""
    folder = place / "talks"
    folder.mkdir()
    for number in range(6):
        write_song(folder / f"song {number}.wav", SONG, seed=number)
    return folder


def recognise_six(page: browser.Page) -> None:
    page.wait("the list", lambda: page.text("#counts").startswith("6 recordings: 6 new"))
    assert "token" not in page.driver.current_url
    page.click("#recognise-new")
    page.wait("all six", lambda: "6 recognised" in page.text("#counts"))
    page.wait("phones", lambda: page.session()["phones"])


def correct_ten(page: browser.Page, label: str) -> None:
    """Correct the least certain phones: each second one by an alternative of the model's, the others by typing."""
    for number in range(10):
        page.press("n", *("1" if number % 2 else (Keys.ENTER, label, Keys.ENTER)))
        page.saved()
    assert " 10 checked" in page.text("#facts")
    assert sum(phone["checked"] and phone["label"] == label for phone in page.session()["phones"]) >= 5


def play(page: browser.Page) -> None:
    page.press(" ")
    audio = "const audio = document.getElementById('audio'); return !audio.paused && audio.preservesPitch"
    page.wait("sound", lambda: page.driver.execute_script(audio))
    page.press(" ")


def check_after_a_kill(folder: Path, model: str, server: browser.Server, page: browser.Page) -> browser.Server:
    """Kill the server, open the recording with another, and compare page and TextGrid with what was seen."""
    seen, name = page.phones(), page.session()["name"]
    assert console(page.driver) == []
    server.kill()
    again = browser.Server(folder, "--model", model)
    page.driver.get(f"{again.address}#{name}@0.3")
    page.wait("the recording", lambda: page.session()["name"] == name)
    assert page.phones() == seen and page.session()["cursor"] == 0.3
    grid = (folder / name).with_suffix(".TextGrid")
    page.wait("the TextGrid", lambda: [tuple(each) for each in read_textgrid(grid, "phones")] == seen)
    return again


def test_ten_corrections_survive_a_kill(tmp_path: Path, tiny_model: Path) -> None:
    folder = six_songs(tmp_path)
    with opened(folder, str(tiny_model)) as (server, page):
        recognise_six(page)
        correct_ten(page, "new")
        play(page)
        page.press("z", "z", "y", "s")
        page.saved()
        assert len(page.phones()) == len(SONG) + 1
        again = check_after_a_kill(folder, str(tiny_model), server, page)
        try:
            page.press("z")
            page.saved()
            assert len(page.phones()) == len(SONG)
            assert again.end() == 0
        finally:
            again.close()


def test_firefox_recognises_corrects_and_plays(tmp_path: Path, tiny_model: Path) -> None:
    folder = six_songs(tmp_path)
    server = browser.Server(folder, "--model", str(tiny_model))
    try:
        with other_browser("Firefox", tmp_path) as driver:
            page = browser.Page(server.address, driver=driver)
            page.driver.execute_script(
                "window.failed = []; for (const name of ['error', 'unhandledrejection'])"
                "window.addEventListener(name, (event) => failed.push(String(event.message ?? event.reason)))"
            )
            page.wait("the model", lambda: page.text("#model") not in ("", "being loaded"))
            page.click("#recognise-new")
            page.wait("all six", lambda: "6 recognised" in page.text("#counts"))
            page.wait("phones", lambda: f"{len(SONG)} phones, 0 checked" in page.text("#facts"))
            tiers, label = (driver.find_element("css selector", name) for name in ("#tiers", "#label"))
            drawn = (
                "const it = document.getElementById('spectrogram'), at = it.getContext('2d');"
                "return at.getImageData(0, 0, it.width, it.height).data.some((value) => value > 0 && value < 200)"
            )
            page.wait("the spectrogram", lambda: driver.execute_script(drawn))
            tiers.send_keys("n")
            tiers.send_keys("1")
            page.wait("saving", lambda: " 1 checked" in page.text("#facts"))
            tiers.send_keys("n")
            tiers.send_keys(Keys.ENTER)
            label.send_keys("top" + Keys.ENTER)
            page.wait("saving", lambda: " 2 checked" in page.text("#facts"))
            tiers.send_keys(" ")
            audio = (
                "const audio = document.getElementById('audio'); return audio.played.length && audio.currentTime > 0"
            )
            page.wait("sound", lambda: driver.execute_script(audio))
            name = page.text("#name")
            tiers.send_keys("j")
            page.wait("the next", lambda: page.text("#name") != name)
            assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            assert driver.execute_script("return failed") == []
    finally:
        server.close()


def test_keys_are_the_editors_after_a_click(tmp_path: Path, tiny_model: Path) -> None:
    """Enter does not press a button once more; a symbol of the chart becomes the label, and a sign joins it."""
    folder = tmp_path / "talks"
    folder.mkdir()
    write_labelled(folder / "a.wav", ["a", "b"])
    with opened(folder, str(tiny_model)) as (_, page):
        page.wait("phones", lambda: page.session()["phones"])
        for clicked in ("#confirm", "#list button", "#chart summary"):
            page.click(clicked)
            page.saved()
            assert page.driver.execute_script("return document.activeElement.id") == "tiers", clicked
            page.press(Keys.ENTER)
            assert page.driver.execute_script("return document.activeElement.id") == "label", clicked
            page.press(Keys.ESCAPE)
        for row, label in (("plosive", "p"), ("after", "pʰ")):
            page.click(f"#chart-rows [aria-label='{row}'] button")
            page.saved()
            assert page.phones()[0][2] == label
        page.press("i", "x")
        page.click("#chart-rows [aria-label='nasal'] button")
        assert page.driver.execute_script("return document.getElementById('label').value") == "xm"


def test_low_scores_of_pronunciation_are_shaded(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    phones = write_labelled(folder / "a.wav", list("abca"))
    texts = ("0.03", "0.10", "0.60", "")
    scores = [Interval(phone.start, phone.end, text) for phone, text in zip(phones, texts, strict=True)]
    write_labelled(folder / "a.wav", list("abca"), goodness=scores)
    script = """const [starts, done] = arguments;
    Promise.all(["view", "draw"].map((name) => import(`/page/${name}.js`))).then(([view, draw]) =>
      requestAnimationFrame(() => requestAnimationFrame(() => {
        const context = document.getElementById("tiers").getContext("2d"), ratio = window.devicePixelRatio;
        const light = (x, y) => context.getImageData(x * ratio, y * ratio, 1, 1).data.reduce((sum, each) => sum + each);
        done(starts.map((start) => light(view.toX(start) + 4, draw.ROW + draw.OTHER - 4)));
      })));"""
    with opened(folder, str(tiny_model)) as (_, page):
        page.wait("the scores", lambda: page.session()["tiers"])
        starts = [phone.start for phone in phones]
        poor, weak, good, none = page.driver.execute_async_script(script, starts)
        assert poor < weak < good == none


@pytest.mark.shared
def test_real_speech_is_corrected_placed_again_and_trained_on(shared_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    for path in sorted((shared_data / "timit-sample" / "TEST").rglob("*.WAV"))[:6]:
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    with opened(folder, "english") as (server, page):
        recognise_six(page)
        play(page)
        correct_ten(page, "ae")
        before = page.phones()
        page.press("a")
        page.saved()
        placed = page.phones()
        assert [label for *_, label in placed] == [label for *_, label in before] and placed != before
        page.press("z")
        page.saved()
        assert page.phones() == before
        page.press("y")
        page.saved()
        assert page.phones() == placed
        train_shortly(page)
        check_after_a_kill(folder, "english", server, page).close()


def test_two_seconds_from_the_microphone(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    write_song(folder / "song.wav", SONG)
    write_song(tmp_path / "heard.wav", SONG, seed=1)
    with opened(folder, str(tiny_model), tmp_path / "heard.wav") as (_, page):
        page.click("#open-microphone")
        page.click("#record")
        page.wait("two seconds", lambda: float(page.text("#elapsed").split()[0]) >= 2)
        page.wait("phones while one speaks", lambda: page.text("#heard").split())
        page.press(Keys.ESCAPE, Keys.ESCAPE)
        page.wait("the dialog", lambda: page.driver.execute_script("return document.getElementById('microphone').open"))
        assert page.text("#open-microphone") == "Recording" and page.text("#record") == "End"
        page.click("#record")
        found: dict[str, Any] = page.wait("phones of the recording", lambda: recorded(page))
        labels = [phone["label"] for phone in found["phones"]]
        assert set(page.text("#heard").split()) <= set(SONG) >= set(labels) and len(labels) > 5
        assert found["seconds"] > 1.9 and (folder / found["name"]).exists()
        assert console(page.driver) == []


def test_a_tab_that_is_closed_ends_its_recording(tmp_path: Path, tiny_model: Path) -> None:
    """All that was heard is a file of the list, without a restart; a model that hangs delays nothing."""
    folder = tmp_path / "talks"
    folder.mkdir()
    write_song(folder / "song.wav", SONG)
    write_song(tmp_path / "heard.wav", SONG, seed=1)
    with opened(folder, str(tiny_model), tmp_path / "heard.wav") as (_, page):
        page.click("#open-microphone")
        page.click("#record")
        page.wait("two seconds", lambda: float(page.text("#elapsed").split()[0]) >= 2)
        heard = float(page.text("#elapsed").split()[0])
        page.driver.get("about:blank")
        (path,) = page.wait("the file", lambda: list(folder.glob("recording-*.wav")))
        assert heard - 0.1 <= soundfile.info(path).duration < heard + 3 and not list(folder.glob(".*recording"))


def test_a_label_that_is_typed_during_a_recognition_is_kept(tmp_path: Path, tiny_model: Path) -> None:
    """It is given to the phone for which it was typed, and the recognition does not come under it."""
    folder = tmp_path / "talks"
    folder.mkdir()
    write_song(folder / "a.wav", SONG)
    with opened(folder, str(tiny_model)) as (_, page):
        page.wait("the list", lambda: page.text("#counts").startswith("1 recording: 1 new"))
        page.click("#recognise")
        page.wait("phones", lambda: page.session()["phones"])
        before = page.phones()
        page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER, "n", "e")
        revision = page.session()["revision"]
        page.driver.execute_script("document.getElementById('recognise').click()")
        page.wait("it is at work or done", lambda: newest_revision(page) > revision)
        page.press("w", Keys.ENTER)
        page.saved()
        start, end, _ = before[2]
        assert page.phones() == [*before[:2], (start, end, "new"), *before[3:]]
        assert page.session()["state"] == "corrected" and "you went on with the labels" in page.text("#note")


def newest_revision(page: browser.Page) -> int:
    script = "const done = arguments[0]; import('/page/api.js').then(({ get }) => get('overview')).then(done);"
    return int(page.driver.execute_async_script(script)["recordings"][0].get("revision", 0))


def recorded(page: browser.Page) -> dict[str, Any] | None:
    session = page.session()
    return session if session["name"].startswith("recording-") and session["phones"] else None


def train_shortly(page: browser.Page) -> None:
    """Confirm another recording, train on both until the curve has a point, and see that the new model is used."""
    name = page.session()["name"]
    page.press("k")  # what is corrected stands last
    page.wait("another recording", lambda: page.session()["name"] not in ("", name))
    page.press("w")
    page.saved()
    page.click("#open-training")
    page.wait("two corrected", lambda: page.text("#training-facts").startswith("2 corrected"))
    page.click("#train")
    page.wait("the curve", lambda: "after each epoch" in page.text("#curve-says"))
    if page.driver.find_element("id", "stop").is_enabled():
        page.click("#stop")
    page.wait("the new model", lambda: "The new model came into use" in page.text("#training-result"))
    page.wait("its name", lambda: "round 1" in chosen_model(page))
    assert console(page.driver) == []


def chosen_model(page: browser.Page) -> str:
    return str(page.driver.execute_script("return document.getElementById('model').selectedOptions[0].textContent"))
