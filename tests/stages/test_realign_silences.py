"""A model of tones finds the pauses around words: one of its tones stands for silence."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.load import load_config
from speechctc.corpora.registry import read_corpus
from speechctc.features.shards import read_shard
from speechctc.model.checkpoint import load_checkpoint, save_checkpoint
from speechctc.phones.inventory import Inventory, named_inventory
from speechctc.stages.extract import extract
from speechctc.stages.realign import realign
from tests.tiny_model import write_song
from tests.train_helpers import Recorder

TONE_OF = {"iy": "low", "aa": "mid", "s": "high", "pau": "top"}
DICTIONARY = "see\ts iy\nspa\ts aa\nspa\taa\nos\taa s\n"
SPOKEN = {"see": ["s", "iy"], "spa": ["aa"], "os": ["aa", "s"]}
COUNT = 10


@pytest.fixture(scope="module")
def model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model of tones, which now have names of TIMIT."""
    checkpoint = load_checkpoint(tiny_model / "best")
    name_of = {tone: phone for phone, tone in TONE_OF.items()}
    inventory = Inventory("found", tuple(name_of[tone] for tone in checkpoint.inventory.phones))
    folder = tmp_path_factory.mktemp("silences") / "run"
    save_checkpoint(folder / "best", dataclasses.replace(checkpoint, inventory=inventory))
    return folder


def write_corpus(folder: Path, phone_set: str) -> tuple[Path, dict[str, tuple[str, ...]]]:
    """Write songs of words with pauses at random, and a table of the words; return config and what was sung."""
    rng = np.random.default_rng(3)
    rows, sung = [], {}
    for k in range(COUNT):
        words = [str(word) for word in rng.choice(list(SPOKEN), size=3)]
        phones = ["pau"] * int(rng.integers(2))
        for word in words:
            phones += SPOKEN[word] + ["pau"] * int(rng.integers(2))
        write_song(folder / f"{k}.wav", [TONE_OF[phone] for phone in phones], seed=k)
        rows.append(json.dumps({"id": f"u{k}", "audio": f"{k}.wav", "words": " ".join(words), "speaker": f"s{k % 3}"}))
        sung[f"u{k}"] = tuple(phones)
    (folder / "t.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "d.dict").write_text(DICTIONARY)
    config = folder / "songs.yaml"
    tables = f"dictionary: {folder}/d.dict, tables: {{train: {folder}/t.jsonl}}"
    config.write_text(
        f"run: {folder}/songs\ncorpus: {{kind: table, phones: {phone_set}, {tables}}}\n"
        f"data: {{dir: {folder}/features}}\nfeatures: {{mels: 20}}\nmodel: {{convs: [4], dense: [8]}}\n"
    )
    return config, sung


def realigned(config: Path, model: Path) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the phones of each utterance after the model chose, and what was said."""
    loaded, recorder = load_config(config), Recorder()
    after = realign(read_corpus(loaded.corpus), loaded, model, recorder)
    return {each.id: each.phones for part in after.splits.values() for each in part}, recorder.said


def test_pauses_are_found_where_they_were_sung(tmp_path: Path, model: Path) -> None:
    path, sung = write_corpus(tmp_path, "timit61")
    chosen, said = realigned(path, model)
    # timit61 has three labels of silence, the model one: only that of the same name is written.
    assert sum(chosen[id] == phones for id, phones in sung.items()) >= COUNT - 2
    placed = sum(phones.count("pau") for phones in chosen.values())
    holding = sum("pau" in phones for phones in chosen.values())
    assert f"silences: {placed} placed, in {holding} of {COUNT} utterances" in said


def test_another_label_of_silence_will_do(tmp_path: Path, model: Path) -> None:
    path, sung = write_corpus(tmp_path, "timit39")  # has sil in place of pau
    chosen, _ = realigned(path, model)
    expected = {id: tuple("sil" if phone == "pau" else phone for phone in phones) for id, phones in sung.items()}
    assert sum(chosen[id] == phones for id, phones in expected.items()) >= COUNT - 2


def test_without_a_label_of_silence_only_words_are_written(tmp_path: Path, model: Path) -> None:
    path, _ = write_corpus(tmp_path, "cmu39")
    chosen, said = realigned(path, model)
    assert all("pau" not in phones for phones in chosen.values())
    assert not any("silences" in line for line in said)


def test_shards_hold_the_silences(tmp_path: Path, model: Path) -> None:
    path, sung = write_corpus(tmp_path, "timit39")
    extract(load_config(path), Recorder(), model)
    labels = torch.cat([read_shard(shard).labels for shard in sorted((tmp_path / "features").glob("*/*.safetensors"))])
    (silence,) = named_inventory("timit39").encode(["sil"])
    pauses = sum(phones.count("pau") for phones in sung.values())
    assert abs(int((labels == silence).sum()) - pauses) <= 2
    assert "sil" not in (tmp_path / "features" / "pronunciations.dict").read_text()
