"""What was recognised, or aligned, in one recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from speechctc.recognition.segments import Segment


@dataclass(frozen=True)
class Recognition:
    """What was recognised, or aligned, in one recording.

    Attributes
    ----------
    file : str
        As it was named.
    seconds : float
        Length of the recording.
    segments : tuple of Segment
        Phones in order, none overlapping another.
    score : float, optional
        Of an alignment: log probability of its path, divided by the number of phones.
    given_error : float, optional
        Of an alignment of phones that had times: how far their boundaries are from those found, in the median; seconds.
    """

    file: str
    seconds: float
    segments: tuple[Segment, ...]
    score: float | None = None
    given_error: float | None = None

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones alone."""
        return tuple(segment.phone for segment in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the JSON has them: times to 0.1 ms."""
        values: dict[str, Any] = {"file": self.file, "seconds": round(self.seconds, 6), "phones": list(self.phones)}
        if self.score is not None:
            values["score"] = round(self.score, 4)
        if self.given_error is not None:
            values["given_boundaries_median_error_ms"] = round(1000 * self.given_error, 1)
        return values | {"segments": [segment.to_dict() for segment in self.segments]}
