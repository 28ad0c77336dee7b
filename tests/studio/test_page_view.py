"""What the page shows: labels, contrast, the view in playing, numbers, the next step, the list, lost servers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("selenium", reason="selenium, of the extra dev, is not installed")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text  # noqa: E402
from speechctc.studio.server import PAGE  # noqa: E402
from tests.browser import console, set_screen  # noqa: E402
from tests.studio import page as browser  # noqa: E402
from tests.studio.folders import SONG, write_labelled  # noqa: E402
from tests.tiny_model import write_song  # noqa: E402

pytestmark = pytest.mark.slow
SECONDS, PHONES, OTHERS = 8.0, 85, 23
LABELS = ("hh", "ih", "d", "aw", "s", "t", "ng", "iy", "sh")
LEAST_CONTRAST = 4.5  # of text, by WCAG 2.2, 1.4.3
# Calls a function for each text that is drawn on a canvas, before it is drawn; draws all once more.
WATCH = """
const done = arguments[arguments.length - 1], texts = [], old = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
  const ratio = devicePixelRatio, size = parseFloat(this.font), wide = this.measureText(text).width;
  const left = this.textAlign === "center" ? x - wide / 2 : x;
  const ink = document.createElement("canvas").getContext("2d");
  ink.fillStyle = this.fillStyle;
  ink.fillRect(0, 0, 1, 1);
  const box = [left * ratio, (y - 0.7 * size) * ratio, Math.max(wide * ratio, 1), 0.7 * size * ratio];
  const under = wide ? [...this.getImageData(...box).data] : [];
  texts.push({ canvas: this.canvas.id, text, left, wide, y, ink: [...ink.getImageData(0, 0, 1, 1).data], under });
  return old.call(this, text, x, y, ...more);
};
import("/page/draw.js").then(({ draw }) => {
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => {
    CanvasRenderingContext2D.prototype.fillText = old;
    done(texts);
  }));
});
"""


def write_sentence(path: Path) -> None:
    """Write a sentence with phones of 35 to 150 ms, from sure to not at all."""
    rng = np.random.default_rng(0)
    soundfile.write(path, 0.1 * rng.standard_normal(int(16000 * SECONDS)), 16000)
    shares = rng.uniform(35, 150, PHONES)
    ends = np.round(np.cumsum(shares) / shares.sum() * SECONDS, 4)
    spans = list(zip([0.0, *ends[:-1]], ends, strict=True))
    phones = [Interval(start, end, LABELS[k % len(LABELS)]) for k, (start, end) in enumerate(spans)]
    sure = [Interval(start, end, f"{k / PHONES:.2f}") for k, (start, end) in enumerate(spans)]
    scores = [Interval(start, end, f"{(k % 30) / 100:.2f}") for k, (start, end) in enumerate(spans)]
    tiers = {"phones": phones, "confidence": sure, "score": scores}
    path.with_suffix(".TextGrid").write_text(textgrid_text(SECONDS, tiers), encoding="utf-8")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[browser.Page]:
    """Give a page at a sentence; the folder has 23 short recordings more."""
    folder = tmp_path_factory.mktemp("view") / "talks"
    folder.mkdir()
    write_sentence(folder / "a.wav")
    for number in range(OTHERS):
        write_labelled(folder / f"b{number:02}.wav", list("abca"), seed=number)
    server = browser.Server(folder, "--model", str(tiny_model))
    try:
        page = browser.Page(f"{server.address}#a.wav")
        try:
            yield page
        finally:
            page.close()
    finally:
        server.close()


@pytest.fixture
def sentence(opened: browser.Page) -> browser.Page:
    """Give the page with the sentence as it is when it is opened."""
    set_screen(opened.driver, 1440, False)
    opened.wait("the list", lambda: opened.text("#counts").startswith(f"{OTHERS + 1} recordings"))
    if opened.session()["name"] != "b00.wav":
        reopen(opened, "b00.wav")
    reopen(opened, "a.wav")
    return opened


def reopen(page: browser.Page, name: str) -> None:
    page.driver.execute_script("document.querySelector('#list-box').scrollTop = 0")
    page.driver.execute_script("document.querySelector('#search').value = arguments[0]", name)
    page.driver.execute_script("document.querySelector('#search').dispatchEvent(new Event('input'))")
    page.wait("the row", lambda: page.driver.execute_script("return document.querySelectorAll('#list li').length") == 1)
    page.driver.execute_script("document.querySelector('#list button').click()")
    page.wait(name, lambda: page.session()["name"] == name)
    page.driver.execute_script("document.querySelector('#search').value = ''")
    page.driver.execute_script("document.querySelector('#search').dispatchEvent(new Event('input'))")


def ask(page: browser.Page, expression: str) -> Any:
    """Return the value of an expression with the page's modules ``session`` and ``view``."""
    modules = "Promise.all(['session', 'view'].map((name) => import(`/page/${name}.js`)))"
    return page.driver.execute_async_script(
        f"const done = arguments[0]; {modules}.then(([{{ session }}, view]) => done({expression}));"
    )


