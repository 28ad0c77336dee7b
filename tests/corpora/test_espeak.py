"""The corpus that eSpeak NG speaks: what its labels say must be heard at the times they say."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import read_textgrid
from speechctc.config.schema import CorpusConfig, EspeakConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import read_sentences
from speechctc.phones.pronouncer import Pronouncer, cmu_sources

TEXT = """Il cane corre nella strada. La signora Rossi compra il pesce al mercato!
Domani andremo tutti insieme al mare con la macchina di mio zio
Non so dove sono le chiavi. Questa casa ha sette stanze e un giardino.
Il bambino dorme. Che cosa vuoi fare stasera? La lezione comincia alle otto.
Sono le tre e mezza. Mia sorella studia la musica; suona il violino.
Il treno arriva. Hai visto il film? Ho perso il portafoglio. Piove ancora."""


def config(folder: Path, language: str | tuple[str, ...] = "it", **settings: object) -> CorpusConfig:
    text = folder / "text.txt"
    if not text.exists():
        text.write_text(TEXT, encoding="utf-8")
    espeak = EspeakConfig(text=text, utterances=40, held_out=0.1, words=(2, 9))
    return CorpusConfig(kind="espeak", root=folder / "corpus", language=language, espeak=espeak, **settings)


def sentence(audio: Path) -> str:
    [interval] = read_textgrid(audio.with_suffix(".TextGrid"), "sentence")
    return interval.label


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("espeak")
    read_corpus(config(folder))
    return folder


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return read_corpus(config(folder))


def test_voices_and_sentences_of_dev_and_test_are_not_in_training(folder: Path, corpus: Corpus) -> None:
    made = {split: len(corpus.splits[split]) + len(corpus.rejected[split]) for split in SPLITS}
    assert made == {"train": 32, "dev": 4, "test": 4} and len(corpus.splits["train"]) == 32
    voices = {split: {each.speaker.rpartition("-")[0] for each in corpus.splits[split]} for split in SPLITS}
    assert not voices["train"] & voices["dev"] and not voices["train"] & voices["test"]
    spoken = {split: {*map(sentence, (folder / "corpus" / split).rglob("*.wav"))} for split in SPLITS}
    assert spoken["dev"] and not spoken["train"] & spoken["dev"] and not spoken["train"] & spoken["test"]
    assert spoken["dev"] < set(read_sentences(folder / "text.txt", (2, 9)))


def test_labels_are_those_of_the_words(folder: Path, corpus: Corpus) -> None:
    pronouncer = Pronouncer(None, "it")
    for utterance in corpus.splits["train"]:
        words = pronouncer.read(sentence(utterance.audio))
        assert list(utterance.phones) == [phone for word in words for phone in word.pronunciations[0]]


def test_phones_are_heard_where_their_times_say(corpus: Corpus) -> None:
    """The share of energy above 3 kHz tells s from a."""
    shares: dict[str, list[float]] = {"s": [], "a": []}
    for utterance in corpus.splits["train"]:
        samples, rate = soundfile.read(utterance.audio)
        assert utterance.times is not None and len(utterance.times) == len(utterance.phones) and rate == 16000
        assert 0 < utterance.times[0][0] and utterance.times[-1][1] < len(samples) / rate
        starts = [start for start, _ in utterance.times]
        assert starts == sorted(starts)
        for phone, (start, end) in zip(utterance.phones, utterance.times, strict=True):
            if phone in shares and end - start > 0.03:
                power = np.abs(np.fft.rfft(samples[int(start * rate) : int(end * rate)])) ** 2
                shares[phone].append(power[int(len(power) * 3 / 8) :].sum() / power.sum())
    assert len(shares["s"]) > 20 and len(shares["a"]) > 50
    assert np.quantile(shares["s"], 0.1) > 0.5 > 0.2 > np.quantile(shares["a"], 0.9)


def test_english_is_labelled_in_the_cmu_set(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(f"My fear is that number {k} has a better hope" for k in range(20)))
    named = {each.id: each for each in read_corpus(config(tmp_path, "en-gb", phones="cmu39")).splits["train"]}
    (tmp_path / "corpus").rename(tmp_path / "named")
    ipa = read_corpus(config(tmp_path, "en-gb")).splits["train"]
    assert len(ipa) == len(named) == 32 and any("iə" in each.phones for each in ipa)
    for utterance in ipa:
        sources = cmu_sources(utterance.phones)
        same = named[utterance.id]
        assert same.phones == tuple(label for label, _ in sources) and same.times is not None
        for (start, end), (_, k) in zip(same.times, sources, strict=True):
            assert utterance.times is not None and utterance.times[k][0] <= start < end <= utterance.times[k][1]
        used = [utterance.times[k] for k in {k for _, k in sources} if utterance.times]
        assert sum(end - start for start, end in same.times) == pytest.approx(sum(end - start for start, end in used))
    with pytest.raises(InputError, match="made with phones=None instead of cmu39"):
        read_corpus(config(tmp_path, "en-gb", phones="cmu39"))


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    made = config(folder)
    with pytest.raises(InputError, match=r"made with language=\['it'\] instead of \['cy'\]"):
        read_corpus(made.model_copy(update={"language": "cy"}))
    for settings, message in (
        ({"language": None}, "corpus.language names no language"),
        ({"espeak": EspeakConfig()}, "corpus.espeak.text is not set"),
        ({"espeak": EspeakConfig(text=tmp_path / "no.txt")}, "no.txt: no such file"),
        ({"espeak": EspeakConfig(text=folder / "text.txt", words=(30, 40))}, "0 different sentences of 30 to 40"),
        ({"language": "qq"}, "does not speak the language 'qq'"),
    ):
        with pytest.raises(InputError, match=message):
            read_corpus(made.model_copy(update={"root": tmp_path / "new", **settings}))
    assert not (tmp_path / "new").exists()
