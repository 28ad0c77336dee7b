"""Transcripts to align: files of TIMIT, and what is no speech in each kind of file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.recordings import Recording, find_recordings
from speechctc.core.progress import Reporter
from speechctc.corpora.spoken import without_nonspeech
from speechctc.corpora.tasks import find_tasks, in_table
from speechctc.corpora.transcripts import (
    TIMIT_TEXT,
    Labels,
    Phrase,
    Task,
    Transcript,
    TranscriptOptions,
    read_transcript,
)
from speechctc.phones.inventory import Inventory, named_inventory
from tests.corpora.eaf_files import write_eaf

SAMPLES = 54494
WORDS = TranscriptOptions(labels="words")
CMU, FOUND = named_inventory("cmu39"), Inventory("found", ("a", "i", "sil", "t"))


def sound(path: Path, samples: int = SAMPLES, rate: int = 16000) -> Path:
    soundfile.write(path, np.zeros(samples), rate)
    return path


def read(file: Path, labels: Labels = "words", **choice: object) -> tuple[str, list[str]]:
    """Return the labels of a file as they are placed, and the notes."""
    options = TranscriptOptions(labels=labels, **choice)  # type: ignore[arg-type]
    task = Task(Recording(Path("a.wav"), Path("a")), read_transcript(file, Path("a.wav"), options))
    (done,), notes = without_nonspeech([task], CMU if labels == "phones" else None)
    assert isinstance(done.transcript, Transcript)
    return " ".join(done.transcript.labels), notes


@pytest.mark.parametrize("number", [SAMPLES, SAMPLES - 1, SAMPLES + 160])
def test_the_numbers_of_a_text_of_timit_are_no_words(tmp_path: Path, number: int) -> None:
    recording, file = sound(tmp_path / "SA1.WAV"), tmp_path / "SA1.TXT"
    file.write_text(f"0 {number} She had 2 suits.\n")
    found = read_transcript(file, recording, TranscriptOptions(labels="words"))
    assert (found.labels, found.note) == (("She had 2 suits.",), TIMIT_TEXT)


def test_another_rate_or_a_file_of_labels_tells_that_it_is_timit(tmp_path: Path) -> None:
    recording, file = sound(tmp_path / "a.wav", round(SAMPLES * 44.1 / 16), 44100), tmp_path / "a.txt"
    file.write_text(f"0 {SAMPLES} She had suits.")
    words = TranscriptOptions(labels="words")
    assert read_transcript(file, recording, words).labels == ("She had suits.",)
    sound(recording, 8000)
    assert read_transcript(file, recording, words).labels == (f"0 {SAMPLES} She had suits.",)
    (tmp_path / "a.PHN").write_text("0 100 sh")
    assert read_transcript(file, recording, words).labels == ("She had suits.",)


@pytest.mark.parametrize("text", ["2 3 went home", "5 4 three", "1990 2000 were\nthe years", "0 54494", "0 54494 7 8"])
def test_other_numbers_are_words(tmp_path: Path, text: str) -> None:
    recording, file = sound(tmp_path / "a.wav"), tmp_path / "a.txt"
    file.write_text(text)
    found = read_transcript(file, recording, TranscriptOptions(labels="words"))
    assert " ".join(found.labels).split() == text.split() and not found.note


def test_words_of_timit_have_times(tmp_path: Path) -> None:
    recording, file = sound(tmp_path / "SA1.WAV"), tmp_path / "SA1.WRD"
    file.write_text("4800 8000 she\n8000 16000 had\n")
    words = TranscriptOptions(labels="words")
    assert read_transcript(file, recording, words) == Transcript(("she", "had"), file)
    limited = read_transcript(file, recording, words._replace(limits=True))
    assert limited.phrases == (Phrase(0.3, 0.5, ("she",)), Phrase(0.5, 1.0, ("had",)))
    (task,) = find_tasks([tmp_path], None, tmp_path, words, Reporter(quiet=True))
    assert isinstance(task.transcript, Transcript) and task.transcript.file == file
    (tmp_path / "SA1.TXT").write_text(f"0 {SAMPLES} She had.")
    (task,) = find_tasks([recording], None, None, words, Reporter(quiet=True))
    assert isinstance(task.transcript, Transcript) and task.transcript.labels == ("She had.",)


def test_texts_lose_who_speaks_and_keep_noise_as_any_sound(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("SPEAKER 1: so (laughs)\n\nSPEAKER 2: [door\nslams] well, (a|b) (.)\n")
    labels, (note,) = read(tmp_path / "a.txt")
    assert labels == "so * well, (a|b)"
    assert all(part in note for part in ("(.) (1)", "(laughs) (1)", "[door slams] (1)", "SPEAKER 1: (1)")), note


def test_tiers_of_words(tmp_path: Path) -> None:
    grid = tmp_path / "a.TextGrid"
    said = ["sp", "so", "[door slams]", "well", "<p:>", "noise"]
    grid.write_text(
        textgrid_text(3.0, {"words": [Interval(k / 2, k / 2 + 0.5, label) for k, label in enumerate(said)]})
    )
    labels, notes = read(grid)
    assert labels == "so * well noise" and notes[1].endswith("may be none: noise (1)"), notes
    spoken = [(100 * k, 100 * k + 100, label) for k, label in enumerate("sp so xxx well".split())]
    write_eaf(tmp_path / "a.eaf", {"words": spoken})
    assert read(tmp_path / "a.eaf")[0] == "so * well"


def test_phrases_of_noise_alone_are_left_out(tmp_path: Path) -> None:
    grid = tmp_path / "a.TextGrid"
    said = [(0.0, 1.0, "A: so [noise] well"), (1.0, 1.5, "[door slams]"), (1.5, 2.0, "sp"), (2.0, 3.0, "yes sp no")]
    grid.write_text(textgrid_text(3.0, {"words": [Interval(*each) for each in said]}))
    file = read_transcript(grid, Path("a.wav"), TranscriptOptions(labels="words"))
    (task,), (note,) = without_nonspeech([Task(Recording(Path("a.wav"), Path("a")), file)], None)
    assert isinstance(task.transcript, Transcript)
    assert task.transcript.phrases == (Phrase(0.0, 1.0, ("so", "*", "well")), Phrase(2.0, 3.0, ("yes", "no")))
    assert "sp (2)" in note and "[door slams] (1)" in note and "A: (1)" in note


def test_rows_of_tables(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("id\taudio\twords\na\ta.wav\tINT: so [noise] well\nb\tb.wav\tsp\n")
    tasks = in_table(tmp_path / "t.tsv", find_recordings([sound(tmp_path / f"{name}.wav") for name in "ab"]), WORDS)
    done, notes = without_nonspeech(tasks, None, ["well", "gone"])
    assert [each.transcript.labels for each in done if isinstance(each.transcript, Transcript)] == [("so", "*"), ()]
    assert notes[1:] == ["--ignore names labels that do not occur: gone"] and "well (1)" in notes[0]


def phones(labels: str, inventory: Inventory, *ignored: str) -> tuple[str, list[str]]:
    task = Task(Recording(Path("a.wav"), Path("a")), Transcript(tuple(labels.split())))
    (done,), notes = without_nonspeech([task], inventory, ignored)
    assert isinstance(done.transcript, Transcript)
    return " ".join(done.transcript.labels), notes


def test_pauses_and_noise_among_phones_go_where_a_model_lacks_them() -> None:
    assert phones("sil M AY1 sp S xxx S ?", CMU)[0] == "M AY1 S * S *"
    assert phones("sil t a sp i (laugh)", FOUND)[0] == "sil t a sil i *"
    assert "written as sil: sp (1)" in phones("sil t a sp i", FOUND)[1][0]
    said = "no phones: noise and unclear speech, placed as * (any sound): zz (1)"
    assert phones("t zz a", FOUND, "zz") == ("t * a", [said])
    assert phones("t a i", FOUND) == ("t a i", [])


def test_labels_of_timit_become_those_of_a_smaller_set_of_arpabet() -> None:
    labels, notes = phones("h# dh axr kcl k ae tcl q s tcl t bcl d epi h#", CMU)
    assert labels == "dh er k ae t * s t b d"
    assert "kcl k as k (1)" in notes[1] and "tcl t as t (1)" in notes[1] and "q as * (1)" in notes[1]
    assert phones("dh axr kcl k", named_inventory("timit61")) == ("dh axr kcl k", [])
    assert phones("dh gone", CMU)[0] == "dh gone", "what no list has is an error later"
