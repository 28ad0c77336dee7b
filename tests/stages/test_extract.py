"""Extraction depends on the corpus and the features, not on the net."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from speechctc.config.load import load_config
from speechctc.features.padded import static_features
from speechctc.features.splits import SplitFeatures, read_split
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.streaming import opened
from speechctc.stages.evaluate import evaluate
from speechctc.stages.extract import extract
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.stages.train import train
from speechctc.training.batches import Split
from tests.corpora.test_extraction_report import write_tables, write_voices
from tests.tones import write_config
from tests.train_helpers import Recorder


def test_the_time_stride_of_the_net_changes_no_features(tmp_path: Path) -> None:
    """The phones of one recording need more frames than it has, at any stride."""
    write_voices(tmp_path)
    config = write_tables(tmp_path, f"left.wav,{'_'.join(['aa'] * 200)}, right.wav,aa_b,", "left.wav,b,")
    for stride, count in ((4, 3), (1, 0)):
        recorder = Recorder()
        summaries = extract(load_config(config, [f"model.time_stride={stride}"]), recorder)
        assert [(summary.utterances, summary.skipped) for summary in summaries[:2]] == [(2, ()), (1, ())]
        assert any(
            line.startswith(f"{count} utterances extracted, {3 - count} there already") for line in recorder.said
        )


def test_training_leaves_out_what_does_not_fit_at_its_stride(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=6, held_out=2)
    table = tmp_path / "table0.jsonl"
    table.write_text(table.read_text().replace('"phones": [', '"phones": [' + '"low", ' * 60, 1))
    loaded = load_config(config)
    extract(loaded, Recorder())
    assert read_split(loaded.data.dir / "train", loaded.features.model_dump(mode="json")).table.ids[0] == "u0-000"
    recorder = Recorder()
    train(load_config(config, ["train.epochs=1"]), False, recorder)
    (said,) = [line for line in recorder.said if "left out" in line]
    assert said.startswith("warning: 1 utterance left out") and said.endswith("u0-000")


def test_a_recording_with_an_absurd_sample_is_left_out_and_listed(tmp_path: Path) -> None:
    loaded = load_config(write_config(tmp_path, train=6, held_out=2))
    path = tmp_path / "audio" / "0-003.wav"
    samples, rate = soundfile.read(path)
    samples[1000] = 1e15
    soundfile.write(path, samples, rate, subtype="FLOAT")
    train, *_ = extract(loaded, Recorder())
    assert train.utterances == 5
    (listed,) = (loaded.data.dir / "skipped.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert listed.startswith("train\tu0-003\t") and "0-003.wav: a sample of 1e+15 times full scale" in listed


def statics(features: SplitFeatures) -> list[torch.Tensor]:
    split = Split(features)
    return [split.static(index).clone() for index in range(len(split))]


@pytest.mark.parametrize("how", ["swapped", "named right", "copied"])
def test_features_are_those_of_a_recordings_bytes(tmp_path: Path, how: str) -> None:
    config = load_config(write_config(tmp_path, 3, 3))
    first, second = (tmp_path / "audio" / f"0-00{k}.wav" for k in range(2))
    samples, rate = soundfile.read(first)
    for path, sound in ((first, samples), (second, samples[::-1])):  # of one length, and of one time
        soundfile.write(path, sound, rate)
        os.utime(path, (10**9, 10**9))
    table = tmp_path / "table0.jsonl"
    if how == "named right":
        right = table.read_text()
        table.write_text(right.replace(first.name, second.name))
    extract(config, Recorder())
    before = statics(read_split(config.data.dir / "train", config.features.model_dump(mode="json")))
    if how == "swapped":
        for path, to in ((first, "x"), (second, first), (tmp_path / "audio" / "x", second)):
            path.rename(path.parent / to)
    elif how == "named right":
        table.write_text(right)
    else:
        second.write_bytes(second.read_bytes())
    recorder = Recorder()
    extract(config, recorder)
    new = 1 if how == "named right" else 0  # else their bytes are known, under whatever name
    assert recorder.said[-1].startswith(f"{new} utterance{'' if new else 's'} extracted")
    after = statics(read_split(config.data.dir / "train", config.features.model_dump(mode="json")))
    assert all(old.equal(new) for old, new in zip(before, after, strict=True)) == (how == "copied")


def test_dev_is_heard_as_decoding_hears_it_and_what_is_trained_on_is_not(tmp_path: Path) -> None:
    """The dev PER of an epoch is that of evaluate; tones are steady, so here they are changed only where told."""
    config = write_config(tmp_path, train=6, held_out=3)
    found = {}
    for when in ("never", "always", "auto"):
        loaded = load_config(config, [f"decode.dereverb={when}"])
        extract(loaded, Recorder())
        features = loaded.features.model_dump(mode="json")
        splits = {split: read_split(loaded.data.dir / split, features) for split in ("train", "dev", "test")}
        found[when] = {split: torch.cat(statics(each)) for split, each in splits.items()}
    for split in ("train", "test"):
        assert torch.equal(found["never"][split], found["always"][split])
    assert torch.equal(found["never"]["dev"], found["auto"]["dev"])
    assert not torch.equal(found["never"]["dev"], found["always"]["dev"])
    row = json.loads((tmp_path / "table1.jsonl").read_text().splitlines()[0])
    with opened(tmp_path / row["audio"], None, None, loaded.features.sample_rate, "always") as (_, blocks):
        heard = static_features(torch.from_numpy(np.concatenate([*blocks])), loaded.features)
    stored = found["always"]["dev"][: len(heard)].float()
    torch.testing.assert_close(stored, heard.to(found["always"]["dev"].dtype).float(), rtol=2e-3, atol=2e-3)


def test_evaluate_gives_the_dev_per_of_the_last_epoch_and_says_what_was_taken_off(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=8, held_out=4)
    settings = ["decode.dereverb=always", "train.epochs=3", f"run={tmp_path}/run"]
    loaded = load_config(config, settings)
    extract(loaded, Recorder())
    dev = train(loaded, False, Recorder()).dev
    assert dev is not None
    model = open_model(tmp_path / "run" / "last", Recogniser, ModelChoice("cpu"))
    scored = evaluate(model, "dev", (), Recorder())
    assert scored.counts == dev.counts and scored.dereverberated == 4 == scored.to_dict()["dereverberated"]
    assert "reverberation or hum was taken off 4 of them first" in scored.to_text()
    plain = evaluate(model, "dev", ("decode.dereverb=never",), Recorder())
    assert plain.dereverberated == 0 and "taken off" not in plain.to_text()
