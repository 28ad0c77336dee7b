"""Recordings of one word, with long silences around it, train and are learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from speechctc.config.load import load_config
from speechctc.stages.extract import extract
from tests.tones import PHONES, RATE, speak, write_config
from tests.train_helpers import Recorder, score_once

SIDES = {"train": "train", "dev": "dev", "test": "dev"}


def test_one_word_between_long_silences_trains(tmp_path: Path) -> None:
    config = write_config(tmp_path, train=1, held_out=1)
    rng = np.random.default_rng(3)
    for split, seed in (("train", 0), ("dev", 1)):
        rows = ["id\taudio\tphones\tspeaker"]
        for k in range(24 if split == "train" else 4):
            word = [PHONES[k % 4]] if k % 2 else [PHONES[k % 4], PHONES[(k + 1) % 4]]
            quiet = 1e-3 * rng.standard_normal((2, RATE)).astype(np.float32)
            soundfile.write(tmp_path / f"{split}{k}.wav", np.concatenate([quiet[0], speak(word, rng), quiet[1]]), RATE)
            rows.append(f"{split}{k}\t{split}{k}.wav\t{' '.join(word)}\ts{k % 2 + 2 * seed}")
        (tmp_path / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    tables = [f"corpus.tables.{split}={tmp_path}/{side}.tsv" for split, side in SIDES.items()]
    recorder = Recorder()
    extract(load_config(config, tables), recorder)
    score = score_once(config, tmp_path / "run", *tables, "train.epochs=15", "train.batch_size=4", recorder=recorder)
    assert score.counts.per < 90  # nothing but blanks would be 100
    assert "24 utterances" in "\n".join(recorder.said) and "skipped" not in "\n".join(recorder.said)
