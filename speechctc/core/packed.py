"""Tuples of numbers in the memory of the numbers: of an hour's phones, Python's own objects take 40 MB."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar, overload

Item = TypeVar("Item")


class Packed(Sequence[Item]):
    """A sequence that can grow, and whose items can be replaced.

    Parameters
    ----------
    items : iterable, optional

    Attributes
    ----------
    form : str
        Of the numbers of an item, as `struct` has it.
    """

    form: ClassVar[str]

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._bytes = bytearray()
        self.extend(items)

    def pack(self, place: int, item: Any) -> tuple[Any, ...]:
        """Return the numbers of the item for this place; by default it is a tuple of them."""
        return tuple(item)

    def unpack(self, place: int, numbers: tuple[Any, ...]) -> Item:
        """Return the item of this place."""
        raise NotImplementedError

    def append(self, item: Item) -> None:
        """Add an item."""
        self._bytes += struct.pack(self.form, *self.pack(len(self), item))

    def extend(self, items: Iterable[Item]) -> None:
        """Add items."""
        for item in items:
            self.append(item)

    def __setitem__(self, place: int, item: Item) -> None:
        """Replace an item."""
        place = range(len(self))[place]
        struct.pack_into(self.form, self._bytes, place * struct.calcsize(self.form), *self.pack(place, item))

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, place: int | slice) -> Item | tuple[Item, ...]:
        """Return an item, or those of a slice."""
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(len(self))))
        place = range(len(self))[place]
        return self.unpack(place, struct.unpack_from(self.form, self._bytes, place * struct.calcsize(self.form)))

    def __iter__(self) -> Iterator[Item]:
        """Yield the items."""
        return (self[place] for place in range(len(self)))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._bytes) // struct.calcsize(self.form)

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same items."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        """Return the same number for equal sequences."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return the items as those of a tuple."""
        return repr(tuple(self))
