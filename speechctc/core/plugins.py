"""What users add without a change to the package: features, corpora, augmentations, nets, optimisers, schedules.

They are registered by a call (`speechctc.register_features` and its like), or named by an installed package as an entry
point of the group ``speechctc.features`` and its like. A config names them; no config and no model can name code that
is neither registered nor installed, but for the optimisers and schedules of torch.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, Literal

from speechctc.core.errors import InputError

Group = Literal["features", "corpus", "augmentation", "model", "optimizer", "schedule"]

OPTIMIZERS, SCHEDULES = ("adam", "sgd"), ("constant", "cosine")
"""Those of the package."""
_TORCH = "the name of a class of torch.optim"

registered: dict[tuple[Group, str], Any] = {}


def register(group: Group, name: str, made: Any, taken: Iterable[str]) -> None:
    """Register something under the name that configs have for it; `taken` are the names of the package itself.

    What is defined again in the same place, as by a cell of a notebook, replaces what was there.

    Raises
    ------
    InputError
        The package, or something defined elsewhere, has that name; or it is no name, or nothing that can be called.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"register_{group}: the name {name!r:.60}", "give a text")
    if not callable(made):
        raise InputError(f"register_{group}: {name} is {made!r:.60}", "give a function or a class")
    called = f"register_{group}: the name {name!r:.60}"
    if name in taken:
        raise InputError(f"{called} is one of speechctc's own", "give it another name")
    before = registered.get((group, name), made)
    if before is not made and _place(before) != _place(made):
        raise InputError(f"{called} is that of {'.'.join(_place(before))} already", "give one of them another name")
    registered[group, name] = made


def _place(made: Any) -> tuple[str, str]:
    """Return the module and the name of a class or function; an object without a name is its own place."""
    return getattr(made, "__module__", ""), getattr(made, "__qualname__", repr(made))


def find(group: Group, name: str, own: tuple[str, ...] = ()) -> Any:
    """Return what has a name; `own` are the names of the package itself, for the message.

    A class of torch has its name as an optimiser or a schedule.

    Raises
    ------
    ValueError
        Nothing has it: neither a call in this process nor an installed package gave it.
    """
    if (group, name) not in registered:
        points = [*entry_points(group=f"speechctc.{group}", name=name)]
        if not points:
            if name in (known_to_torch := _of_torch(group)):
                return known_to_torch[name]
            known = f"{', '.join(map(repr, own[:-1]))}{' or ' * (len(own) > 1)}{own[-1]!r}, or " if own else ""
            known += {"optimizer": f"{_TORCH}, or ", "schedule": f"{_TORCH}.lr_scheduler, or "}.get(group, "")
            if near := difflib.get_close_matches(
                name.lower(), by_small := {each.lower(): each for each in known_to_torch}
            ):
                known = f"{by_small[near[0]]}, if that is meant; or {known}"
            raise ValueError(f"it should be {known}one that speechctc.register_{group} or an installed package adds")
        registered[group, name] = guarded(f"{group} {name!r:.60}", points[0].load)()
    return registered[group, name]


def _of_torch(group: Group) -> dict[str, Any]:
    """Return torch's classes of optimisers or schedules, by name."""
    if group not in ("optimizer", "schedule") or find_spec("torch") is None:
        return {}
    import torch

    place, kind = {
        "optimizer": (torch.optim, torch.optim.Optimizer),
        "schedule": (torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler),
    }[group]
    made = {name: each for name, each in vars(place).items() if name[0] != "_" and isinstance(each, type)}
    return {name: each for name, each in made.items() if issubclass(each, kind) and each is not kind}


def version_of(kind: str) -> str:
    """Return the `version` of a kind of features of one's own; ``""``: its class has none."""
    return str(getattr(find("features", kind), "version", ""))


def need(group: Group, name: str, own: tuple[str, ...] = ()) -> Any:
    """As `find`, for a config that was checked elsewhere, where there was such a thing.

    Raises
    ------
    InputError
        Nothing has the name here.
    """
    try:
        return find(group, name, own)
    except ValueError as error:
        what = f"no {group} {name!r:.60} here: {error}"
        raise InputError(what, "install the package, or register it first") from None


def guarded(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call of a user's code whose errors are an `InputError`; `what` is its place in the config."""

    def guard(*args: Any, **settings: Any) -> Any:
        with _blamed(what):
            return call(*args, **settings)

    return guard


def _is_between(filename: str) -> bool:
    """Return whether a file is of those through which a user's code is called."""
    return "importlib" in filename or f"{os.sep}torch{os.sep}nn{os.sep}modules{os.sep}module.py" in filename


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Turn an error into an `InputError` that names the function and line of the user's; lack of memory stays."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if type(error).__name__.endswith("MemoryError") or "can't allocate memory" in str(error):
            raise
        frames = [each for each in traceback.extract_tb(error.__traceback__) if not _is_between(each.filename)][2:]
        own = [each for each in frames if each.filename == frames[0].filename]
        place = f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}: " if own else ""
        message = " ".join(str(error).split())
        raise InputError(f"{what}: {place}{type(error).__name__}: {message}", "correct what is your own") from error
