"""Tables and TextGrids of words: their phones, and what is reported."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus


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


def test_only_phones_of_foreign_words_become_the_nearest_of_their_language(recordings: Path) -> None:
    columns = "id\taudio\twords\tlanguage"
    train = table(recordings, "train", "1\ta.wav\tNem\thu", "2\tb.wav\tlegyen kilátás\thu", columns=columns)
    few = table(recordings, "few", "1\ta.wav\tNem\thu", "2\tb.wav\tli ga ka tas ne\teo", columns=columns)
    dev = table(recordings, "dev", "3\tc.wav\tlegyen\thu", columns=columns)
    much, little = (read(each, dev).splits["dev"][0].phones for each in (train, few))
    assert much == ("l", "ɛ", "ɟ", "ɛ", "n") and little[0] == "l" and little[-1] == "n"


def test_text_in_a_script_that_its_language_does_not_write_is_left_out(recordings: Path) -> None:
    rows = ("1\ta.wav\tLegyen\tta", "2\tb.wav\tகண்டேன்\thu", "3\tc.wav\tகண்டேன் OK\tta", "4\ta.wav\tzdravo\tsr")
    corpus = read(table(recordings, "t", *rows, columns="id\taudio\twords\tlanguage"))
    assert {utterance.id for utterance in corpus.splits["train"]} | {
        utterance.id for utterance in corpus.splits.get("dev", ())
    } == {"3", "4"}
    assert ["script that" in each.reason for each in corpus.rejected["train"]] == [True, True]


def test_a_row_of_phones_among_rows_of_words(recordings: Path) -> None:
    rows = ("1\ta.wav\tcar\t", "2\tb.wav\tcar\tk aa", "3\tc.wav\t\t[]", "4\td.wav\t\t")
    corpus = read(table(recordings, "t", *rows, columns="id\taudio\twords\tphones"), language="en-gb", phones="cmu39")
    found = {utterance.id: utterance.phones for split in corpus.splits.values() for utterance in split}
    assert found == {"1": ("k", "aa"), "2": ("k", "aa"), "3": ()}
    assert "no phones" in corpus.rejected["train"][0].reason


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
