"""Which files are taken for recordings, what their results are called, and which files beside them are theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.audio.folders import ENDINGS
from speechctc.audio.recordings import Recording, Siblings, find_recordings, ids, left_out, names_of
from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import survey
from tests.studio.folders import SONG, write_labelled


def touch(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"x")


def found(*arguments: str) -> dict[str, str]:
    return {str(path): str(name) for path, name, *_ in find_recordings(map(Path, arguments))}


def test_only_those_that_share_a_name_keep_their_ending(here: Path) -> None:
    touch("in/a.mp3", "in/a.ogg", "in/b.wav", "in/sub/a.mp3", "in/B.notes")
    assert found("in") == {"in/a.mp3": "a.mp3", "in/a.ogg": "a.ogg", "in/b.wav": "b", "in/sub/a.mp3": "sub/a"}
    touch("in/b.TextGrid")
    assert found("in/b.wav", "in/b.TextGrid") == {"in/b.wav": "b", "in/b.TextGrid": "b.TextGrid"}


@pytest.mark.parametrize(
    ("arguments", "speakers"),
    [
        (["Li Na", "x/Wang"], ["Li Na", "Wang"]),
        (["."], ["Li Na", "x/Wang", "y/Wang"]),
        (["x", "y"], ["x/Wang", "y/Wang"]),  # one name in two folders
        (["x/Wang", "y/Wang"], ["x/Wang", "y/Wang"]),
        (["Li Na/1.wav", "x/Wang/1.wav"], ["Li Na", "Wang"]),
        (["Li Na", "Li Na/1.wav"], [""]),
    ],
)
def test_several_folders_are_several_speakers(here: Path, arguments: list[str], speakers: list[str]) -> None:
    touch("Li Na/1.wav", "x/Wang/1.wav", "y/Wang/1.wav")
    assert [each.speaker for each in find_recordings(map(Path, arguments))] == speakers


def test_what_takes_ffmpeg_is_found_unless_its_sound_lies_beside_it(here: Path) -> None:
    touch("in/a.wav", "in/a.MP4", "in/b.m4a", "in/c.webm", "in/._d.wav", "in/e.dss", "in/f.ape")
    assert list(found("in")) == ["in/a.wav", "in/b.m4a", "in/c.webm"]
    double, unread = left_out([Path("in"), Path("in/a.wav")])
    assert double.startswith("in: a.MP4 left out") and unread.startswith("in: e.dss and 1 more left out")


def test_a_pattern_that_no_file_matches_and_a_folder_without_sound_are_said(here: Path) -> None:
    touch("in/a.dss")
    with pytest.raises(InputError, match=r"x/\*.wav: no file matches this pattern"):
        find_recordings([Path("in/a.dss"), Path("x/*.wav")])
    with pytest.raises(InputError, match=r"in: no recordings in this folder .*a.dss left out: this format"):
        find_recordings([Path("in")])


def test_ids_are_unique_and_without_blanks() -> None:
    paths = ["x/s 1.wav", "x/s_1.wav", "a/t.wav", "b/t.wav", "s_1-2.wav"]
    names = ["s 1", "s_1", "t", "t", "s_1-2"]
    recordings = [Recording(Path(path), Path(name)) for path, name in zip(paths, names, strict=True)]
    found = ids(recordings)
    assert found == ["s_1", "s_1-2", "a/t", "b/t", "s_1-2-2"]
    assert ids([Recording(Path("q/deep/u.wav"), Path("deep/u"))]) == ["deep/u"]


def test_links_that_are_passed_over_are_named(here: Path) -> None:
    """Dead ones, those in a circle, and those to folders: by all who read a folder of recordings."""
    (here / "in").mkdir()
    (here / "other").mkdir()
    write_labelled(here / "in" / "a.wav", SONG[:4])
    write_labelled(here / "in" / "c.wav", SONG[:5])
    write_labelled(here / "other" / "o.wav", SONG[:4])
    for name, target in (("dead.wav", "gone.wav"), ("circle.wav", "circle.wav"), ("speaker2", "../other")):
        (here / "in" / name).symlink_to(target)
    (here / "in" / "b.wav").symlink_to("a.wav")
    assert list(found("in")) == ["in/a.wav", "in/b.wav", "in/c.wav"]
    lines = left_out([Path("in")])
    assert len(lines) == 2 and lines[0] == "in: circle.wav and 1 more left out: a link that leads nowhere"
    assert lines[1].startswith("in: speaker2 left out: a link to a folder")
    config = load_config("demo", ["corpus.kind=textgrid", "corpus.root=in", "corpus.phones=found"])
    corpus = read_corpus(config.corpus)
    assert set(lines) <= set(corpus.warnings)
    assert set(lines) <= set(survey(Path("in")).notes)
    (here / "empty").mkdir()
    (here / "empty" / "dead.wav").symlink_to("gone")
    with pytest.raises(InputError, match="no recordings in this folder .*dead.wav"):
        find_recordings([Path("empty")])


GRID = [".textgrid"]


def beside(name: str, *endings: str) -> str | None:
    found = Siblings().find(Path(name), endings or GRID)
    return None if found is None else str(found)


@pytest.mark.parametrize("label", ["s.TextGrid", "S.TextGrid"])
def test_what_belongs_to_another_is_not_taken(here: Path, label: str) -> None:
    touch("s.wav", "S.wav", label)
    wav, other = ("s.wav", "S.wav") if label[0] == "s" else ("S.wav", "s.wav")
    assert beside(wav) == label and beside(other) is None
    Path(label).rename("ſ.TextGrid")  # no other spelling
    assert beside(wav) is None


@pytest.mark.parametrize(
    ("files", "name", "endings", "expected"),
    [
        ("s.wav S.wav s.TextGrid S.TextGrid", "s.wav", GRID, "s.TextGrid"),  # each has its own
        ("s.wav S.wav s.TextGrid S.TextGrid", "S.wav", GRID, "S.TextGrid"),
        ("ab.wav AB.flac Ab.TextGrid", "ab.wav", GRID, None),  # both differ
        ("ab.wav AB.flac Ab.TextGrid", "AB.flac", GRID, None),
        ("ANNA.ogg anna.txt Anna.lab", "ANNA.ogg", [".lab", ".txt"], None),  # two names in other case
        ("ANNA.ogg anna.txt Anna.lab ANNA.txt", "ANNA.ogg", [".lab", ".txt"], "ANNA.txt"),
        ("a.mp3 a.mp3.TextGrid a.TextGrid", "a.mp3", GRID, "a.mp3.TextGrid"),
        ("b.mp3 B.mp3.TextGrid B.TextGrid", "b.mp3", GRID, "B.mp3.TextGrid"),  # one name, the first is preferred
        ("a.wav A.phn a.lab", "a.wav", [".phn", ".lab"], "a.lab"),  # an exact name before a preferred ending
        ("a.wav", "nowhere/a.wav", GRID, None),
    ],
)
def test_the_file_beside_by_letter_case(
    here: Path, files: str, name: str, endings: list[str], expected: str | None
) -> None:
    touch(*files.split())
    assert beside(name, *endings) == expected


def test_a_name_in_other_case_is_taken_where_it_alone_can_be_meant(here: Path) -> None:
    touch("SA1.WAV", "sa1.phn", "sa1.mp3.txt")
    found = Siblings().find(Path("SA1.WAV"), [".phn"])
    assert found == Path("sa1.phn")
    assert Siblings().find(Path("sa1.phn"), ENDINGS) == Path("SA1.WAV")
    touch("SA1.phn")
    assert beside("SA1.WAV", ".phn") == "SA1.phn"


def test_among_recordings_that_are_named(here: Path) -> None:
    touch("labels/s.lab")
    at = Path("labels/S.wav")
    assert Siblings().find(at, [".lab"], names_of(["S.wav"])) == Path("labels/s.lab")
    assert Siblings().find(at, [".lab"], names_of(["S.wav", "s.flac"])) is None


def test_a_name_in_another_unicode_form_is_taken_where_it_alone_can_be_meant(here: Path) -> None:
    one, two = "caf\u00e9", "cafe\u0301"
    touch(f"{one}.wav", f"{two}.TextGrid")
    found = Siblings().find(Path(f"{one}.wav"), GRID)
    assert found == Path(f"{two}.TextGrid")
    assert Siblings().find(found, ENDINGS) == Path(f"{one}.wav")
    touch(f"{two}.wav")
    assert beside(f"{one}.wav") is None and beside(f"{two}.wav") == f"{two}.TextGrid"
