"""Optimisers and schedules of torch and of one's own, rates by layer, frozen layers, and callbacks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import speechctc
from speechctc.config.load import load_config
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.training.optimise import Stage, build_optimizer, freeze, stages
from speechctc.training.records import is_end
from speechctc.training.train_step import TrainStep
from tests.own_nets import windowed
from tests.train_helpers import Recorder, run_once, same, stopping, trainer_of

NAMES = ("RAdam", "Adamax", "NAdam", "RMSprop", "SGD", "Adagrad", "Rprop", "ASGD", "Adafactor", "Adadelta", "Muon")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "registered", {})
    speechctc.register_model("windowed", windowed)


@pytest.mark.parametrize(("name", "kind"), [*((name, "windowed") for name in NAMES), ("Muon", "conv")])
def test_optimisers_of_torch_go_on_to_the_same_bits(
    extracted: Path, here: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [f"model.kind={kind}", f"train.optimizer={name}", "train.lr=0.001", "train.epochs=1"]
    settings += ["train.rates={output: 0.5}", "train.schedule=ExponentialLR", "train.schedule_options={gamma: 0.9}"]
    whole = run_once(extracted, here / "whole", *settings)
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "step", stopping(TrainStep.step, {3}))
        with pytest.raises(speechctc.stages.train.Stopped):
            run_once(extracted, here / "parts", *settings)
    assert same(whole, run_once(extracted, here / "parts", *settings, resume=True))


def test_an_optimiser_of_torch_is_that_class(extracted: Path, here: Path) -> None:
    """Steps of AdamW by its name are those of torch's class, with these arguments, on the same gradients."""
    settings = ("train.optimizer=AdamW", "train.optimizer_options={betas: [0.8, 0.9]}", "train.weight_decay=0.1")
    step = trainer_of(extracted, here / "r", *settings, "train.rates={dense: 0.25}").train_step
    twin = {name: nn.Parameter(each.detach().clone()) for name, each in step.net.named_parameters()}
    groups = [
        {
            "params": [each],
            "lr": 0.01 * (0.25 if name.startswith("dense") else 1.0),
            "weight_decay": 0.1 * (each.dim() > 1),
        }
        for name, each in twin.items()
    ]
    torchs = torch.optim.AdamW(groups, betas=(0.8, 0.9))
    for number in range(3):
        for name, each in step.net.named_parameters():
            each.grad = torch.randn(each.shape, generator=torch.Generator().manual_seed(number)).to(each)
            twin[name].grad = each.grad.clone()
        for group in step.optimizer.param_groups:
            group["lr"] = step._rate_of(group["scale"], 0.01)
        step.optimizer.step()
        torchs.step()
    for name, each in step.net.named_parameters():
        torch.testing.assert_close(each, twin[name], rtol=0, atol=1e-7)


