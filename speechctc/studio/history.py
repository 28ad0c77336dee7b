"""The phones of a recording as its journal tells them: changes, undo and redo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speechctc.studio.phones import Phones, Splice

READ, RECOGNISED = "read the TextGrid", "recognised"  # changes that are no corrections


class History:
    """Phones, and the changes that led to them.

    Attributes
    ----------
    phones : list of Phone
    revision : int
        Number of changes so far, undo and redo among them.
    by_hand : bool
        The first labels were a person's, all of them.
    wrote, read : set of str
        SHA-256 of TextGrids that the studio wrote, and of others whose labels the journal has.
    """

    def __init__(self) -> None:
        self.phones: Phones = []
        self.revision = 0
        self.by_hand = False
        self.wrote: set[str] = set()
        self.read: set[str] = set()
        self._done: list[Splice] = []
        self._undone: list[Splice] = []

    def apply(self, entry: Mapping[str, Any]) -> Splice | None:
        """Apply an entry of the journal; return the change of the phones, if it is one.

        Raises
        ------
        ValueError, TypeError, KeyError, IndexError
            The entry does not fit those before it.
        """
        if "wrote" in entry:
            self.wrote.add(str(entry["wrote"]))
            return None
        if "read" in entry:
            self.read.add(str(entry["read"]))
            self.by_hand = self.by_hand or bool(entry["by_hand"])
            return None
        if "undo" in entry:
            splice = self._done[-1].inverse()
            splice.apply(self.phones)
            self._undone.append(self._done.pop())
        elif "redo" in entry:
            splice = self._undone[-1]
            splice.apply(self.phones)
            self._done.append(self._undone.pop())
        else:
            splice = Splice.from_dict(dict(entry))
            self.change(splice)
            return splice
        self.revision += 1
        return splice

    def change(self, splice: Splice) -> None:
        """Apply a new change.

        Raises
        ------
        ValueError
            The phones are not those that the change was made for.
        """
        splice.apply(self.phones)
        self._done.append(splice)
        self._undone.clear()
        self.revision += 1

    def undoable(self) -> tuple[bool, bool]:
        """Return whether there is a change to undo, and one to redo; the first labels cannot be undone."""
        first = 1 if self._done and not self._done[0].old and self._done[0].what in (READ, RECOGNISED) else 0
        return len(self._done) > first, bool(self._undone)

    @property
    def is_corrected(self) -> bool:
        """Whether a person made or changed labels."""
        return self.by_hand or any(splice.what not in (READ, RECOGNISED) for splice in self._done)
