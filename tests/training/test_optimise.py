import pytest
import torch
from torch import nn

from speechctc.config.train_config import FinetuneConfig, TrainConfig
from speechctc.training.optimise import build_optimizer, optimizer_tensors, restore_optimizer, set_rate, stages


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


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_an_optimiser_put_back_goes_on_to_the_bit(optimizer: str) -> None:
    stage = stages(TrainConfig(optimizer=optimizer, lr=0.1))[0]
    torch.manual_seed(0)
    inputs = torch.randn(6, 4, 3)

    def steps(net: nn.Module, opt: torch.optim.Optimizer, part: torch.Tensor) -> None:
        for x in part:
            opt.zero_grad()
            net(x).square().sum().backward()
            opt.step()

    whole = nn.Linear(3, 2)
    net = nn.Linear(3, 2)
    net.load_state_dict(whole.state_dict())
    steps(whole, build_optimizer(whole, stage), inputs)
    first = build_optimizer(net, stage)
    steps(net, first, inputs[:3])
    second = build_optimizer(net, stage)
    restore_optimizer(second, {name: tensor.clone() for name, tensor in optimizer_tensors(first).items()})
    set_rate(second, 0.1)
    steps(net, second, inputs[3:])
    assert torch.equal(net.weight, whole.weight) and torch.equal(net.bias, whole.bias)


def test_biases_do_not_decay() -> None:
    groups = build_optimizer(nn.Linear(3, 2), stages(TrainConfig(weight_decay=0.5))[0]).param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(1, 0.5), (1, 0.0)]
