"""Train again: what becomes the corpus, what is held out, and a whole round in its own process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import soundfile

from speechctc.config.load import parse_config
from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.core.files import read_json, write_json
from speechctc.corpora.registry import read_corpus
from speechctc.features.shards import read_shard
from speechctc.features.splits import read_split
from speechctc.inference.recogniser import Recogniser
from speechctc.stages.open_model import open_model
from speechctc.studio.document import Document
from speechctc.studio.journal import Phone
from speechctc.studio.training import (
    MIN_HELD_OUT_RECORDINGS,
    STATE,
    Round,
    Training,
    choose_held_out,
    main,
    pieces,
    write_corpus,
)
from speechctc.training.growth import remember
from tests.studio.folders import SONG, write_labelled


def labelled(folder: Path, count: int) -> dict[str, Document]:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        write_labelled(folder / f"s{number}.wav", SONG[: 4 + number % 4], seed=number)
    return {path.name: Document(path) for path in sorted(folder.glob("*.wav"))}


def test_held_out_recordings_are_whole_and_stay_held_out() -> None:
    names = [f"r{number}" for number in range(20)]

    def labels(some: list[str]) -> dict[str, list[str]]:
        return dict.fromkeys(some, ["a", "b"])

    assert choose_held_out(labels(names[: MIN_HELD_OUT_RECORDINGS - 1]), names, [], []) == []
    assert choose_held_out(labels(names), [], [], []) == []
    first = choose_held_out(labels(names[:10]), names[:10], [], [])
    assert len(first) == 2
    trained = [name for name in names[:10] if name not in first]
    second = choose_held_out(labels(names), names, first, trained)
    assert set(first) < set(second) and len(second) == 4 and not set(second) & set(trained)
    assert sorted(choose_held_out(labels(names[:10]), names[:10], first, trained)) == sorted(first)


@pytest.mark.parametrize("own", range(6))
def test_six_corrected_recordings_leave_a_dev_that_can_be_scored(tmp_path: Path, own: int) -> None:
    """One of them has a label that the others lack: whichever it is, it is trained on."""
    documents = {}
    for number in range(6):
        labels = ["a", "b", "c", "odd" if number == own else "a"]
        write_labelled(tmp_path / f"s{number}.wav", labels, seed=number)
        documents[f"s{number}.wav"] = Document(tmp_path / f"s{number}.wav")
    training = Training(tmp_path)
    training.prepare(documents, tmp_path / "model", SONG, 1.0)
    values = Round(training.folder / "round-1").corpus()
    corpus = read_corpus(parse_config({"corpus": values}, "test").corpus)
    assert len(corpus.splits["dev"]) == len(corpus.splits["test"]) == 1 and not any(corpus.rejected.values())
    assert "odd" in {phone for each in corpus.splits["train"] for phone in each.phones}


def test_a_round_without_a_dev_says_what_can_be_done_in_the_page(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "talks"
    folder.mkdir()
    for number in range(3):
        write_labelled(folder / f"s{number}.wav", [f"x{number}", "a"], seed=number)
    training = Training(folder)
    documents = {path.name: Document(path) for path in sorted(folder.glob("*.wav"))}
    Round(training.prepare(documents, (tiny_model / "best").resolve(), SONG, 1.0)).go()
    status = training.status()
    assert status["state"] == "failed"
    assert "each has a label that no other has: x0, x1, x2; correct another recording" in status["line"]
    assert not any(word in status["line"] for word in ("--", "data.", "corpus.", "split"))


def test_long_recordings_are_cut_at_pauses_and_only_corrected_pieces_are_used(tmp_path: Path) -> None:
    times = [0.1 + 0.2 * k + 0.5 * (k // 30) for k in range(120)]
    phones = [Phone(round(t, 4), round(t + 0.2, 4), "a", 0.5) for t in times]
    cut = list(pieces(phones, 40.0))
    assert sum((piece.phones for piece in cut), ()) == tuple(phones)
    assert all(piece.end - piece.start < 7 for piece in cut) and len(cut) == 4
    assert all(left.end <= right.start for left, right in zip(cut, cut[1:], strict=False))
    assert list(pieces(phones[:3], 2.0))[0][:2] == (0.0, 2.0) and not list(pieces([], 2.0))

    soundfile.write(tmp_path / "long.wav", [0.0] * 16000 * 40, 16000)
    document = Document(tmp_path / "long.wav")
    document.replace(0, 0, 0, tuple(phones), "recognised")
    document.edit(document.revision, {"what": "relabel", "phone": 65, "label": "x"})
    found = write_corpus({"long.wav": document}, [], tmp_path / "corpus")
    [piece] = found["long.wav"]
    assert (len(piece.phones), sum(phone.checked for phone in piece.phones)) == (30, 1)


@pytest.mark.parametrize(("rate", "frames"), [(22050, 12345), (16000, 16001), (44100, 100_003)])
def test_a_phone_may_end_with_the_recording(tmp_path: Path, rate: int, frames: int) -> None:
    """The end of the last phone is no longer than the piece, however both are rounded."""
    talks = tmp_path / "talks"
    talks.mkdir()
    for name in "ab":
        soundfile.write(talks / f"{name}.wav", [0.0] * frames, rate)
        document = Document(talks / f"{name}.wav")
        end = frames / rate
        document.replace(0, 0, 0, (Phone(0.0, end / 2, "a", 0.5), Phone(end / 2, end, "b", 0.5)), "recognised")
        document.edit(document.revision, {"what": "relabel", "phone": 0, "label": "x"})
    found = write_corpus({path.name: Document(path) for path in talks.glob("*.wav")}, [], tmp_path / "corpus")
    assert [len(piece.phones) for parts in found.values() for piece in parts] == [2, 2]


def test_a_round_that_cannot_be_prepared_leaves_nothing(tmp_path: Path, tiny_model: Path) -> None:
    documents = labelled(tmp_path / "talks", 3)
    training = Training(tmp_path / "talks")
    documents["s1.wav"].recording.unlink()
    with pytest.raises(InputError, match=r"s1\.wav"):
        training.start(documents, tiny_model / "best", SONG, 1.0)
    assert training.status() == {} and not list(training.folder.glob("round-*"))


def test_too_few_corrections_are_said(tmp_path: Path, tiny_model: Path) -> None:
    training = Training(tmp_path / "talks")
    with pytest.raises(InputError, match="1 corrected recordings; training needs 2"):
        training.start(labelled(tmp_path / "talks", 1), tiny_model / "best", SONG, 1.0)
    with pytest.raises(InputError, match="minutes of training"):
        training.start(labelled(tmp_path / "talks", 2), tiny_model / "best", SONG, 0.0)
    assert not training.folder.exists() and training.status() == {}


@pytest.mark.slow
def test_a_round_trains_scores_and_hands_over_a_model(tmp_path: Path, tiny_model: Path) -> None:
    """The recordings have labels that the first model does not know; the new one learns them. No file is changed."""
    documents = labelled(tmp_path / "talks", 10)
    before = {path: path.read_bytes() for path in (tmp_path / "talks").iterdir()}
    training = Training(tmp_path / "talks")
    training.start(documents, tiny_model / "best", sorted(set(SONG)), 0.1)
    with pytest.raises(InputError, match="a training is running"):
        training.start(documents, tiny_model / "best", SONG, 1.0)
    while training.is_running():
        time.sleep(0.1)
    status = training.status()
    assert status["state"] == "done", status
    assert len(status["test"]) == 2 and len(status["train"]) == 8 and status["curve"][0]["epoch"] == 1
    assert status["start_per"] == 0 and status["before"]["recordings"] == 2
    assert "not reliable" in status["after"]["caution"]
    again = Training(tmp_path / "talks")
    new = again.better_model(status)
    assert again.is_new(status) and new is not None
    assert again.better_model(status | {"before": {"per": 1.0}, "after": {"per": 2.0}}) is None
    again.choose(new)
    assert not again.is_new(again.status()) and again.chosen == new
    assert set(open_model(again.models()[0]["folder"], Recogniser).phones) == set(SONG)
    assert {path: path.read_bytes() for path in (tmp_path / "talks").iterdir()} == before


def test_a_round_extracts_what_is_new_and_has_the_dev_of_the_last(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, found = Training(tmp_path / "talks"), []

    def note(config: Config, *rest: object) -> None:
        features = config.features.model_dump(mode="json")
        splits = {split: read_split(config.data.dir / split, features) for split in ("train", "dev", "test")}
        stored = [read_shard(path) for path in (config.data.dir / "store").glob("*.safetensors")]
        remember(config, splits["dev"].marks())
        found.append((splits["dev"].table.ids, sorted(len(shard.keys) for shard in stored)))

    monkeypatch.setattr("speechctc.stages.train.train", note)
    for count in (8, 14):
        documents = labelled(tmp_path / "talks", count)
        Round(training.prepare(documents, tiny_model / "best", sorted(set(SONG)), 1.0)).train()
    assert found[0][0] == found[1][0] and found[0][0]
    assert [lengths for _, lengths in found] == [[8], [6, 8]]


@pytest.mark.parametrize("has_best", [False, True])
def test_what_comes_after_the_last_epoch_is_not_stopped(
    tmp_path: Path, has_best: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop, pressed while the new model is calibrated or scored, does not lose it."""
    write_json(tmp_path / STATE, {"model": str(tmp_path), "test": []})
    monkeypatch.setattr("sys.argv", ["round", str(tmp_path)])

    def train(self: Round) -> None:
        (tmp_path / "run" / "best").mkdir(parents=True) if has_best else None
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Round, "train", train)
    monkeypatch.setattr(Round, "per_of", lambda self, model: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main() == (not has_best)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read_json(tmp_path / STATE)["state"] == ("done" if has_best else "stopped")


@pytest.mark.parametrize("number", [None, 0, -1, True, 2**80, "1", 1.5, []])
def test_stop_ends_no_process_but_the_rounds_own(
    tmp_path: Path, number: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart another program has the number in a round's state; a stranger's may name any."""
    sent: list[int] = []
    monkeypatch.setattr("os.kill", lambda process, _: sent.append(process))
    training = Training(tmp_path / "talks")
    plan = tmp_path / "talks-studio" / "round-1" / STATE
    plan.parent.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        write_json(plan, {"state": "training", "process": other.pid if number is None else number})
        assert not training.is_running() and training.status()["state"] == "failed"
        training.stop()
        monkeypatch.setattr(Training, "status", lambda self: {**read_json(plan), "round": 1})
        training.stop()
        assert sent == []
        assert other.stdin is not None
        other.stdin.close()
