"""The sentinel: blanks that are expected and blanks that are not, from trainings; its other rules, from records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from speechctc.config.load import load_config
from speechctc.stages.extract import extract
from speechctc.stages.train import train
from speechctc.training.batches import TrainingData
from speechctc.training.dev_score import constant_loss
from speechctc.training.sentinel import NetFacts, diagnose, new_warnings
from speechctc.training.train_step import GradientNorms
from tests.tones import RATE, write_config
from tests.train_helpers import Recorder

NET = NetFacts(classes=40, pieces=2, constant=3.4)


def record(epoch: int, **values: Any) -> dict[str, Any]:
    """Return the record of a healthy epoch, with these values."""
    healthy = {
        "epoch": epoch,
        "step": 500 * epoch,
        "loss": 2.0 / epoch,
        "dev_loss": 2.2 / epoch,
        "dev_per": 50.0 / epoch,
        "blank_share": 0.8,
        "entropy": 0.4,
        "dead_phone_names": "",
        "dead_pieces": 0.01,
        "gradient_norm": 1.0,
        "clipped_share": 0.1,
    }
    return {**healthy, **values}


def kinds(epochs: list[dict[str, Any]]) -> list[str]:
    return [alarm.kind for alarm in diagnose(epochs, NET)]


def trained(config: Path, *settings: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Train; return what was said and the records of the epochs."""
    loaded, recorder = load_config(config, settings), Recorder()
    train(loaded, False, recorder)
    return recorder.said, [json.loads(line) for line in (loaded.run / "metrics.jsonl").read_text().splitlines()]


def test_blanks_of_the_first_epochs_are_expected_and_end(extracted: Path, here: Path) -> None:
    said, epochs = trained(extracted, f"run={here}/r", "train.epochs=5")
    assert epochs[0]["blank_share"] > 0.995 and epochs[0]["alarms"] == "blanks"
    assert epochs[-1]["blank_share"] < 0.9 and not any(epoch["alarms"] for epoch in epochs[1:])
    assert [line for line in said if "blank nearly everywhere: expected" in line]
    assert "" not in said  # no curves are drawn, and no empty line is printed
    assert not [line for line in said if line.startswith("warning: ") and "threads" not in line]


def test_blanks_of_a_net_that_cannot_learn_are_told_from_them(here: Path) -> None:
    """All recordings are noise: no net can do better than to give every frame the same answer."""
    config, rng = write_config(here, train=32, held_out=4), np.random.default_rng(0)
    for path in sorted((here / "audio").iterdir()):
        soundfile.write(path, 0.1 * rng.standard_normal(soundfile.info(path).frames), RATE)
    extract(load_config(config), Recorder())
    said, epochs = trained(config, "train.batch_size=2", "train.epochs=14", "train.schedule=constant")
    assert any(line.startswith("warning: blank collapse: ") for line in said), epochs
    first = next(epoch for epoch in epochs if "blank-collapse" in epoch["alarms"].split())
    assert first["step"] >= 200 and epochs[0]["alarms"] == "blanks"


def test_the_values_that_it_watches_are_those_of_the_net(extracted: Path, here: Path) -> None:
    _, (epoch,) = trained(extracted, f"run={here}/r", "train.epochs=1", "train.clip=0.5")
    assert 0 < epoch["gradient_norm"] <= epoch["gradient_norm_max"] and 0 < epoch["clipped_share"] <= 1
    assert 0 < epoch["entropy"] <= torch.tensor(5.0).log() + 1e-6  # four tones and the blank
    assert epoch["dev_gap"] == pytest.approx(epoch["dev_loss"] - epoch["loss"])
    assert 0 <= epoch["dead_pieces"] <= 0.5
    assert epoch["dead_phones"] == len(epoch["dead_phone_names"].split())


def test_norms_are_those_of_the_gradients_and_clipped_as_torch_does() -> None:
    weights = [torch.nn.Parameter(torch.zeros(size)) for size in (3, 4)]
    for limit, left in ((1.0, 1.0), (0.0, 6.0)):
        norms = GradientNorms(torch.device("cpu"), limit)
        for gradient in (0.0, float("inf"), 6.0):
            for weight in weights:
                weight.grad = torch.full_like(weight, gradient / 7**0.5)
            norms.clip(weights)
        found = norms.summary()
        assert found["gradient_norm"] == pytest.approx(3.0) and found["gradient_norm_max"] == pytest.approx(6.0)
        assert found["clipped_share"] == (pytest.approx(1 / 3) if limit else 0.0)
        assert float(torch.cat([weight.grad for weight in weights if weight.grad is not None]).norm()) == pytest.approx(
            left
        )


