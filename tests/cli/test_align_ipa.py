"""Labels in IPA and X-SAMPA with models of ARPABET, and words in IPA without a language."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speechctc.audio.recordings import find_recordings
from speechctc.core.errors import InputError
from speechctc.corpora.transcripts import Labels, Task, Transcript
from speechctc.phones.inventory import CMU39, Word
from speechctc.phones.notations import are_other_ipa
from speechctc.phones.pronouncer import Pronouncer, are_texts_in_ipa
from speechctc.stages.align import in_ipa
from tests.command import Command, one_line_error
from tests.tiny_model import write_song


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder without a run, where a recording is."""
    monkeypatch.chdir(tmp_path)
    write_song(tmp_path / "a.wav", ["low", "mid", "high", "top"])
    return tmp_path


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("ʃ i p", True),
        ("b a x iː l", True),
        ("p t a", True),
        ("g ɛ t", True),
        ("ε k", True),
        ("S i @ t", True),  # X-SAMPA
        ("sh iy hh ae d", False),
        ("SH IY1 HH AE0", False),
        ("s t p", False),
        ("sh iy zz", False),  # misspelt
        ("aa bcl b h#", False),
        ("low mid high", False),
        ("hello world", False),
        ("", False),
    ],
)
def test_labels_in_ipa_are_told_from_arpabet(labels: str, expected: bool) -> None:
    assert are_other_ipa(labels.split(), CMU39) is expected
    assert not are_other_ipa(labels.split(), ["a", "ʃ", "p"])  # of a model in IPA


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ʃip", True), ("baxiːl, ʃip kata.", True), ("/kata/ /pina/", True), ("kata", False), ("the cat", False),
     ("the /kata/", False), ("мама ela", False), ("...", False)],
)  # fmt: skip
def test_words_in_ipa_are_told_from_spelling(text: str, expected: bool) -> None:
    assert are_texts_in_ipa([text]) is expected


def test_signs_and_noise_among_phones_are_no_labels(alone: Path) -> None:
    (recording,) = find_recordings([alone / "a.wav"])

    def told(text: str, labels: Labels) -> bool:
        return in_ipa([Task(recording, Transcript(tuple(text.split())))], labels)

    assert told("* (ʃ|s) (i|) sil", "phones") and not told("* (sh|s) (iy|) <noise> sil", "phones")
    assert told("ʃip", "words") and not told("ship", "words")
    assert not in_ipa([Task(recording, InputError("none", "give one"))], "phones")


def test_without_a_language_only_ipa_is_read() -> None:
    reader = Pronouncer(None, None, only_ipa=True)
    assert reader.read("ʃip, ship") == [Word("ʃip", (("ʃ", "i", "p"),)), Word("ship", ())]
    with pytest.raises(InputError, match="words need a dictionary or a language"):
        Pronouncer(None, None)


def test_phones_in_ipa_take_the_model_of_ipa_where_none_is_named(speechctc: Command, alone: Path) -> None:
    done = speechctc("align", "a.wav", "--phones", "ʃ a iː l", "--format", "json")
    assert done.status == 0, done.err
    assert "labels are IPA: --model ipa" in done.err and "using the bundled model ipa" in done.err
    assert [each["phone"] for each in json.loads(done.out)[0]["segments"]] == ["ʃ", "a", "iː", "l"]
    refused = speechctc("align", "a.wav", "--phones", "ʃ a iː l", "--model", "english")
    assert refused.status == 2 and "labels are IPA: the model ipa" in refused.err
    own = speechctc("align", "a.wav", "--phones", "sh aa iy l")
    assert own.status == 0 and "bundled model english" in own.err and "IPA:" not in own.err


def test_words_in_ipa_need_no_language(speechctc: Command, alone: Path) -> None:
    (alone / "w.txt").write_text("ʃiːp /kata/", encoding="utf-8")
    for model in ([], ["--model", "english"]):
        done = speechctc("align", "a.wav", "--words", "w.txt", "--format", "json", *model)
        assert done.status in (0, 3), done.err
        (entry,) = json.loads(done.out)
        assert [each["word"] for each in entry["words"]] == ["ʃiːp", "/kata/"]
        assert [each["phone"] for each in entry["segments"]] == ["ʃ", "iː", "p", "k", "a", "t", "a"]
        assert ("--model ipa" in done.err) is (model == [])
    (alone / "w.txt").write_text("kata", encoding="utf-8")
    assert "IPA needs none, between slashes" in one_line_error(speechctc("align", "a.wav", "--words", "w.txt"))