def drawn(page: browser.Page) -> list[dict[str, Any]]:
    return list(page.driver.execute_async_script(WATCH))


@pytest.mark.parametrize("width", [1440, 390])
def test_every_phone_that_is_seen_has_its_label(sentence: browser.Page, width: int) -> None:
    set_screen(sentence.driver, width, False)
    wide = f"innerWidth == {width} && view.view.width == document.getElementById('stage').clientWidth"
    sentence.wait("the width", lambda: ask(sentence, wide))  # else the sentence is fitted into the one before
    reopen(sentence, "b00.wav")
    reopen(sentence, "a.wav")
    phones, (start, end, width) = sentence.phones(), ask(sentence, "[view.view.start, view.end(), view.view.width]")
    seen = [label for first, last, label in phones if last > start and first < end]
    texts = [each for each in drawn(sentence) if each["canvas"] == "tiers" and each["text"] in LABELS]
    assert len(phones) == PHONES and [each["text"] for each in texts] == seen
    assert len(seen) == PHONES or width < 400  # in a window as wide as a desk's, all of the sentence
    for line in {each["y"] for each in texts}:  # none over another
        row = [(each["left"], each["left"] + each["wide"]) for each in texts if each["y"] == line]
        assert all(left >= end - 1 for (_, end), (left, _) in zip(row, row[1:], strict=False))


def luminance(colours: Any) -> Any:
    """Return the relative luminance of sRGB colours, by WCAG 2.2."""
    share = np.asarray(colours, dtype=float)[..., :3] / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_on_a_canvas_can_be_read(sentence: browser.Page, dark: bool) -> None:
    """Apart from lines that cross a text, whatever is under it has contrast: doubt, a choice, low scores."""
    set_screen(sentence.driver, 1440, dark)
    time.sleep(0.3)
    texts = [each for each in drawn(sentence) if each["under"]]
    assert {each["canvas"] for each in texts} >= {"tiers", "axis", "spectrogram"}
    for each in texts:
        pixels = np.reshape(each["under"], (-1, 4))  # what is not opaque is outside of the canvas
        under, ink = luminance(pixels[pixels[:, 3] == 255]), luminance(each["ink"])
        contrast = (np.maximum(under, ink) + 0.05) / (np.minimum(under, ink) + 0.05)
        assert np.mean(contrast >= LEAST_CONTRAST) > 0.8, (each["canvas"], each["text"], np.median(contrast))


def test_the_view_follows_the_sound(sentence: browser.Page) -> None:
    sentence.press(Keys.HOME, Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP, " ")
    heard = "document.getElementById('audio').currentTime"
    first = ask(sentence, "view.end()")
    # the page turns in the frame after the sound has left it
    sentence.wait("the next page", lambda: ask(sentence, f"{heard} > {first} && view.view.start > 0"))
    for _ in range(5):
        start, at, end = ask(sentence, f"[view.view.start, {heard}, view.end()]")
        assert start - 0.1 <= at <= end + 0.1 and start > 0
        time.sleep(0.1)
    sentence.press(" ")


