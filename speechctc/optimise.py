"""The optimiser, its learning rate over the run, and its state as plain tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
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


def stages(config: TrainConfig) -> list[Stage]:
    """Return the config's stages: the main one, and the paper's second one with plain SGD if it has epochs."""
    main = Stage(
        "main",
        0,
        config.epochs,
        config.optimizer,
        config.lr,
        config.weight_decay,
        config.schedule,
        config.warmup_steps,
    )
    tuning = config.finetune
    if not tuning.epochs:
        return [main]
    return [
        main,
        Stage("finetune", config.epochs, tuning.epochs, "sgd", tuning.lr, tuning.weight_decay, "constant", 0),
    ]


def build_optimizer(net: nn.Module, stage: Stage) -> torch.optim.Optimizer:
    """Make the stage's optimiser. Biases and normalisation weights do not decay."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": stage.weight_decay},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if stage.optimizer == "adam":
        return torch.optim.AdamW(groups, lr=stage.lr)
    return torch.optim.SGD(groups, lr=stage.lr)


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
    """Put back what `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            number, _, key = rest.partition(".")
            state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
