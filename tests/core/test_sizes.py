"""Files that say they are huge, as sparse ones do: each kind has a largest size, and is refused before it is read."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from speechctc.audio.annotations import read_tiers
from speechctc.audio.eaf import read_eaf
from speechctc.core import files, written
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import load_weights, save_tensors
from speechctc.core.text_files import read_text, read_unpacked
from speechctc.corpora.table_rows import read_table
from speechctc.inference.decoder import Decoder
from speechctc.lm.model import MAX_STRINGS
from speechctc.model.checkpoint import load_checkpoint, save_checkpoint
from speechctc.stages.lm_texts import read_phone_text
from speechctc.stages.open_model import ModelChoice, open_model
from speechctc.training.runs import Run
from tests.tiny_model import random_model

HUGE = 40 << 30
LEAST = 1 << 22  # bytes that reading may take


def sparse(path: Path, size: int, head: bytes = b"") -> Path:
    path.write_bytes(head)
    os.truncate(path, size)
    return path


def peak(act: Callable[[], object]) -> int:
    """Return the most memory that something takes, in bytes."""
    tracemalloc.start()
    try:
        act()
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most


READERS: dict[str, Callable[[Path], object]] = {
    "a.TextGrid": read_tiers,
    "a.eaf": read_eaf,
    "a.txt": read_phone_text,
    "a.lab": read_text,
    "a.tsv": read_table,
    "a.gz": lambda path: read_unpacked(path, "a text"),
    "a.json": files.read_json,
    "metrics.jsonl": lambda path: Run(path.parent).epochs(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_larger_than_its_kind_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    path = sparse(tmp_path / name, HUGE, b"id\taudio\n")

    def read() -> None:
        with pytest.raises((OSError, InputError), match=r"40,960 MiB, where files of its kind have at most"):
            READERS[name](path)

    assert peak(read) < LEAST


def test_a_text_of_zeros_takes_its_size_once(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.txt", size := 1 << 24, b"low mid\nhi")

    def read() -> None:
        with pytest.raises(InputError, match="line 2: a NUL character"):
            read_text(path)

    assert peak(read) < 1.2 * size


def test_weights_take_their_size_once(tmp_path: Path) -> None:
    save_tensors(tmp_path / "w.safetensors", {"a": np.ones((1024, 4096), np.float32)})
    assert peak(lambda: load_weights(tmp_path / "w.safetensors")) < 1.5 * (1 << 24)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "model", random_model("demo"))
    return tmp_path / "model"


def claim(path: Path, name: str, numbers: int) -> None:
    """Write a sparse file of safetensors with one tensor."""
    header = f'{{"{name}":{{"dtype":"F32","shape":[{numbers}],"data_offsets":[0,{4 * numbers}]}}}}'.encode()
    sparse(path, 8 + len(header) + 4 * numbers, len(header).to_bytes(8, "little") + header)


def test_recognition_does_not_read_the_state_of_a_training(model: Path) -> None:
    claim(model / "state.safetensors", "moments", HUGE // 4)
    assert peak(lambda: load_checkpoint(model)) < LEAST and not load_checkpoint(model).state
    open_model(model, Decoder, ModelChoice("cpu"))
    with pytest.raises(InputError, match="40,960 MiB, where files of its kind"):
        load_checkpoint(model, with_state=True)
    save_tensors(model / "state.safetensors", {"moments": np.ones(3, np.float32)})
    about = json.loads((model / "checkpoint.json").read_text())
    (model / "checkpoint.json").write_text(json.dumps({key: about[key] for key in about if key != "checksums"}))
    assert load_checkpoint(model, with_state=True).state["moments"].tolist() == [1, 1, 1]


def test_an_ngram_is_no_larger_than_ngrams_are(model: Path) -> None:
    claim(model / "lm.safetensors", "ngram.log_prob", MAX_STRINGS + 1)

    def read() -> None:
        with pytest.raises(InputError, match="the checkpoint is damaged .*more than 33,554,432 strings"):
            load_checkpoint(model)

    assert peak(read) < LEAST


def test_a_huge_file_or_record_in_the_place_of_a_result_is_a_persons(tmp_path: Path) -> None:
    written.write_text(tmp_path / "a.txt", "ours")
    sparse(tmp_path / written.RECORD, HUGE)
    assert written.changed([tmp_path / "a.txt"]) == [tmp_path / "a.txt"]
