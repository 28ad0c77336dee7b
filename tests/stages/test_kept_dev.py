"""A model is scored on the dev that its run had, also where dev would be chosen otherwise by now."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.corpora import corpus_builder
from speechctc.corpora.registry import read_corpus
from speechctc.inference.recogniser import Recogniser
from speechctc.model.checkpoint import write_about
from speechctc.stages.extract import extract
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.split_scoring import ScoredSplit, score_split
from speechctc.stages.train import train
from tests.tones import write_config
from tests.train_helpers import Recorder

WARNING = "warning: dev was chosen again"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the config of a run whose dev is a speaker of its table."""
    folder = tmp_path_factory.mktemp("kept_dev")
    config = write_config(folder, train=24, held_out=2)
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(f"dev: {folder}/table1.jsonl", "dev: null"), encoding="utf-8")
    extract(load_config(config), Recorder())
    train(load_config(config, ["train.epochs=1"]), False, Recorder())
    return config


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of the run's folder."""
    return Path(shutil.copytree(trained.parent / "run", tmp_path / "run"))


@pytest.fixture
def before(trained: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Choose dev by another rule, as another version may; return the ids of the dev of before."""
    before = held_out(trained)
    speakers = {each.speaker for each in read_corpus(load_config(trained).corpus).splits["dev"]}
    monkeypatch.setattr(corpus_builder, "shuffled", lambda name: (name in speakers, name))
    assert before and held_out(trained).isdisjoint(before)
    return before


def held_out(config: Path) -> set[str]:
    return {each.id for each in read_corpus(load_config(config).corpus).splits["dev"]}


def scored(run: Path, *settings: str) -> tuple[ScoredSplit, Recorder]:
    recorder = Recorder()
    return score_split(open_model(run, Recogniser, ModelChoice("cpu")), "dev", settings, recorder, "scoring"), recorder


def ids(split: ScoredSplit) -> set[str]:
    return {each.id for each in split.utterances}


def forget(run: Path) -> None:
    """Make the checkpoint one that does not say the ids of dev, as exported ones."""
    about = json.loads((run / "best" / "checkpoint.json").read_text(encoding="utf-8"))
    del about["dev_utterances"]
    write_about(run / "best", about)


def test_dev_stays_that_of_the_run_where_another_would_be_chosen(trained: Path, run: Path, before: set[str]) -> None:
    found, recorder = scored(run)
    assert ids(found) == before
    assert any(
        line.startswith(f"dev: the {len(before)} utterances that the model's run held out") for line in found.notes
    )
    assert not any(line.startswith("warning") for line in recorder.said)


def test_utterances_of_dev_that_are_gone_are_named_and_new_ones_are_not_dev(
    trained: Path, run: Path, before: set[str], tmp_path: Path
) -> None:
    table = trained.parent / "table0.jsonl"
    text = table.read_text(encoding="utf-8")
    gone = min(before)
    kept = [line for line in text.splitlines() if json.loads(line)["id"] != gone]
    new = json.loads(kept[0]) | {"id": "new", "speaker": "s9"}
    try:
        table.write_text("\n".join([*kept, json.dumps(new)]) + "\n", encoding="utf-8")
        found, _ = scored(run)
    finally:
        table.write_text(text, encoding="utf-8")
    assert ids(found) == before - {gone}
    assert f"1 of the {len(before)} utterances of the run's dev are gone: {gone}" in found.notes


def test_a_model_that_does_not_say_its_dev_is_scored_with_a_warning(trained: Path, run: Path, before: set[str]) -> None:
    forget(run)
    found, recorder = scored(run)
    assert ids(found) == held_out(trained)
    assert sum(line.startswith(WARNING) for line in recorder.said) == 1


def test_another_corpus_is_divided_as_ever(trained: Path, run: Path, tmp_path: Path) -> None:
    other = write_config(tmp_path / "other", train=12, held_out=2)
    table = other.parent / "table0.jsonl"
    table.write_text(table.read_text(encoding="utf-8").replace('"id": "u', '"id": "v'), encoding="utf-8")
    found, recorder = scored(run, f"corpus.tables.train={table}")
    assert ids(found) and all(each.startswith("v") for each in ids(found))
    assert not any(line.startswith("warning") for line in recorder.said)


def test_recordings_that_were_trained_on_are_counted_by_their_content(trained: Path, run: Path, tmp_path: Path) -> None:
    shutil.copytree(trained.parent / "audio", tmp_path / "audio")
    rows = (trained.parent / "table0.jsonl").read_text(encoding="utf-8").replace('"id": "u', '"id": "v')
    (tmp_path / "test.jsonl").write_text(rows, encoding="utf-8")
    recorder, everything = Recorder(), len(rows.splitlines())
    score_split(
        open_model(run, Recogniser, ModelChoice("cpu")),
        "test",
        [f"corpus.tables.test={tmp_path}/test.jsonl"],
        recorder,
        "",
    )
    (warning,) = (line for line in recorder.said if "was trained on" in line)
    assert f"{everything - len(held_out(trained))} of the {everything} recordings of test" in warning


def test_a_moved_corpus_has_the_dev_of_the_run(trained: Path, run: Path, before: set[str], tmp_path: Path) -> None:
    shutil.copytree(trained.parent / "audio", tmp_path / "moved" / "audio")
    shutil.copy(trained.parent / "table0.jsonl", tmp_path / "moved")
    assert ids(scored(run, f"corpus.tables.train={tmp_path}/moved/table0.jsonl")[0]) == before