def test_muon_takes_matrices_and_filters_as_matrices_and_adamw_the_rest(extracted: Path, here: Path) -> None:
    """Steps of a net of filters are those of torch's classes on its matrices, a row for each output."""
    settings = ("train.optimizer=Muon", "train.optimizer_options={adjust_lr_fn: match_rms_adamw}")
    step = trainer_of(extracted, here / "r", *settings, "train.weight_decay=0.1").train_step
    named = dict(step.net.named_parameters())
    assert any(each.dim() == 4 and not each.is_contiguous() for each in named.values())
    assert [type(part) for part in step.optimizer.parts] == [torch.optim.Muon, torch.optim.AdamW]  # type: ignore[attr-defined]
    twin = {
        name: nn.Parameter((each.detach().flatten(1) if each.dim() > 1 else each.detach()).clone())
        for name, each in named.items()
    }
    muon = torch.optim.Muon(
        [each for each in twin.values() if each.dim() > 1], weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    adamw = torch.optim.AdamW([each for each in twin.values() if each.dim() < 2], weight_decay=0.0)
    for number in range(3):
        step.optimizer.zero_grad()
        for name, each in named.items():
            assert each.grad is None
            each.grad = torch.randn(each.shape, generator=torch.Generator().manual_seed(number)).to(each)
            twin[name].grad = each.grad.flatten(1) if each.dim() > 1 else each.grad.clone()
        for group in (*step.optimizer.param_groups, *muon.param_groups, *adamw.param_groups):
            group["lr"] = 0.01 / (number + 1)
        for optimizer in (step.optimizer, muon, adamw):
            optimizer.step()
    for name, each in named.items():
        torch.testing.assert_close(each.flatten(1) if each.dim() > 1 else each, twin[name], rtol=0, atol=1e-4)


def test_muon_takes_all_weights_of_a_net_of_ones_own(extracted: Path, here: Path) -> None:
    step = trainer_of(extracted, here / "r", "model.kind=windowed", "train.optimizer=Muon").train_step
    muon, adamw = step.optimizer.parts  # type: ignore[attr-defined]
    assert type(muon) is torch.optim.Muon and type(adamw) is torch.optim.AdamW
    matrices = [each for group in muon.param_groups for each in group["params"]]
    assert [tuple(each.shape) for each in matrices] == [(24, 189), (24, 120), (5, 24)]


def test_muon_without_matrices_is_an_error(extracted: Path, here: Path) -> None:
    with pytest.raises(InputError, match="train.optimizer=Muon .*matrices"):
        trainer_of(extracted, here / "s", "train.optimizer=Muon", "train.freeze=['*weight']")


class Half(torch.optim.Optimizer):
    """Half of the gradient's step, and a count of the steps, which is a number."""

    def __init__(self, params: Any, lr: float, power: float = 0.5) -> None:
        super().__init__(params, {"lr": lr, "power": power})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    self.state[each]["steps"] = self.state[each].get("steps", 0) + 1
                    each.sub_(each.grad, alpha=group["lr"] * group["power"] / self.state[each]["steps"])


def test_registered_ones_go_on_to_the_same_bits(extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speechctc.register_optimizer("half", Half)
    speechctc.register_schedule("stairs", lambda step, done, high=1.0: high / (1 + step // 4))
    settings = ["train.optimizer=half", "train.optimizer_options.power=0.25", "train.schedule=stairs", "train.epochs=1"]
    settings += ["train.schedule_options.high=0.5"]
    whole = run_once(extracted, here / "whole", *settings)
    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "step", stopping(TrainStep.step, {5}))
        with pytest.raises(speechctc.stages.train.Stopped):
            run_once(extracted, here / "parts", *settings)
    assert same(whole, run_once(extracted, here / "parts", *settings, resume=True))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["train.optimizer=Adamm"],
            "it should be Adam, if that is meant; or 'adam' or 'sgd', or the name of a class of",
        ),
        (
            ["train.schedule=cosin"],
            "should be 'constant' or 'cosine', or the name of a class of torch.optim.lr_scheduler",
        ),
        (["train.optimizer=LBFGS"], "train.optimizer=LBFGS"),
        (
            ["train.optimizer=RAdam", "train.optimizer_options.beta=1"],
            "train.optimizer=RAdam: .*unexpected keyword .*'beta'",
        ),
        (["train.optimizer=RAdam", "train.optimizer_options.lr=1"], "lr has a key of its own; set train.lr"),
        (["train.optimizer=Rprop", "train.weight_decay=0.1"], "train.optimizer=Rprop has no weight decay"),
        (
            ["train.optimizer_options.betas=[0, 0]"],
            "train.optimizer_options are for a class of torch.optim or one's own, not",
        ),
        (["train.schedule=ReduceLROnPlateau"], "follows a score, and rates here follow steps; use train.patience"),
        (["train.schedule=LambdaLR"], "train.schedule=LambdaLR: .*TypeError"),
        (["train.schedule=OneCycleLR", "train.schedule_options={max_lr: 1, total_steps: 9}"], "momentum"),
        (["train.freeze=[conv]"], "train.freeze: no parameter is called 'conv'; did you mean convs"),
        (["train.freeze=['*']"], "train.freeze: nothing is left to train"),
        (["train.rates={encoder: 0.1}"], "train.rates: no parameter is called 'encoder'"),
        (["train.rates={convs: 0}"], "train.rates.convs=0 is invalid"),
    ],
)
def test_what_does_not_fit_is_one_line(extracted: Path, here: Path, settings: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        run_once(extracted, here / "r", "train.epochs=1", *settings)
    assert "\n" not in str(raised.value)


def test_schedules_of_torch_follow_steps_from_anywhere() -> None:
    stage = Stage("main", 0, 1, "adam", 0.2, 0.0, "StepLR", 0, schedule_options={"step_size": 3, "gamma": 0.5})
    rates = [stage.rate(step, 0.0) for step in range(8)]
    assert rates == pytest.approx([0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05])
    assert [stage.rate(step, 0.0) for step in (7, 2, 4)] == pytest.approx([0.05, 0.2, 0.1])
    rising = Stage("main", 0, 1, "adam", 0.2, 0.0, "StepLR", 4, schedule_options={"step_size": 3, "gamma": 0.5})
    assert rising.rate(0, 0.0) == pytest.approx(0.05) and rising.rate(7, 0.0) == pytest.approx(0.05)


def test_rates_and_frozen_layers(extracted: Path, here: Path) -> None:
    settings = ("train.freeze=[convs.0]", "train.rates={convs.*: 0.1, '*.bias': 0.5}", "train.ema=0.9")
    trainer = trainer_of(extracted, here / "r", *settings)
    net, groups = trainer.train_step.net, trainer.train_step.optimizer.param_groups
    scale = {id(each): group["scale"] for group in groups for each in group["params"]}
    named = dict(net.named_parameters())
    assert id(named["convs.0.conv.weight"]) not in scale
    assert scale[id(named["convs.1.conv.bias"])] == 0.1 and scale[id(named["output.bias"])] == 0.5
    assert scale[id(named["output.weight"])] == 1.0
    before = {name: each.detach().clone() for name, each in named.items()}
    trainer.train()
    moved = {name for name, each in net.named_parameters() if not torch.equal(each, before[name])}
    assert moved == {name for name in named if not name.startswith("convs.0.")}


def test_frozen_statistics_stay() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
    freeze(net, ["1"])
    net.train()(torch.randn(8, 2))
    assert torch.equal(torch.as_tensor(net[1].running_mean), torch.zeros(2)) and net[0].training and not net[1].training


def test_without_these_settings_groups_are_as_before(extracted: Path) -> None:
    config = load_config(extracted)
    net = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(3, 1)})
    optimizer = build_optimizer(net, stages(config.train)[0])
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]


