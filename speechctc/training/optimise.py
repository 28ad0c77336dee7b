"""Optimiser, learning rate schedule and weight averaging; their state as plain tensors.

AdamW and SGD by torch's fused functions, in place of the classes of `torch.optim`. The first of those that is made
imports torch's compiler, which nothing here uses: 3 s of the processor and 130 MB in every process that trains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from speechctc.config.schema import TrainConfig

State = dict[str, Tensor]
Settings = Mapping[str, Any]


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


def stages(config: TrainConfig, ranks: int = 1) -> list[Stage]:
    """Return the config's stages: the main one, then plain SGD as in the paper if ``train.finetune`` has epochs.

    `ranks` processes multiply the batch size; ``train.scale_lr`` scales the rate with it (linear: Goyal et al. 2017,
    section 2.1; sqrt: like the standard deviation of the gradient).
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


def build_optimizer(net: nn.Module, stage: Stage) -> Optimizer:
    """Build the stage's optimiser. Biases and normalisation weights have no weight decay."""
    groups = [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": stage.weight_decay},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return {"adam": AdamW, "sgd": SGD}[stage.optimizer](groups, stage.lr)


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as named tensors: ``optimizer.<parameter number>.<name>``."""
    return {
        f"optimizer.{number}.{name}": value.contiguous()
        for number, parameter in enumerate(optimizer.parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load what `optimizer_tensors` returned.

    Fused functions need the state in the memory layout of its parameter (channels last, for example).

    Raises
    ------
    ValueError, LookupError
        It is the state of another net.
    """
    parameters = optimizer.parameters
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        number, _, key = rest.partition(".")
        if kind == "optimizer" and key in optimizer.KEPT:
            like = parameters[int(number)]
            laid_out = torch.zeros((), device=like.device) if key == "step" else torch.empty_like(like)
            if tensor.shape != laid_out.shape:
                raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {tuple(laid_out.shape)}")
            optimizer.state.setdefault(like, {})[key] = laid_out.copy_(tensor)
    if any(state.keys() != set(optimizer.KEPT) for state in optimizer.state.values()):
        raise ValueError("the state of a parameter is not whole")


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


class Optimizer:
    """What `torch.amp.GradScaler` and the training ask of an optimiser, with the names of `torch.optim`.

    Parameters
    ----------
    groups : sequence of dict
        Each with ``"params"`` and ``"weight_decay"``.
    lr : float
        Learning rate of every group; ``"lr"`` in each may be changed.

    Attributes
    ----------
    param_groups : list of dict
    state : dict of Parameter to dict of str to Tensor
        Of the parameters that have been changed.
    grad_scale, found_inf : Tensor
        A gradient scaler sets them for the time of a step: by what the gradients are still multiplied, and whether one
        of them is not finite; then the step changes nothing.
    """

    KEPT: tuple[str, ...] = ()  # names of the tensors of each parameter's state
    _step_supports_amp_scaling = True  # asked by torch.amp.GradScaler
    grad_scale: Tensor
    found_inf: Tensor

    def __init__(self, groups: Sequence[Mapping[str, Any]], lr: float) -> None:
        self.param_groups = [{"lr": lr, **group} for group in groups]
        self.state: dict[nn.Parameter, State] = {}

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters of all groups, in order."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def zero_grad(self) -> None:
        """Remove all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        scaled = {name: getattr(self, name, None) for name in ("grad_scale", "found_inf")}
        for group in self.param_groups:
            if parameters := [parameter for parameter in group["params"] if parameter.grad is not None]:
                self._change(parameters, [_laid_out(parameter) for parameter in parameters], group, scaled)

    def _change(self, parameters: list[nn.Parameter], gradients: list[Tensor], group: Settings, scaled: Any) -> None:
        raise NotImplementedError


def _laid_out(parameter: nn.Parameter) -> Tensor:
    """Return the gradient in the strides of its parameter.

    On a GPU the fused functions refuse strides that differ, even of an axis of length 1 (PyTorch's issue 106951).
    """
    gradient = parameter.grad
    assert gradient is not None
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


class SGD(Optimizer):
    """Stochastic gradient descent without momentum."""

    def _change(self, parameters: list[nn.Parameter], gradients: list[Tensor], group: Settings, scaled: Any) -> None:
        sgd(
            [*parameters],
            gradients,
            [None] * len(parameters),
            fused=True,
            **scaled,
            weight_decay=group["weight_decay"],
            momentum=0.0,
            lr=group["lr"],
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101), with torch's usual constants."""

    KEPT = ("step", "exp_avg", "exp_avg_sq")

    def _change(self, parameters: list[nn.Parameter], gradients: list[Tensor], group: Settings, scaled: Any) -> None:
        for parameter in parameters:
            if parameter not in self.state:
                self.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self.state[parameter] for parameter in parameters]
        adamw(
            [*parameters],
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            **scaled,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=1e-8,
            maximize=False,
        )
