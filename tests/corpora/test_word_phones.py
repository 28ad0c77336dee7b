"""Tables and TextGrids of words: their phones, also of many languages, and what is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.config.load import load_config
from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus

pytest.importorskip("espeakng_loader")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    for name in "abcdefgh":
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(16000), 16000)
    return tmp_path


def table(folder: Path, name: str, *rows: str, columns: str = "id\taudio\twords") -> Path:
    path = folder / f"{name}.tsv"
    path.write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")
    return path


def read(train: Path, dev: Path | None = None, **settings: object) -> Corpus:
    return read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=train, dev=dev), **settings))


def test_words_become_phones(recordings: Path) -> None:
    train = table(recordings, "train", "1\ta.wav\tDw i eisiau", "2\tb.wav\tcael fy arian, yn ôl.")
    dev = table(recordings, "dev", "3\tc.wav\tarian yn ôl")
    corpus = read(train, dev, language="cy")
    assert corpus.splits["train"][0].phones == tuple("d uː ɨ əɪ ʃ aɨ".split())
    assert corpus.splits["dev"][0].phones == tuple("a r j a n ə n oː l".split())
    assert corpus.words is not None and [word.text for word in corpus.words["2"]] == ["cael", "fy", "arian", "yn", "ôl"]
    assert corpus.phone_set == "found" and any(
        "words: 11 in 3 utterances, read by eSpeak NG in cy" in n for n in corpus.notes
    )


def test_phones_that_training_lacks_become_the_nearest(recordings: Path) -> None:
    train = table(recordings, "train", "1\ta.wav\tიყო Windows", "2\tb.wav\tვინდა სად უნდა გზა")
    corpus = read(train, table(recordings, "dev", "3\tc.wav\tჟურნალი სადგურში"), language="ka")
    native = set("i q o v n d a s u z ɡ".split())
    assert all(set(utterance.phones) <= native for split in corpus.splits.values() for utterance in split)
    assert corpus.splits["dev"] and any("become the nearest" in note and "əʊ as o" in note for note in corpus.notes)
    assert corpus.words and all(set(each) <= native for words in corpus.words.values() for w in words for each in w[1])


def test_what_cannot_be_read_is_left_out_and_named(recordings: Path) -> None:
    words = recordings / "d.dict"
    words.write_text("cat\tK AE1 T\nsat\tS AE1 T\n")
    rows = ("1\ta.wav\tcat sat", "2\tb.wav\tcat xyz 7", "3\tc.wav\tsat")
    corpus = read(table(recordings, "t", *rows), dictionary=words)
    assert "nothing can read xyz, 7" in corpus.rejected["train"][0].reason
    assert any("7 (1), xyz (1)" in warning for warning in corpus.warnings)


def test_words_need_a_language_or_a_dictionary(recordings: Path) -> None:
    with pytest.raises(InputError, match="words and no phones; set corpus.language"):
        read(table(recordings, "t", "1\ta.wav\tcat"))
    with pytest.raises(InputError, match="no column phones or words"):
        read(table(recordings, "t", "1\ta.wav", columns="id\taudio"))


def test_transcripts_too_long_or_short_for_their_recordings(recordings: Path) -> None:
    rows = ("long\ta.wav\t" + "supercalifragilistic " * 3, "short\tb.wav\toh", "fits\tc.wav\tthe cat sat")
    corpus = read(table(recordings, "t", *rows), language="en")
    (rejected,) = corpus.rejected["train"]
    assert rejected.id == "long" and "too many for 1.00 s" in rejected.reason
    assert any("utterances with fewer than 1.5 phones a second (1): short;" in warning for warning in corpus.warnings)


def test_a_tier_of_words(recordings: Path) -> None:
    for name, label in (("a", "il cane"), ("b", "il cane cane")):
        rows = [Interval(0.0, 0.2, "<pause>"), Interval(0.2, 0.9, label)]
        (recordings / f"{name}.TextGrid").write_text(
            textgrid_text(1.0, {"words": rows, "phones": rows}), encoding="utf-8"
        )
    corpus = read_corpus(CorpusConfig(kind="textgrid", root=recordings, words_tier="words", language="it"))
    found = {utterance.id: utterance for split in corpus.splits.values() for utterance in split}
    assert found["a"].phones == tuple("i l k a n e".split()) and found["a"].times is None
    assert found["b"].phones == tuple("i l k a n e k a n e".split())
    with pytest.raises(InputError, match="words_tier is set"):
        read_corpus(CorpusConfig(kind="textgrid", root=recordings, words_tier="words"))


def by_language(folder: Path, *rows: str) -> Path:
    return table(folder, "train", *rows, columns="id\taudio\tlanguage\twords")


def read_train(train: Path, **settings: object) -> Corpus:
    return read(train, silence(train), **settings)


def silence(train: Path) -> Path:
    """Return the table of a dev split without phones: other phones would become the nearest of training."""
    return table(train.parent, "dev", "0\th.wav\t[]", columns="id\taudio\tphones")


def phones(corpus: Corpus) -> dict[str, str]:
    return {each.id: " ".join(each.phones) for each in corpus.splits["train"]}


def test_each_row_is_read_in_its_own_language(recordings: Path) -> None:
    rows = ("1\ta.wav\tcy\tarian", "2\tb.wav\tit\tcena", "3\tc.wav\tGerman\tzehn", "4\td.wav\tcmn\t今天")
    corpus = read_train(by_language(recordings, *rows))
    assert phones(corpus) == {"1": "a r j a n", "2": "tʃ e n a", "3": "ts eː n", "4": "tɕ i n tʰ iɛ n"}
    assert any("read in 4 languages: " in note and "cmn (1)" in note for note in corpus.notes)


def test_unknown_languages_are_named_and_counted_and_the_rest_goes_on(recordings: Path) -> None:
    texts = ("xxq\tarian", "it\tcena", "xxq\tarian", "\tcena", "kaa\tcena", "it\tdue")
    rows = (f"{k}\t{letter}.wav\t{text}" for k, (letter, text) in enumerate(zip("abcdef", texts, strict=True), 1))
    corpus = read_train(by_language(recordings, *rows))
    assert set(phones(corpus)) == {"2", "6"}
    reasons = {each.id: each.reason for each in corpus.rejected["train"]}
    assert "line 2: eSpeak NG does not speak the language 'xxq'" in reasons["1"]
    assert "line 5: words and no phones; set corpus.language" in reasons["4"] and "language 'kaa'" in reasons["5"]
    (warning,) = (warning for warning in corpus.warnings if "nothing reads their language" in warning)
    assert warning.endswith("xxq (2), kaa (1)")


def test_words_in_a_script_that_their_language_does_not_write(recordings: Path) -> None:
    rows = ("1\ta.wav\tpl\tслово дом", "2\tb.wav\tru\tслово", "3\tc.wav\tpl\tdom")
    corpus = read_train(by_language(recordings, *rows))
    assert set(phones(corpus)) == {"2", "3"}
    assert "its words are in a script that pl does not write" in corpus.rejected["train"][0].reason
    (warning,) = corpus.warnings
    assert warning.endswith("in a script that their language does not write: pl (1)")
    (recordings / "pl.dict").write_text("dom\td o m\n")
    corpus = read_train(
        by_language(recordings, *rows, "4\td.wav\tPolish\tслово"), dictionary={"pl": recordings / "pl.dict"}
    )
    assert set(phones(corpus)) == {"2", "3"} and phones(corpus)["3"] == "d o m"
    assert "words: 2 in 2 utterances, read in 2 languages: pl (1), ru (1)" in corpus.notes
    assert "pl: 1 words found in pl.dict, 0 read by eSpeak NG in pl" in corpus.notes


def test_codes_and_names_of_one_language_are_read_alike(recordings: Path) -> None:
    (recordings / "it.dict").write_text("cena\ts e n a\n", encoding="utf-8")
    names = ("ITA", "it", "Italian", "it", "hu", "hu-HU", "tus")
    rows = [
        f"{k}\t{letter}.wav\t{name}\tcena" for k, (letter, name) in enumerate(zip("abcdefg", names, strict=True), 1)
    ]
    dictionaries = {"Italiano": recordings / "it.dict", "tus": recordings / "it.dict"}
    corpus = read_train(by_language(recordings, *rows), dictionary=dictionaries)
    assert [each.trait("language") for each in corpus.splits["train"]] == [*names], "the user's own names"
    assert [each.phones[0] for each in corpus.splits["train"]] == ["s"] * 4 + ["ts", "ts", "s"]
    assert "read in 4 languages: " in corpus.notes[1] and "hu (1), hu-HU (1), tus (1)" in corpus.notes[1]


def grid(path: Path, **words: str) -> None:
    tiers = {tier: [Interval(0.0, 0.9, label)] for tier, label in words.items()}
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".TextGrid").write_text(textgrid_text(1.0, tiers), encoding="utf-8")
    soundfile.write(path.with_suffix(".wav"), np.zeros(16000), 16000)


def test_a_folder_or_a_tier_for_each_language(tmp_path: Path) -> None:
    grid(tmp_path / "italiano" / "a", words="cena")
    grid(tmp_path / "welsh" / "b", words="arian")
    grid(tmp_path / "other" / "c", words="arian")
    grid(tmp_path / "dev" / "d", words="arian")
    settings = {"kind": "textgrid", "root": tmp_path, "words_tier": "*words"}
    corpus = read_corpus(CorpusConfig(language={"italiano": "it", "wel*": "cy", "dev": "cy"}, **settings))
    assert phones(corpus) == {"italiano-a": "tʃ e n a", "welsh-b": "a r j a n"}
    assert {each.traits for each in corpus.splits["train"]} == {(("language", "it"),), (("language", "cy"),)}
    (rejected,) = corpus.rejected["train"]
    missed = "neither the tier 'words' nor a folder is among those of corpus.language: italiano, wel*, dev"
    assert missed in rejected.reason
    grid(tmp_path / "welsh" / "b", **{"it-words": "cena", "words": "arian"})
    languages = {"it-words": "it", "welsh": "cy", "other": "cy", "dev": "cy", "italiano": "it"}
    corpus = read_corpus(CorpusConfig(language=languages, **settings))
    assert phones(corpus)["welsh-b-it"] == "tʃ e n a" and phones(corpus)["welsh-b-words"] == "a r j a n"


def test_diphthongs_and_affricates_are_divided_in_labels_and_words(recordings: Path) -> None:
    rows = ("1\ta.wav\tde\tZeit", "2\tb.wav\tit\tcena")
    path = by_language(recordings, *rows)
    corpus = read_train(path, diphthongs="split", affricates="split")
    assert phones(corpus) == {"1": "t s a ɪ t", "2": "t ʃ e n a"}
    assert corpus.words is not None and corpus.words["1"][0].pronunciations == (tuple("tsaɪt"),)
    assert phones(read_train(path, diphthongs="split"))["1"] == "ts a ɪ t"
    assert phones(read_train(path, affricates="split"))["1"] == "t s aɪ t"


def test_the_config_of_the_universal_set(recordings: Path) -> None:
    rows = ("1\ta.wav\ten\tchained boy", "2\tb.wav\tzh-CN\t吃 中", "3\tc.wav\tet\tpadi kassi aas")
    train = by_language(recordings, *rows)
    corpus = read_corpus(load_config("ipa", [f"corpus.tables={{train: {train}, dev: {silence(train)}}}"]).corpus)
    assert phones(corpus) == {"1": "tʃ e ɪ n d b ɔ ɪ", "2": "ʈʂ ɨ ʈʂ o ŋ", "3": "p a d ɪ k a s s i a a s"}


def test_words_that_end_espeak_or_are_too_many_to_read_are_left_out_and_named(recordings: Path) -> None:
    breaks = "'s" * 80  # a buffer of eSpeak NG overflows
    rows = (f"1\ta.wav\t{breaks}", "2\tb.wav\t" + "<break/>" * 4000, "3\tc.wav\tthe cat sat")
    corpus = read(table(recordings, "t", *rows), language="en")
    reasons = {each.id: each.reason for each in corpus.rejected["train"]}
    assert "eSpeak NG failed at" in reasons["1"] and "32,000 characters, too many for 1.00 s" in reasons["2"]
    assert [utterance.id for split in corpus.splits.values() for utterance in split] == ["3"]


@pytest.mark.parametrize(
    "marked",
    [
        "[noise] Dw i eisiau (0.5)",
        "INT: Dw i xxx eisiau",
        "sp Dw {BR} i (yn chwerthin) eisiau <unk>",
        "Dw i eisiau ((aneglur))",
    ],
)
def test_what_is_no_speech_is_not_learned(recordings: Path, marked: str) -> None:
    train = table(recordings, "train", "1\ta.wav\tDw i eisiau", f"2\tb.wav\t{marked}", "3\tc.wav\t[sŵn]")
    corpus = read(train, language="cy", ignore=("(yn chwerthin)",))
    plain, other = sorted((each for each in corpus.utterances()), key=lambda each: each.id)
    assert plain.phones == other.phones == tuple("d uː ɨ əɪ ʃ aɨ".split())
    (note,) = [note for note in corpus.notes if note.startswith("no words: ")]
    assert "[sŵn] (1)" in note and corpus.rejected["train"][0].reason.count("no words in it") == 1
    absent = [warning for warning in corpus.warnings if "corpus.ignore" in warning]
    assert bool(absent) == ("chwerthin" not in marked)


def test_tiers_of_words_have_pauses_and_noise(tmp_path: Path) -> None:
    labels = ["sp", "Dw i", "[sŵn]", "eisiau {NS}", "<eps>", "uhm"]
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    tier = {"words": [Interval(k / 10, k / 10 + 0.1, label) for k, label in enumerate(labels)]}
    (tmp_path / "a.TextGrid").write_text(textgrid_text(1.0, tier), encoding="utf-8")
    corpus = read_corpus(
        CorpusConfig(kind="textgrid", root=tmp_path, words_tier="words", language="cy", ignore=("uhm",))
    )
    (utterance,) = corpus.utterances()
    assert utterance.phones == tuple("d uː ɨ əɪ ʃ aɨ".split()) and utterance.words == ("Dw", "i", "eisiau")
    (note,) = [note for note in corpus.notes if note.startswith("no words: ")]
    assert all(f"{label} (1)" in note for label in ("sp", "[sŵn]", "{NS}", "<eps>")) and not corpus.warnings


def test_a_word_that_may_be_none_counts_once(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 16000)
    (tmp_path / "a.TextGrid").write_text(textgrid_text(0.5, {"words": [Interval(0.1, 0.4, "pause")]}))
    corpus = read_corpus(CorpusConfig(kind="textgrid", root=tmp_path, words_tier="words", language="en-us"))
    assert [note for note in corpus.notes if "may be none" in note] == [
        "read as words, though they stand alone or begin a line, and may be none: pause (1)"
    ]


def test_phones_in_single_letters_that_are_read_by_their_names_are_named(tmp_path: Path) -> None:
    """Kaldi's folder of a corpus of phones was read as the names of letters, in silence."""
    said = []
    for text in ("m a s i s t e d o n t", "m ʃ s ɪ s t ə d ɔ n t", "a man saw a boat and I saw it a day later"):
        soundfile.write(tmp_path / "a.wav", np.zeros(80000), 16000)
        (tmp_path / "train.tsv").write_text(f"id\taudio\twords\n1\ta.wav\t{text}\n", encoding="utf-8")
        tables = TablesConfig(train=tmp_path / "train.tsv")
        corpus = read_corpus(CorpusConfig(kind="table", tables=tables, language="en-us"))
        said.append([each for each in corpus.warnings if "single letters" in each])
    assert "by their names: s (2), t (2), a (1), d (1), e (1) and 4 more; if they are phones" in said[0][0]
    assert not said[1] and not said[2]
