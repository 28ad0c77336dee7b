"""The demo corpus is checked by measurement: what its labels say must be heard at the times they say."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.annotations import read_textgrid
from speechctc.config.schema import CorpusConfig, DemoConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.synthetic import Phone, bundled_sentences, label
from speechctc.phones.espeak import Phoneme, Speech, Synthesiser
from speechctc.phones.inventory import TIMIT39, TIMIT61, TIMIT_TO_39

SMALL = DemoConfig(voices=9, sentences=40, held_out=0.2, utterances_per_voice=5, evaluation_utterances_per_voice=4)
TINY = DemoConfig(voices=3, sentences=3, utterances_per_voice=1, evaluation_utterances_per_voice=1)


def read_demo(root: Path, config: DemoConfig, **settings: str) -> Corpus:
    return read_corpus(CorpusConfig(kind="demo", root=root, demo=config, **settings))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "corpus"


@pytest.fixture(scope="module")
def corpus(root: Path) -> Corpus:
    return read_demo(root, SMALL)


@pytest.fixture(scope="module")
def synthesiser() -> Synthesiser:
    return Synthesiser()


def everything(corpus: Corpus) -> list[Utterance]:
    return [utterance for split in SPLITS for utterance in corpus.splits[split]]


# --- on disk ---


def test_it_is_a_folder_of_textgrids(root: Path, corpus: Corpus) -> None:
    assert {path.name for path in root.iterdir()} == {"train", "dev", "test", "demo.json"}
    assert {split: len(corpus.splits[split]) for split in SPLITS} == {"train": 25, "dev": 8, "test": 8}
    for utterance in everything(corpus):
        about = soundfile.info(utterance.audio)
        assert (about.samplerate, about.channels, about.format, about.subtype) == (16000, 1, "WAV", "PCM_16")
        phones = read_textgrid(utterance.audio.with_suffix(".TextGrid"), "phones")
        starts, ends = [each.start for each in phones], [each.end for each in phones]
        assert starts == [0, *ends[:-1]] and ends[-1] == about.duration, "the labels cover the recording"
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        assert set(utterance.phones) <= set(TIMIT61) and utterance.phones[0] == utterance.phones[-1] == "h#"
        [sentence] = read_textgrid(utterance.audio.with_suffix(".TextGrid"), "sentence")
        assert sentence.label in bundled_sentences() and (sentence.start, sentence.end) == (0, about.duration)


def test_voices_and_sentences_of_dev_and_test_are_not_trained_on(corpus: Corpus) -> None:
    for part in (1, 2):  # of train-fabc0-sx7: the voice, the sentence
        train, dev, test = ({entry.id.split("-")[part] for entry in corpus.splits[split]} for split in SPLITS)
        assert train and dev and test
        assert not train & dev and not train & test and not dev & test


def test_labels_are_folded_to_a_smaller_set(root: Path, corpus: Corpus) -> None:
    for whole, folded in zip(everything(corpus), everything(read_demo(root, SMALL, phones="timit39")), strict=True):
        assert whole.times is not None and folded.times is not None and set(folded.phones) <= set(TIMIT39)
        times = dict(zip(whole.times, whole.phones, strict=True))
        labels = [TIMIT_TO_39.get(times[time], times[time]) for time in folded.times]
        assert labels == list(folded.phones) and "q" not in labels
    with pytest.raises(InputError, match="corpus.phones=cmu39: TIMIT's labels cannot be folded to that set"):
        read_demo(root, SMALL, phones="cmu39")


def test_another_config_does_not_overwrite_it(root: Path, corpus: Corpus) -> None:
    with pytest.raises(InputError, match="voices=9 instead of 10, seed=0 instead of 3"):
        read_demo(root, SMALL.model_copy(update={"voices": 10, "seed": 3}))


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(InputError, match="not a demo corpus, but other files"):
        read_demo(tmp_path, TINY)
    with pytest.raises(InputError, match="not a demo corpus"):
        read_demo(tmp_path / "thesis.txt", TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_it_is_whole_or_not_there_and_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_json", fail)
        with pytest.raises(OSError, match="disk full"):
            read_demo(tmp_path / "corpus", TINY)
    assert list(tmp_path.iterdir()) == []
    read_demo(tmp_path / "corpus", TINY)
    read_demo(tmp_path / "again", TINY)
    one, two = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "corpus", tmp_path / "again")
    )
    assert one == two and len(one) == 7, "bit for bit: three recordings with TextGrids, and demo.json"


def test_a_lost_file_is_noticed(tmp_path: Path) -> None:
    read_demo(tmp_path / "corpus", TINY)
    next((tmp_path / "corpus/dev").rglob("*.TextGrid")).unlink()
    with pytest.raises(InputError, match=r"2 files .TextGrid of the 3"):
        read_demo(tmp_path / "corpus", TINY)
    (tmp_path / "corpus/demo.json").write_text("{}")
    with pytest.raises(InputError, match="not a demo corpus, but other files"):
        read_demo(tmp_path / "corpus", TINY)


# --- what is heard ---


def stretches(corpus: Corpus, *phones: str) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield each stretch labelled as one of the phones, with the label before it."""
    for utterance in everything(corpus):
        samples, _ = sound_file.read(utterance.audio, 16000)
        assert utterance.times is not None
        for k, (phone, (start, end)) in enumerate(zip(utterance.phones, utterance.times, strict=True)):
            if phone in phones:
                yield utterance.phones[k - 1], samples[round(start * 16000) : round(end * 16000)]


