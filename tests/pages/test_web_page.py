"""The page that recognises, in browsers: from a disk, without a network, without a word on the console."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import speechctc
from speechctc.audio.annotations import read_textgrid
from speechctc.core.progress import Reporter
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.transcript import Unit, parse_phones
from speechctc.stages.export import export_web
from speechctc.stages.transcript_reader import ReadingOptions, TranscriptReader
from tests.browser import OTHERS, browser, console, other_browser, set_screen, wait_until
from tests.tiny_model import sing, write_song
from tests.tones import PHONES, RATE
from tests.waiting import wait_for

SONG = [PHONES[k % len(PHONES)] for k in range(12)]
WORDS = [("tum", SONG[3::-1]), ("tum(2)", SONG[:4]), ("ta-la", SONG[4:])]
DONE = "document.querySelectorAll('.recording .tools:not([hidden])').length === arguments[0]"
LABELS = "return [...document.querySelectorAll('.recording .cell span')].map((each) => each.textContent)"
SECTION = "[...document.querySelectorAll('.recording')].find((each) => each.innerText.startsWith(arguments[0]))"
DROP = """
const moved = new DataTransfer();
for (const file of document.getElementById("held").files) moved.items.add(file);
document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true, cancelable: true }));
"""

LISTEN = """<head><script>
window.said = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  addEventListener(kind, (event) => said.push(`${kind} ${event.message ?? event.reason ?? event.violatedDirective}`));
}
for (const kind of ["error", "warn"]) console[kind] = (...words) => said.push(words.join(" "));
</script>"""


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dictionary with a word for the first four notes of the song, in two ways, and one for the rest."""
    path = tmp_path_factory.mktemp("words") / "words.dict"
    path.write_text("".join(f"{word} {' '.join(phones)}\n" for word, phones in WORDS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tiny_model: Path, dictionary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the tiny model, with a dictionary."""
    folder = tmp_path_factory.mktemp("web")
    export_web(tiny_model / "best", folder, reporter=Reporter(quiet=True), dictionary=dictionary)
    return folder / "index.html"


@pytest.fixture(scope="module")
def recogniser(tiny_model: Path) -> Recogniser:
    """Return the model of the page, in Python."""
    return speechctc.load(tiny_model, "cpu")


@contextmanager
def opened(page: Path, *arguments: str, first: str = "") -> Iterator[Any]:
    """Give a browser with the page, from the disk and without a network; the console stays clean."""
    with browser(*arguments) as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": first})
        driver.set_network_conditions(offline=True, latency=0, throughput=0)
        set_screen(driver, 1200, dark=False)
        driver.get(page.as_uri())
        yield driver
        assert not console(driver)


def give(driver: Any, *files: Path) -> None:
    """Choose files."""
    driver.find_element("id", "files").send_keys("\n".join(map(str, files)))


def problems(driver: Any) -> list[str]:
    """Return the lines of what went wrong, and take them away."""
    found = [str(each.text) for each in driver.find_elements("css selector", "#problems .warning")]
    driver.execute_script("document.getElementById('problems').replaceChildren()")
    return [text.removesuffix("Close").strip() for text in found]


def test_a_recording_is_dropped_heard_played_and_saved(
    page: Path, recogniser: Recogniser, dictionary: Path, tmp_path: Path
) -> None:
    with opened(page) as driver:
        folder = {"behavior": "allow", "downloadPath": str(tmp_path)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", folder)
        drop_hear_play_and_save(driver, recogniser, dictionary, tmp_path)


@pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")  # selenium warns of itself
@pytest.mark.parametrize("kind", OTHERS)
def test_other_browsers_do_the_same(
    page: Path, recogniser: Recogniser, dictionary: Path, tmp_path: Path, kind: str
) -> None:
    text = page.read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(text.replace("<head>", LISTEN, 1), encoding="utf-8")
    with other_browser(kind, tmp_path) as driver:
        driver.get((tmp_path / "page.html").as_uri())
        drop_hear_play_and_save(driver, recogniser, dictionary, tmp_path)
        assert driver.execute_script("return said") == []


def place_words_in_the_page(driver: Any, recogniser: Recogniser, dictionary: Path, recording: Path) -> None:
    """Place a sentence, whose TextGrid is as Python's; and one with a word that the dictionary lacks."""
    driver.execute_script("document.querySelector('.scores').open = true")
    field, button = (driver.find_element("css selector", f".scores {name}") for name in ("input", "button"))
    field.send_keys("Tum, ta-la ti")
    button.click()
    wait_until(driver, "document.querySelector('.scores [role=status]').textContent === arguments[0]",
               "No scores: the dictionary in this page lacks ti.")  # fmt: skip
    field.clear()
    field.send_keys("Tum, ta-la")
    button.click()
    wait_until(driver, "document.querySelectorAll('.scores tr').length === arguments[0]", len(SONG) + 1)
    reader = TranscriptReader(recogniser.inventory, ReadingOptions("words", dictionary, keep=False))
    assert reader.pronouncer
    units = tuple(Unit(word.text, word.pronunciations) for word in reader.pronouncer.read("Tum, ta-la"))
    options = AlignOptions(silences=reader.silences, judge=recogniser.goodness.scores)
    expected = recogniser.place(recording, units, options=options)
    driver.find_element("xpath", "//button[text()='Save these as TextGrid']").click()
    saved = recording.with_name("a song placed.TextGrid")
    wait_for(lambda: saved.exists() and saved.stat().st_size)
    for tier, theirs in expected.tiers().items():
        if tier in ("words", "phones", "score"):
            ours = [each for each in read_textgrid(saved, tier) if each.label]
            assert [each.label for each in ours] == [each.label for each in theirs if each.label]
            times = [time for each in ours for time in (each.start, each.end)]
            assert times == pytest.approx([time for each in theirs for time in (each.start, each.end)], abs=1e-3)
    assert [word.variant and word.variant.number for word in expected.words] == [2, None]


def score_in_the_page(driver: Any, recogniser: Recogniser, recording: Path) -> None:
    """Score phones, one of which was not said, as in Python; and phones that the model does not have."""
    wanted = [*SONG[:5], SONG[4], *SONG[6:]]
    field, button = (driver.find_element("css selector", f".scores {name}") for name in ("input", "button"))
    driver.execute_script("const kind = document.querySelector('.scores select'); kind.value = 'phones'; "
                          "kind.dispatchEvent(new Event('change'))")  # fmt: skip
    for text, answer in (("", "write the phones first."), ("low xyz", "“xyz” is no phone of this model")):
        field.clear()
        if text:  # WebKit's driver refuses to type nothing
            field.send_keys(text)
        button.click()
        wait_until(driver, "document.querySelector('.scores [role=status]').textContent.includes(arguments[0])", answer)
    field.clear()
    field.send_keys(" ".join(wanted))
    button.click()
    wait_until(driver, "document.querySelectorAll('.scores tr').length === arguments[0]", len(wanted) + 1)
    rows = driver.execute_script(
        "return [...document.querySelectorAll('.scores tr')].slice(1)"
        ".map((row) => [...row.children].map((each) => each.textContent))"
    )
    options = AlignOptions(judge=recogniser.goodness.scores)
    expected = recogniser.place(recording, parse_phones(wanted, recogniser.phones), options=options)
    assert [row[0] for row in rows] == wanted
    for row, each in zip(rows, expected.segments, strict=True):
        assert each.goodness and float(row[3]) == pytest.approx(
            each.goodness.score, abs=0.006
        )  # two digits of a score that is right to a thousandth
    assert float(rows[5][3]) < 0.5 and rows[5][4], "another phone was said"


def drop_hear_play_and_save(driver: Any, recogniser: Recogniser, dictionary: Path, tmp_path: Path) -> None:
    write_song(tmp_path / "a song.wav", SONG, rate=22050, channels=2)
    expected = recogniser.decode(tmp_path / "a song.wav")
    assert len(expected.phones) > 8
    driver.execute_script("document.body.append(Object.assign(document.createElement('input'), "
                          "{ type: 'file', id: 'held' }))")  # fmt: skip
    driver.find_element("id", "held").send_keys(str(tmp_path / "a song.wav"))
    driver.execute_script(DROP)
    wait_until(driver, DONE, 1)
    wait_until(driver, "document.querySelectorAll('.recording .cell').length >= arguments[0]", len(expected.phones))
    assert driver.execute_script(LABELS) == list(expected.phones)
    cells = driver.find_elements("css selector", ".cell")
    cells[5].click()
    start = expected.segments[5].start
    wait_until(driver, "document.querySelector('audio').currentTime > arguments[0]", start + 0.05)
    assert cells[5].get_attribute("aria-label").startswith(f"{expected.phones[5]}, {start:.2f} to ")
    place_words_in_the_page(driver, recogniser, dictionary, tmp_path / "a song.wav")
    score_in_the_page(driver, recogniser, tmp_path / "a song.wav")
    names = [tmp_path / f"a song.{ending}" for ending in ("TextGrid", "csv", "eaf")]
    for ending in ("TextGrid", "CSV", "ELAN"):
        driver.find_element("xpath", f"//button[text()='Save {ending}']").click()
    wait_for(lambda: all(name.exists() and name.stat().st_size for name in names))
    loaded = driver.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert all(name.startswith("blob:") for name in loaded), loaded
    tier = read_textgrid(tmp_path / "a song.TextGrid", "phones")
    assert [each.label for each in tier] == list(expected.phones)
    frame = recogniser.clock.step
    assert all(abs(a.start - b.start) <= frame for a, b in zip(tier, expected.segments, strict=True))
    assert "a song.wav" in names[1].read_text(encoding="utf-8") and "<TIER " in names[2].read_text(encoding="utf-8")


def test_it_can_be_read_on_any_screen(page: Path, tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    with opened(page) as driver:
        give(driver, tmp_path / "a.wav")
        wait_until(driver, DONE, 1)
        for width, dark in ((1200, False), (390, True)):
            set_screen(driver, width, dark)
            wait_until(driver, "document.querySelectorAll('.cell').length >= 8")
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_lines_of_a_long_recording_are_filled_near_the_screen_only(page: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    songs = [sing([PHONES[k] for k in rng.integers(len(PHONES), size=9)], rng)[0] for _ in range(120)]
    soundfile.write(tmp_path / "long.wav", np.concatenate(songs), RATE)
    with opened(page) as driver:
        give(driver, tmp_path / "long.wav")
        wait_until(driver, DONE, 1)
        count = "return [document.querySelectorAll('.line').length, document.querySelectorAll('.line canvas').length]"
        wait_until(driver, "document.querySelectorAll('.line canvas').length")
        lines, drawn = driver.execute_script(count)
        assert lines > 20 and 0 < drawn < 15
        driver.execute_script("document.querySelectorAll('.line')[arguments[0]].scrollIntoView()", lines - 1)
        wait_until(driver, "document.querySelectorAll('.line')[arguments[0]].querySelector('canvas')", lines - 1)
        wait_until(driver, "!document.querySelector('.line').querySelector('canvas')")


HOLD = """const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, moved) {
  if (!(message.bytes && message.first > 900000) || globalThis.isFree) post.call(this, message, moved);
  else globalThis.isHeld = true;
};"""


def test_stop_keeps_what_was_recognised(page: Path, recogniser: Recogniser, tmp_path: Path) -> None:
    """The rest is recognised later, if one wishes; the worker does not wait for the one that was stopped."""
    rng = np.random.default_rng(1)
    songs = np.concatenate([sing(SONG, rng)[0] for _ in range(48)])
    soundfile.write(tmp_path / "long.wav", songs, RATE)
    whole = list(recogniser.decode(tmp_path / "long.wav").phones)
    with opened(page, first=HOLD) as driver:
        folder = {"behavior": "allow", "downloadPath": str(tmp_path)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", folder)
        give(driver, tmp_path / "long.wav")
        wait_until(driver, "globalThis.isHeld")
        driver.find_element("xpath", "//button[text()='Stop']").click()
        wait_until(driver, DONE, 1)
        wait_until(driver, "document.querySelectorAll('.recording .cell').length > 8")
        driver.find_element("xpath", "//button[text()='Save TextGrid']").click()
        wait_for(lambda: (tmp_path / "long.TextGrid").exists())
        kept = [each for each in read_textgrid(tmp_path / "long.TextGrid", "phones") if each.label]
        assert 8 < len(kept) < len(whole) and [each.label for each in kept] == whole[: len(kept)]
        assert "stopped: " in driver.find_element("css selector", ".facts").text
        driver.execute_script("isFree = true")
        write_song(tmp_path / "next.wav", SONG)
        give(driver, tmp_path / "next.wav")
        wait_until(driver, DONE, 2)
        driver.find_element("xpath", "//button[text()='Recognise all of it']").click()
        found = "[...document.querySelectorAll('.facts')].some((each) => each.textContent.includes(arguments[0]))"
        wait_until(driver, found, f", {len(whole)} phones")
        assert len(driver.find_elements("css selector", ".recording")) == 2 and not problems(driver)


def test_bad_input_gets_one_line_and_the_next_recording_works(page: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.wav").write_text("not sound", encoding="utf-8")
    (tmp_path / "empty.mp3").touch()
    with soundfile.SoundFile(tmp_path / "whole.sph", "w", RATE, 1, "PCM_16", "LITTLE", "NIST") as file:
        file.write(np.zeros(5000))
    soundfile.write(tmp_path / "nan.wav", np.where(np.arange(300_000) == 200_123, np.nan, 0.1), RATE, "FLOAT")
    (tmp_path / "cut.sph").write_bytes((tmp_path / "whole.sph").read_bytes()[:-3000])
    write_song(tmp_path / "a.wav", SONG)
    with opened(page) as driver:
        for name, said in (
            ("letter.wav", "letter.wav: this browser cannot read it as sound"),
            ("empty.mp3", "empty.mp3: there is no sound in it"),
            ("cut.sph", "cut.sph: bytes are missing"),
            ("nan.wav", "nan.wav: not a finite number (NaN or inf) at sample 200123; save it again"),
        ):
            give(driver, tmp_path / name)
            wait_until(driver, "document.querySelectorAll('#problems .warning').length === 1")
            (line,) = problems(driver)
            assert line.startswith(said) and "\n" not in line
        give(driver, tmp_path / "a.wav", tmp_path / "whole.sph")
        wait_until(driver, DONE, 2)
        assert "nothing in it sounds like speech" in driver.find_element("id", "recordings").text
        assert not problems(driver)


@pytest.mark.parametrize("damage", ["net.convs.0.conv.bias", "cut", "missing"])
def test_a_damaged_model_is_said_in_one_line(page: Path, tmp_path: Path, damage: str) -> None:
    text = page.read_text(encoding="utf-8")
    match = re.search(r'class="weights">([^<]*)<', text)
    assert match is not None
    weights = bytearray(base64.b64decode(match[1]))
    if damage in ("cut", "missing"):
        given = {"cut": match[1][: len(match[1]) // 8 * 4], "missing": ""}[damage]
    else:
        head = int.from_bytes(weights[:8], "little")
        about = json.loads(weights[8 : 8 + head])[damage]
        start, size = 8 + head + about["data_offsets"][0], {"F16": 2, "F32": 4}[about["dtype"]]
        weights[start : start + size] = b"\xff" * size  # NaN
        given = base64.b64encode(weights).decode()
    (tmp_path / "page.html").write_text(text.replace(match[1], given), encoding="utf-8")
    with opened(tmp_path / "page.html") as driver:
        wait_until(driver, "document.querySelectorAll('#problems .warning').length === 1")
        (line,) = problems(driver)
        assert line.startswith("The model in this page is damaged (") and "\n" not in line and "copy the page" in line
        assert damage in ("cut", "missing") or damage in line
        assert not driver.find_element("id", "files").is_enabled()


def test_a_page_that_is_not_whole_says_so(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    (tmp_path / "half.html").write_text(text[: text.index('class="weights">') + 5000], encoding="utf-8")
    with opened(tmp_path / "half.html") as driver:
        assert driver.find_element("id", "whole").is_displayed()
        driver.get(page.as_uri())
        assert not driver.find_elements("id", "whole")


def test_a_browser_without_webassembly_is_told_so(page: Path) -> None:
    with opened(page, first="delete globalThis.WebAssembly") as driver:
        (line,) = problems(driver)
        assert "no WebAssembly" in line
        assert not driver.find_element("id", "files").is_enabled()
        assert not driver.find_element("id", "record").is_enabled()


def test_the_microphone(page: Path, recogniser: Recogniser, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    heard = np.concatenate([sing(SONG, rng, 48000)[0] for _ in range(20)])
    soundfile.write(tmp_path / "said.wav", heard, 48000, "PCM_16")
    fake = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    with opened(page, *fake, f"--use-file-for-fake-audio-capture={tmp_path / 'said.wav'}") as driver:
        driver.find_element("id", "record").click()
        wait_until(driver, "document.getElementById('heard').textContent.split(' ').length > 4")  # while one speaks
        assert set(driver.find_element("id", "heard").text.split()) <= set(recogniser.phones)
        driver.find_element("id", "record").click()
        wait_until(driver, DONE, 1)
        assert len(set(driver.execute_script(LABELS))) > 3
        assert driver.find_element("xpath", "//button[text()='Save sound']").is_displayed()
        driver.find_element("xpath", "//button[text()='Remove']").click()
        assert not driver.find_elements("css selector", ".recording")


def test_a_microphone_that_is_refused_is_said_in_one_line(page: Path) -> None:
    with opened(page, "--use-fake-device-for-media-stream") as driver:
        denied = {"permission": {"name": "microphone"}, "setting": "denied"}
        driver.execute_cdp_cmd("Browser.setPermission", denied)
        driver.find_element("id", "record").click()
        wait_until(driver, "document.querySelectorAll('#problems .warning').length === 1")
        (line,) = problems(driver)
        assert line.startswith("The browser does not allow the microphone; change that") and "\n" not in line
        assert driver.find_element("id", "record").text == "Record" and driver.find_element("id", "record").is_enabled()
