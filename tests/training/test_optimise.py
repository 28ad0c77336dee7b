import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from speechctc.config.schema import FinetuneConfig, TrainConfig
from speechctc.core import optimizers
from speechctc.core.optimizers import SGD, AdamW, Optimizer
from speechctc.stages.train_boundaries import one_cycle
from speechctc.training.optimise import build_optimizer, stages
from tests.forked import Forked


def test_the_rate_rises_and_falls() -> None:
    (stage,) = stages(TrainConfig(lr=1.0, warmup_steps=10, schedule="cosine", epochs=5))
    assert stage.rate(0, 0.0) == pytest.approx(0.1)
    assert stage.rate(9, 0.0) == pytest.approx(1.0)
    assert stage.rate(2, 0.05) == pytest.approx(0.5 * 0.9938, abs=1e-4)  # a short run: a tenth of it, not ten steps
    assert stage.rate(100, 0.5) == pytest.approx(0.5)
    assert stage.rate(200, 1.0) == pytest.approx(0.0)
    (constant,) = stages(TrainConfig(lr=0.3))
    assert constant.rate(0, 0.0) == constant.rate(999, 1.0) == 0.3


def test_the_papers_second_stage_is_plain_sgd() -> None:
    main, tuning = stages(TrainConfig(epochs=7, finetune=FinetuneConfig(epochs=2)))
    assert (main.optimizer, main.first_epoch, main.epochs) == ("adam", 0, 7)
    assert (tuning.optimizer, tuning.first_epoch, tuning.epochs, tuning.lr) == ("sgd", 7, 2, 1e-5)


@pytest.mark.parametrize("steps", [2, 3, 50])
def test_the_rates_of_a_boundary_model_are_those_of_torchs_class(steps: int) -> None:
    theirs = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(theirs, 3e-3, total_steps=steps, pct_start=0.15)
    for step in range(steps):
        (group,) = theirs.param_groups
        assert one_cycle(step, steps, 3e-3) == pytest.approx({"lr": group["lr"], "beta1": group["betas"][0]})
        theirs.step()
        if step < steps - 1:
            schedule.step()


TRAININGS = """
import sys
from pathlib import Path
from tests.train_helpers import run_once
run_once(Path(sys.argv[1]), Path("r"), "train.epochs=1")
from tests.lm.test_lstm import training
training(Path("lm"), epochs=1).train()
from speechctc.stages.train_boundaries import BoundaryNet, examples_of, train
from tests.inference.test_boundary_model import RATE, np, song
samples, *labels = song(4, np.random.default_rng(0))
train(BoundaryNet(), [*examples_of(samples, RATE, *labels, False)])
assert not {"torch._dynamo", "sympy"} & set(sys.modules)
"""


def test_no_training_loads_torchs_compiler(extracted: Path, here: Path) -> None:
    (here / "trainings.py").write_text(TRAININGS, encoding="utf-8")
    assert Forked("trainings", extracted, cwd=here, log=here / "said").wait(600) == 0, (here / "said").read_text()


def test_biases_do_not_decay() -> None:
    groups = build_optimizer(nn.Linear(3, 2), stages(TrainConfig(weight_decay=0.5))[0]).param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(1, 0.5), (1, 0.0)]


