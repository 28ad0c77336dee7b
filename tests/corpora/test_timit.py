from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile

from speechctc.audio import sound_file
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.timit import CORE_TEST, DEV, Files, divide, read_timit
from speechctc.phones.inventory import TIMIT61
from tests.corpora.timit_layout import LABELS, write_corpus, write_utterance

TRAIN = ["FABC0", "MDEF0", "MGHI0"]


def speakers(corpus: Corpus) -> dict[str, set[str]]:
    return {split: {utterance.speaker for utterance in corpus.splits[split]} for split in SPLITS}


# --- files ---


@pytest.mark.parametrize(
    ("above", "train", "stem", "wav", "phn", "format"),
    [
        ("", "TRAIN/DR1/FABC0", "SX1", ".WAV", ".PHN", "NIST"),
        ("", "train/dr1/fabc0", "sx1", ".wav", ".phn", "WAV"),
        ("train/of/something", "TRAIN/DR1/FABC0", "SX1", ".WAV.wav", ".PHN", "WAV"),
        ("", "TRAIN/DR1/FABC0", "SX1", ".flac", ".PHN", "FLAC"),
    ],
)
def test_either_case_any_depth_any_container(
    tmp_path: Path, above: str, train: str, stem: str, wav: str, phn: str, format: str
) -> None:
    write_utterance(tmp_path / above / train, stem, wav=wav, phn=phn, format=format)
    write_utterance(tmp_path / above / train, stem.replace("1", "2"), wav=wav, phn=phn, format=format)
    corpus = read_timit(tmp_path)
    found = [utterance for split in SPLITS for utterance in corpus.splits[split]]
    assert {utterance.id for utterance in found} == {"dr1-fabc0-sx1", "dr1-fabc0-sx2"}
    assert {utterance.phones for utterance in found} == {("h#", "sh", "iy", "h#")}
    assert {utterance.speaker for utterance in found} == {"fabc0"}


def test_sex_and_dialect_are_in_the_names_of_the_folders(tmp_path: Path) -> None:
    write_utterance(tmp_path / "TRAIN" / "DR7" / "MABC0", "SX1")
    write_utterance(tmp_path / "TRAIN" / "own" / "x1", "SX1")
    corpus = read_timit(tmp_path)
    found = {each.speaker: each.traits for split in SPLITS for each in corpus.splits[split]}
    assert found == {"mabc0": (("sex", "male"), ("dialect", "dr7")), "x1": ()}


def test_dialect_sentences_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": TRAIN}, ("SA1", "SA2", "SX1", "SI9"))
    (tmp_path / "TRAIN/DR1/FABC0/._SX1.WAV").write_bytes(b"of another system")
    corpus = read_timit(tmp_path)
    ids = {utterance.id.rpartition("-")[2] for split in SPLITS for utterance in corpus.splits[split]}
    assert ids == {"sx1", "si9"}
    assert "SA sentences left out (6)" in corpus.notes
    assert not any(corpus.rejected.values())


# --- times ---


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_samples_become_seconds_by_the_files_own_rate(tmp_path: Path, rate: int) -> None:
    """A label is where its sound is: times compared with samples, or read at another rate, would miss the tone."""
    edges = [0.0, 0.25, 0.6, 1.0]
    samples = np.zeros(rate)
    samples[round(0.25 * rate) : round(0.6 * rate)] = 0.5
    labels = "".join(
        f"{round(start * rate)} {round(end * rate)} {phone}\n"
        for start, end, phone in zip(edges, edges[1:], ["h#", "aa", "h#"], strict=False)
    )
    for stem in ("SX1", "SX2"):
        write_utterance(tmp_path / "TRAIN/DR1/FABC0", stem, labels)
        soundfile.write(tmp_path / f"TRAIN/DR1/FABC0/{stem}.WAV", samples, rate)
    (utterance,) = read_timit(tmp_path).splits["train"]
    assert utterance.times is not None
    np.testing.assert_allclose([start for start, _ in utterance.times], edges[:-1], atol=1e-9)
    heard, seconds = sound_file.read(utterance.audio, 16000)
    assert utterance.times[-1][1] == seconds
    start, end = (round(time * 16000) for time in utterance.times[1])
    assert np.abs(heard[start + 50 : end - 50]).min() > 0.45
    assert max(np.abs(heard[: start - 50]).max(), np.abs(heard[end + 50 :]).max()) < 0.05