def test_a_boundary_moves_while_it_is_dragged_with_its_time(sentence: browser.Page) -> None:
    before = sentence.phones()
    x = ask(sentence, "view.toX(session.phones[9].end)")
    tiers = sentence.driver.find_element("id", "tiers")
    hand = ActionChains(sentence.driver)
    hand.move_to_element_with_offset(tiers, round(x + 1 - tiers.rect["width"] / 2), -20).click_and_hold()
    hand.move_by_offset(4, 0).perform()
    moving = ask(sentence, "session.moving")
    assert f"Boundary {moving['time']:.3f} s" in sentence.text("#readout") and before[9][1] < moving["time"]
    assert sentence.phones() == before
    ActionChains(sentence.driver).release().perform()
    sentence.saved()
    after = sentence.phones()
    assert after[9][1] == after[10][0] == pytest.approx(moving["time"], abs=1e-4)
    sentence.press("z")
    sentence.saved()
    assert sentence.phones() == before


def test_the_length_of_a_selection_is_shown(sentence: browser.Page) -> None:
    wave = sentence.driver.find_element("id", "wave")
    ActionChains(sentence.driver).move_to_element(wave).click_and_hold().move_by_offset(60, 0).release().perform()
    start, end = ask(sentence, "session.selection")
    assert f"{start:.3f} to {end:.3f} s: {1000 * (end - start):.0f} ms" in sentence.text("#readout")


def test_no_press_of_j_is_lost(sentence: browser.Page) -> None:
    sentence.driver.execute_script("const order = document.getElementById('order'); order.selectedIndex = 1;"
                                   "order.dispatchEvent(new Event('change'))")  # fmt: skip
    sentence.driver.execute_script("document.getElementById('tiers').focus()")
    sentence.press(*"jjjjjjjjjj")
    sentence.wait("the tenth", lambda: sentence.session()["name"] == "b09.wav")
    sentence.press("k", "k")
    sentence.wait("two back", lambda: sentence.session()["name"] == "b07.wav")
    title = sentence.driver.title
    assert title.startswith("b07.wav - ") and title.endswith("talks - speechctc studio")
    sentence.press(*"k" * 9)  # before the first comes the last
    sentence.wait("the last", lambda: sentence.session()["name"] == f"b{OTHERS - 1:02}.wav")
    sentence.press("j")
    sentence.wait("the first", lambda: sentence.session()["name"] == "a.wav")


def test_back_opens_the_recording_before(sentence: browser.Page) -> None:
    reopen(sentence, "b03.wav")
    reopen(sentence, "b05.wav")
    sentence.driver.back()
    sentence.wait("the one before", lambda: sentence.session()["name"] == "b03.wav")
    sentence.driver.forward()
    sentence.wait("the one after", lambda: sentence.session()["name"] == "b05.wav")


def test_keys_are_those_of_a_latin_keyboard_in_every_script(sentence: browser.Page) -> None:
    reopen(sentence, "b03.wav")
    for kind in ("keyDown", "keyUp"):  # J on a Russian keyboard
        event = {"type": kind, "key": "о", "code": "KeyJ", "text": "о" if kind == "keyDown" else ""}
        sentence.driver.execute_cdp_cmd("Input.dispatchKeyEvent", event)
    sentence.wait("another recording", lambda: sentence.session()["name"] != "b03.wav")


def test_a_label_is_saved_by_a_click_elsewhere_and_not_after_escape(sentence: browser.Page) -> None:
    reopen(sentence, "b04.wav")
    before = [label for _, _, label in sentence.phones()]
    sentence.press(Keys.HOME, Keys.ENTER, "z", "h", Keys.ESCAPE)
    assert sentence.session()["chosen"] == 0
    sentence.press(Keys.ENTER, "z", "h")
    tiers = sentence.driver.find_element("id", "tiers")
    (x,) = ask(sentence, "[view.toX((session.phones[2].start + session.phones[2].end) / 2) - view.view.width / 2]")
    ActionChains(sentence.driver).move_to_element_with_offset(tiers, round(x), 0).click().perform()
    sentence.saved()
    assert [label for _, _, label in sentence.phones()] == ["zh", *before[1:]]
    assert sentence.session()["chosen"] == 2
    sentence.press("z")
    sentence.wait("as before", lambda: [label for _, _, label in sentence.phones()] == before)


