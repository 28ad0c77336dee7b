"""The plugin in Praat, by its command line, and in its windows on a virtual screen.

Without an installed Praat, its library parselmouth runs the scripts. Tried with Praat 6.1, 6.3, 6.4 and 7.0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text
from speechctc.studio.plugins import PRAAT, in_folder, write
from tests.tiny_model import write_song

ROOT = Path(__file__).parent.parent.parent
SONG = ["low", "mid", "high", "low", "top"]
RECOGNISE, PLACE, SCORE = "recognise phones", "place the phones of the labels", "score phones"
INSTALLED = shutil.which("praat") is not None
LIBRARY = "import sys; from parselmouth.praat import run_file; run_file(sys.argv[-1])"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _some_praat() -> None:
    if not INSTALLED:
        pytest.importorskip("parselmouth")


def version() -> int:
    if not INSTALLED:
        return 6
    done = subprocess.run(["praat", "--version"], capture_output=True, text=True)
    return int(done.stdout.split()[1].partition(".")[0])


def run_praat(folder: Path, lines: list[str], *options: str, trusted: bool = True) -> str:
    """Run a script in Praat, whose home is the folder; return what it says on standard error."""
    script = folder / "try.praat"
    script.write_text("\n".join(lines) + "\n")
    trust = ["--FULL-TRUST"] if trusted and version() >= 7 else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    command = ["praat", *trust, *(options or ("--run",))] if INSTALLED else [sys.executable, "-c", LIBRARY]
    done = subprocess.run([*command, script], capture_output=True, env=environment)
    assert not [path for path in folder.iterdir() if path.name.startswith(("speechctc-", ".speechctc"))]
    return done.stderr.decode("utf-8", "replace")


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path) -> Path:
    """Return a folder with the plugin, and with a song and its TextGrid of two utterances."""
    write(in_folder(tmp_path), str(tiny_model))
    times = write_song(tmp_path / "a.wav", SONG)
    middle, last = times[2][0] - 0.02, times[-1][1]
    utterances = [Interval(0.0, middle, "low mid"), Interval(middle, last, "high low top")]
    (tmp_path / "a.TextGrid").write_text(textgrid_text(last, {"utterances": utterances}))
    return tmp_path


def read_all(folder: Path) -> list[str]:
    return [f'Read from file: "{folder}/a.{ending}"' for ending in ("wav", "TextGrid")] + ['plusObject: "Sound a"']


def fill(folder: Path, do: str, interval: int, tier: str = "utterances") -> str:
    script = f'"{folder}/{PRAAT}/fill.praat"'
    return f'runScript: {script}, "{do}", "{tier}", {interval}, "{folder / "model"}", "", "own"'


def saved(folder: Path) -> list[str]:
    return ['selectObject: "TextGrid a"', f'Save as text file: "{folder}/out.TextGrid"']


def labels(folder: Path, tier: str) -> list[str]:
    return [interval.label for interval in read_textgrid(folder / "out.TextGrid", tier)]


def test_the_phones_of_the_selected_sound_are_opened(folder: Path, tiny_model: Path) -> None:
    recognise = f'runScript: "{folder}/{PRAAT}/recognise.praat"'
    lines = [f'Read from file: "{folder}/a.wav"', 'Shift times to: "start time", 3.0']
    lines += [f'{recognise}, "{tiny_model}", "own"', *saved(folder)]
    lines += ['selectObject: "Sound a"', f'{recognise}, "{folder}/none", "own"']
    errors = run_praat(folder, lines)
    assert labels(folder, "phones") == SONG, errors
    assert 3.0 <= read_textgrid(folder / "out.TextGrid", "phones")[0].start < 3.1, "in the time of the sound"
    assert "speechctc: " in errors and "/none: no such" in errors


def test_intervals_are_filled_and_what_a_person_made_is_kept(folder: Path, tiny_model: Path) -> None:
    (folder / "model").symlink_to(tiny_model)
    lines = [*read_all(folder), fill(folder, RECOGNISE, 2), 'selectObject: "TextGrid a"']
    lines += ['Set interval text: 2, 2, "mine"', 'plusObject: "Sound a"', fill(folder, RECOGNISE, 0), *saved(folder)]
    lines += ['plusObject: "Sound a"', fill(folder, RECOGNISE, 0)]
    errors = run_praat(folder, lines)
    assert labels(folder, "phones") == ["low", "mid", "mine", "low", "top"]
    assert read_textgrid(folder / "out.TextGrid", "utterances") == read_textgrid(folder / "a.TextGrid", "utterances")
    assert "speechctc: nothing to do: the intervals have no labels to work with, or the tier phones has" in errors


def test_transcripts_are_placed_and_scored(folder: Path, tiny_model: Path) -> None:
    (folder / "model").symlink_to(tiny_model)
    lines = [*read_all(folder), fill(folder, PLACE, 0), fill(folder, SCORE, 0, "1"), *saved(folder)]
    errors = run_praat(folder, lines)
    assert labels(folder, "phones") == SONG, errors
    phones, scores = (read_textgrid(folder / "out.TextGrid", tier) for tier in ("phones", "score"))
    times = [(each.start, each.end) for each in phones]
    assert [(each.start, each.end) for each in scores] == times and all(0 <= float(each.label) <= 1 for each in scores)
    lines = [*read_all(folder), fill(folder, PLACE, 0, "none")]
    assert "speechctc: the TextGrid has no tier none." in run_praat(folder, lines)


@pytest.mark.skipif(version() < 7, reason="Praat 7 asks for trust first")
def test_without_trust_there_is_one_line_and_nothing_is_changed(folder: Path) -> None:
    errors = run_praat(folder, [*read_all(folder), fill(folder, RECOGNISE, 0)], trusted=False)
    assert errors.startswith("Error: speechctc: it cannot be run. Praat 7 asks whether you trust the script:")


@contextmanager
def virtual_screen() -> Iterator[str]:
    """Yield the name of an empty screen."""
    reader, writer = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(writer)], pass_fds=[writer], stderr=subprocess.DEVNULL)
    try:
        with os.fdopen(reader) as number:
            os.close(writer)
            yield ":" + number.readline().strip()
    finally:
        server.terminate()
        server.wait()


@pytest.mark.skipif(not (INSTALLED and shutil.which("Xvfb")), reason="there is no Praat, or no virtual screen")
def test_the_window_of_a_textgrid_fills_the_selected_interval(
    folder: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'"{folder}/{PRAAT}/interval.praat"'
    after = read_textgrid(folder / "a.TextGrid", "utterances")[1].start
    lines = [
        *read_all(folder),
        "View & Edit",
        'editor: "TextGrid a"',
        f"    Select: {after + 0.1}, {after + 0.1}",
        f'    runScript: {script}, "{RECOGNISE}", "the selected interval", "{tiny_model}", "", "own"',
        "endeditor",
        *saved(folder),
        "select all",
        f'writeFile: "{folder}/objects", numberOfSelected ()',
        "Quit",
    ]
    with virtual_screen() as screen:
        monkeypatch.setenv("DISPLAY", screen)
        errors = run_praat(folder, lines, "--new-send")
    assert labels(folder, "phones") == SONG[2:], errors
    assert read_textgrid(folder / "out.TextGrid", "phones")[0].start >= after - 1e-4
    assert (folder / "objects").read_text() == "2", "nothing is left in the list of objects"