def test_a_last_label_a_little_late_is_cut_to_the_recording(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": TRAIN})
    write_utterance(tmp_path / "TRAIN/DR1/FABC0", "SX1", LABELS.replace("4000", "4001"))
    corpus = read_timit(tmp_path)
    times = [utterance.times for split in SPLITS for utterance in corpus.splits[split]]
    assert all(time is not None and time[-1][1] == 0.25 for time in times)


# --- bad utterances ---


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("0 100 h#\n300 200 aa\n", "line 2: times run backwards, aa ends at 200 and starts at 300"),
        ("0 100 h#\n50 200 aa\n", "line 2: times overlap, aa starts at 50, before the end of the last, 100"),
        ("0 100 h#\n\n100 200 zz\n", "line 3: the label 'zz' is not in the phone set timit61"),
        ("0 100 h#\n100 aa\n", "line 2: '100 aa' is not a start, an end in samples and a phone"),
        ("0 9000 h#\n", "line 1: h# ends at sample 9000, and the recording has 4000 at 16000 Hz"),
        ("", "no labels in it"),
        (None, "SX1.WAV: no .PHN file beside it"),
    ],
)
def test_bad_labels_are_rejected_by_file_and_line_and_the_rest_goes_on(
    tmp_path: Path, labels: str | None, reason: str
) -> None:
    write_corpus(tmp_path, {"TRAIN": TRAIN})
    phn = tmp_path / "TRAIN/DR1/MDEF0/SX1.PHN"
    phn.unlink() if labels is None else phn.write_bytes(labels.encode())
    corpus = read_timit(tmp_path)
    (rejected,) = [entry for split in SPLITS for entry in corpus.rejected[split]]
    assert rejected.id == "dr1-mdef0-sx1"
    assert reason in rejected.reason and "MDEF0/SX1" in rejected.reason
    assert sum(len(corpus.splits[split]) for split in SPLITS) == 5


# --- nothing to read ---


@pytest.mark.parametrize(
    ("name", "what"), [("none", "no such folder"), ("", "no utterances"), ("notes.txt", "no such")]
)
def test_where_there_is_no_corpus_it_is_said(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=what):
        read_timit(tmp_path / name)


def test_a_corpus_without_training_speakers_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TEST": TRAIN})
    with pytest.raises(InputError, match=r"in a TRAIN folder, only 6 utterances in TEST; add TRAIN"):
        read_timit(tmp_path)


def test_a_corpus_that_cannot_be_used_at_all_gives_the_first_reason(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": ["FABC0"], "TEST": ["MDEF0"]})
    for phn in (tmp_path / "TRAIN").rglob("*.PHN"):
        phn.write_text("0 100 zz\n")
    with pytest.raises(
        InputError, match=r"none of TRAIN's 1 utterances can be used; .*SX\d.PHN, line 1: the label 'zz'"
    ):
        read_timit(tmp_path)


# --- splits ---


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:03d}" for number in range(count)]


def files_of(speakers: list[str] | frozenset[str], sentences: int = 8) -> list[Files]:
    made = Path("made")
    return [Files(f"{name}-{k}", name, made, made) for name in sorted(speakers) for k in range(sentences)]


def whole_timit() -> dict[str, list[Files]]:
    others = names("other", 168 - 74)
    return {"train": files_of(names("train", 462)), "dev": [], "test": files_of(DEV | CORE_TEST | set(others))}


def test_complete_timit_has_its_counts() -> None:
    members, notes = divide(whole_timit(), 0.1)
    assert {split: len(members[split]) for split in SPLITS} == {"train": 3696, "dev": 400, "test": 192}
    assert {files.speaker for files in members["dev"]} == DEV
    assert {files.speaker for files in members["test"]} == CORE_TEST
    assert sum(name.startswith("f") for name in CORE_TEST) == 8, "a woman and two men of each of eight regions"
    assert notes == ["complete TIMIT: 3696 training, 400 dev (50 speakers), 192 core test utterances"]


@pytest.mark.parametrize(
    ("side", "name", "split"), [("train", "train007", "train"), ("test", "faks0", "dev"), ("test", "mdab0", "test")]
)
@pytest.mark.parametrize("lost", ["audio", "phn", "both"])
def test_a_corpus_complete_by_speakers_must_be_complete(side: str, name: str, split: str, lost: str) -> None:
    sides = whole_timit()
    (first, *_) = [files for files in sides[side] if files.speaker == name]
    if lost == "both":
        sides[side].remove(first)
    else:
        setattr(first, lost, None)
    with pytest.raises(InputError, match=rf"{split} utterances instead of \d+ \({name} 7 instead of 8\)"):
        divide(sides, 0.1)


