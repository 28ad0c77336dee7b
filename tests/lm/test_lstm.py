"""LSTMs: batches lose nothing, padding changes nothing, and training is resumed to the bit."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from speechctc.core.errors import InputError
from speechctc.inference.load import load_lm
from speechctc.lm.lstm import (
    IGNORED,
    LstmConfig,
    LstmModel,
    LstmTrainer,
    PhoneLstm,
    SavedLstm,
    batches_by_length,
    epoch_batches,
    lengths_of,
    load_lstm,
    padded,
    pieces_of,
    save_lstm,
)
from speechctc.lm.model import sample
from speechctc.phones.inventory import Inventory
from speechctc.stages.lm_lstm import LstmTraining, train_and_dev
from speechctc.stages.lm_texts import PhoneText
from tests.train_helpers import Recorder, same

ABC = Inventory("found", ("a", "b", "c", "d"))
SEQUENCES = [[1, 2, 3], [], [4], [2, 2, 1, 4, 3, 1, 2], [3, 1], [1, 2, 3, 4, 1, 2, 3, 4, 1]]


def tiny(**settings: Any) -> LstmConfig:
    return LstmConfig(**{"embedding": 5, "hidden": 7, "precision": "float32", "device": "cpu", **settings})


def fresh(**settings: Any) -> LstmModel:
    torch.manual_seed(3)
    config = tiny(**settings)
    return LstmModel(PhoneLstm(5, config).eval(), ABC, config)


def chain(count: int, seed: int) -> list[list[int]]:
    """Return sequences in which each phone is followed by the next, most of the time."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        labels = [int(rng.integers(1, 5))]
        while len(labels) < 12 and rng.random() < 0.9:
            labels.append(labels[-1] % 4 + 1 if rng.random() < 0.9 else int(rng.integers(1, 5)))
        found.append(labels)
    return found


@pytest.mark.parametrize("longest", [1, 3, 4, 100])
def test_every_event_is_foretold_once_from_what_stands_before(longest: int) -> None:
    pieces = pieces_of(SEQUENCES, longest)
    lengths = lengths_of(pieces)
    assert lengths.max() <= longest and lengths.min() > 0
    pairs = []
    for members in epoch_batches(lengths, 3, 8, (1, 0)):
        tokens, targets = padded(pieces, members)
        inside = targets != IGNORED
        pairs += list(zip(tokens[inside].tolist(), targets[inside].tolist(), strict=True))
    expected = [pair for labels in SEQUENCES for pair in zip([0, *labels], [*labels, 0], strict=True)]
    assert sorted(pairs) == sorted(expected)


