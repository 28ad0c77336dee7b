"""The estimate of memory, against what the allocator gave; and the profile of a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch.profiler import ProfilerActivity
from torch.profiler import profile as torch_profile

from speechctc.config.load import load_config
from speechctc.training import trainer as training
from speechctc.training.step_costs import PARTS, estimate, profile
from tests.train_helpers import Recorder, trainer_of


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")
@pytest.mark.parametrize("activation", ["maxout", "relu"])
@pytest.mark.parametrize("settings", [(), ("model.convs=[24, 24, 24]", "model.dense=[64, 64]", "model.norm=none")])
def test_activations_are_what_the_allocator_gives(
    extracted: Path, here: Path, activation: str, settings: tuple[str, ...]
) -> None:
    trainer = trainer_of(extracted, here / "r", f"model.activation={activation}", "model.dropout=0.1", *settings)
    train_step, plan = trainer.train_step, trainer.plan()
    largest = trainer.data.largest_batch(plan, 0)
    said = estimate(train_step, largest, trainer.data.bytes_held)
    batches = [batch for batch in trainer.data.train.batches(plan) if batch is not None]
    batch = max(batches, key=lambda batch: batch.padded_frames)
    assert (len(batch.indices), int(batch.lengths.max())) == largest
    train_step.net.train()
    train_step.step([batch], 100, 0.0, 0)  # the optimiser's state is there from now on
    with torch_profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        train_step.step([batch], 100, 0.0, 1)
    changes = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    measured = peak - said.gradients
    assert 0.6 * measured < said.activations < 2 * measured


def test_the_parts_are_said_in_one_line(extracted: Path, here: Path) -> None:
    trainer = trainer_of(extracted, here / "r", "train.ema=0.9")
    train_step = trainer.train_step
    said = estimate(train_step, (8, 100), 2**20)
    weights = sum(value.numel() for value in train_step.net.parameters()) * 4
    assert (said.weights, said.gradients, said.optimiser, said.chunks) == (weights, weights, 4 * weights, 2**20)
    assert said.available > 2**28 and said.host > said.device
    text = said.to_text()
    assert "\n" not in text and "8 x 100 frames" in text and "chunks 1.0" in text and "heap" in text
    assert said.heap == int(0.6 * said.activations) + 50 * 2**20
    assert said.device == 6 * weights + said.activations + said.heap + 2**20


def test_autograd_keeps_nothing_of_the_estimate(extracted: Path, here: Path) -> None:
    """Neither memory nor the stream on which gradients are added, which would be that of the estimate ever after."""
    train_step = trainer_of(extracted, here / "r").train_step
    weight = train_step.net.get_parameter("output.weight")

    def node() -> Any:
        return weight.view_as(weight).grad_fn.next_functions[0][0]  # type: ignore[union-attr]

    mark = train_step.net.get_submodule("output").register_forward_hook(lambda *_: node().metadata.update(seen=True))
    estimate(train_step, (8, 100), 0)
    mark.remove()
    assert node().metadata == {}


def test_holes_of_the_heap_are_given_back_where_more_is_held_than_was_said(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(extracted, here / "r", "train.epochs=1")
    given: list[int] = []
    held = iter([2**20, 2**50, 2**20] + [0] * 100)
    monkeypatch.setattr(training, "resident_memory", lambda: next(held))
    monkeypatch.setattr(training, "give_back_memory", lambda: given.append(trainer.progress.batch))
    trainer.train()
    assert given == [1]


def test_a_profile_says_where_the_time_goes_and_leaves_a_trace(extracted: Path, here: Path) -> None:
    times = profile(load_config(extracted, ["run=runs/r"]), 9, Recorder())
    assert times.steps == 9 and times.trace == Path("runs/r.trace.json")
    assert {path.name for path in (here / "runs").iterdir()} == {"r.trace.json"}
    parts = sum(times.seconds[part] for part in (*PARTS, "other"))
    assert parts == pytest.approx(times.seconds["wall"], rel=0.01)
    assert all(times.seconds[part] > 0 for part in ("forward", "loss", "backward", "optimiser"))
    text = times.to_text()
    assert all(part in text for part in (*PARTS, "other")) and "frames/s" in text
    events = json.loads(times.trace.read_text())["traceEvents"]
    assert {"forward", "backward", "optimiser"} <= {event.get("name") for event in events}
