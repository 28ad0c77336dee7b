"""The dictionaries of a corpus's words, which extraction writes for the user to correct."""

from __future__ import annotations

from pathlib import Path

from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.phones.inventory import Word
from speechctc.stages.extract import write_pronunciations


def corpus(*rows: tuple[str, str, str]) -> Corpus:
    """Return a corpus of rows with one word each: a language, the word and its phones."""
    utterances = tuple(
        Utterance(f"u{k}", Path(f"{k}.wav"), tuple(phones.split()), traits=(("language", language),))
        for k, (language, _, phones) in enumerate(rows)
    )
    words: dict[str, tuple[Word, ...]] = {
        f"u{k}": (Word(word, (tuple(phones.split()),)),) for k, (_, word, phones) in enumerate(rows)
    }
    return Corpus({"train": utterances, "dev": (), "test": ()}, "found", words=words)


MIXED = corpus(("de", "come", "k oː m ə"), ("it", "come", "k o m e"), ("de", "in", "ɪ n"))


def test_each_language_has_its_own(tmp_path: Path) -> None:
    said = write_pronunciations(tmp_path, MIXED, by_language=True)
    assert (tmp_path / "pronunciations-de.dict").read_text(encoding="utf-8") == "come\tk oː m ə\nin\tɪ n\n"
    assert (tmp_path / "pronunciations-it.dict").read_text(encoding="utf-8") == "come\tk o m e\n"
    assert not (tmp_path / "pronunciations.dict").exists() and "pronunciations-it.dict" in said


def test_what_a_person_corrected_is_kept(tmp_path: Path) -> None:
    one = corpus(("cy", "mae", "m aɪ"))
    write_pronunciations(tmp_path, one, by_language=True)
    path = tmp_path / "pronunciations.dict"
    path.write_text("mae\tm ɛ\n", encoding="utf-8")
    assert "kept as changed by hand" in write_pronunciations(tmp_path, one, by_language=True)
    assert path.read_text(encoding="utf-8") == "mae\tm ɛ\n"
    path.unlink()
    assert "by hand" not in write_pronunciations(tmp_path, one, by_language=True)
    assert path.read_text(encoding="utf-8") == "mae\tm aɪ\n"


def test_a_language_is_never_a_path(tmp_path: Path) -> None:
    write_pronunciations(tmp_path / "f", corpus(("../x", "a", "a"), ("de/AT", "a", "a"), ("粵語", "a", "a")), True)
    assert {path.name for path in tmp_path.rglob("*.dict")} == {
        "pronunciations-..%2Fx.dict",
        "pronunciations-de%2FAT.dict",
        "pronunciations-粵語.dict",
    }
