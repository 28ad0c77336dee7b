"""The optimiser of each stage of training, its learning rate, and weight averaging."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from speechctc.config.schema import TrainConfig
from speechctc.core.errors import InputError, first_few
from speechctc.core.optimizers import SGD, AdamW, Optimizer
from speechctc.model.layers import OWN_PREFIX


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
    optimizer_options, schedule_options : dict
        Of an optimiser or a schedule that is not of the package.
    rates : dict
        Factors of the rate, by the names of parameters.
    """

    name: str
    first_epoch: int
    epochs: int
    optimizer: str
    lr: float
    weight_decay: float
    schedule: str
    warmup_steps: int
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    schedule_options: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)

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
        return self.lr * rise * self._factor(step, done)

    @cached_property
    def _factor(self) -> Callable[[int, float], float]:
        """The schedule."""
        if self.schedule == "constant":
            return lambda step, done: 1.0
        if self.schedule == "cosine":
            return lambda step, done: 0.5 * (1 + math.cos(math.pi * done))
        from speechctc.training.torch_optimizers import schedule  # late: it loads torch's compiler

        return schedule(self.schedule, self.lr, self.schedule_options)


def stages(config: TrainConfig, ranks: int = 1, ended: Sequence[int] = ()) -> list[Stage]:
    """Return the config's stages: the main one, then plain SGD as in the paper if ``train.finetune`` has epochs.

    `ranks` processes multiply the batch size; ``train.scale_lr`` scales the rate with it (linear: Goyal et al. 2017,
    section 2.1; sqrt: like the standard deviation of the gradient). `ended` has the epochs of those that
    ``train.patience`` ended, 0 of others: the next one follows at once.
    """
    growth = {"none": 1.0, "linear": float(ranks), "sqrt": math.sqrt(ranks)}[config.scale_lr]
    how = (config.optimizer, config.lr * growth, config.weight_decay, config.schedule, config.warmup_steps)
    options = config.optimizer_options, config.schedule_options
    found = [Stage("main", 0, config.epochs, *how, *options, config.rates)]
    if further := config.finetune.epochs:
        how = ("sgd", config.finetune.lr * growth, config.finetune.weight_decay, "constant", 0)
        found.append(Stage("finetune", config.epochs, further, *how, rates=config.rates))
    first = 0
    for k, stage in enumerate(found):
        found[k] = replace(stage, first_epoch=first, epochs=(k < len(ended) and ended[k]) or stage.epochs)
        first = found[k].end
    return found


def build_optimizer(net: nn.Module, stage: Stage) -> Optimizer:
    """Build the stage's optimiser of what is not frozen. Biases and normalisation weights have no weight decay.

    Raises
    ------
    InputError
        A pattern of ``train.rates`` matches no parameter; or an optimiser of torch or the user's does not fit.
    """
    scales = {name: 1.0 for name, _ in _named(net)}
    for pattern, scale in reversed(stage.rates.items()):  # the first that matches is set last
        scales |= dict.fromkeys(matching(net, pattern, "train.rates"), scale)
    groups: list[dict[str, Any]] = []
    for scale in dict.fromkeys([1.0, *scales.values()]):
        those = [each for name, each in _named(net) if each.requires_grad and scales[name] == scale]
        weighty, plain = ([each for each in those if (each.dim() > 1) is many] for many in (True, False))
        groups.append({"params": weighty, "weight_decay": stage.weight_decay, "scale": scale})
        groups.append({"params": plain, "weight_decay": 0.0, "scale": scale})
    if (made := {"adam": AdamW, "sgd": SGD}.get(stage.optimizer)) is not None:
        return made(groups, stage.lr)
    from speechctc.training.torch_optimizers import torch_optimizer  # late: it loads torch's compiler

    return torch_optimizer(stage.optimizer, groups, stage.lr, stage.optimizer_options)


def freeze(net: nn.Module, patterns: Sequence[str]) -> None:
    """Let parameters stay as they are, and so the statistics of a layer all of whose parameters do.

    Raises
    ------
    InputError
        A pattern matches no parameter, or all of them are frozen.
    """
    frozen = {name for pattern in patterns for name in matching(net, pattern, "train.freeze")}
    for name, parameter in _named(net):
        if name in frozen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise InputError("train.freeze: nothing is left to train", "freeze fewer parameters")
    for module in net.modules() if frozen else ():
        own, statistics = [*module.parameters(recurse=False)], list(module.buffers(recurse=False))
        if own and statistics and not any(each.requires_grad for each in own):
            module.eval()
            vars(module)["train"] = lambda mode=True, module=module: module


def matching(net: nn.Module, pattern: str, key: str) -> list[str]:
    """Return the names of parameters that a pattern matches: a name, that of a layer, or one with ``*``.

    Raises
    ------
    InputError
        It matches none; `key` is the config's key that has it.
    """
    names = [name for name, _ in _named(net)]
    found = [name for name in names if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")]
    if not found:
        layers = {name.rsplit(".", depth)[0] for name in names for depth in range(name.count(".") + 1)}
        near = difflib.get_close_matches(pattern, sorted(layers), 1)
        fix = f"did you mean {near[0]}?" if near else f"the parameters are {first_few(names)}"
        raise InputError(f"{key}: no parameter is called {pattern!r:.60}", fix)
    return found


def _named(net: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters by the names that a user has for them."""
    return [(name.removeprefix(OWN_PREFIX), each) for name, each in net.named_parameters()]


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
