"""A model of tones chooses the pronunciations of words that were sung."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.corpora.registry import read_corpus
from speechctc.stages.extract import extract
from speechctc.stages.realign import choose_variants, realign
from tests.tiny_model import write_song
from tests.train_helpers import Recorder

DICTIONARY = "do\tlow mid\ndo\thigh mid\ndo\tlow\nre\tmid top\nre\ttop\nmi\thigh low\n"
SUNG = {"do": [["high", "mid"], ["low", "mid"], ["low"]], "re": [["top"], ["mid", "top"]], "mi": [["high", "low"]]}


def write_corpus(folder: Path, count: int, wrong: int = -1) -> tuple[Path, dict[str, tuple[str, ...]]]:
    """Write songs whose table has only words; return its config, and the phones that were sung."""
    rng = np.random.default_rng(0)
    rows, sung = [], {}
    for k in range(count):
        words = [str(word) for word in rng.choice(list(SUNG), size=4)]
        phones = [phone for word in words for phone in SUNG[word][int(rng.integers(len(SUNG[word])))]]
        write_song(folder / f"{k}.wav", phones, seed=k)
        said = ["mi"] * 4 if k == wrong else words
        rows.append({"id": f"u{k:02}", "audio": f"{k}.wav", "words": " ".join(said), "speaker": f"s{k % 3}"})
        sung[f"u{k:02}"] = tuple(phones)
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "d.dict").write_text(DICTIONARY)
    config = folder / "songs.yaml"
    config.write_text(
        f"run: {folder}/songs\n"
        f"corpus: {{kind: table, dictionary: {folder}/d.dict, tables: {{train: {folder}/t.jsonl}}}}\n"
        f"data: {{dir: {folder}/features}}\nfeatures: {{mels: 20}}\nmodel: {{convs: [4], dense: [8]}}\n"
    )
    return config, sung


def test_the_sung_variants_are_chosen(tmp_path: Path, tiny_model: Path) -> None:
    path, sung = write_corpus(tmp_path, 14, wrong=5)
    config, recorder = load_config(path), Recorder()
    before = read_corpus(config.corpus)
    after = realign(before, config, tiny_model, recorder)
    chosen = {each.id: each.phones for part in after.splits.values() for each in part}
    first = {each.id: each.phones for part in before.splits.values() for each in part}
    right = sum(chosen[id] == phones for id, phones in sung.items() if id != "u05")
    assert right >= 12 > sum(first[id] == phones for id, phones in sung.items())
    assert any("u05" in line and "may not be those of their recordings" in line for line in recorder.said)
    assert any("words with several are not the first one: re: top" in line for line in recorder.said)
    assert after.words is not None and {len(word.pronunciations) for word in after.words["u00"]} <= {1, 2, 3}


def test_extraction_writes_what_was_chosen(tmp_path: Path, tiny_model: Path) -> None:
    path, _ = write_corpus(tmp_path, 8)
    config = load_config(path)
    extract(config, Recorder())
    written = tmp_path / "features" / "pronunciations.dict"
    assert written.read_text() == "do\tlow mid\nmi\thigh low\nre\tmid top\n"
    extract(config, Recorder(), tiny_model)
    lines = written.read_text().splitlines()
    assert "do\thigh mid" in lines and "re\ttop" in lines and set(lines) <= set(DICTIONARY.splitlines())


def test_a_corpus_without_words_is_refused(extracted: Path, tiny_model: Path) -> None:
    config = load_config(extracted)
    with pytest.raises(InputError, match="--realign chooses among pronunciations of words, and this corpus has none"):
        realign(read_corpus(config.corpus), config, tiny_model, Recorder())


def test_scores_are_those_of_torch() -> None:
    logits = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)
    words: list[list[tuple[int, ...]]] = [[(1,), (2, 3)], [(4,)], [(1, 1), (2,), (3, 4)]]
    found = choose_variants(logits, words)

    def loss(first: int, last: int) -> float:
        labels = torch.tensor([*words[0][first], *words[1][0], *words[2][last]])
        rows = torch.from_numpy(logits).log_softmax(1)
        sizes = (torch.tensor([12]), torch.tensor([len(labels)]))
        return float(torch.nn.functional.ctc_loss(rows, labels, *sizes, reduction="sum"))

    first = min((0, 1), key=lambda k: loss(k, 0))
    last = min((0, 1, 2), key=lambda k: loss(first, k))
    assert found.variants == (first, 0, last) and abs(found.loss - loss(first, last)) < 1e-4
