"""The way through on real speech, where it lies beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.core.progress import Reporter
from speechctc.inference.recogniser import Recogniser
from speechctc.stages.evaluate import evaluate
from speechctc.stages.extract import extract
from speechctc.stages.open_model import open_model
from speechctc.stages.train import train

pytestmark = pytest.mark.shared


def test_the_timit_sample_goes_through(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["corpus.kind=timit", f"corpus.root={shared_data / 'timit-sample'}", "data.dir=features", "run=run"]
    settings += ["train.epochs=1", "model.convs=[8]", "model.dense=[16]"]
    config = load_config("demo", settings)
    summaries = {summary.split: summary for summary in extract(config, Reporter(quiet=True))}
    assert summaries["train"].utterances and summaries["dev"].utterances and summaries["test"].utterances
    assert not any(summary.skipped for summary in summaries.values())
    train(config, False, Reporter(quiet=True))
    result = evaluate(open_model(Path("run"), Recogniser), "test", [], Reporter(quiet=True))
    assert "39 phones" in result.protocol and result.counts.reference_phones > 100
