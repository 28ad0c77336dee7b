"""The page in Chromium: correct by keyboard, kill the server, open again; no error in the console."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from speechctc.audio.annotations import read_textgrid
from tests.studio import page as browser
from tests.tiny_model import write_song

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "there is a browser"),
]
SONG = ["low", "mid", "top", "high", "low", "top", "mid", "high", "mid", "low", "high", "top"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of six recordings."""
    place = tmp_path / "talks"
    place.mkdir()
    for number in range(6):
        write_song(place / f"song {number}.wav", SONG, seed=number)
    return place


@pytest.fixture
def opened(folder: Path, tiny_model: Path) -> Iterator[tuple[browser.Server, browser.Page]]:
    """Open the folder in a browser."""
    server = browser.Server(folder, "--model", str(tiny_model))
    page = browser.Page(server.address)
    yield server, page
    page.close()
    server.close()


def test_ten_corrections_survive_a_kill(
    folder: Path, tiny_model: Path, opened: tuple[browser.Server, browser.Page]
) -> None:
    server, page = opened
    page.wait("the list", lambda: page.text("#counts").startswith("6 recordings: 6 new"))
    assert "token" not in page.driver.current_url
    page.wait("the model", lambda: page.driver.find_element("id", "recognise-new").is_enabled())
    page.click("#recognise-new")
    page.wait("phones", lambda: len(page.session()["phones"]) == len(SONG))
    page.wait("all six", lambda: "6 recognised" in page.text("#counts"))
    for number in range(10):
        page.press("n", *("1" if number % 2 else (Keys.ENTER, "new", Keys.ENTER)))
        page.saved()
    assert " 10 checked" in page.text("#facts")
    page.press(" ")
    audio = "const audio = document.getElementById('audio'); return !audio.paused && audio.preservesPitch"
    page.wait("sound", lambda: page.driver.execute_script(audio))
    page.press(" ", "z", "z", "y")
    page.saved()
    page.press("s")
    page.saved()
    seen, name = page.phones(), page.session()["name"]
    assert len(seen) == len(SONG) + 1 and sum(label == "new" for *_, label in seen) >= 4
    if "AXE_CORE" in os.environ:
        assert page.accessibility() == []
    assert page.errors() == []
    server.kill()
    again = browser.Server(folder, "--model", str(tiny_model))
    try:
        page.driver.get(f"{again.address}#{name}")
        page.wait("the recording", lambda: page.session()["name"] == name)
        assert page.phones() == seen
        grid = (folder / name).with_suffix(".TextGrid")

        def is_written() -> bool:
            return [(each.start, each.end, each.label) for each in read_textgrid(grid, "phones")] == seen

        page.wait("the TextGrid", is_written)
        page.press("z")
        page.saved()
        assert len(page.phones()) == len(SONG)
        time.sleep(0.1)
        assert again.end() == 0
    finally:
        again.close()
