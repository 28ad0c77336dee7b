"""The corpora that engineers have, as they come: start, extract, train."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import Row, read_rows
from tests.command import Command
from tests.corpora.forms import FORMS, Said, lhotse
from tests.tones import PHONES, RATE, speak

SHORT = ["train.epochs=1", "train.device=cpu", "train.curves=false"]


def tones(folder: Path) -> list[Said]:
    """Return utterances of tones, whose words a dictionary reads; no two speakers are in one split."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    (folder.parent / "words.dict").write_text("".join(f"{phone}s {phone}\n" for phone in PHONES))
    said = []
    for k in range(24):
        split = "train" if k < 16 else "dev" if k < 20 else "test"
        phones = [PHONES[i] for i in rng.integers(len(PHONES), size=5)]
        samples, words = speak(phones, rng), " ".join(f"{each}s" for each in phones)
        path = folder / f"{k:02d}.flac"
        soundfile.write(path, samples, RATE)
        said.append(Said(split, f"{split[2]}{k % 2}", path, words, len(samples) / RATE))
    return said


@pytest.mark.parametrize("form", FORMS)
def test_a_corpus_goes_from_start_to_a_model_as_it_comes(form: str, here: Path, speechctc: Command) -> None:
    said = tones(here / "recorded")
    FORMS[form](here / "mine", said)
    setting = f"corpus.dictionary={here / 'words.dict'}"
    done = speechctc("start", "mine", setting, "--out", "mine.yaml")
    assert done.status == 0, done.err
    corpus = read_corpus(load_config("mine.yaml", []).corpus)
    assert {split: len(each) for split, each in corpus.splits.items()} == {"train": 16, "dev": 4, "test": 4}, done.out
    assert sorted(each.phones for each in corpus.utterances()) == sorted(
        tuple(word.removesuffix("s") for word in each.words.split()) for each in said
    )
    if form not in ("nemo", "audiofolder", "audiofolder_json"):  # these do not say who speaks
        assert {each.speaker[:2] for each in corpus.utterances()} == {each.speaker for each in said}
    if form == "kaldi":
        assert {each.traits for each in corpus.utterances()} == {(("sex", "f"),)}
    for command in ("extract", "train"):
        assert speechctc(command, "--config", "mine.yaml", *SHORT).status == 0


@pytest.mark.parametrize("form", FORMS)
def test_words_without_a_language_are_said_and_fail(form: str, here: Path, speechctc: Command) -> None:
    FORMS[form](here / "mine", tones(here / "recorded"))
    done = speechctc("start", "mine")
    assert done.status == 1 and not list(here.glob("*.yaml"))
    assert "24 recordings, " in done.out and "The labels are words. Name their language" in done.out


def test_rows_without_ids_are_named_after_their_recordings(here: Path) -> None:
    for place in ("one", "two"):
        (here / place).mkdir()
        soundfile.write(here / place / "a.wav", np.zeros(RATE, np.float32), RATE)
    Path("mine.tsv").write_text("path\tipa\tspk\none/a.wav\tx y\tA\ntwo/a.wav\ty x\tB\n")
    assert [(row.id, row.phones, row.speaker) for row in read_rows(Path("mine.tsv"))] == [
        ("a", ("x", "y"), "A"),
        ("a", ("y", "x"), "B"),
    ]
    corpus = read_corpus(load_config("demo", ["corpus.kind=table", "corpus.tables.train=mine.tsv"]).corpus)
    assert sorted(each.id for each in corpus.utterances()) == ["a", "two-a"]


def test_recordings_of_an_audiofolder_may_have_equal_names_in_its_splits(here: Path) -> None:
    settings = ["corpus.kind=table"]
    for split in ("train", "test"):
        place = here / split
        place.mkdir()
        soundfile.write(place / "1.wav", np.zeros(RATE, np.float32), RATE)
        (place / "metadata.csv").write_text("file_name,phones\n1.wav,x y\n")
        settings.append(f"corpus.tables.{split}={place / 'metadata.csv'}")
    splits = read_corpus(load_config("demo", settings).corpus, "test").splits
    assert {(name, each.id) for name in ("train", "test") for each in splits[name]} == {
        ("train", "train-1"),
        ("test", "test-1"),
    }


def test_own_columns_go_before_the_names_of_others(here: Path) -> None:
    Path("mine.tsv").write_text("id\taudio\tpath\ttext\tphones\tipa\n1\ta.wav\tb.wav\thello\tx\ty\n")
    (row,) = read_rows(Path("mine.tsv"))
    assert (row.id, row.audio, row.words, row.phones) == ("1", "a.wav", "hello", ("x",))


def test_what_is_wrong_with_a_manifest_is_one_line(here: Path) -> None:
    said = tones(here / "recorded")
    lhotse(here / "mine", said, cuts=False)
    (here / "mine/mine_recordings_dev.jsonl.gz").unlink()
    with pytest.raises(InputError, match="the manifest of its recordings, mine_recordings_dev.jsonl.gz, is not there"):
        read_rows(here / "mine/mine_supervisions_dev.jsonl.gz")
    wrong = Path("wrong.jsonl")
    wrong.write_text(
        '{"supervisions": [3], "recording": {}}\n{"audio_filepath": "a", "text": "b", "offset": "x", "duration": 1}\n'
    )
    assert [row.problem for row in read_rows(wrong)] == ["a manifest's entry with a field of another kind"] * 2