def test_callbacks_see_all_and_end_a_training(extracted: Path, here: Path) -> None:
    steps: list[speechctc.StepRecord] = []
    epochs: list[speechctc.EpochRecord] = []

    def on_epoch(record: speechctc.EpochRecord) -> bool:
        assert (here / "r" / "last" / "checkpoint.json").exists()
        epochs.append(record)
        return record["epoch"] == 2

    recorder = Recorder()
    done = speechctc.train(extracted, "run=r", reporter=recorder, on_epoch=on_epoch, on_step=steps.append)
    logged = [json.loads(line) for line in Path("r/metrics.jsonl").read_text().splitlines()]
    assert logged == epochs and [each["epoch"] for each in logged] == [1, 2]
    assert done.dev is not None and "r: on_epoch ended it after 2 whole epochs of 12" in "\n".join(recorder.said)
    assert [each["step"] for each in steps] == list(range(1, logged[-1]["step"] + 1))
    for number, epoch in enumerate(epochs, start=1):
        own = [each for each in steps if each["epoch"] == number]
        mean = sum(each["loss"] * each["phones"] for each in own) / sum(each["phones"] for each in own)
        assert mean == pytest.approx(epoch["loss"])
    speechctc.train(extracted, ["run=r", "train.epochs=3"], resume=True, reporter=Recorder(), on_epoch=epochs.append)
    assert [each["epoch"] for each in epochs] == [1, 2, 3]