def power(samples: NDArray[np.float32]) -> float:
    return float(np.mean(samples.astype(np.float64) ** 2))


def share_above(samples: NDArray[np.float32], hertz: float) -> float:
    spectrum = np.abs(np.fft.rfft(samples)) ** 2
    return float(spectrum[np.fft.rfftfreq(len(samples), 1 / 16000) > hertz].sum() / spectrum.sum())


def periodicity(samples: NDArray[np.float32]) -> float:
    """Return the highest autocorrelation at a lag of a voice's period, 2.5 to 16 ms, as a share of that at 0."""
    centred = samples - samples.mean()
    correlation = np.correlate(centred, centred, "full")[len(centred) - 1 :]
    return float(correlation[40:256].max() / correlation[0])


def test_where_s_is_labelled_it_hisses_and_where_vowels_are_it_does_not(corpus: Corpus) -> None:
    hiss = [share_above(samples, 3500) for _, samples in stretches(corpus, "s")]
    vowels = [share_above(samples, 3500) for _, samples in stretches(corpus, "iy", "aa", "ae", "ow", "uw", "er")]
    assert len(hiss) > 15 and min(hiss) > 0.6
    assert len(vowels) > 50 and np.quantile(vowels, 0.9) < 0.2


def test_vowels_are_voiced_and_voiceless_sounds_are_not(corpus: Corpus) -> None:
    vowels = [periodicity(x) for _, x in stretches(corpus, "iy", "aa", "ae", "ow", "ey", "er") if len(x) > 1200]
    voiceless = [periodicity(x) for _, x in stretches(corpus, "s", "sh", "f", "th") if len(x) > 700]
    assert len(vowels) > 50 and np.median(vowels) > 0.6
    assert len(voiceless) > 30 and np.quantile(voiceless, 0.9) < 0.35


def test_closures_pauses_and_edges_are_silent_and_releases_are_not(corpus: Corpus) -> None:
    floor = 10 ** (SMALL.noise_db / 10)
    closures = [x[16:-16] for _, x in stretches(corpus, "pcl", "tcl", "kcl", "bcl", "dcl", "gcl", "pau", "h#")]
    releases = [x for before, x in stretches(corpus, "p", "t", "k", "b", "d", "g") if before.endswith("cl")]
    assert len(closures) > 200 and max(power(x) for x in closures) < 100 * floor
    assert np.quantile([power(x) for x in closures], 0.9) < 2 * floor
    assert len(releases) > 80 and np.quantile([power(x) for x in releases], 0.05) > 10 * floor


