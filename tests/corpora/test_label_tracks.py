"""Folders of recordings with label files of other programs, as a corpus and as `start` finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval
from speechctc.config.schema import CorpusConfig
from speechctc.core import written
from speechctc.corpora.label_tracks import are_phones, read_label_tracks
from speechctc.corpora.survey import describe, survey

PHONES = [(0.1, 0.2, "m"), (0.2, 0.35, "ay"), (0.35, 0.5, "s")]
TRACK = "".join(f"{start}\t{end}\t{label}\n" for start, end, label in PHONES)
HTK = "".join(f"{round(start * 1e7)} {round(end * 1e7)} {label}\n" for start, end, label in PHONES)
WORDS = "1\n00:00:00,100 --> 00:00:00,500\nmy sister\n"


@pytest.fixture
def folder(here: Path) -> Path:
    for name in ("anna/a", "anna/b", "otto/c"):
        (here / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(here / f"in/{name}.wav", np.random.default_rng(0).normal(0, 0.1, 9600), 16000)
    (here / "in/anna/a.txt").write_text(TRACK)
    (here / "in/anna/b.lab").write_text(HTK)
    return here / "in"


def config(folder: Path, **keys: object) -> CorpusConfig:
    return CorpusConfig.model_validate({"kind": "labels", "root": folder, "phones": "found", **keys})


def test_labels_become_phones_with_their_times(folder: Path) -> None:
    corpus = read_label_tracks(folder, config(folder))
    read = {each.id: each for each in corpus.utterances()}
    assert set(read) == {"anna-a", "anna-b"}
    for each in read.values():
        assert each.phones == ("m", "ay", "s") and each.speaker == "anna"
        assert each.times == pytest.approx(np.array([times for *times, _ in PHONES]))
    assert "c.wav: no file of labels beside it" in corpus.rejected["train"][0].reason
    assert any("no file of labels is beside them (1): otto/c.wav" in each for each in corpus.warnings)


def test_what_cannot_be_used_says_why(folder: Path) -> None:
    (folder / "otto/c.txt").write_text("my sister\n")
    corpus = read_label_tracks(folder, config(folder))
    assert "c.txt: a text without times" in corpus.rejected["train"][0].reason
    (folder / "otto/c.txt").unlink()
    written.write_text(folder / "otto/c.lab", "m ay s\n")  # as decode writes
    corpus = read_label_tracks(folder, config(folder, uncorrected=False))
    assert "nobody has corrected it" in corpus.rejected["train"][0].reason


def test_start_takes_phones_for_phones(folder: Path) -> None:
    found = survey(folder)
    assert found.config is not None and found.config.kind == "labels" and found.config.words_tier is None
    assert len(found.utterances) == 2 and found.unlabelled == 1
    assert "recordings with files of labels" in describe(found) and "not used" not in describe(found)


def test_start_asks_for_the_language_of_words(folder: Path) -> None:
    for name in ("anna/a.txt", "anna/b.lab"):
        (folder / name).unlink()
    (folder / "otto/c.srt").write_text(WORDS)
    found = survey(folder)
    assert found.config is None and found.of_words
    assert "1 file of labels (c.srt): read as words once their language is named" in found.notes
    Path("d.dict").write_text("my m ay\nsister s ih s t er\n")
    found = survey(folder, ["corpus.dictionary=d.dict"])
    assert found.config is not None and (found.config.kind, found.config.words_tier) == ("labels", "words")
    assert [each.phones for each in found.utterances] == [("m", "ay", "s", "ih", "s", "t", "er")]
    assert found.given["words_tier"] == "words"  # so that the config has it


def test_start_reads_what_whisper_leaves_beside_a_recording(folder: Path) -> None:
    for name in ("anna/a.txt", "anna/b.lab"):
        (folder / name).unlink()
    for ending, text in {
        ".txt": "my sister\n",
        ".srt": WORDS,
        ".vtt": "WEBVTT\n\n00:00.100 --> 00:00.500\nmy sister\n",
        ".tsv": "start\tend\ttext\n100\t500\tmy sister\n",
        ".json": '{"segments": [{"start": 0.1, "end": 0.5, "text": "my sister"}]}',
    }.items():
        (folder / f"otto/c{ending}").write_text(text)
    found = survey(folder)
    assert found.of_words and not any("no column" in note for note in found.notes)
    Path("d.dict").write_text("my m ay\nsister s ih s t er\n")
    (utterance,) = survey(folder, ["corpus.dictionary=d.dict"]).utterances
    assert utterance.phones == ("m", "ay", "s", "ih", "s", "t", "er") and utterance.words == ("my", "sister")


def test_start_names_what_it_does_not_read(folder: Path) -> None:
    for name in ("anna/a.txt", "anna/b.lab"):
        (folder / name).unlink()
    (folder / "otto/c.cha").write_text("@UTF8\n@Begin\n@End\n")
    assert any("1 .cha" in note and "does not read" in note for note in survey(folder).notes)
    (folder / "otto/c.lab").write_text("0 90000000 x\n90000000 99000000 y\n")
    assert any("c.lab: a label file of HTK with times up to" in note for note in survey(folder).notes)


def test_what_looks_like_phones() -> None:
    phones = [Interval(*each) for each in PHONES]
    assert are_phones(phones) and not are_phones([])
    assert are_phones([*phones, *(Interval(9, 19, label) for label in ("sil", "<p:>", "[noise]"))])
    assert not are_phones([*phones, Interval(0.5, 0.6, "two words")])
    assert not are_phones([each._replace(end=each.end + 1) for each in phones])
    assert not are_phones([each._replace(label="sister") for each in phones])


def test_the_speakers_of_a_file_of_stm_are_speakers(folder: Path) -> None:
    for name in ("anna/a.txt", "anna/b.lab"):
        (folder / name).unlink()
    Path("d.dict").write_text("my m ay\nsister s ih s t er\n")
    soundfile.write(folder / "otto/c.wav", np.zeros(32000), 16000)
    lines = [
        "c 1 ben 0.0 0.5 <o,f0,male> my",
        "c 1 cleo 0.5 1.0 sister",
        "c 1 ben 1.0 1.4 sister",
        "c 1 cleo 1.4 1.7 my",
        "c 1 ben 1.7 1.9 my",
        "c 1 cleo 1.7 1.9 my",
    ]
    (folder / "otto/c.stm").write_text("\n".join(lines))
    found = survey(folder, ["corpus.dictionary=d.dict", "corpus.max_gap=0.1"])
    said = {(each.speaker, each.stretch[0] if each.stretch else 0.0, each.phones[0]) for each in found.utterances}
    assert {(speaker, phone) for speaker, _, phone in said} == {(s, p) for s in ("ben", "cleo") for p in "ms"}
    assert found.corpus is not None and not any("of one name" in each for each in found.corpus.warnings)
    reasons = [each.reason for split in found.corpus.rejected.values() for each in split]
    assert not any("overlap" in each for each in reasons), "two say the same at the same time"


def test_start_reads_the_json_of_a_recogniser_alone_and_names_what_is_not_read(folder: Path) -> None:
    for name in ("anna/a.txt", "anna/b.lab"):
        (folder / name).unlink()
    track = folder / "otto/c.json"
    track.write_text('{"transcription": [{"offsets": {"from": 100, "to": 500}, "text": " my sister"}]}')
    Path("d.dict").write_text("my m ay\nsister s ih s t er\n")
    found = survey(folder, ["corpus.dictionary=d.dict"])
    assert [each.words for each in found.utterances] == [("my", "sister")]
    assert found.corpus and any("c.json: read as a transcript of whisper.cpp" in each for each in found.corpus.warnings)
    track.write_text('{"results": {"channels": [{"alternatives": []}]}}')
    (said,) = [note for note in survey(folder).notes if "c.json: a transcript of Deepgram, which is not read" in note]
    assert said.startswith("not used: ")
