"""The optimiser of each stage of training, its learning rate, and weight averaging."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from speechctc.config.schema import TrainConfig
from speechctc.core.optimizers import SGD, AdamW, Optimizer


@dataclass(frozen=True)
class Stage:
    """A part of training with its own optimiser and learning rate.

    Attributes
    ----------
    name : str
    first_epoch, epochs : int
        Counted from 0.
    optimizer : str
    lr : float
        Peak learning rate.
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
        """The first epoch after the stage."""
        return self.first_epoch + self.epochs

    def rate(self, step: int, done: float) -> float:
        """Return the learning rate.

        Parameters
        ----------
        step : int
            Steps taken in this stage.
        done : float
            Fraction of the stage that is done, 0 to 1.
        """
        rise = min(1.0, max((step + 1) / self.warmup_steps, 10 * done)) if self.warmup_steps else 1.0
        fall = 0.5 * (1 + math.cos(math.pi * done)) if self.schedule == "cosine" else 1.0
        return self.lr * rise * fall


def stages(config: TrainConfig, ranks: int = 1, ended: Sequence[int] = ()) -> list[Stage]:
    """Return the config's stages: the main one, then plain SGD as in the paper if ``train.finetune`` has epochs.

    `ranks` processes multiply the batch size; ``train.scale_lr`` scales the rate with it (linear: Goyal et al. 2017,
    section 2.1; sqrt: like the standard deviation of the gradient). `ended` has the epochs of those that
    ``train.patience`` ended, 0 of others: the next one follows at once.
    """
    growth = {"none": 1.0, "linear": float(ranks), "sqrt": math.sqrt(ranks)}[config.scale_lr]
    how = (config.optimizer, config.lr * growth, config.weight_decay, config.schedule, config.warmup_steps)
    found = [Stage("main", 0, config.epochs, *how)]
    if further := config.finetune.epochs:
        how = ("sgd", config.finetune.lr * growth, config.finetune.weight_decay, "constant", 0)
        found.append(Stage("finetune", config.epochs, further, *how))
    first = 0
    for k, stage in enumerate(found):
        found[k] = replace(stage, first_epoch=first, epochs=(k < len(ended) and ended[k]) or stage.epochs)
        first = found[k].end
    return found


def build_optimizer(net: nn.Module, stage: Stage) -> Optimizer:
    """Build the stage's optimiser. Biases and normalisation weights have no weight decay."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": stage.weight_decay},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return {"adam": AdamW, "sgd": SGD}[stage.optimizer](groups, stage.lr)


class WeightEMA:
    """An exponential moving average of a net's weights (Polyak and Juditsky 1992, with forgetting).

    Parameters
    ----------
    net : nn.Module
    decay : float
        Weight of the old average in each step; in the first steps at most (1 + step) / (10 + step), so that the
        random initial weights are soon forgotten.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: value.detach().clone() for name, value in net.named_parameters()}

    def update(self, net: nn.Module, step: int) -> None:
        """Update the average with the weights after step `step` (from 0)."""
        keep = min(self.decay, (1 + step) / (10 + step))
        now = [value.detach() for value in net.parameters()]
        torch._foreach_lerp_(list(self.weights.values()), now, 1 - keep)

    @contextmanager
    def in_place(self, net: nn.Module) -> Iterator[None]:
        """Return a context in which the net has the averaged weights."""
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
        """Return the state, ``average.<parameter>``."""
        return {f"average.{name}": value.contiguous() for name, value in self.weights.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what `to_tensors` returned; a run that was begun without an average starts one here."""
        for name, value in self.weights.items():
            if f"average.{name}" in tensors:
                value.copy_(tensors[f"average.{name}"])
