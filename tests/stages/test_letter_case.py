"""Recordings whose names differ by letter case only, as X-SAMPA names do: each has its own labels and results."""

from dataclasses import replace
from pathlib import Path

import pytest

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.recordings import Siblings, find_recordings
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.tiers import read_textgrids
from speechctc.inference import output
from speechctc.inference.output import OutputOptions, check_out
from speechctc.metrics.boundary_errors import score_boundaries
from speechctc.studio.document import Document
from tests.tiny_model import write_song


def write_grid(path: Path, *labels: str) -> None:
    phones = [Interval(0.1 * k, 0.1 * k + 0.1, label) for k, label in enumerate(labels)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textgrid_text(0.1 * len(labels), {"phones": phones}))


@pytest.fixture
def folder(here: Path) -> Path:
    """Return a folder with s.wav, S.wav, and the labels of the first."""
    (here / "in").mkdir()
    for name in ("s", "S"):
        write_song(here / "in" / f"{name}.wav", ["low", "mid"])
    write_grid(here / "in" / "s.TextGrid", "low", "mid")
    return here / "in"


def test_a_corpus_leaves_out_what_has_no_labels_of_its_own(folder: Path) -> None:
    corpus = read_textgrids(folder, CorpusConfig(kind="textgrid", root=folder, phones="found"))
    assert [utterance.audio.name for utterance in corpus.splits["train"]] == ["s.wav"]
    assert "S.wav: no TextGrid beside it" in corpus.rejected["train"][0].reason
    (folder / "s.wav").rename(folder / "t.wav")
    corpus = read_textgrids(folder, CorpusConfig(kind="textgrid", root=folder, phones="found"))
    assert [utterance.audio.name for utterance in corpus.splits["train"]] == ["S.wav"]


def test_the_studio_writes_no_labels_of_another(folder: Path) -> None:
    assert Document(folder / "s.wav").grid_path.name == "s.TextGrid"
    upper = Document(folder / "S.wav")
    assert upper.grid_path.name == "S.TextGrid" and not list(upper.phones) and upper.note == ""
    (folder / "s.wav").unlink()
    assert Document(folder / "S.wav").grid_path.name == "s.TextGrid"


def test_boundaries_are_compared_with_those_of_the_same_name(here: Path) -> None:
    write_grid(here / "one" / "s.TextGrid", "low", "mid", "top")
    write_grid(here / "one" / "S.TextGrid", "low", "mid")
    write_grid(here / "two" / "s.TextGrid", "low", "mid", "top")
    write_grid(here / "one" / "Alone.TextGrid", "low", "mid", "top")
    write_grid(here / "two" / "alone.TextGrid", "low", "mid", "top")
    score = score_boundaries(here / "one", here / "two")
    assert score.files == 2 and score.boundaries == 4
    assert [Path(name).name for name in score.unmatched] == ["S.TextGrid"]


def test_results_are_refused_where_letter_case_is_not_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings, options = find_recordings([folder]), OutputOptions(folder=folder.parent / "out")
    check_out(recordings, options)
    asked: list[Path] = []

    def ignores(folder: Path) -> bool:
        asked.append(folder)
        return True

    monkeypatch.setattr(output, "ignores_letter_case", ignores)
    with pytest.raises(InputError, match="s.wav, S.txt and s.txt, are one file there"):
        check_out(recordings, options)
    assert asked == [folder.parent]
    check_out(recordings[:1], options)


def test_results_that_are_there_under_another_spelling_are_those_that_readers_take(here: Path) -> None:
    (here / "in").mkdir()
    for name in ("one.ogg", "two.ogg", "three.ogg", "both.ogg", "s.wav", "S.wav", "v1.2"):
        (here / "in" / name).touch()
    for name in ("ONE.TextGrid", "two.textgrid", "Both.TextGrid", "BOTH.TextGrid", "s.TEXTGRID", "three.ogg.TextGrid"):
        write_grid(here / "in" / name, "low")
    recordings = [*find_recordings([here / "in"]), *find_recordings([here / "in/v1.2"])]
    options = OutputOptions("textgrid", folder=here / "in", skip_existing=True)
    options = check_out(recordings, options)
    names = {each.path.name: options.files_of(each)["textgrid"].name for each in recordings}
    own = {"both.ogg": "both.TextGrid", "S.wav": "S.TextGrid", "v1.2": "v1.TextGrid"}
    read = {"one.ogg": "ONE.TextGrid", "two.ogg": "two.textgrid", "three.ogg": "three.ogg.TextGrid"}
    assert names == {**own, **read, "s.wav": "s.TEXTGRID"}
    for each in recordings[:-1]:
        found = Siblings().find(each.path, [".textgrid"])
        assert found is None or found.name == names[each.path.name]
    with pytest.raises(InputError, match=r"ONE.TextGrid, .* and 1 more: 4 files"):
        check_out(recordings[:-1], replace(options, skip_existing=False))