def test_batches_keep_to_their_limits_and_vary_with_the_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, size=500)
    first, again, second = (epoch_batches(lengths, 16, 200, (1, k)) for k in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    for batches in (first, second, batches_by_length(lengths, 16, 200)):
        assert sorted(np.concatenate(batches).tolist()) == list(range(500))
        assert all(len(b) == 1 or (len(b) <= 16 and len(b) * lengths[b].max() <= 200) for b in batches)
    assert len(first) != len(second) or any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert sum(len(b) * lengths[b].max() for b in first) < 1.4 * lengths.sum()  # like lengths together


def test_scores_are_those_of_one_sequence_at_a_time() -> None:
    model = fresh()
    alone = [float(model.score([labels])[0]) for labels in SEQUENCES]
    np.testing.assert_allclose(model.score(SEQUENCES), alone, rtol=1e-5)
    for labels, expected in zip(SEQUENCES, alone, strict=True):
        log_probs, state = model.step(model.begin(1), None)
        total = 0.0
        for label in [*labels, 0]:
            total += log_probs[0, label]
            log_probs, state = model.step(state, [label])
        assert total == pytest.approx(expected, rel=1e-5)
    assert np.exp(log_probs).sum() == pytest.approx(1)


def trainer_of(train: list[list[int]], dev: list[list[int]], **settings: Any) -> LstmTrainer:
    torch.manual_seed(0)
    config = tiny(**{"hidden": 16, "lr": 0.03, "dropout": 0.0, "layers": 1, "batch_size": 16, **settings})
    return LstmTrainer(LstmModel(PhoneLstm(5, config), ABC, config), train, dev)


def dev_perplexities(trainer: LstmTrainer) -> list[float]:
    found = []
    while not trainer.is_done:
        line = trainer.epoch(lambda: False)
        assert line is not None
        found.append(line["dev_perplexity"])
    return found


def test_it_learns_what_follows_what() -> None:
    """Without what stands before, perplexity would be above 4; with it, 2.1 is the least."""
    trainer = trainer_of(chain(100, 1), chain(40, 2), epochs=6)
    devs = dev_perplexities(trainer)
    assert len(devs) == 6 and devs[0] > 3 and 2 < min(devs) < 2.7
    assert (2, 3, 4, 1) in {tuple(labels[:4]) for labels in sample(trainer.model, 9, 0, 0.3, [2], 8)}


def test_training_ends_when_dev_gets_worse() -> None:
    """Learning three utterances by heart does not help with others."""
    trainer = trainer_of(chain(3, 1), [[1, 1, 3, 3], [4, 2, 4, 2], [3]], epochs=30, patience=3)
    devs = dev_perplexities(trainer)
    assert int(np.argmin(devs)) == len(devs) - 4 and len(devs) < 30
    assert trainer.progress.rate == 1 / 8 and trainer.progress.best == min(devs)


def training(out: Path, resume: bool = False, **settings: Any) -> LstmTraining:
    config = tiny(**{"epochs": 3, "dropout": 0.3, "batch_size": 8, "patience": 9, **settings})
    return LstmTraining(out, ABC, config, (chain(60, 1), chain(20, 2)), resume, Recorder())


@pytest.mark.parametrize("steps", [1, 8, 12])
def test_a_training_that_was_stopped_goes_on_to_the_bit(
    tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training(tmp_path / "whole")
    whole.train()
    part = training(tmp_path / "part")
    taken, step = 0, part.trainer.optimizer.step

    def stop_later() -> None:
        nonlocal taken
        step()
        taken += 1
        if taken == steps:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(part.trainer.optimizer, "step", stop_later)
    part.train()
    assert part.status == 128 + signal.SIGTERM and taken == steps
    torch.manual_seed(99)
    again = training(tmp_path / "part", resume=True)
    assert again.trainer.progress.step == steps
    again.train()
    for name in ("last/weights.safetensors", "last/state.safetensors", "best/weights.safetensors"):
        assert same(load_file(tmp_path / "whole" / name), load_file(tmp_path / "part" / name))
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "part")]
    logs = [[json.loads(line) | {"phones_per_second": 0} for line in each] for each in lines]
    assert logs[0] == logs[1] and len(logs[0]) == 3


def test_a_folder_is_resumed_only_with_what_it_was_trained_with(tmp_path: Path) -> None:
    training(tmp_path / "lm", epochs=1).train()
    with pytest.raises(InputError, match="lm: exists already; go on with it by --resume"):
        training(tmp_path / "lm")
    with pytest.raises(InputError, match="trained with lm.hidden=7, not 9"):
        training(tmp_path / "lm", resume=True, hidden=9)
    with pytest.raises(InputError, match="trained on another text"):
        LstmTraining(tmp_path / "lm", ABC, tiny(dropout=0.3, batch_size=8), ([[1]], [[2]]), True, Recorder())
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file: exists already"):
        training(tmp_path / "file")
    more = training(tmp_path / "lm", resume=True, epochs=2)
    more.train()
    assert more.trainer.progress.epoch == 2
    kept = LstmTraining(tmp_path / "lm", ABC, LstmConfig(epochs=5), (chain(60, 1), chain(20, 2)), True, Recorder())
    assert kept.trainer.model.config == tiny(epochs=5, dropout=0.3, batch_size=8, patience=9)