# --- sentences, voices, labels ---


def test_every_sentence_has_its_phones_whoever_speaks_it(synthesiser: Synthesiser) -> None:
    """All sentences, and the same labels of some in voices of other kinds, faster and slower."""
    by_voice: list[list[list[str]]] = []
    for variant, words_per_minute, pitch in (("m3", 140, 50), ("klatt3", 190, 35), ("Andrea", 165, 65)):
        synthesiser.choose(variant, words_per_minute, pitch)
        speech = [synthesiser.speak(text) for text in bundled_sentences()[:: 6 if by_voice else 1]]
        by_voice.append([[p.label for p in label(said, synthesiser.rate, words_per_minute)] for said in speech])
    assert by_voice[0][::6] == by_voice[1] == by_voice[2]
    counts = Counter(phone for labels in by_voice[0] for phone in labels)
    # what an American synthesiser does not say: other allophones, and the labels of unclear stretches
    assert set(TIMIT61) - set(counts) == {"ax-h", "em", "eng", "epi", "hv", "nx", "ux"}
    rare = {phone for phone, count in counts.items() if count < 25}
    assert rare == {"en", "q"}
    assert all(counts[phone] >= 50 for phone in ("zh", "oy", "uh", "th", "dh"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sat.", "h# dh ax kcl k ae tcl t s ae tcl t h#"),
        ("My car and the bear.", "h# m ay kcl k aa r pau ae n d dh ax b eh r h#"),
        ("A measure of joy.", "h# ax m eh zh axr r ah v dcl jh oy h#"),
        ("Tall, cold milk.", "h# t ao l pau k ow l dcl d m ih l kcl k h#"),
        ("City water.", "h# s ih dx iy w ao dx axr h#"),
        ("A button.", "h# ax b ah q en h#"),
        ("Choose three judges.", "h# ch uw z th r iy jh ah jh ix z h#"),
    ],
)
def test_known_words_have_their_phones(synthesiser: Synthesiser, text: str, expected: str) -> None:
    synthesiser.choose("m3", 160, 50)
    said = synthesiser.speak(text)
    labels = " ".join(phone.label for phone in label(said, synthesiser.rate, 160))
    assert labels == expected


def speech(*phonemes: tuple[int, str], silent: tuple[int, int] = (0, 0)) -> Speech:
    samples = np.full(10000, 1000, np.int16)
    samples[slice(*silent)] = 0
    return Speech(samples, tuple(Phoneme(*entry) for entry in phonemes))


def test_rules_where_the_synthesiser_gives_one_event_for_two_phones() -> None:
    coloured = label(speech((1000, "A@"), (3000, "_:")), 22050, 175)
    assert coloured == [Phone(0, "h#"), Phone(1000, "aa"), Phone(2000, "r"), Phone(3000, "h#")]
    linked = label(speech((1000, "A@"), (3000, "r-"), (3500, "I"), (4000, "_:")), 22050, 175)
    assert [phone.label for phone in linked] == ["h#", "aa", "r", "ih", "h#"]
    dark = label(speech((1000, "O:"), (3000, "l"), (3400, "_:"), silent=(3000, 3400)), 22050, 175)
    assert dark == [Phone(0, "h#"), Phone(1000, "ao"), Phone(2000, "l"), Phone(3400, "h#")]
    clear = label(speech((1000, "O:"), (3000, "l"), (3400, "i:"), (4000, "_:")), 22050, 175)
    assert clear[2] == Phone(3000, "l")


@pytest.mark.parametrize(("milliseconds", "closure"), [(40, True), (16, True), (9, False), (0, False)])
def test_a_closure_is_labelled_where_it_is_silent(milliseconds: int, closure: bool) -> None:
    gap = milliseconds * 22050 // 1000
    phones = label(speech((100, "I"), (3000, "d"), (4000, "_:"), silent=(3000 - gap, 3000)), 22050, 175)
    assert (Phone(3000 - gap, "dcl") in phones) == closure
    assert Phone(3000, "d") in phones
