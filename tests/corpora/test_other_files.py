"""What a survey says of a folder adds up: each file is a recording, read, or named or counted as not read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.core.errors import InputError
from speechctc.corpora.survey import Survey, _finder, survey

GRID = textgrid_text(1.0, {"phones": [Interval(0.0, 0.2, "a"), Interval(0.2, 0.4, "p")]})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with the folder `c`, which has the recordings a and b of 1 s."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        write(f"c/wav/{name}.wav", "")
        soundfile.write(f"c/wav/{name}.wav", np.zeros(8000, np.float32), 8000)


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def unread(found: Survey) -> list[str]:
    return [note for note in found.notes if note.startswith("not read: ")]


OTHERS = {
    "buckeye": (
        ["wav/a.phones", "wav/a.words", "wav/b.phones"],
        "3 other files (2 .phones, 1 .words), such as wav/a.ph",
    ),
    "emu": (["a_bndl/a_annot.json", "c_DBconfig.json"], "2 other files (2 .json), such as a_bndl/a_annot.json"),
    "switchboard": (["20/a-trans.text"], "1 other file (1 .text), such as 20/a-trans.text"),
    "festvox": (
        ["lab/a.lab", "lab/b.lab", "COPYING"],
        "3 other files (2 .lab, 1 without an ending), such as lab/a.lab",
    ),
    "libritts": (["wav/a.normalized.txt"], "1 other file (1 .txt), such as wav/a.normalized.txt"),
    "thchs": (["wav/a.wav.trn", "wav/.hidden", ".git/x.txt"], "1 other file (1 .trn), such as wav/a.wav.trn"),
    "collection": (["wav/a.Collection"], "1 other file (1 .collection), such as wav/a.Collection"),
}


@pytest.mark.parametrize("layout", OTHERS)
def test_files_of_kinds_that_are_not_read_are_counted(layout: str) -> None:
    names, said = OTHERS[layout]
    for name in names:
        write(f"c/{name}", "x y\n")
    (note,) = unread(survey(Path("c")))
    assert note.startswith(f"not read: {said}")


def test_manifests_that_are_alike_and_not_read_are_one_line() -> None:
    for name in "ab":
        write(f"c/{name}_annot.json", json.dumps({"annotates": f"{name}.wav", "levels": []}, indent=1))
    found = survey(Path("c"))
    (note,) = [note for note in found.notes if "correct the manifest" in note]
    assert note.startswith("not used: c/a_annot.json: ") and note.endswith("(2 times, also for c/b_annot.json)")
    assert not unread(found) and "mend" in found.hints


@given(st.sets(st.from_regex(r"[ab.]{0,3}\.(w|wa)", fullmatch=True), max_size=4), st.text("abw. ", max_size=20))
def test_names_are_found_in_a_text_as_one_by_one(names: set[str], text: str) -> None:
    assert _finder(names)(text) == any(name in text for name in names)


def test_files_beside_those_that_are_used_are_counted_too() -> None:
    for name in "ab":
        write(f"c/wav/{name}.TextGrid", GRID)
        write(f"c/wav/{name}.txt", "ap\n")
    write("c/lost.TextGrid", GRID)
    found = survey(Path("c"))
    assert len(found.utterances) == 2 and "TextGrids without a recording" in "".join(found.corpus.warnings)  # type: ignore[union-attr]
    assert unread(found) == ["not read: 2 other files (2 .txt), such as wav/a.txt"]


def test_the_files_of_a_table_and_what_is_beside_it_are_read() -> None:
    write("c/kaldi/wav.scp", "a ../wav/a.wav\nb ../wav/b.wav\n")
    write("c/kaldi/text", "a hh ah l ow\nb d ey l iy\n")
    for name in ("utt2spk", "spk2utt", "utt2dur"):
        write(f"c/kaldi/{name}", "a a\n")
    write("c/kaldi/cmvn.ark", "x")
    found = survey(Path("c"))
    assert len(found.utterances) == 2
    assert unread(found) == ["not read: 1 other file (1 .ark), such as kaldi/cmvn.ark"]


def test_the_recordings_beside_supervisions_are_read() -> None:
    sources = [{"type": "file", "channels": [0], "source": "wav/a.wav"}]
    recording = {"id": "r", "sources": sources, "sampling_rate": 8000, "num_samples": 8000, "duration": 1.0}
    said = {"id": "a", "recording_id": "r", "start": 0.0, "duration": 1.0, "channel": 0, "text": "hh ah l ow d ey"}
    write("c/recordings_train.jsonl", json.dumps(recording))
    write("c/supervisions_train.jsonl", json.dumps(said))
    found = survey(Path("c"))
    assert len(found.utterances) == 1 and not unread(found)


LABELS = {"TextGrid": GRID, "lab": "0 2000000 a\n2000000 4000000 p\n", "stm": "a 1 s 0.0 0.5 hello\nb 1 s 0.0 0.5 so\n"}


@pytest.mark.parametrize("ending", LABELS)
def test_labels_in_a_folder_of_their_own_are_named_with_their_recordings(ending: str) -> None:
    for name in "abx":
        write(f"c/labels/{name}.{ending}", LABELS[ending])
    found = survey(Path("c"))
    (note,) = [note for note in found.notes if "in another folder" in note]
    assert f"(2, such as c/labels/a.{ending} of c/wav/a.wav)" in note and found.case == "elsewhere"
    assert not unread(found) or ending == "lab"


@pytest.mark.parametrize("splits", [["train"], ["train", "test"]])
def test_tables_whose_recordings_are_not_there_say_so(splits: list[str]) -> None:
    for split in splits:
        write(f"k/{split}/wav.scp", "a /export/a.wav\n")
        write(f"k/{split}/text", "a hello there\n")
    with pytest.raises(InputError) as refused:
        survey(Path("k"))
    assert "none of their recordings is there; the first, /export/a.wav" in str(refused.value)
    assert all(f"k/{split}" in str(refused.value) for split in splits)
