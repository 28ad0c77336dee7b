"""The phones of a recording in time, and splices: the one form of every change to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from speechctc.inference.segmenter import Segment
from speechctc.phones.labels import nfc

DIGITS = 4  # of times: 0.1 ms, as in TextGrids


class Phone(NamedTuple):
    """A phone in time.

    Attributes
    ----------
    start, end : float
        Seconds, in steps of 0.1 ms.
    label : str
    confidence : float, optional
        Probability that the label is right; None of labels that no model wrote.
    alternatives : tuple of (str, float)
        Other phones that the model considered, with their posteriors.
    checked : bool
        A person has chosen or confirmed the label.
    """

    start: float
    end: float
    label: str
    confidence: float | None = None
    alternatives: tuple[tuple[str, float], ...] = ()
    checked: bool = False

    def to_list(self) -> list[Any]:
        """Return the values as the journal and the page have them."""
        return [
            self.start,
            self.end,
            self.label,
            self.confidence,
            [list(each) for each in self.alternatives],
            self.checked,
        ]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Phone:
        """Return a phone of `to_list`.

        Raises
        ------
        ValueError, TypeError
            The values are not those of a phone.
        """
        start, end, label, confidence, alternatives, checked = values
        if not (0 <= start <= end < math.inf and isinstance(label, str)):
            raise ValueError(f"not a phone: {values!r:.80}")
        others = tuple((str(phone), float(p)) for phone, p in alternatives)
        return cls(
            float(start), float(end), label, None if confidence is None else float(confidence), others, bool(checked)
        )

    @classmethod
    def of(cls, segment: Segment) -> Phone:
        """Return what a model recognised."""
        others = tuple((phone, round(p, 4)) for phone, p in segment.alternatives)
        start, end = round(segment.start, DIGITS), round(segment.end, DIGITS)
        return cls(start, end, nfc(segment.phone), round(segment.confidence, DIGITS), others)


Phones = list[Phone]


class Splice(NamedTuple):
    """A change: at index `at`, the phones `old` become `new`; `what` names the edit."""

    at: int
    old: tuple[Phone, ...]
    new: tuple[Phone, ...]
    what: str = ""

    def inverse(self) -> Splice:
        """Return the change that takes this one back."""
        return self._replace(old=self.new, new=self.old)

    def apply(self, phones: Phones) -> None:
        """Change the phones in place.

        Raises
        ------
        ValueError
            The phones are not those that the change was made for.
        """
        span = slice(self.at, self.at + len(self.old))
        if self.at < 0 or tuple(phones[span]) != self.old:
            raise ValueError(f"the phones from number {self.at} are not those that were changed")
        phones[span] = self.new

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the journal."""
        return {"what": self.what, "at": self.at, "old": _lists(self.old), "new": _lists(self.new)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Splice:
        """Return a change of `to_dict`.

        Raises
        ------
        ValueError, TypeError, KeyError
            The values are not those of a change.
        """
        old, new = (tuple(map(Phone.from_list, values[key])) for key in ("old", "new"))
        return cls(int(values["at"]), old, new, str(values["what"]))


def _lists(phones: Iterable[Phone]) -> list[list[Any]]:
    return [phone.to_list() for phone in phones]


def check_order(phones: Sequence[Phone], seconds: float) -> None:
    """Check that phones are in order, do not overlap and lie within the recording.

    Raises
    ------
    ValueError
        They do not; the message names the first.
    """
    at = 0.0
    for phone in phones:
        if not (at - 1e-9 <= phone.start < phone.end <= seconds + 0.05):
            raise ValueError(f"{phone.label!r} from {phone.start} s to {phone.end} s, after {at} s of {seconds} s")
        at = phone.end