def test_symbols_say_what_they_mean_and_the_sound_stays_in_sight_while_one_picks(sentence: browser.Page) -> None:
    run = sentence.driver.execute_script
    titles = run("return [...document.querySelectorAll('#chart button')].map((each) => each.title)")
    assert len(titles) > 160 and all(titles) and "voiceless palatal fricative" in titles
    sentence.wait("the model", lambda: run("return document.querySelector('#known option')"))
    known = run("return [...document.querySelectorAll('#known option')].map((each) => each.value)")
    assert run("return document.getElementById('label').list.id") == "known" and known == sorted(known) and known
    try:
        sentence.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 1440, "height": 800, "deviceScaleFactor": 1, "mobile": False},
        )
        run("document.getElementById('chart').open = true")
        run("document.getElementById('chart-rows').scrollIntoView({ block: 'end' })")
        find = "document.querySelector('{}').getBoundingClientRect()"
        tiers, head, rows = map(find.format, ("#tiers", "#chart summary", "#chart-rows"))
        seen = run(f"return [{tiers}.top, {tiers}.bottom, {head}.top, {rows}.bottom, innerHeight]")
        assert seen[0] >= 0 and seen[1] <= seen[2] + 1 and seen[3] <= seen[4] + 1, seen
    finally:
        run("document.getElementById('chart').open = false")


def test_twice_as_large_labels_and_player_are_seen_together(sentence: browser.Page) -> None:
    """Of a window of 1440 by 900 pixels, at 200 %."""
    reopen(sentence, "b02.wav")
    size = {"width": 720, "height": 450, "deviceScaleFactor": 2, "mobile": False}
    sentence.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    edge = "document.{}.getBoundingClientRect().{}"
    edges = edge.format("getElementById('tiers')", "bottom"), edge.format("querySelector('.player')", "top")
    sentence.wait("labels above the player", lambda: sentence.driver.execute_script(f"return {edges[0]} <= {edges[1]}"))


def test_a_label_that_a_key_replaced_is_a_candidate(sentence: browser.Page) -> None:
    reopen(sentence, "b06.wav")
    before = [label for _, _, label in sentence.phones()]
    sentence.press(Keys.HOME, Keys.ENTER, "z", "h", Keys.ENTER)
    sentence.saved()
    assert sentence.text("#alternatives") == f"By the sound alone:{before[0]} as it was"
    sentence.press("1")
    sentence.saved()
    assert [label for _, _, label in sentence.phones()] == before
    sentence.press("z", "z")
    sentence.wait("as before", lambda: not sentence.session()["phones"][0]["checked"])


def test_keys_wait_while_a_dialog_is_open(sentence: browser.Page) -> None:
    """The focus may be on the page itself: that of a button that a training took away."""
    sentence.click("#open-training")
    sentence.driver.execute_script("document.activeElement.blur()")
    sentence.press("c", Keys.DELETE, "1")
    sentence.saved()
    assert not any(phone["checked"] for phone in sentence.session()["phones"])
    sentence.press(Keys.ESCAPE, "c")
    sentence.saved()
    assert sum(phone["checked"] for phone in sentence.session()["phones"]) == 1
    sentence.press("z")
    sentence.wait("as before", lambda: not sentence.session()["undo"])


def test_an_edge_does_not_come_to_a_cursor_beyond_the_other(sentence: browser.Page) -> None:
    reopen(sentence, "b06.wav")
    before = sentence.phones()
    sentence.press(Keys.END)
    for key, place in (("]", before[-1][0] - 0.01), ("[", before[-1][1] + 0.01)):
        sentence.driver.execute_async_script(
            "import('/page/session.js').then((it) => arguments[1]((it.session.cursor = arguments[0])))",
            place,
        )
        sentence.press(key)
        sentence.saved()
        assert sentence.phones() == before