@pytest.mark.parametrize(
    ("test", "expected", "note"),
    [
        (["fnew0", "mnew0"], {"dev": None, "test": {"fnew0", "mnew0"}}, "the speakers of TEST (2)"),
        (["faks0", "mdab0", "fnew0"], {"dev": {"faks0"}, "test": {"mdab0"}}, "the core test speakers (1)"),
        (["mdab0", "fnew0"], {"dev": None, "test": {"mdab0"}}, "1 speakers of TEST are in neither set, and left out"),
        (["faks0", "fnew0"], {"dev": {"faks0"}, "test": {"fnew0"}}, "1 of the usual 50 of dev and 0 of the 24"),
        (["faks0"], {"dev": {"faks0"}, "test": set()}, "partial TIMIT: 10 of 462 training speakers"),
        ([], {"dev": None, "test": set()}, "test: none, because there is no TEST folder"),
    ],
)
def test_a_part_of_timit_uses_the_official_speakers_it_has(
    test: list[str], expected: dict[str, set[str] | None], note: str
) -> None:
    sides = {"train": files_of(names("train", 10)), "dev": [], "test": files_of(test)}
    members, notes = divide(sides, 0.2)
    got = {split: {files.speaker for files in members[split]} for split in SPLITS}
    assert got["test"] == expected["test"]
    if expected["dev"] is None:
        assert len(got["dev"]) == 2 and got["dev"] | got["train"] == set(names("train", 10))
    else:
        assert got["dev"] == expected["dev"] and len(got["train"]) == 10
    assert not got["train"] & got["dev"] and not got["train"] & got["test"] and not got["dev"] & got["test"]
    assert note in "\n".join(notes)


def test_a_dev_folder_decides(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": ["FABC0"], "DEV": ["MDAB0"], "TEST": ["FAKS0", "MDEF0"]})
    corpus = read_timit(tmp_path)
    assert speakers(corpus) == {"train": {"fabc0"}, "dev": {"mdab0"}, "test": {"faks0", "mdef0"}}


@pytest.mark.shared
def test_the_sample_of_real_timit(shared_data: Path) -> None:
    corpus = read_timit(shared_data / "timit-sample")
    assert {split: len(corpus.splits[split]) for split in SPLITS} == {"train": 72, "dev": 8, "test": 16}
    assert speakers(corpus)["test"] == {"ftlg0", "mbgt0"}
    assert not any(corpus.rejected.values())
    assert any("partial TIMIT: 10 of 462" in note for note in corpus.notes)
    for utterance in (utterance for split in SPLITS for utterance in corpus.splits[split]):
        assert set(utterance.phones) <= set(TIMIT61) and utterance.phones[0] == utterance.phones[-1] == "h#"
        assert utterance.times is not None and len(utterance.times) == len(utterance.phones)
        seconds = sound_file.info(utterance.audio).seconds
        assert seconds - 0.02 < utterance.times[-1][1] <= seconds < 10


@pytest.mark.shared
def test_real_labels_lie_on_real_sounds(shared_data: Path) -> None:
    """In seconds: the hiss of s is high, vowels are loud, the silence around a sentence is not."""
    corpus = read_timit(shared_data / "timit-sample")
    power: dict[str, list[float]] = {"s": [], "h#": [], "aa": []}
    above: list[float] = []
    for utterance in corpus.splits["train"]:
        samples, _ = sound_file.read(utterance.audio, 16000)
        assert utterance.times is not None
        for phone, (start, end) in zip(utterance.phones, utterance.times, strict=True):
            if phone in power:
                part = samples[round(start * 16000) : round(end * 16000)]
                power[phone].append(float(np.mean(part**2)))
                if phone == "s":
                    spectrum = np.abs(np.fft.rfft(part)) ** 2
                    above.append(float(spectrum[len(spectrum) * 3 // 8 :].sum() / spectrum.sum()))
    assert np.median(power["aa"]) > 30 * np.median(power["h#"])
    assert np.median(above) > 0.7, "of the power of s, most is above 3 kHz"


# --- by a config ---


@pytest.mark.parametrize("kind", ["timit", "demo"])
def test_a_kind_that_needs_a_root_says_so(kind: Literal["timit", "demo"]) -> None:
    with pytest.raises(InputError, match=f"corpus.root is not set, and corpus.kind is {kind}"):
        read_corpus(CorpusConfig(kind=kind))


def test_timit_is_read_with_the_configs_phones_and_share(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"TRAIN": ["FABC0", "MDEF0", "MGHI0", "FJKL0"]})
    corpus = read_corpus(CorpusConfig(kind="timit", root=tmp_path, phones="timit48", dev_share=0.5, channel=1))
    assert {utterance.channel for utterance in corpus.splits["train"]} == {1}
    assert corpus.phone_set == "timit48"
    assert len({utterance.speaker for utterance in corpus.splits["dev"]}) == 2
    assert corpus.splits["train"][0].phones == ("sil", "sh", "iy", "sil")
