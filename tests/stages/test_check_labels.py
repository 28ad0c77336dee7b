"""Wrong labels come first, with their place; the scores are those of brute force."""

from __future__ import annotations

import csv
import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.stages.check_labels import doubt
from tests.command import Command, one_line_error
from tests.tiny_model import write_song

SONG = ["low", "top", "mid", "high", "low"]


def write_corpus(folder: Path, songs: dict[str, list[str]], labels: dict[str, list[str]]) -> Path:
    """Write recordings of songs, with labels that may differ, and a config."""
    rows = []
    for number, (id, song) in enumerate(songs.items()):
        write_song(folder / f"{id}.wav", song, seed=number)
        rows.append({"id": id, "audio": f"{id}.wav", "phones": labels.get(id, song), "speaker": f"s{number % 2}"})
    for split, part in (("train", rows[:-2]), ("dev", rows[-2:])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    config = {"corpus": {"kind": "table", "tables": {"train": "train.jsonl", "dev": "dev.jsonl"}}}
    (folder / "c.yaml").write_text(json.dumps(config))
    return folder / "c.yaml"


def test_wrong_labels_come_first_with_their_place(speechctc: Command, tiny_model: Path, here: Path) -> None:
    songs = {f"u{k}": SONG[k % 3 :] + SONG[: k % 3] for k in range(8)}
    labels = {"u2": songs["u0"], "u5": [*songs["u5"][:1], *songs["u5"][2:]], "u7": ["low"] * 400}
    config = write_corpus(here, songs, labels)
    before = {path: path.read_bytes() for path in here.iterdir()}
    done = speechctc("check-labels", "--config", config, "--model", tiny_model, "--report", "page")
    rows = list(csv.DictReader((here / "suspects.tsv").read_text().splitlines(), delimiter="\t"))
    assert done.status == 0 and max(map(len, done.out.splitlines())) < 200
    assert [row["rank"] for row in rows] == [str(k) for k in range(1, 9)] and {row["id"] for row in rows} == set(songs)
    assert {row["id"] for row in rows[:3]} == set(labels) and rows[0]["id"] == "u7" and rows[0]["gain"] == "inf"
    (missing,) = [row for row in rows if row["id"] == "u5"]
    assert missing["heard_there"] == songs["u5"][1] and missing["labels_there"] == ""
    assert 0.0 < float(missing["start"]) < float(missing["end"]) < 0.6
    assert float(missing["gain"]) > 3 > max(float(row["gain"]) for row in rows[3:])
    page = (here / "page" / "suspects.html").read_text()
    assert re.search(r"speechctc studio \S*u5\.wav</code>", page)
    assert "u5" in page and "The labels do not fit" in page and page.count("<audio") >= 3
    assert {path: path.read_bytes() for path in before} == before


def test_a_corpus_with_other_phones_is_refused_in_a_line(speechctc: Command, tiny_model: Path, here: Path) -> None:
    songs = {f"u{k}": SONG for k in range(4)}
    config = write_corpus(here, songs, {id: ["a", "b"] for id in songs})
    said = one_line_error(speechctc("check-labels", "--config", config, "--model", tiny_model))
    assert "none of 4 utterances can be checked; the first: the label 'a'" in said
    assert not (here / "suspects.tsv").exists()


def brute(logits: NDArray[np.float32], labels: list[int]) -> float:
    """Return the log probability of labels by the sum over all paths."""
    p = np.exp(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    total = 0.0
    for path in product(range(p.shape[1]), repeat=len(p)):
        merged = [k for t, k in enumerate(path) if k and (t == 0 or path[t - 1] != k)]
        total += float(np.prod(p[np.arange(len(p)), path])) if merged == labels else 0.0
    return float(np.log(total)) if total else -np.inf


def test_scores_and_gains_are_those_of_brute_force() -> None:
    logits = np.random.default_rng(3).standard_normal((5, 4)).astype(np.float32)
    for labels, heard in (([1, 2, 3], [1, 3, 3]), ([1, 2], [2, 1, 3]), ([], [1]), ([2, 1], []), ([1, 1, 1], [1])):
        found = doubt(logits, labels, heard)
        assert found.labels == pytest.approx(brute(logits, labels), abs=1e-5)
        assert found.heard == pytest.approx(brute(logits, heard), abs=1e-5)
        for place in found.places:
            other = [*labels[: place.start], *heard[place.heard_start : place.heard_end], *labels[place.end :]]
            assert place.gain == pytest.approx(brute(logits, other) - brute(logits, labels), abs=1e-5)
        assert [place.gain for place in found.places] == sorted((p.gain for p in found.places), reverse=True)


def test_labels_that_cannot_fit_are_infinitely_doubtful() -> None:
    found = doubt(np.zeros((3, 4), np.float32), [1, 1, 1], [1])
    assert found.labels == -np.inf and found.per_phone == np.inf


def test_utterances_that_are_cut_from_a_recording_are_heard_alone(
    speechctc: Command, tiny_model: Path, here: Path
) -> None:
    songs, wrong = [SONG, SONG[1:] + SONG[:1], SONG[::-1], SONG], 2
    waves, phones, at = [], [], 0.0
    for number, song in enumerate(songs):
        times = write_song(here / "song.wav", song, seed=number)
        wave, rate = soundfile.read(here / "song.wav")
        labels = SONG if number == wrong else song
        phones += [Interval(at + start, at + end, label) for (start, end), label in zip(times, labels, strict=True)]
        waves += [wave, 1e-3 * np.random.default_rng(number).standard_normal(2 * rate)]
        at += len(wave) / rate + 2
    root = here / "long"
    root.mkdir()
    soundfile.write(root / "all.wav", np.concatenate(waves), rate)
    (root / "all.TextGrid").write_text(textgrid_text(at, {"phones": phones}))
    config = here / "c.yaml"
    config.write_text(json.dumps({"corpus": {"kind": "textgrid", "root": str(root), "phones": "found"}}))
    assert speechctc("check-labels", "--config", config, "--model", tiny_model, "--report", "page").status == 0
    rows = list(csv.DictReader((here / "suspects.tsv").read_text().splitlines(), delimiter="\t"))
    begin = phones[wrong * len(SONG)].start
    assert len(rows) == 4 and float(rows[0]["gain"]) > 10 > max(float(row["gain"]) for row in rows[1:])
    assert begin - 1 < float(rows[0]["start"]) < float(rows[0]["end"]) < begin + 3
    assert (here / "page" / "suspects.html").read_text().count("<audio") >= 1
