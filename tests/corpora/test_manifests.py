"""The corpora that engineers have, as they come: start, extract, train."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.sound_file import AudioInfo
from speechctc.config.load import load_config
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import Row, in_seconds, read_rows
from speechctc.corpora.tasks import in_table
from speechctc.corpora.transcripts import Transcript, TranscriptOptions
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
    if form not in ("nemo", "fairseq", "one_metadata") and "audiofolder" not in form:  # these do not say who speaks
        assert {each.speaker[:2] for each in corpus.utterances()} == {each.speaker for each in said}
    if form == "kaldi":
        assert {each.traits for each in corpus.utterances()} == {(("sex", "f"),)}
    for command in ("extract", "train") if form == "librispeech" else ():
        assert speechctc(command, "--config", "mine.yaml", *SHORT).status == 0


def test_words_without_a_language_are_said_and_fail(here: Path, speechctc: Command) -> None:
    FORMS["kaldi"](here / "mine", tones(here / "recorded"))
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
    assert ["not a JSON object of a manifest" in row.problem for row in read_rows(wrong)] == [True, True]


@pytest.mark.parametrize(
    ("entry", "audio", "channel"),
    [
        ("flac -c -d -s a.flac |", "a.flac", None),
        ("/usr/bin/flac -cds  'a b.flac'|", "a b.flac", None),
        ("sph2pipe -f wav -p -c 2 a.sph |", "a.sph", 2),
        ("sox a.mp3 -t wav - |", "a.mp3", None),
        ("cat a.wav |", "a.wav", None),
        ("ffmpeg -v quiet -nostdin -i 'a b.m4a' -vn -ar 16000 -ac 1 -f wav - |", "a b.m4a", None),
        ("sox a.wav -r 16000 -t wav - remix 2 |", "a.wav", 2),
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
        "flac -cd --skip=0:01 a.flac",
        "ffmpeg -ss 3 -i a.wav -f wav -",
        "ffmpeg -i a.wav -af atempo=1.1 -f wav -",
        "ffmpeg -i a.wav -i b.wav -f wav -",
        "ffmpeg -i a.wav -t 3 -f wav -",
        "cat a.wav -",
        "sox a.wav -t wav - trim 1.0 0.5",
        "sox a.wav -t wav - remix 1,2",
        "cat a.wav b.wav",
        "bash -c 'cat a.wav | sox -t wav - -t wav - reverse'",
    ],
)
def test_a_command_that_may_change_a_recording_is_left_out_by_name(here: Path, command: str) -> None:
    (row,) = kaldi_rows(here, f"{command} |")
    assert row.id == "a" and not row.audio
    assert "may change the sound" in row.problem and command[:60] in row.problem.replace("\\", "")


@pytest.mark.parametrize(
    ("segment", "read", "problem"),
    [
        ("0.5 1.5", ("0.5", "1.5", None), ""),
        ("0.5 -1", ("0.5", "inf", None), ""),
        ("0.5 -1.0 1", ("0.5", "inf", 2), ""),
        ("0.5 1.5 0", ("0.5", "1.5", 1), ""),
        ("0.5", ("", "", None), "'0.5'"),
        ("0.5 1.5 left", ("", "", None), "the channel 'left'"),
        ("0.5 1.5 1 2", ("", "", None), "'0.5 1.5 1 2'"),
    ],
)
def test_a_segment_has_two_times_and_perhaps_a_channel(
    here: Path, segment: str, read: tuple[str, str, int | None], problem: str
) -> None:
    Path("segments").write_text(f"a a {segment}\n")
    (row,) = kaldi_rows(here, "a.wav")
    assert problem in row.problem and bool(problem) == bool(row.problem) and (row.start, row.end, row.channel) == read


def kaldi_rows(folder: Path, entry: str) -> list[Row]:
    """Return the rows of a folder of Kaldi with one recording."""
    (folder / "wav.scp").write_text(f"a {entry}\n")
    (folder / "text").write_text("a lows\n")
    return read_rows(folder)


TIMES = ["start_time,end_time", "begin,end", "begin_time,end_time", "xmin,xmax", "start_sec,end_sec"]


@pytest.mark.parametrize("names", TIMES)
def test_other_names_of_times_are_read(here: Path, names: str) -> None:
    Path("table.csv").write_text(f"id,audio,{names},phones\nu,a.wav,0.5,1.25,s a\n")
    (row,) = read_rows(here / "table.csv")
    assert row.times() == (0.5, 1.25) and row.fix == Row(1).fix


OTHER_TIMES = [
    *("start_ms,end_ms", "stop,duration", "start_sample,end_sample", "onset,length", "frame_offset,num_frames"),
    *("Begin Time - msec,End Time - msec", "Start Time,End Time", "start (ms),end (ms)", "startTime,endTime"),
    *("from,to", "onset,offset", "segment_start,segment_end", "Clip Start,Clip Stop", "t0,t1", "utt.begin,utt.end"),
    *("offset,onset,duration", "end,from,to", "segment-onset,segment-offset"),
]


@pytest.mark.parametrize("names", OTHER_TIMES)
def test_a_row_with_times_that_are_not_seconds_is_left_out_by_name(here: Path, names: str) -> None:
    values = ",".join(str(16000 * (k + 1)) for k in range(names.count(",") + 1))
    Path("table.csv").write_text(f"id,audio,{names},phones\nu,a.wav,{values},s a\n")
    (row,) = read_rows(here / "table.csv")
    assert "times that are not read" in row.problem and "seconds" in row.fix


@pytest.mark.parametrize(
    ("start", "stop", "duration", "expected"),
    [
        (4000, 10000, "0.75", (0.5, 1.25)),
        (4000, 10000, "", (0.5, 1.25)),
        (0, 800, "0.1", (0.0, 0.1)),
        (0, 800, "", None),
        (0, 800, "0.8", None),
        (4000, 20000, "", None),
        (1, 2, "1.0", None),
        (10000, 4000, "", None),
    ],
)
def test_times_in_samples_are_converted_where_the_recording_makes_that_sure(
    here: Path, start: int, stop: int, duration: str, expected: tuple[float, float] | None
) -> None:
    """Of a recording of 2 s at 8 kHz; 800 may be milliseconds, 20000 is after its end."""
    soundfile.write("a.wav", np.zeros(16000), 8000)
    Path("t.csv").write_text(f"ID,wav,start,stop,duration,phn\nu,a.wav,{start},{stop},{duration},s a\n")
    config = CorpusConfig(kind="table", tables={"train": Path("t.csv")})
    aligned = in_table(Path("t.csv"), None, TranscriptOptions())[0].transcript if expected else None
    if expected is None:
        with pytest.raises(
            InputError, match="may be no samples of its 16000 at 8000 Hz; write the columns start and end"
        ):
            read_corpus(config)
        with pytest.raises(InputError, match="may be no samples"):
            in_table(Path("t.csv"), None, TranscriptOptions())
    else:
        (utterance,) = read_corpus(config).splits["train"]
        assert utterance.stretch == expected and isinstance(aligned, Transcript)
        assert aligned.phrases[0][:2] == expected


@pytest.mark.parametrize(("timestamp", "named"), [([0.5, 1], True), (1700000000, False), ([[0, 1], [1, 2]], False)])
def test_a_pair_of_times_is_named(here: Path, timestamp: object, named: bool) -> None:
    Path("table.jsonl").write_text(json.dumps({"audio": "a.wav", "timestamp": timestamp, "phones": "s a"}))
    (row,) = read_rows(here / "table.jsonl")
    assert ("times that are not read: timestamp" in row.problem) == named == bool(row.problem)


def test_other_columns_are_no_times(here: Path) -> None:
    names = "start_date,end_year,starts,gender,ending,endangered,duration,startled,page_start,page_end,t0,upfrom,upto"
    Path("table.csv").write_text(f"id,audio,{names},phones\nu,a.wav,{'7,' * 13}s a\n")
    (row,) = read_rows(here / "table.csv")
    assert not row.problem


def test_a_recording_and_its_times_in_an_object_are_unfolded(here: Path) -> None:
    wave = {"file": "{DATAROOT}/a.wav", "start": 16000, "stop": 32000}
    Path("train.json").write_text(
        json.dumps({"u": {"wav": wave, "phn": "s a"}, "v": {"x": {"file": "b.wav"}, "phn": "s"}})
    )
    first, second = read_rows(here / "train.json")
    assert (first.id, first.audio, first.phones) == ("u", "a.wav", ("s", "a"))
    assert (first.start, first.end, first.samples) == ("16000", "32000", True)
    assert in_seconds(first, AudioInfo(40000, 16000, 1)).times() == (1.0, 2.0)
    assert (second.audio, second.start, second.problem) == ("b.wav", "", "")
