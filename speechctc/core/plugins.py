"""What users add without a change to the package: kinds of features and of corpora, augmentations.

They are registered by a call (`speechctc.register_features` and its like), or named by an installed package as an entry
point of the group ``speechctc.features``, ``speechctc.corpus`` or ``speechctc.augmentation``. A config names them; no
config and no model can name code that is neither registered nor installed.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Literal

from speechctc.core.errors import InputError

Group = Literal["features", "corpus", "augmentation"]

registered: dict[tuple[Group, str], Any] = {}


def register(group: Group, name: str, made: Any) -> None:
    """Register something under the name that configs have for it; a later one of the same name replaces it."""
    registered[group, name] = made


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
        registered[group, name] = points[0].load()
    return registered[group, name]


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
