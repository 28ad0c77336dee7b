"""What extraction says of a corpus, and which channel it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import torch

from speechctc.config.load import load_config
from speechctc.config.schema import Config
from speechctc.features.splits import read_split
from speechctc.stages.extract import extract
from speechctc.training.batches import Split
from tests.tones import RATE, speak
from tests.train_helpers import Recorder

CONFIG = """
corpus: {{kind: table, tables: {{train: {0}/train.csv, dev: {0}/dev.csv}}}}
data: {{dir: {0}/features}}
features: {{mels: 20}}
model: {{time_stride: 2}}
"""


def write_tables(folder: Path, train: str, dev: str) -> Path:
    """Write both tables, whose rows are ``audio,phones,channel``, and a config; return it."""
    for split, rows in (("train", train), ("dev", dev)):
        lines = [f"{split}{k},{row}" for k, row in enumerate(rows.split())]
        (folder / f"{split}.csv").write_text("id,audio,phones,channel\n" + "\n".join(lines).replace("_", " ") + "\n")
    (folder / "c.yaml").write_text(CONFIG.format(folder))
    return folder / "c.yaml"


def run(config: Path, *settings: str) -> tuple[Config, list[str]]:
    recorder = Recorder()
    loaded = load_config(config, settings)
    extract(loaded, recorder)
    return loaded, recorder.said


def write_voices(folder: Path) -> None:
    """Write left.wav and right.wav, and both.wav with one in each channel."""
    rng = np.random.default_rng(0)
    low, high = speak(["low"] * 6, rng), speak(["high"] * 6, rng)
    length = min(len(low), len(high))
    both = np.stack([low[:length], high[:length]], axis=1)
    for name, samples in (("both", both), ("left", both[:, 0]), ("right", both[:, 1])):
        soundfile.write(folder / f"{name}.wav", samples, RATE, subtype="FLOAT")


def test_phones_are_counted_by_split_and_rare_ones_told(tmp_path: Path) -> None:
    write_voices(tmp_path)
    config = write_tables(tmp_path, "left.wav,aa_aa_aa_aa_b, right.wav,aa_b_zh,", "left.wav,b_th,")
    loaded, said = run(config, "corpus.phones=cmu39")
    table = [line.split("\t") for line in (loaded.data.dir / "phones.tsv").read_text().splitlines()]
    assert table[0] == ["phone", "train", "dev", "test"] and len(table) == 40
    assert {row[0]: row[1:] for row in table if set(row[1:]) & {"5", "2", "1"}} == {
        "aa": ["5", "0", "0"],
        "b": ["2", "1", "0"],
        "zh": ["1", "0", "0"],
        "th": ["0", "1", "0"],
    }
    text = "\n".join(said)
    assert "phones and their counts in train: aa (5), b (2), zh (1); all in" in text
    assert "warning: phones that occur fewer than 5 times in train: 2 (zh (1), b (2)); correct them" in text
    assert "warning: phones that occur only in dev or test and not in train: 1 (th (1))" in text


def test_one_channel_gives_the_features_of_that_channel_alone(tmp_path: Path) -> None:
    write_voices(tmp_path)
    rows = {"by the table": "both.wav,low,1 both.wav,high,2", "alone": "left.wav,low, right.wav,high,"}
    made = {}
    for name, train in rows.items():
        loaded, said = run(write_tables(tmp_path, train, "left.wav,low,"), f"data.dir={tmp_path / name}")
        split = Split(read_split(tmp_path / name / "train", loaded.features.model_dump(mode="json")))
        made[name] = torch.cat([split.static(index) for index in range(len(split))])
        assert not any("different sounds" in line for line in said)
    assert torch.equal(made["by the table"], made["alone"])


def test_channels_that_differ_are_told_and_another_channel_is_extracted_anew(tmp_path: Path) -> None:
    write_voices(tmp_path)
    config = write_tables(tmp_path, "both.wav,low, left.wav,low, both.wav,low,1", "left.wav,low,")
    _, said = run(config)
    (warning,) = [line for line in said if "different sounds" in line]
    assert "1 (both.wav); corpus.channel=1 reads the first" in warning
    _, said = run(config, "corpus.channel=1")  # both's first channel is there, by the table
    assert not any("different sounds" in line for line in said)
    assert any(line.startswith("2 utterances extracted, 2 there") for line in said)


def test_recordings_that_are_cut_short_are_told(tmp_path: Path) -> None:
    write_voices(tmp_path)
    whole = (tmp_path / "right.wav").read_bytes()
    (tmp_path / "right.wav").write_bytes(whole[: len(whole) // 2])
    _, said = run(write_tables(tmp_path, "left.wav,low, right.wav,low,", "left.wav,low,"))
    (warning,) = [line for line in said if "cut short" in line]
    assert "right.wav: cut short: the header says" in warning