def test_a_healthy_run_has_no_alarm() -> None:
    epochs = [record(k) for k in range(1, 20)]
    assert all(kinds(epochs[:k]) == [] for k in range(20))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("fell-silent", [{}] * 3 + [{"blank_share": 0.999}]),
        (
            "stuck",
            [{"loss": 5.5, "dev_loss": 5.4, "dev_per": 96.0}] + [{"loss": 5.4, "dev_loss": 5.3, "dev_per": 96.0}],
        ),
        ("stuck", [{"step": 5 * k, "loss": 4e4 / 9**k, "dev_loss": 1e4 / 9**k, "dev_per": 96.0} for k in (1, 2)]),
        ("undecided", [{"entropy": 3.6, "dev_per": 99.0}]),
        ("certain-and-wrong", [{"entropy": 0.01, "dev_per": 80.0}]),
        ("dead-phones", [{"dead_phone_names": "zh oy"}, {"dead_phone_names": "oy"}, {"dead_phone_names": "oy b"}]),
        ("gradient-grew", [{}] * 4 + [{"gradient_norm": 30.0}]),
        ("gradient-vanished", [{"gradient_norm": 1e-6, "dev_per": 90.0}] * 4),
        ("gradient-exploded", [{"gradient_norm": 1.9e9, "clipped_share": 0.86}]),
        ("gradient-exploded", [{}] * 2 + [{"gradient_norm": 150.0}]),
        ("always-clipped", [{"clipped_share": 1.0, "step": 20 * k} for k in range(1, 5)]),
        ("always-clipped", [{"clipped_share": 1.0, "step": 500}]),
        ("always-clipped", [{}] + [{"clipped_share": 1.0, "step": 500 + 20 * k} for k in range(1, 4)]),
        ("always-clipped", [{"clipped_share": 1.0, "step": 499}, {"clipped_share": 0.96, "step": 998}]),
        ("dead-pieces", [{"dead_pieces": 0.3}]),
        ("overfitting", [{}] * 3 + [{"dev_loss": 1.0, "dev_per": 20.0}] * 4),
    ],
)
def test_each_alarm_comes_with_its_fault_and_once(kind: str, values: list[dict[str, Any]]) -> None:
    epochs = [record(number, **each) for number, each in enumerate(values, start=1)]
    assert kinds(epochs) == [kind]
    assert kinds(epochs[:-1]) == [] and [alarm.kind for alarm in new_warnings(epochs[:-1], epochs[-1], NET)] == [kind]
    again = record(len(epochs) + 1, **values[-1])
    assert kind not in [alarm.kind for alarm in new_warnings(epochs, again, NET)]


def test_first_epochs_of_healthy_nets_may_be_clipped_and_have_large_gradients() -> None:
    """As seen: 11 steps from random weights, a net without normalisation, and the last epochs of a small loss."""
    for seen in (
        {"step": 11, "loss": 9.4, "gradient_norm": 22.1, "clipped_share": 1.0},
        {"step": 40, "loss": 6.1, "gradient_norm": 14.3, "clipped_share": 0.6},
        {"step": 20, "loss": 1580.0, "gradient_norm": 2.3e4, "clipped_share": 1.0},
        {"step": 9000, "loss": 0.004, "gradient_norm": 2.0, "clipped_share": 0.1},
    ):
        assert kinds([record(1, **seen)]) == []


def test_a_loss_above_the_constant_one_that_falls_fast_is_not_stuck() -> None:
    """As seen: nets with 13 steps an epoch, whose first outputs were sure and wrong."""
    seen = [(15.0, 8.3), (7.3, 4.9), (4.2, 3.9), (3.8, 3.7)]
    assert kinds([record(k, step=13 * k, loss=a, dev_loss=b) for k, (a, b) in enumerate(seen, 1)]) == []


def test_the_constant_loss_is_between_those_of_a_net_that_learned_and_of_one_that_did_not(
    extracted: Path, here: Path
) -> None:
    config = load_config(extracted)
    data = TrainingData(config, torch.device("cpu"), Recorder())
    constant = constant_loss(data, config.model)
    _, epochs = trained(extracted, f"run={here}/r", "train.epochs=5")
    assert epochs[-1]["dev_loss"] < constant < 1.3 * np.log(len(data.inventory.phones))
    assert not any("stuck" in epoch["alarms"].split() for epoch in epochs)
    _, epochs = trained(extracted, f"run={here}/s", "train.epochs=2", "train.lr=1e-9")
    assert epochs[0]["dev_loss"] > 1.1 * constant and epochs[1]["alarms"].split()[:1] == ["stuck"]
