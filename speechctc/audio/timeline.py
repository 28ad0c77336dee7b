"""Places what a decoder gives on the timeline of a recording: silence where nothing was recorded.

A container, such as MP4, says when each packet of sound is heard. Sound may begin after the picture, and packets may be
lost. Players and annotation tools keep to these times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from speechctc.core.errors import InputError

LEAST_START = 0.001  # seconds that sound begins early or late, at least, to be moved
LEAST_SAID = 0.1  # seconds of silence before the sound that are worth a word: many decoders need a first packet
LEAST_GAP = 0.015  # less than a packet of 20 ms; times that programs round or guess differ by less
MOST_OVERLAP = 0.5  # seconds that two packets have in common, at most; those that go back further are in a wrong order
MOST_SILENCE = 1.0  # seconds beyond the end that the container names: times there are damaged
MOST_HOURS = 24.0  # where the container names no end
CONVERT = "convert it without its times, for example with: ffmpeg -i FILE FILE.wav"


@dataclass
class Timeline:
    """The timeline of one sound track while it is decoded.

    Attributes
    ----------
    rate : int
        Hz.
    seconds : float or None
        How long the container says it is; None: it does not say.
    begins : float
        When the sound begins, s; negative: what is before 0 is left out.
    gaps : list of (float, float)
        Start and length of each silence that was put in, s.
    overlaps : list of (float, float)
        Where sound was left out because the sound before it lasts longer, and how much, s.
    returns : list of (float, float)
        Where the times go back, and by how much, s. The sound there is placed after what is before it.
    changes : list of float
        Where the rate or the number of channels changes, s.
    """

    rate: int
    seconds: float | None = None
    begins: float = 0.0
    gaps: list[tuple[float, float]] = field(default_factory=list)
    overlaps: list[tuple[float, float]] = field(default_factory=list)
    returns: list[tuple[float, float]] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    _lag: int | None = None  # samples of the timeline minus samples decoded, by the container
    _base: int = 0  # samples decoded before the rate or the channels changed
    _moved: int = 0  # samples that were put in, less those that were left out

    def sample(self, decoded: int, rate: int) -> int:
        """Return which of all decoded samples one is, counted since the rate or the channels changed."""
        return self._base + round(decoded * self.rate / rate)

    def place(self, decoded: int, lag: float, rate: int) -> tuple[int, int]:
        """Take in that the container's times jump; return at which decoded sample, and how many samples to put in.

        Parameters
        ----------
        decoded : int
            Samples before it, since the rate or the channels changed.
        lag : float
            Its time by the container minus that of as many samples without a gap, in samples.
        rate : int
            Of these samples, Hz.

        Raises
        ------
        InputError
            The times cannot be.
        """
        scale = self.rate / rate
        own = round(lag * scale)
        if decoded == 0 and self._lag is not None:
            self._base, self._lag = own - self._moved, own
            self.changes.append(own / self.rate)
            return self._base, 0
        first = self._lag is None
        at, more = self.sample(decoded, rate), own - (self._lag or 0)
        self._lag = own
        where = (at + self._moved) / self.rate
        if first:
            more *= abs(more) >= LEAST_START * self.rate
            self.begins = more / self.rate
        elif more < -MOST_OVERLAP * self.rate:
            self.returns.append((where, -more / self.rate))
            return at, 0
        elif more:
            (self.gaps if more > 0 else self.overlaps).append((where, abs(more) / self.rate))
        last = MOST_HOURS * 3600 if self.seconds is None else self.seconds + MOST_SILENCE
        if more > 0 and where + more / self.rate > last:
            raise InputError(f"its times jump by {more / self.rate:.1f} s at {where:.2f} s", CONVERT)
        self._moved += more
        return at, more

    def remark(self) -> str:
        """Return in words what was put in, left out or moved; ``""`` if nothing was."""
        late = f"its sound begins {self.begins:.2f} s after its picture: silence is before it"
        early = f"the first {-self.begins:.2f} s of its sound are before its start, and left out"
        said = [
            (late if self.begins > 0 else early) * (abs(self.begins) >= LEAST_SAID),
            _counted(self.gaps, "gap", "of {:.2f} s in all, filled with silence"),
            _counted(self.overlaps, "overlap", "of {:.2f} s in all, where the later sound is left out"),
            _counted(self.returns, "time", "go back, by {:.2f} s in all: what follows is placed after what is before"),
            _counted(
                [(each, 0.0) for each in self.changes], "change", "of rate or channels: gaps there are not filled"
            ),
        ]
        return "; ".join(filter(None, said))


def _counted(found: list[tuple[float, float]], one: str, words: str) -> str:
    if not found:
        return ""
    total = words.format(sum(length for _, length in found))
    place = f"{'the first ' if len(found) > 1 else ''}at {found[0][0]:.2f} s"
    return f"{len(found)} {one}{'s' * (len(found) > 1)} ({place}) {total}"