def test_the_list_tells_how_many_phones_are_checked_before_it_is_cut(sentence: browser.Page) -> None:
    reopen(sentence, "b06.wav")
    assert sentence.text("#list [data-name='b06.wav'] .state") == "corrected, 4 of 4 checked, 0.7 s"


def test_words_are_shown_a_note_can_be_closed_and_silence_is_told(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "talks"
    (folder / "Li Na").mkdir(parents=True)
    write_labelled(folder / "Li Na" / "a.wav", ["low", "strange"])
    (folder / "Li Na" / "a.txt").write_text("how now brown cow " * 40)
    soundfile.write(folder / "silent.wav", np.zeros(16000), 16000)
    server = browser.Server(folder, "--model", str(tiny_model))
    try:
        page = browser.Page(server.address)
        try:
            seen = "return document.getElementById(arguments[0]).offsetWidth"
            page.wait("the model", lambda: page.text("#model") not in ("", "being loaded"))
            page.driver.execute_script("document.querySelector('#list [data-name^=\"Li Na\"]').click()")
            page.wait("phones", lambda: page.session()["phones"])
            page.press("c")
            page.wait("a note", lambda: "does not know strange" in page.text("#note"))
            page.click("#note button")
            page.press("c")
            page.saved()
            assert page.driver.execute_script(seen, "note") == 0, "it does not come back with the next change"
            words = page.driver.find_element("id", "words")
            assert words.get_attribute("title") == words.text == ("how now brown cow " * 40).strip()
            assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            page.click("#open-microphone")
            assert page.driver.find_element("id", "speaker").get_attribute("value") == "Li Na"
            page.click("#microphone form button")
            assert page.driver.execute_script(seen, "microphone") == 0
            page.driver.execute_script("document.querySelector('#list [data-name=\"silent.wav\"]').click()")
            page.wait("silence", lambda: page.session()["name"] == "silent.wav")
            assert page.text("#words") == "" and page.driver.execute_script(seen, "note") == 0
            page.click("#recognise")
            page.wait("what is wrong with it", lambda: page.text("#saved").startswith("nothing was recognised"))
            assert page.text("#list [data-name='silent.wav'] .state").startswith("nothing was recognised")
            assert console(page.driver) == []
        finally:
            page.close()
    finally:
        server.close()


# What a training tells: its state, and what the page says of it, in its first sentence and anywhere.
SCORE = {"text": "95 % interval", "caution": "not reliable", "phones": 45, "recordings": 2}
ROUND = {"state": "done", "round": 1, "train": [], "test": [], "dev": 3, "epochs": 8, "start_per": 30.0, "line": ""}
ROUND |= {"curve": [{"epoch": 1, "dev_per": 25.0}, {"epoch": 2, "dev_per": 20.0}]}
WORSE = {"before": SCORE | {"per": 4.4}, "after": SCORE | {"per": 11.1}}
BETTER = {"before": SCORE | {"per": 4.4}, "after": SCORE | {"per": 4.4}}
VERDICTS = [
    (
        WORSE,
        "The old model stayed in use",
        ("the new one had 11.1 % wrong, the old one 4.4 %", "correct more recordings"),
    ),
    (
        BETTER,
        "The new model came into use",
        ("If equal, the new", "same 2 recordings, 45 phones", "recognise drafts again"),
    ),
    (
        {"forgotten": ["ʃ"]},
        "The new model came into use. Whether it is better",
        ("check 5 or more", "not know them: ʃ"),
    ),
]


@pytest.mark.parametrize(("scores", "begins", "says"), VERDICTS)
def test_the_verdict_on_a_training_says_what_is_kept_on_what_ground_and_what_is_next(
    sentence: browser.Page, scores: dict[str, Any], begins: str, says: tuple[str, ...]
) -> None:
    sentence.driver.execute_async_script(
        "const done = arguments[1]; import('/page/training.js').then((it) => done(it.update("
        "{ recordings: [], training: arguments[0], model: { folder: 'x' } })))",
        ROUND | scores,
    )
    told = " ".join(map(sentence.text, ("#training-result", "#training-next", "#curve-says")))
    assert told.startswith(begins) and all(each in told for each in says)
    assert "last 20.0 %; dashed, the old model: 30.0 %" in told and "dev (3 pieces)" in told
    assert len(sentence.driver.find_elements("css selector", "#curve circle")) == 2


def test_the_facts_of_a_training_name_how_many_recordings_are_checked_as_a_whole(sentence: browser.Page) -> None:
    rows = [{"name": str(k), "state": "corrected", "seconds": 2, "phones": 3, "whole": k > 0} for k in range(6)]
    sentence.driver.execute_async_script(
        "const done = arguments[1]; import('/page/training.js').then((it) => done(it.update("
        "{ recordings: arguments[0], training: {}, model: { folder: 'x' } })))",
        rows,
    )
    assert "Checked as a whole: 5; up to a fifth of these is held out" in sentence.text("#training-facts")


def test_a_low_window_has_one_column_with_the_list_folded(sentence: browser.Page) -> None:
    size = {"width": 1440, "height": 600, "deviceScaleFactor": 1, "mobile": False}
    sentence.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    box = "document.getElementById('{}').getBoundingClientRect()".format
    wide = f"return {box('stage')}.width > 1300 && {box('side')}.top >= {box('stage')}.bottom"
    sentence.wait("the sound first", lambda: sentence.driver.execute_script(wide))
    assert not sentence.driver.find_element("id", "list-box").is_displayed()


def test_a_name_as_of_a_recording_is_whole_in_the_list(sentence: browser.Page) -> None:
    name = "recording-2026-11-29-140512.wav"
    fits = """const file = document.querySelector('#list .file'), old = file.textContent;
    file.textContent = arguments[0];
    const fits = file.scrollWidth <= file.clientWidth;
    file.textContent = old;
    return fits;"""
    assert sentence.driver.execute_script(fits, name)


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in PAGE.iterdir()) <= 100_000  # bytes of source