@pytest.mark.parametrize(
    ("entry", "audio", "channel"),
    [
        ("flac -c -d -s a.flac |", "a.flac", None),
        ("/usr/bin/flac -cds  'a b.flac'|", "a b.flac", None),
        ("sph2pipe -f wav -p a.wv1 |", "a.wv1", None),
        ("sph2pipe -f wav -p -c 2 a.sph |", "a.sph", 2),
        ("sox a.mp3 -t wav - |", "a.mp3", None),
        ("sox a.wav -r 16000 -t wav - remix 2 |", "a.wav", 2),
        ('cat "a|b.wav" |', "a|b.wav", None),
    ],
)
def test_a_command_that_unpacks_a_recording_names_it(here: Path, entry: str, audio: str, channel: int | None) -> None:
    (row,) = kaldi_rows(here, entry)
    assert (row.audio, row.channel, row.problem) == (audio, channel, "")


@pytest.mark.parametrize(
    "command",
    [
        "sph2pipe -f wav a.wav | sox b.wav -t wav -",
        "flac -cds a.flac | sox -t wav - -t wav - speed 1.1",
        "sph2pipe -f wav -t 1:2 a.sph",
        "flac -cd --skip=0:01 a.flac",
        "sox a.wav -t wav - trim 1.0 0.5",
        "sox a.wav -t wav - remix 1,2",
        "sox -v 0.5 a.wav -t wav -",
        "sox -m a.wav b.wav -t wav -",
        "ffmpeg -ss 1 -t 1 -i a.wav -f wav -",
        "cat a.wav b.wav",
        "bash -c 'cat a.wav | sox -t wav - -t wav - reverse'",
        "gunzip -c a.gz",
    ],
)
def test_a_command_that_may_change_a_recording_is_left_out_by_name(here: Path, command: str) -> None:
    (row,) = kaldi_rows(here, f"{command} |")
    assert row.id == "a" and not row.audio
    assert "may change the sound" in row.problem and command[:60] in row.problem.replace("\\", "")


@pytest.mark.parametrize(
    ("entry", "segment", "channel", "problem"),
    [
        ("a.wav", "0.5 1.5", None, ""),
        ("a.wav", "0.5 1.5 0", 1, ""),  # Kaldi counts from 0
        ("a.wav", "0.5 1.5 1", 2, ""),
        ("sph2pipe -f wav -p -c 2 a.wav |", "0.5 1.5 0", 2, ""),  # of the one channel that is left
        ("sph2pipe -f wav -p -c 2 a.wav |", "0.5 1.5 1", None, "'0.5 1.5 1'"),
        ("a.wav", "0.5 1.5 B", None, "'0.5 1.5 B'"),
        ("a.wav", "0.5 1.5 -1", None, "'0.5 1.5 -1'"),
        ("a.wav", "0.5", None, "'0.5'"),
        ("a.wav", "0.5 1.5 0 0", None, "'0.5 1.5 0 0'"),
    ],
)
def test_a_segment_names_its_channel(here: Path, entry: str, segment: str, channel: int | None, problem: str) -> None:
    Path("segments").write_text(f"a a {segment}\n")
    (row,) = kaldi_rows(here, entry)
    assert row.channel == channel and problem in row.problem and bool(row.problem) == bool(problem)
    assert problem or (row.audio, row.start, row.end) == ("a.wav", "0.5", "1.5")


def kaldi_rows(folder: Path, entry: str) -> list[Row]:
    """Return the rows of a folder of Kaldi with one recording."""
    (folder / "wav.scp").write_text(f"a {entry}\n")
    (folder / "text").write_text("a lows\n")
    return read_rows(folder)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", ["english", "languages/it"])
def test_real_speech_in_each_form(form: str, source: str, here: Path, shared_data: Path, speechctc: Command) -> None:
    """From words by eSpeak NG to phones, of real recordings: LibriSpeech's in capitals among them."""
    said = list(real(shared_data / source))
    folder = here / source.rpartition("/")[2]  # a folder is named after its language
    FORMS[form](folder, said)
    code = "en-us" if source == "english" else "it"
    done = speechctc("start", folder, f"corpus.language={code}", "--out", "mine.yaml")
    assert done.status == 0, done.err
    corpus = read_corpus(load_config("mine.yaml", []).corpus)
    assert {split: len(each) for split, each in corpus.splits.items()} == {"train": 24, "dev": 8, "test": 8}, done.out
    assert min(len(each.phones) for each in corpus.utterances()) > 3
    seconds = sum(soundfile.info(each.audio).duration for each in corpus.utterances())
    assert seconds == pytest.approx(sum(each.seconds for each in said), rel=0.01)
    for command in ("extract", "train") if form == "librispeech" and source == "english" else ():
        assert speechctc(command, "--config", "mine.yaml", *SHORT).status == 0


def real(source: Path) -> Iterator[Said]:
    """Yield 24, 8 and 8 utterances of real speech."""
    held_out = "dev" if (source / "dev").exists() else "test"
    for split, table, first, count in (("train", "train", 0, 24), ("dev", held_out, 0, 8), ("test", held_out, 8, 8)):
        with open(source / table / "utterances.tsv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        for row in rows[first : first + count]:
            audio = source / table / row["audio"]
            yield Said(split, row["speaker"], audio, row["words"], soundfile.info(audio).duration)
