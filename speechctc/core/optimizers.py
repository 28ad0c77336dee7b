"""AdamW and SGD by torch's fused functions, in place of the classes of `torch.optim`; their state as plain tensors.

The first of those classes that is made imports torch's compiler, which nothing here uses: 3 s of the processor and
130 MB in every process that trains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

State = dict[str, Tensor]


class Optimizer:
    """What `torch.amp.GradScaler` and the training ask of an optimiser, with the names of `torch.optim`.

    Parameters
    ----------
    groups : sequence of dict
        Each with ``"params"`` and ``"weight_decay"``; maybe with ``"scale"``, a factor of its rate.
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

    of_torch = False  # it is made of the classes of `torch.optim`, whose rates are numbers
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

    def zero_grad(self, in_place: bool = False) -> None:
        """Remove all gradients; with `in_place`, set them to zero where they lie, and make those that are not there."""
        for parameter in self.parameters:
            if not in_place:
                parameter.grad = None
            elif parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if in_place:
            torch._foreach_zero_([parameter.grad for parameter in self.parameters if parameter.grad is not None])

    def to_tensors(self, prefix: str = "") -> State:
        """Return the state as named tensors, ``<prefix><parameter number>.<name>``."""
        return {
            f"{prefix}{number}.{name}": value.contiguous()
            for number, parameter in enumerate(self.parameters)
            for name, value in self.state.get(parameter, {}).items()
        }

    def restore(self, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
        """Load what `to_tensors` returned, and maybe more with other prefixes.

        Fused functions need the state in the memory layout of its parameter (channels last, for example).

        Raises
        ------
        ValueError, LookupError
            It is the state of another net.
        """
        parameters = self.parameters
        for name, tensor in tensors.items():
            number, _, key = name.removeprefix(prefix).partition(".")
            if name.startswith(prefix) and key in self.KEPT:
                like = parameters[int(number)]
                laid_out = torch.zeros((), device=like.device) if key == "step" else torch.empty_like(like)
                if tensor.shape != laid_out.shape:
                    raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not {tuple(laid_out.shape)}")
                self.state.setdefault(like, {})[key] = laid_out.copy_(tensor)
        if any(state.keys() != set(self.KEPT) for state in self.state.values()):
            raise ValueError("the state of a parameter is not whole")

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        scaled = {name: getattr(self, name, None) for name in ("grad_scale", "found_inf")}
        for group in self.param_groups:
            own = {key: group[key] for key in group if key not in ("params", "scale")}
            how = {"fused": True, "maximize": False, **own, **scaled}
            if parameters := [parameter for parameter in group["params"] if parameter.grad is not None]:
                self._change(parameters, [_laid_out(parameter) for parameter in parameters], how)

    def _change(self, parameters: list[nn.Parameter], gradients: list[Tensor], how: Mapping[str, Any]) -> None:
        """Call torch's function; `how` has the arguments that all such functions take, and those of the group."""
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

    def _change(self, parameters: list[nn.Parameter], gradients: list[Tensor], how: Mapping[str, Any]) -> None:
        momenta: list[Tensor | None] = [None] * len(parameters)
        sgd([*parameters], gradients, momenta, **how, momentum=0.0, dampening=0.0, nesterov=False)


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101), with torch's usual constants.

    A group may have another ``"beta1"``.
    """

    KEPT = ("step", "exp_avg", "exp_avg_sq")

    def _change(self, parameters: list[nn.Parameter], gradients: list[Tensor], how: Mapping[str, Any]) -> None:
        for each in parameters:
            if each not in self.state:
                first = (torch.zeros((), device=each.device), torch.zeros_like(each), torch.zeros_like(each))
                self.state[each] = dict(zip(self.KEPT, first, strict=True))
        steps, means, squares = ([self.state[each][name] for each in parameters] for name in self.KEPT)
        how = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, **how}
        adamw([*parameters], gradients, means, squares, [], steps, **how)
