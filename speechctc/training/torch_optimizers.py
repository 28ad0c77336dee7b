"""Optimisers and schedules of torch.optim by their names, and registered ones."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.core.optimizers import Optimizer, State

NUMBER = ":number"  # ends the name of a number in a parameter's state, which is no tensor
GIVEN = {"params": "train.freeze", "lr": "train.lr", "weight_decay": "train.weight_decay"}
"""Arguments that have keys of their own."""
MATRICES_ALONE = ("Muon",)  # take parameters of two dimensions only

Groups = list[dict[str, Any]]
Factor = Callable[[int, float], float]
"""Maps the steps of a stage that are done, and the share of it, to a multiple of the highest learning rate."""


class TorchOptimizer(Optimizer):
    """Optimisers of torch.optim that together hold the parameters; see `Optimizer`.

    Parameters
    ----------
    what : str
        Its place in the config.
    parts : sequence of torch.optim.Optimizer
    lr : float
        Learning rate of every group; one whose optimiser has another keeps the ratio.
    wholes : mapping of Parameter to Parameter, optional
        Of the matrices that share the memory of a filter with more dimensions, the filter.
    """

    of_torch = True
    _step_supports_amp_scaling = False  # the gradient scaler leaves out steps by itself

    def __init__(
        self,
        what: str,
        parts: Sequence[torch.optim.Optimizer],
        lr: float,
        wholes: Mapping[nn.Parameter, nn.Parameter] | None = None,
    ) -> None:
        super().__init__((), lr)
        self.parts, self._what, self._wholes = parts, what, wholes or {}
        self._step = [plugins.guarded(what, part.step) for part in parts]
        for group in self._groups():
            group.setdefault("scale", float(group.get("lr", lr)) / lr)
        self._take_groups()

    def _groups(self) -> Groups:
        """Return the groups of the parts."""
        return [group for part in self.parts for group in part.param_groups]

    def _take_groups(self) -> None:
        """Let the groups be those of the parts, with whole filters."""
        self.param_groups = [
            {**group, "params": [self._wholes.get(each, each) for each in group["params"]]} for group in self._groups()
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        for group, own in zip(self._groups(), self.param_groups, strict=True):
            group["lr"] = own["lr"]
        for matrix, whole in self._wholes.items():
            matrix.grad = None if whole.grad is None else _rows(whole.grad, whole)
        for step in self._step:
            step()

    def to_tensors(self, prefix: str = "") -> State:
        """Return the state as named tensors, ``<prefix><optimiser>.<parameter number>.<name>``.

        Raises
        ------
        InputError
            It has something else than tensors and numbers.
        """
        found: State = {}
        for place, part in enumerate(self.parts):
            for number, state in part.state_dict()["state"].items():
                for name, value in state.items():
                    key = f"{prefix}{place}.{number}.{name}"
                    if isinstance(value, Tensor):
                        found[key] = value.contiguous()
                    elif isinstance(value, (bool, int, float)):
                        found[key + NUMBER] = torch.tensor(value, dtype=torch.float64 if type(value) is float else None)
                    elif value is not None:
                        what = f"{self._what}: its state has {name}, a {type(value).__name__}, which is not saved"
                        raise InputError(what, "let its state be tensors and numbers")
        return found

    def restore(self, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
        """Load what `to_tensors` returned, and maybe more with other prefixes.

        Raises
        ------
        ValueError, LookupError
            It is the state of another net.
        """
        states: list[dict[int, dict[str, Any]]] = [{} for _ in self.parts]
        for key, tensor in tensors.items():
            if key.startswith(prefix):
                place, number, name = key.removeprefix(prefix).split(".", 2)
                value = tensor.item() if name.endswith(NUMBER) else tensor
                states[int(place)].setdefault(int(number), {})[name.removesuffix(NUMBER)] = value
        for part, state in zip(self.parts, states, strict=True):
            whole = part.state_dict()
            if state and max(state) >= sum(len(group["params"]) for group in whole["param_groups"]):
                raise LookupError("the state of more parameters than there are")
            part.load_state_dict({**whole, "state": state})
        self._take_groups()  # they are new ones


def torch_optimizer(name: str, groups: Groups, lr: float, options: Mapping[str, Any]) -> TorchOptimizer:
    """Return an optimiser of torch.optim, or a registered one.

    Parameters
    ----------
    name : str
    groups : list of dict
        Each with ``"params"``, ``"weight_decay"`` and ``"scale"``, by which its rate is multiplied.
    lr : float
    options : mapping
        Further arguments.

    Raises
    ------
    InputError
        There is none of that name, it does not take these, or needs what a step does not have.
    """
    what, make = f"train.optimizer={name}", plugins.need("optimizer", name, plugins.OPTIMIZERS)
    for key in GIVEN.keys() & options.keys():
        raise InputError(f"train.optimizer_options: {key} has a key of its own", f"set {GIVEN[key]}")
    _check_decay(what, make, groups)
    groups = [group for group in groups if group["params"]]
    groups, rest, wholes = _as_matrices(what, groups) if name in MATRICES_ALONE else (groups, [], {})
    given = [{**group, "lr": lr * group["scale"]} for group in groups]
    parts = [plugins.guarded(what, make)(given, lr=lr, **options)]
    if rest:
        parts.append(torch.optim.AdamW(rest, lr=lr))
    _check_made(what, parts[0], groups)
    return TorchOptimizer(what, parts, lr, wholes)


def _as_matrices(what: str, groups: Groups) -> tuple[Groups, Groups, dict[nn.Parameter, nn.Parameter]]:
    """Return groups of matrices, filters as such among them; groups of what is neither; the filter of each matrix."""
    found, rest = _kept(groups, lambda each: each.dim() > 1), _kept(groups, lambda each: each.dim() < 2)
    if not found:
        raise InputError(f"{what} is for parameters that are matrices, and none is", "take another optimiser")
    filters = [each for group in found for each in group["params"] if each.dim() > 2]
    matrices = {each: nn.Parameter(_rows(each, each)) for each in filters}
    if any(each.data_ptr() != matrix.data_ptr() for each, matrix in matrices.items()):
        raise InputError(f"{what}: a filter's numbers lie apart in memory", "make it contiguous where it is made")
    found = [{**group, "params": [matrices.get(each, each) for each in group["params"]]} for group in found]
    return found, rest, {matrix: each for each, matrix in matrices.items()}


def _kept(groups: Groups, is_kept: Callable[[Tensor], bool]) -> Groups:
    """Return the groups with some of their parameters, those that have none left out."""
    found = [{**group, "params": [each for each in group["params"] if is_kept(each)]} for group in groups]
    return [group for group in found if group["params"]]


def _rows(values: Tensor, whole: Tensor) -> Tensor:
    """Return a filter's values as a matrix, a row for each output; of the filter itself, in the same memory.

    The columns are in the order of the memory: a matrix's singular values are the same in each order.
    """
    order = sorted(range(1, whole.dim()), key=whole.stride, reverse=True)
    return values.detach().permute(0, *order).flatten(1)


def _check_decay(what: str, make: Callable[..., Any], groups: Groups) -> None:
    known = inspect.signature(make).parameters.values()
    if any(each.name == "weight_decay" or each.kind is each.VAR_KEYWORD for each in known):
        return
    if any(group["weight_decay"] for group in groups) and isinstance(make, type):
        raise InputError(f"{what} has no weight decay", "set train.weight_decay=0, or take another")


def _check_made(what: str, made: object, groups: Groups) -> None:
    """Check that this is an optimiser of all of the parameters, which takes steps alone."""
    if not isinstance(made, torch.optim.Optimizer):
        raise InputError(f"{what} is a {type(made).__name__}", "return a torch.optim.Optimizer")
    needed = [each for each in inspect.signature(made.step).parameters.values() if each.default is each.empty]
    if any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in needed):
        raise InputError(f"{what} takes several passes for a step", "take one whose step() needs no closure")
    held = {id(each) for group in made.param_groups for each in group["params"]}
    missing = [each for group in groups for each in group["params"] if id(each) not in held]
    if missing:
        what = f"{what} has no group for {len(missing)} of the parameters, which would stay as they are"
        raise InputError(what, "take all of the groups given; train.freeze keeps parameters as they are")


def schedule(name: str, lr: float, options: Mapping[str, Any]) -> Factor:
    """Return a schedule of torch.optim.lr_scheduler, which counts steps, or a registered one.

    Raises
    ------
    InputError
        There is none of that name, or it needs what is not known. By the function: it fails.
    """
    what, made = f"train.schedule={name}", plugins.need("schedule", name, plugins.SCHEDULES)
    if isinstance(made, type) and issubclass(made, torch.optim.lr_scheduler.LRScheduler):
        if issubclass(made, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise InputError(f"{what} follows a score, and rates here follow steps", "use train.patience, or cosine")
        return _TorchSchedule(what, made, lr, options)
    call = plugins.guarded(what, made)

    def factor(step: int, done: float) -> float:
        value = call(step, done, **options)
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise InputError(f"{what} returned {value!r:.40} at step {step}", "return a factor of 0 or more")
        return float(value)

    return factor


class _TorchSchedule:
    """A schedule of torch, from the start of a stage: that of a resumed run goes through the steps again."""

    def __init__(
        self, what: str, made: type[torch.optim.lr_scheduler.LRScheduler], lr: float, options: Mapping[str, Any]
    ) -> None:
        self._make, self._lr, self._options = plugins.guarded(what, made), lr, options
        self._advance = plugins.guarded(what, self._advance_one)
        self._begin()

    def _begin(self) -> None:
        # Adagrad has no momentum: a schedule that would change that of the training is refused by torch.
        self._optimizer = torch.optim.Adagrad([nn.Parameter(torch.zeros(1))], lr=self._lr)
        self._schedule, self._step = self._make(self._optimizer, **self._options), 0

    def _advance_one(self) -> None:
        self._optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of schedules whose way to be called is old
            self._schedule.step()
        self._step += 1

    def __call__(self, step: int, done: float) -> float:
        if step < self._step:
            self._begin()
        while self._step < step:
            self._advance()
        return float(self._optimizer.param_groups[0]["lr"]) / self._lr
