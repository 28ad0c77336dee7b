"""Files of the same name: the spelling counts, and no two recordings share a file of labels without a word."""

from pathlib import Path

import pytest

from speechctc.audio.recordings import ENDINGS, Siblings

GRID = [".textgrid"]


def touch(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()


def beside(name: str, *endings: str) -> str | None:
    found = Siblings().find(Path(name), endings or GRID)
    return None if found is None else str(found)


def test_each_of_two_names_that_differ_by_case_has_its_own(here: Path) -> None:
    touch("s.wav", "S.wav", "s.TextGrid", "S.TextGrid")
    assert (beside("s.wav"), beside("S.wav")) == ("s.TextGrid", "S.TextGrid")


@pytest.mark.parametrize("label", ["s.TextGrid", "S.TextGrid"])
def test_what_belongs_to_another_is_not_taken(here: Path, label: str) -> None:
    touch("s.wav", "S.wav", label)
    wav, other = ("s.wav", "S.wav") if label[0] == "s" else ("S.wav", "s.wav")
    assert beside(wav) == label and beside(other) is None
    Path(label).rename("ſ.TextGrid")  # no other spelling
    assert beside(wav) is None


def test_of_two_that_both_differ_none_is_taken(here: Path) -> None:
    touch("ab.wav", "AB.flac", "Ab.TextGrid")
    assert beside("ab.wav") is None and beside("AB.flac") is None


def test_of_two_names_in_other_case_none_is_taken(here: Path) -> None:
    touch("ANNA.ogg", "anna.txt", "Anna.lab", "b.mp3", "B.mp3.TextGrid", "B.TextGrid")
    assert beside("ANNA.ogg", ".lab", ".txt") is None
    assert beside("b.mp3") == "B.mp3.TextGrid"  # one name, of which the first is preferred
    touch("ANNA.txt")
    assert beside("ANNA.ogg", ".lab", ".txt") == "ANNA.txt"


def test_a_name_in_other_case_is_taken_where_it_alone_can_be_meant(here: Path) -> None:
    touch("SA1.WAV", "sa1.phn", "sa1.mp3.txt")
    found = Siblings().find(Path("SA1.WAV"), [".phn"])
    assert found == Path("sa1.phn")
    assert Siblings().find(Path("sa1.phn"), ENDINGS) == Path("SA1.WAV")
    touch("SA1.phn")
    assert beside("SA1.WAV", ".phn") == "SA1.phn"


def test_an_exact_name_comes_before_an_ending_that_is_preferred(here: Path) -> None:
    touch("a.wav", "A.phn", "a.lab")
    assert beside("a.wav", ".phn", ".lab") == "a.lab"


def test_among_recordings_that_are_named(here: Path) -> None:
    touch("labels/s.lab")
    at = Path("labels/S.wav")
    assert Siblings().find(at, [".lab"], {"S"}) == Path("labels/s.lab")
    assert Siblings().find(at, [".lab"], {"S", "s"}) is None


def test_a_folder_that_is_not_there(here: Path) -> None:
    assert beside("nowhere/a.wav") is None


def test_a_name_in_another_unicode_form_is_taken_where_it_alone_can_be_meant(here: Path) -> None:
    one, two = "caf\u00e9", "cafe\u0301"
    touch(f"{one}.wav", f"{two}.TextGrid")
    found = Siblings().find(Path(f"{one}.wav"), GRID)
    assert found == Path(f"{two}.TextGrid")
    assert Siblings().find(found, ENDINGS) == Path(f"{one}.wav")
    touch(f"{two}.wav")
    assert beside(f"{one}.wav") is None and beside(f"{two}.wav") == f"{two}.TextGrid"