@pytest.mark.parametrize(
    ("callbacks", "said"),
    [
        ({"on_epoch": 3}, "on_epoch=3 is no function"),
        ({"on_step": lambda: None}, "on_step: too many positional arguments; give a function that takes one argument"),
        ({"on_epoch": lambda record, step: None}, "on_epoch: missing a required argument: 'step'; give a function"),
    ],
)
def test_what_cannot_be_called_with_a_record_is_refused_before_work(
    extracted: Path, here: Path, callbacks: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        speechctc.train(extracted, "run=r", reporter=Recorder(), **callbacks)
    assert not Path("r").exists()


@pytest.mark.parametrize("answer", [torch.tensor([1, 0]), Path("copied"), 1, ""])
def test_an_answer_that_is_neither_true_nor_false_is_one_line(extracted: Path, here: Path, answer: Any) -> None:
    with pytest.raises(InputError, match=f"on_step returned {type(answer).__name__}, neither true nor false; return"):
        speechctc.train(extracted, "run=r", reporter=Recorder(), on_step=lambda record: answer)


def test_an_answer_of_numpy_is_true_or_false() -> None:
    assert is_end("on_epoch", np.float64(3) < 4) and not is_end("on_epoch", np.float64(3) > 4)
    assert not is_end("on_epoch", None)


def test_a_step_may_end_a_training_which_goes_on_to_the_same_bits(extracted: Path, here: Path) -> None:
    whole = run_once(extracted, here / "whole", "train.epochs=2", "train.warmup_steps=0")
    recorder, settings = Recorder(), [f"run={here / 'parts'}", "train.epochs=2", "train.warmup_steps=0"]
    done = speechctc.train(extracted, settings, reporter=recorder, on_step=lambda record: record["step"] == 3)
    assert done.dev is not None and math.isfinite(done.dev.loss)
    assert "on_step ended it after 0 whole epochs of 2; to go on: --resume, or resume=True in Python" in "\n".join(
        recorder.said
    )
    assert same(whole, run_once(extracted, here / "parts", *settings[1:], resume=True))


def test_what_a_callback_raises_is_raised_and_the_state_is_kept(extracted: Path, here: Path) -> None:
    def fail(record: speechctc.EpochRecord) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        speechctc.train(extracted, ["run=r", "train.epochs=2"], reporter=Recorder(), on_epoch=fail)
    done = speechctc.train(extracted, ["run=r", "train.epochs=2"], resume=True, reporter=Recorder())
    assert done.dev is not None and len(Path("r/metrics.jsonl").read_text().splitlines()) == 2


def test_the_model_that_one_begins_with_has_a_record_and_may_be_enough(extracted: Path, here: Path) -> None:
    first = speechctc.train(extracted, ["run=a", "train.epochs=1"], reporter=Recorder())
    told, epochs, recorder = list[speechctc.BeginningRecord](), list[speechctc.EpochRecord](), Recorder()

    def enough(record: speechctc.BeginningRecord) -> bool:
        told.append(record)
        return True

    settings = ["run=b", "train.epochs=2", f"train.init_from={first.run}"]
    done = speechctc.train(extracted, settings, reporter=recorder, on_epoch=epochs.append, on_beginning=enough)
    logged = json.loads(Path("a/metrics.jsonl").read_text())
    (record,) = told
    assert done.dev is None and not epochs and not Path("b/metrics.jsonl").exists()
    assert (record["epoch"], record["step"]) == (0, 0)
    for key in ("dev_per", "dev_loss", "blank_share", "dead_phones"):
        assert record[key] == pytest.approx(logged[key]), key
    assert "b: on_beginning ended it after 0 whole epochs of 2; to go on" in "\n".join(recorder.said)
    assert speechctc.evaluate("b", "dev", reporter=Recorder()).counts.per == pytest.approx(record["dev_per"])
    went_on = speechctc.train(extracted, settings, True, Recorder(), epochs.append, None, enough)
    assert went_on.dev is not None and [each["epoch"] for each in epochs] == [1, 2] and len(told) == 1


def test_an_epoch_is_one_and_what_goes_on_is_said_for_both_ways(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    speechctc.train(extracted, ["run=r", "train.epochs=2"], reporter=recorder, on_epoch=lambda record: True)
    assert (
        "r: on_epoch ended it after 1 whole epoch of 2; to go on: --resume, or resume=True in Python" in recorder.said
    )
    with pytest.raises(InputError, match=r"go on with it \(--resume, or resume=True in Python\), or name .* --run DIR"):
        speechctc.train(extracted, "run=r", reporter=Recorder())