def test_a_saved_model_is_read_again_and_a_damaged_one_said(tmp_path: Path) -> None:
    model = fresh()
    save_lstm(tmp_path / "lm" / "best", SavedLstm(model, {"epoch": 3}))
    again = load_lm(tmp_path / "lm")
    assert again.inventory == ABC and again.kind == "LSTM of 2 x 7"
    np.testing.assert_array_equal(again.score(SEQUENCES), model.score(SEQUENCES))
    assert load_lstm(tmp_path / "lm" / "best").facts == {"epoch": 3}
    with pytest.raises(InputError, match="4 phones .* 2 .*: c d"):
        load_lm(tmp_path / "lm", Inventory("found", ("a", "b")))
    about = tmp_path / "lm" / "best" / "lm.json"
    text = about.read_text()
    for wrong, message in (
        (text[:50], "damaged"),
        (text.replace('"format": 1', '"format": 7'), "of format 7"),
        (text.replace('"hidden": 7', '"hidden": 1000000000'), "damaged"),
    ):
        about.write_text(wrong)
        with pytest.raises(InputError, match=message):
            load_lm(tmp_path / "lm")
    about.write_text(text)
    weights = about.with_name("weights.safetensors")
    raw = weights.read_bytes()
    weights.write_bytes(raw[:-4] + np.float32("nan").tobytes())
    with pytest.raises(InputError, match="its checksum does not match"):
        load_lm(tmp_path / "lm")
    weights.write_bytes(raw[:-9])
    with pytest.raises(InputError, match="the language model is damaged"):
        load_lm(tmp_path / "lm")


def test_parts_of_two_saves_and_a_changed_state_are_no_language_model(tmp_path: Path) -> None:
    """As a folder has them that was copied while a training replaced it."""
    for name, step in (("one", 1.0), ("other", 2.0)):
        save_lstm(tmp_path / name, SavedLstm(fresh(), {"epoch": step}, {"step": torch.full((9,), step)}))
    one, state = tmp_path / "one", tmp_path / "one" / "state.safetensors"
    assert load_lstm(one, with_state=True).state["step"].tolist() == 9 * [1.0]
    raw = state.read_bytes()
    state.write_bytes(raw[:-1] + b"@")
    with pytest.raises(InputError, match=r"state.safetensors: its checksum does not match"):
        load_lstm(one, with_state=True)
    shutil.copy(tmp_path / "other" / state.name, state)
    with pytest.raises(InputError, match=r"state.safetensors is of another save than lm.json"):
        load_lstm(one, with_state=True)
    assert load_lstm(one).facts == {"epoch": 1.0}
    state.write_bytes(raw)
    about = one / "lm.json"
    about.write_text(about.read_text().replace('"epoch": 1.0', '"epoch": 3.0'))
    with pytest.raises(InputError, match=r"lm.json: its checksum does not match"):
        load_lstm(one)


def test_a_tenth_is_held_out_where_no_dev_is_named() -> None:
    text, recorder = PhoneText("a text", [["a"] * k for k in range(1, 31)]), Recorder()
    train, dev = train_and_dev(text, None, ABC, recorder)
    assert len(dev) == 3 and sorted(map(len, train + dev)) == list(range(1, 31))
    assert "3 of the 30 utterances" in recorder.said[0] and (train, dev) == train_and_dev(text, None, ABC, Recorder())
    with pytest.raises(InputError, match="a text: one utterance cannot be trained on and held out"):
        train_and_dev(PhoneText("a text", [["a"]]), None, ABC, recorder)


def test_a_processor_without_an_lstm_in_bfloat16_gets_one_line_or_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("could not create a primitive descriptor for the LSTM forward propagation primitive")

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    monkeypatch.setattr(torch.nn.LSTM, "forward", refuse)
    assert trainer_of(chain(6, 1), chain(2, 2), precision="auto").precision == "float32"
    with pytest.raises(InputError, match="lm.precision=bfloat16: this processor.* set lm.precision=float32"):
        trainer_of(chain(6, 1), chain(2, 2), precision="bfloat16")


def test_a_training_that_lost_its_last_state_does_not_begin_again(tmp_path: Path) -> None:
    training(tmp_path / "lm", epochs=1).train()
    shutil.rmtree(tmp_path / "lm" / "last")
    with pytest.raises(InputError, match="last/, from which training goes on, is not there; best/ is"):
        training(tmp_path / "lm", resume=True, epochs=2)