class TwoParts(nn.Module):
    """A net of which the second part is not always used, with weights in another memory layout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3, (2, 1)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.second = nn.Linear(3, 5)

    def forward(self, x: Tensor, both: bool) -> Tensor:
        x = self.first(x)
        return self.second(x.mean((2, 3))) if both else x


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_the_steps_are_those_of_torchs_class(name: str) -> None:
    torch.manual_seed(3)
    ours = TwoParts()
    theirs = copy.deepcopy(ours)
    stage = stages(TrainConfig(optimizer=name, lr=0.03, weight_decay=0.2))[0]
    mine = build_optimizer(ours, stage)
    groups = [{**group, "params": []} for group in mine.param_groups]
    for parameter in theirs.parameters():
        groups[parameter.dim() <= 1]["params"].append(parameter)
    torchs = {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}[name](groups, lr=0.03, fused=True)
    for k in range(7):
        x = torch.randn(4, 2, 3, 2)
        for net, optimizer in ((ours, mine), (theirs, torchs)):
            optimizer.zero_grad()
            net(x, both=k not in (0, 4)).square().sum().backward()
            for group in optimizer.param_groups:
                group["lr"] = 0.03 / (k + 1)
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    state = torchs.state_dict()["state"]
    saved = mine.to_tensors("optimizer.")
    assert saved.keys() == {f"optimizer.{k}.{key}" for k, each in state.items() for key in each if name == "adam"}
    assert all(torch.equal(value, state[int(key.split(".")[1])][key.split(".")[2]]) for key, value in saved.items())


@pytest.mark.parametrize("kind", [AdamW, SGD])
def test_a_gradient_scaler_scales_and_leaves_out_steps_that_are_not_finite(kind: type[Optimizer]) -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    plain = nn.Parameter(weight.detach().clone())
    optimizer, other = (kind([{"params": [p], "weight_decay": 0.1}], 0.1) for p in (weight, plain))
    scaler = torch.amp.grad_scaler.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    for k, factor in enumerate((1.0, float("inf"), 3.0)):
        before = weight.detach().clone()
        for p, scale in ((weight, scaler.scale), (plain, lambda loss: loss)):
            p.grad = None
            scale((p * factor).sum()).backward()
        if k != 2:
            scaler.unscale_(optimizer)  # type: ignore[arg-type]
        scaler.step(optimizer)  # type: ignore[arg-type]
        scaler.update()
        if k == 1:
            assert torch.equal(weight, before) and scaler.get_scale() == 2.0**10
        else:
            other.step()
            torch.testing.assert_close(weight, plain)
    assert not {"found_inf", "grad_scale"} & vars(optimizer).keys()
    if kind is AdamW:
        assert optimizer.state[weight]["step"] == 2


def test_a_state_that_is_not_whole_or_of_another_net_is_refused() -> None:
    stage = stages(TrainConfig())[0]
    net = nn.Linear(3, 2)
    first = build_optimizer(net, stage)
    net(torch.ones(1, 3)).sum().backward()
    first.step()
    saved = first.to_tensors("optimizer.")
    assert len(saved) == 6
    for wrong in (
        {"optimizer.0.exp_avg": torch.ones(2, 4)},
        {"optimizer.0.exp_avg": torch.tensor(1.0)},
        {"optimizer.1.step": torch.ones(2)},
        {"optimizer.2.step": torch.tensor(1.0)},
        {"optimizer.x.step": torch.tensor(1.0)},
    ):
        with pytest.raises((ValueError, LookupError)):
            build_optimizer(net, stage).restore({**saved, **wrong}, "optimizer.")
    with pytest.raises(ValueError, match="not whole"):
        saved.pop("optimizer.1.step")
        build_optimizer(net, stage).restore(saved, "optimizer.")


class Narrow(nn.Module):
    """Layers with axes of length 1, in channels last: there strides are ambiguous."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(1, 4, (3, 3)), (4, 4, (1, 1)), (4, 1, (1, 1)), (1, 1, (1, 1)), (1, 3, (1, 5)), (3, 2, (2, 1))]
        layers = [nn.Conv2d(a, b, size) for a, b, size in sizes]
        self.layers = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return out


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_weight_gradient_and_state_have_the_same_strides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of axes of length 1, where a convolution may leave any: on a GPU the fused functions refuse the rest."""
    net, stage = Narrow(), stages(TrainConfig(optimizer=name, lr=0.1))[0]
    seen: list[list[tuple[int, ...]]] = []
    function = getattr(optimizers, {"adam": "adamw", "sgd": "sgd"}[name])

    def looking(weights: list[Tensor], *lists: list[Tensor | None], **options: object) -> None:
        for several in zip(weights, *(each for each in lists if len(each) == len(weights)), strict=True):
            seen.append([each.stride() for each in several if each is not None and each.dim()])
        function(weights, *lists, **options)

    monkeypatch.setattr(optimizers, {"adam": "adamw", "sgd": "sgd"}[name], looking)
    first = build_optimizer(net, stage)
    second = build_optimizer(net, stage)
    for k, optimizer in enumerate((first, second)):
        for parameter in net.parameters():
            odd = torch.randn(parameter.shape)
            for axis in (axis for axis in range(odd.dim()) if odd.shape[axis] == 1):
                strides = [7 if k == axis else stride for k, stride in enumerate(odd.stride())]
                odd = odd.as_strided(odd.shape, strides)
            parameter.grad = odd if k else torch.randn(parameter.shape)  # contiguous, and contiguous in another way
        optimizer.step()
        if optimizer is first:
            second.restore(first.to_tensors())
    assert len(seen) == 2 * len(list(net.parameters()))
    assert all(len(set(strides)) == 1 and len(strides) == (4 if name == "adam" else 2) for strides in seen)
