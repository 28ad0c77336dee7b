"""Labels that a model does not have, each heard as one of its phones, so that alignments keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speechctc.core.errors import some
from speechctc.inference.alignment import Refine
from speechctc.inference.segmenter import Segment, Span
from speechctc.phones.inventory import FOUND, Inventory
from speechctc.phones.matching import match_phones

_OWN = "\N{NULL}"
"""Before a phone of the model that is spelt like another label of the transcript: ``y`` in ARPABET is IPA's ``j``."""


@dataclass(frozen=True)
class Heard:
    """Phones of a model, and labels that are heard as them.

    Attributes
    ----------
    phones : Inventory
        Of the model.
    labels : mapping of str to str
        By label, the phone of the model.
    """

    phones: Inventory
    labels: Mapping[str, str]

    @property
    def inventory(self) -> Inventory:
        """The phones of the model, and after them the labels."""
        own = (_OWN + phone if phone in self.labels else phone for phone in self.phones.phones)
        return Inventory(FOUND, (*own, *self.labels)) if self.labels else self.phones

    @property
    def classes(self) -> NDArray[np.int64]:
        """By class of `inventory`, the class of the model that it is heard as."""
        return np.array([*range(len(self.phones.phones) + 1), *self.phones.encode(self.labels.values())], np.int64)

    def rows(self, log_probs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return log posteriors of the classes of `inventory`: those of the model, and each label's as its phone's."""
        if not self.labels:
            return log_probs
        return np.hstack([log_probs, log_probs[:, self.phones.encode(self.labels.values())]])

    def around(self, refine: Refine) -> Refine:
        """Return a function that refines segments as phones of the model, and keeps their labels."""

        def refined(segments: Sequence[Segment], span: Span) -> list[Segment]:
            heard = [each._replace(phone=self.labels.get(each.phone, each.phone)) for each in segments]
            return [each._replace(phone=own.phone) for each, own in zip(refine(heard, span), segments, strict=True)]

        return refined if self.labels else refine


class Hearing:
    """Matches labels with the phones of a model, and remembers which became which.

    Parameters
    ----------
    phones : Inventory
        Of the model.
    others : sequence of str
        Labels of the same notation, by which it is told.
    """

    def __init__(self, phones: Inventory, others: Sequence[str] = ()) -> None:
        self.phones, self._others = phones, others
        self._known: dict[str, str | None] = {}

    def knows(self, labels: Iterable[str]) -> bool:
        """Return whether all labels are heard as some phone."""
        new = [label for label in dict.fromkeys(labels) if label not in self._known]
        if new:
            matches = match_phones((*new, *self._others), self.phones.phones)
            self._known |= {label: matches[label].phone if label in matches else None for label in new}
        return all(self._known[label] is not None for label in labels)

    def of(self, labels: Iterable[str]) -> Heard:
        """Return how these labels are heard; those that are phones of the model need nothing."""
        found = {label: self._known[label] for label in labels if self._known.get(label) not in (None, label)}
        return Heard(self.phones, {label: phone for label, phone in found.items() if phone is not None})

    def note(self) -> str:
        """Return which labels were heard as which phones, or ``""``."""
        pairs = [f"{label} as {to}" for label, to in sorted(self._known.items()) if to not in (None, label)]
        return f"labels are those of the words; the model hears {some(pairs, 40)}" if pairs else ""
