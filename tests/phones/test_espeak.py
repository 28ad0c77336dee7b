"""The phones of a language, as eSpeak NG reads its letters."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from speechctc.core.errors import InputError
from speechctc.phones.espeak import Reader, Synthesiser, phones_of_language

pytest.importorskip("espeakng_loader")

LANGUAGES = Path(__file__).resolve().parents[3] / "shared" / "data" / "languages"


# Phones that grammars name, beside some that the language does not have.
@pytest.mark.parametrize(
    ("language", "some", "others"),
    [
        ("pl", "ɕ ʑ tɕ dʑ ɲ ʃ x w ɛ ɔ ɨ", "θ ð y ø h q ŋ̊"),
        ("Georgian", "q x ɣ ts dʒ z", "θ y ø ɲ ɕ"),
        ("el", "θ ð x ɣ ç ɲ ts", "ʃ y ø q ɕ"),
        ("hi", "ʈ ɖ ʈʰ bʰ ŋ cʰ ɟʰ ɭ", "θ ø ʁ"),
        ("cmn", "ʈʂʰ ɕ tɕʰ y ŋ", "ɡ b θ ʁ"),
        ("ko", "k͈ t͈ ɯ ʌ ŋ", "θ ʃ v z"),
        ("nb", "œ øː yː ʂ", "θ ɲ w̥"),
    ],
)
def test_phones_that_a_language_has(language: str, some: str, others: str) -> None:
    found = set(phones_of_language(language))
    assert set(some.split()) <= found
    assert not set(others.split()) & found
    assert len(found) < 90


def test_a_language_that_espeak_does_not_speak(capfd: pytest.CaptureFixture[str]) -> None:
    for language in ("tusom", "nds", "Low German", "fo"):
        with pytest.raises(
            InputError, match=f"does not speak the language '{language}'; choose a related one, or name its phones"
        ):
            phones_of_language(language)
    assert capfd.readouterr().err == ""  # nor does the library say it


@pytest.mark.skipif(not LANGUAGES.is_dir(), reason="no transcripts here")
@pytest.mark.parametrize("language", ["ru", "ta", "ga", "tr"])
def test_transcripts_are_read_in_these_phones(language: str) -> None:
    reader, found = Reader(language), set(phones_of_language(language))
    with (LANGUAGES / language / "train" / "utterances.tsv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    counts = Counter(phone for row in rows for word in reader.read(row["words"]) for phone in word.phones)
    assert sum(counts[phone] for phone in found) > 0.97 * counts.total() > 500


def test_no_phoneme_is_lost_where_many_voices_are_chosen_before() -> None:
    synthesiser = Synthesiser()
    for k in range(60):
        synthesiser.choose(("m3", "f3")[k % 2], 160, 50)
    assert [phoneme.name for phoneme in synthesiser.speak("shoe").phonemes][:2] == ["S", "u:"]


def test_two_synthesisers_take_turns() -> None:
    ipa, own = Synthesiser(ipa=True), Synthesiser()
    ipa.choose("", 175, 50, "roa/it")
    own.choose("m3", 175, 50)
    for _ in range(2):
        assert [phoneme.name for phoneme in ipa.speak("che").phonemes][:2] == ["k", "e"]
        assert [phoneme.name for phoneme in own.speak("shoe").phonemes][:2] == ["S", "u:"]
        assert own.speak("shoe", keep=False).samples.size == 0 < own.speak("shoe").samples.size