def test_only_what_is_seen_of_the_list_is_there_and_a_filter_leaves_some(sentence: browser.Page) -> None:
    count = "return document.querySelectorAll('#list li').length"
    set_screen(sentence.driver, 1000, False)  # the list is low here
    sentence.wait("a part", lambda: 0 < sentence.driver.execute_script(count) < OTHERS)
    choose = (
        "const it = document.getElementById('filter'); it.value = arguments[0]; it.dispatchEvent(new Event('change'))"
    )
    sentence.driver.execute_script(choose, "new")
    assert sentence.driver.execute_script(count) == 0 and "none shown" in sentence.text("#counts")
    sentence.driver.execute_script(choose, "")
    assert sentence.driver.execute_script(count) > 0


def primary(page: browser.Page) -> list[str]:
    found = "return [...document.querySelectorAll('.primary:not(dialog *)')].map((each) => each.id)"
    return list(page.driver.execute_script(found))


def test_one_button_is_the_next_to_press(tmp_path: Path, tiny_model: Path) -> None:
    """Record in an empty folder; Recognise; the next doubtful phone; with five corrected recordings, Train."""
    folder = tmp_path / "talks"
    folder.mkdir()
    server = browser.Server(folder, "--model", str(tiny_model))
    page = browser.Page(server.address)
    try:
        page.wait("the way to record", lambda: primary(page) == ["open-microphone"])
        assert not page.driver.find_element("id", "play").is_displayed()
        for number in range(5):
            write_labelled(folder / f"b{number}.wav", list("abca"), seed=number)
        write_song(folder / "a.wav", SONG)
        page.driver.execute_script("window.dispatchEvent(new Event('focus'))")
        page.wait("the files that came", lambda: page.text("#counts").startswith("6 recordings: 1 new"))
        page.wait("five corrected ones", lambda: primary(page) == ["open-training"])
        reopen(page, "a.wav")
        assert page.text("#hint").startswith("No phones yet: Recognise")
        for number in range(1, 5):
            (folder / f"b{number}.wav").unlink()
        page.driver.execute_script("window.dispatchEvent(new Event('focus'))")
        page.wait("an empty recording", lambda: primary(page) == ["recognise"])
        page.click("#recognise")
        page.wait("phones", lambda: page.session()["phones"])
        page.wait("the doubtful phones", lambda: primary(page) == ["next"])
        page.wait("drafts", lambda: page.text("#recognise-new") == "Recognise drafts again")
        before = page.session()["revision"]
        page.click("#recognise-new")
        page.wait("other labels", lambda: page.session()["revision"] > before)
        page.wait("the doubtful phones", lambda: primary(page) == ["next"])
        page.press("w")
        page.saved()
        page.wait("no drafts", lambda: not page.driver.find_element("id", "recognise-new").is_enabled())
        page.wait("the next recording", lambda: primary(page) == ["following"])
        assert console(page.driver) == []
    finally:
        page.close()
        server.close()


