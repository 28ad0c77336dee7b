"""Transcripts of other programs beside recordings, in a folder and named themselves; and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.tasks import find_tasks, is_table
from speechctc.corpora.transcripts import Transcript, TranscriptOptions

WORDS = TranscriptOptions(labels="words")
TRACK = "0.3\t0.65\tmy\n0.65\t1.0\tsister\n"
CUES = "1\n00:00:00,300 --> 00:00:01,000\nmy sister\n\n2\n00:00:02,000 --> 00:00:03,000\npaints boats\n"
CTM = "a 1 0.30 0.35 my\na 1 0.65 0.35 sister\nb 1 0.10 0.20 paints\n"


@pytest.fixture
def sounds(here: Path) -> Path:
    for name in ("a", "b"):
        soundfile.write(here / f"{name}.wav", np.zeros(64000), 16000)
    return here


def read(
    *arguments: str, given: str | None = None, choice: TranscriptOptions = WORDS
) -> dict[str, Transcript | InputError]:
    place = None if given is None else Path(given)
    tasks = find_tasks([Path(each) for each in arguments], None, place, choice, Reporter(quiet=True))
    return {task.recording.path.name: task.transcript for task in tasks}


def labels(transcript: Transcript | InputError) -> str:
    assert isinstance(transcript, Transcript), transcript
    return " ".join(transcript.labels)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.txt", TRACK),
        ("t.lab", "3000000 6500000 my\n6500000 10000000 sister\n"),
        ("t.labels", TRACK),  # no ending that is known: the lines tell
        ("t.ctm", "whatever 1 0.30 0.35 my\nwhatever 1 0.65 0.35 sister\n"),
        ("t.stm", "a 1 x 0.3 1.0 my sister\n"),
        ("t.vtt", "WEBVTT\n\n00:00.300 --> 00:01.000\nmy sister\n"),
    ],
)
def test_a_file_that_is_named(sounds: Path, name: str, text: str) -> None:
    Path(name).write_text(text)
    assert not is_table(Path(name))
    assert labels(read("a.wav", given=name)["a.wav"]) == "my sister"


def test_files_beside_recordings_and_in_a_folder(sounds: Path) -> None:
    Path("a.srt").write_text(CUES)
    Path("b.txt").write_text(TRACK)
    beside = read("a.wav", "b.wav")
    assert labels(beside["a.wav"]) == "my sister paints boats" and labels(beside["b.wav"]) == "my sister"
    phrases = beside["a.wav"].phrases if isinstance(beside["a.wav"], Transcript) else ()
    assert [(each.start, each.end, each.labels) for each in phrases] == [
        (0.3, 1.0, ("my", "sister")),
        (2.0, 3.0, ("paints", "boats")),
    ]
    (sounds / "texts").mkdir()
    Path("a.srt").rename("texts/a.srt")
    assert labels(read("a.wav", given="texts")["a.wav"]) == "my sister paints boats"
    phones = read("b.wav", choice=TranscriptOptions())
    assert labels(phones["b.wav"]) == "my sister"
    assert isinstance(read("a.wav", given="texts", choice=TranscriptOptions())["a.wav"], InputError)  # no phones


def test_intervals_of_single_words_are_limits_if_one_says_so(sounds: Path) -> None:
    Path("a.txt").write_text(TRACK)
    found = read("a.wav", choice=WORDS._replace(limits=True))["a.wav"]
    assert isinstance(found, Transcript)
    assert [(each.start, each.end) for each in found.phrases] == [(0.3, 0.65), (0.65, 1.0)]
    free = read("a.wav")["a.wav"]
    assert isinstance(free, Transcript) and not free.phrases


def test_a_file_of_many_recordings(sounds: Path) -> None:
    Path("all.ctm").write_text(CTM)
    for arguments in (("a.wav", "b.wav"), ()):  # or those beside it
        found = read(*arguments, given="all.ctm")
        assert {name: labels(each) for name, each in found.items()} == {"a.wav": "my sister", "b.wav": "paints"}
    Path("some.ctm").write_text(CTM.replace("b 1", "c 1"))
    found = read("a.wav", "b.wav", given="some.ctm")
    assert labels(found["a.wav"]) == "my sister"
    assert "labels of no recording called b, but of a, c" in str(found["b.wav"])
    with pytest.raises(InputError, match="the recordings c are not beside it"):
        read(given="some.ctm")


def test_a_table_is_a_table(here: Path) -> None:
    Path("t.txt").write_text("audio\twords\na.wav\tmy sister\n")
    Path("n.tsv").write_text(TRACK)
    Path("m.json").write_text('{"audio_filepath": "a.wav", "text": "my sister"}\n{"audio_filepath": "b.wav"}\n')
    Path("w.json").write_text('{"segments": [{"start": 0, "end": 1, "text": "my sister"}]}')
    assert is_table(Path("t.txt")) and is_table(Path("m.json"))
    assert not is_table(Path("n.tsv")) and not is_table(Path("w.json"))
