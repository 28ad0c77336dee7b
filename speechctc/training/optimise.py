"""The optimiser, its learning rate over the run, averaged weights, and the state of all of it as plain tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from speechctc.config import TrainConfig


@dataclass(frozen=True)
class Stage:
    """A stretch of training with one optimiser.

    Attributes
    ----------
    name : str
    first_epoch, epochs : int
        Counted from 0.
    optimizer : str
    lr : float
        At its highest.
    weight_decay : float
    schedule : str
    warmup_steps : int
    """

    name: str
    first_epoch: int
    epochs: int
    optimizer: str
    lr: float
    weight_decay: float
    schedule: str
    warmup_steps: int

    @property
    def end(self) -> int:
        """The epoch that is not of this stage any more."""
        return self.first_epoch + self.epochs

    def rate(self, step: int, done: float) -> float:
        """Return the learning rate.

        Parameters
        ----------
        step : int
            Steps taken in this stage.
        done : float
            Share of the stage that is over, 0 to 1.
        """
        rise = min(1.0, max((step + 1) / self.warmup_steps, 10 * done)) if self.warmup_steps else 1.0
        fall = 0.5 * (1 + math.cos(math.pi * done)) if self.schedule == "cosine" else 1.0
        return self.lr * rise * fall


def stages(config: TrainConfig, ranks: int = 1) -> list[Stage]:
    """Return the config's stages: the main one, and the paper's second one with plain SGD if it has epochs.

    A batch of `ranks` processes is so many times larger; ``train.scale_lr`` says whether the rate follows (linear:
    Goyal et al. 2017, section 2.1; sqrt: as the gradient's deviation falls).
    """
    growth = {"none": 1.0, "linear": float(ranks), "sqrt": math.sqrt(ranks)}[config.scale_lr]
    main = Stage(
        "main",
        0,
        config.epochs,
        config.optimizer,
        config.lr * growth,
        config.weight_decay,
        config.schedule,
        config.warmup_steps,
    )
    tuning = config.finetune
    if not tuning.epochs:
        return [main]
    return [
        main,
        Stage("finetune", config.epochs, tuning.epochs, "sgd", tuning.lr * growth, tuning.weight_decay, "constant", 0),
    ]


def build_optimizer(net: nn.Module, stage: Stage) -> torch.optim.Optimizer:
    """Make the stage's optimiser. Biases and normalisation weights do not decay."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": stage.weight_decay},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if stage.optimizer == "adam":
        return torch.optim.AdamW(groups, lr=stage.lr, fused=True)
    return torch.optim.SGD(groups, lr=stage.lr, fused=True)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as named tensors: ``optimizer.<parameter number>.<name>``."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": torch.as_tensor(value).contiguous()
        for number, entry in state.items()
        for name, value in entry.items()
        if value is not None
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` returned.

    The fused optimisers walk through memory, so a state must lie as its parameter does (channels last, say).
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            number, _, key = rest.partition(".")
            like = parameters[int(number)]
            laid_out = torch.empty_like(like).copy_(tensor) if tensor.shape == like.shape else tensor
            state.setdefault(int(number), {})[key] = laid_out
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


class WeightEMA:
    """An exponential moving average of a net's weights (Polyak and Juditsky 1992, with forgetting).

    Parameters
    ----------
    net : nn.Module
    decay : float
        Share of the old average that a step keeps; less in the first steps, (1 + step) / (10 + step), so that the
        random weights of the start are soon forgotten.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: value.detach().clone() for name, value in net.named_parameters()}

    def update(self, net: nn.Module, step: int) -> None:
        """Take in the weights after step number `step` (from 0)."""
        keep = min(self.decay, (1 + step) / (10 + step))
        now = [value.detach() for value in net.parameters()]
        torch._foreach_lerp_(list(self.weights.values()), now, 1 - keep)

    @contextmanager
    def in_place(self, net: nn.Module) -> Iterator[None]:
        """Let the net have the averaged weights for a while."""
        own = {name: value.detach().clone() for name, value in net.named_parameters()}
        with torch.no_grad():
            for name, value in net.named_parameters():
                value.copy_(self.weights[name])
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in net.named_parameters():
                    value.copy_(own[name])

    def to_tensors(self) -> dict[str, Tensor]:
        """Return its state: ``average.<parameter>``."""
        return {f"average.{name}": value.contiguous() for name, value in self.weights.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `to_tensors` returned; weights of a run begun without an average stay as they are."""
        for name, value in self.weights.items():
            if f"average.{name}" in tensors:
                value.copy_(tensors[f"average.{name}"])
