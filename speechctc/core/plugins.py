"""What users add without a change to the package: kinds of features and of corpora, augmentations.

They are registered by a call (`speechctc.register_features` and its like), or named by an installed package as an entry
point of the group ``speechctc.features``, ``speechctc.corpus`` or ``speechctc.augmentation``. A config names them; no
config and no model can name code that is neither registered nor installed.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, Literal, NamedTuple

from speechctc.core.errors import InputError
from speechctc.core.own_code import content

Group = Literal["features", "corpus", "augmentation"]


class Added(NamedTuple):
    """What a user added, and the content of its code when it was."""

    made: Any
    code: str


registered: dict[tuple[Group, str], Added] = {}


def register(group: Group, name: str, made: Any, taken: Iterable[str]) -> None:
    """Register something under the name that configs have for it; `taken` are the names of the package itself.

    Raises
    ------
    InputError
        The package, or something with other code, has that name.
    """
    called = f"register_{group}: the name {name!r:.60}"
    if name in taken:
        raise InputError(f"{called} is one of speechctc's own", "give it another name")
    before, new = registered.get((group, name)), Added(made, content(made))
    if before is not None and before.made is not made and before.code != new.code:
        fix = "give one of them another name; if you have changed the code, start Python anew"
        raise InputError(f"{called} is that of other code already", fix)
    registered[group, name] = new


def find(group: Group, name: str, own: tuple[str, ...] = ()) -> Any:
    """Return what has a name; `own` are the names of the package itself, for the message.

    Raises
    ------
    ValueError
        Nothing has it: neither a call in this process nor an installed package gave it.
    """
    if (group, name) not in registered:
        points = [*entry_points(group=f"speechctc.{group}", name=name)]
        if not points:
            known = f"{', '.join(map(repr, own[:-1]))} or {own[-1]!r}, or " if own else ""
            raise ValueError(f"it should be {known}one that speechctc.register_{group} or an installed package adds")
        made = guarded(f"{group} {name!r:.60}", points[0].load)()
        registered[group, name] = Added(made, content(made))
    return registered[group, name].made


def code_of(group: Group, name: str) -> str:
    """Return the content of the code that has a name, which `find` finds."""
    find(group, name)
    return registered[group, name].code


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
        frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename][2:]
        own = [each for each in frames if each.filename == frames[0].filename]
        place = f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}: " if own else ""
        said = " ".join(str(error).split())
        raise InputError(f"{what}: {place}{type(error).__name__}: {said}", "correct what is your own") from error