def test_a_page_whose_server_came_back_saves_what_was_typed(tmp_path: Path, tiny_model: Path) -> None:
    """The label stays as it was typed; without a token, a page shows no buttons; with the new one, both go on."""
    folder = tmp_path / "talks"
    folder.mkdir()
    write_labelled(folder / "a.wav", list("abca"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = browser.Server(folder, "--model", str(tiny_model), "--port", port)
    page = browser.Page(server.address)
    try:
        page.wait("phones", lambda: page.session()["phones"])
        server.kill()
        page.press(Keys.ENTER, "n", "e", "w", Keys.ENTER)
        page.wait("a line on it", lambda: "not saved yet" in page.text("#saved"))
        assert [label for *_, label in page.phones()] == ["new", "b", "c", "a"]
        server = browser.Server(folder, "--model", str(tiny_model), "--port", port)
        (tab,) = page.driver.window_handles
        page.driver.switch_to.new_window("tab")
        page.driver.get(server.address.partition("?")[0])
        page.wait("what to do", lambda: "whole address" in page.text("#problem"))
        assert not page.driver.find_element("id", "open-training").is_displayed()
        page.driver.get(server.address)
        page.wait("phones", lambda: page.session()["phones"])
        page.driver.switch_to.window(tab)
        page.saved()
        page.wait("the file", lambda: read_textgrid(folder / "a.TextGrid", "phones")[0].label == "new")
        page.wait("the state", lambda: page.text("#saved") == "saved to a.TextGrid")
    finally:
        page.close()
        server.close()


def test_by_touch_a_swipe_up_scrolls_the_page_two_fingers_zoom_and_one_moves_the_view(sentence: browser.Page) -> None:
    driver = sentence.driver
    set_screen(driver, 390, False)
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    sentence.wait("the width", lambda: ask(sentence, "view.view.width") < 390)
    box = "const box = document.getElementById('spectrogram').getBoundingClientRect();"
    x, y = driver.execute_script(f"{box} return [box.x + box.width / 2, box.y + box.height / 2]")

    def touch(*ways: list[tuple[float, float]]) -> None:
        """Lay fingers down, move them along their ways, and lift them."""
        for kind, points in [
            ("touchStart", [way[0] for way in ways]),
            *(("touchMove", p) for p in zip(*ways, strict=True)),
        ]:
            touched = [{"x": a, "y": b, "id": k} for k, (a, b) in enumerate(points)]
            driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
        driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    try:
        scale = ask(sentence, "view.view.scale")
        touch([(x - 20 - 5 * k, y) for k in range(11)], [(x + 20 + 5 * k, y) for k in range(11)])
        sentence.wait("a larger scale", lambda: ask(sentence, "view.view.scale") > 2 * scale)
        start = ask(sentence, "view.view.start")
        touch([(x - 10 * k, y) for k in range(11)])
        sentence.wait("a later part", lambda: ask(sentence, "view.view.start") > start)
        touch([(x, y - 25 * k) for k in range(11)])
        sentence.wait("the page below", lambda: driver.execute_script("return window.scrollY") > 50)
        assert sentence.session()["selection"] is None
    finally:
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
