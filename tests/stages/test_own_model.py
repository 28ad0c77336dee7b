"""What is installed is never written: what is learned about the bundled model lies in a copy of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

import speechctc as package
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.core.progress import Reporter
from speechctc.model.checkpoint import BUILT_IN
from speechctc.stages import calibrate as calibration
from speechctc.stages.used_model import own_folder, write_learned
from tests.command import Command, one_line_error
from tests.tiny_model import write_song
from tests.train_helpers import Recorder

CORPUS = ("corpus.kind=textgrid", "corpus.root=corpus", "corpus.phones=cmu39", "score.fold=none")


@pytest.fixture
def corpus(here: Path) -> Path:
    """Tones with the labels of English phones: enough to compute something from."""
    song = ["low", "mid", "top", "high", "low", "top", "mid", "high"]
    for split in ("train", "dev"):
        for speaker in ("a", "b"):
            (here / "corpus" / split / speaker).mkdir(parents=True)
            for number in range(2):
                stem = here / "corpus" / split / speaker / str(number)
                times = write_song(stem.with_suffix(".wav"), song, seed=number)
                names = ("aa", "s", "iy", "m", "ae", "t", "ow", "k")
                labels = [Interval(*time, name) for time, name in zip(times, names, strict=True)]
                stem.with_suffix(".TextGrid").write_text(textgrid_text(times[-1][1] + 0.04, {"phones": labels}))
    return here / "corpus"


def _installed() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in BUILT_IN.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", [("lm", "tune", "--beam", 2), ("calibrate",), ("train-boundaries", "--minutes", 0.1)])
def test_what_is_learned_lies_with_the_user_and_is_named(
    speechctc: Command, corpus: Path, here: Path, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MIN_CALIBRATION_PHONES", 1)
    monkeypatch.setattr("speechctc.stages.train_boundaries.measure", lambda *_: None)
    before = _installed()
    done = speechctc(*words, "--model", "english", *CORPUS)
    assert done.status == 0, done.err
    assert "the bundled model is part of the installation and stays as it is; its copy is english/" in done.err
    assert _installed() == before
    own = {Path(BUILT_IN, path.name): path.read_bytes() for path in (here / "english").iterdir()}
    assert before.keys() <= own.keys() and own != before


@pytest.mark.parametrize("words", [("lm", "tune", "--beam", 2), ("calibrate",), ("train-boundaries",)])
def test_a_folder_that_cannot_be_written_is_said_before_the_work(
    speechctc: Command, here: Path, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda place, mode: False)
    said = one_line_error(speechctc(*words, "--model", "english", "corpus.kind=textgrid", "corpus.root=none"))
    assert said.endswith(".: no permission to write there; name another place, or change its permissions")


def test_the_copy_is_named_where_it_is_used(
    speechctc: Command, corpus: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MIN_CALIBRATION_PHONES", 1)
    write_learned(BUILT_IN, own_folder(BUILT_IN), lambda place: None, Reporter(quiet=True))
    said = speechctc("decode", "corpus/dev/a/0.wav", "--model", "english").err
    assert "using english (in this folder; not the bundled model)" in said
    with pytest.warns(UserWarning, match=r"english: the model in the folder .*english, not the bundled one"):
        package.load("english", "cpu")
    done = speechctc("calibrate", "--model", "english", *CORPUS)
    assert done.status == 0 and "its copy" not in done.err


def test_a_copy_is_made_with_what_was_learned_or_not_at_all(here: Path) -> None:
    """A copy without it would be in the way of the next attempt."""

    def fail(place: Path) -> None:
        (place / "calibration.json").write_text("{")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_learned(BUILT_IN, own_folder(BUILT_IN), fail, Recorder())
    assert not list(here.glob("*english*")) and own_folder(BUILT_IN) == Path("english")


def test_what_is_in_the_way_of_the_copy_is_kept(speechctc: Command, here: Path) -> None:
    (here / "english").mkdir()
    (here / "english" / "notes.txt").write_text("mine")
    assert "english: is in the way of a copy" in one_line_error(speechctc("calibrate", "--model", "english"))
    assert [path.name for path in (here / "english").iterdir()] == ["notes.txt"]
