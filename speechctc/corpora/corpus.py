"""What a corpus is: utterances in named splits, and what was left out of them and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from speechctc.phones.inventory import FOUND, Inventory, found, named_inventory

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)  # a corpus may have a million
class Utterance:
    """One recording and its phones.

    Attributes
    ----------
    id : str
        Unique within its corpus, stable from run to run (``"dr1-fvmh0-sx206"``).
    audio : Path
        The recording, in any format that `speechctc.audio.sound_file` reads.
    phones : tuple of str
        Its phones in order, as labelled. May be empty (a recording of silence).
    speaker : str
        Who speaks; empty when not known.
    times : tuple of (float, float), optional
        Start and end of each phone in seconds, where the corpus has them: as long as `phones`.
    channel : int, optional
        Which channel of the recording it is, counted from 1; None: the mean of all.
    """

    id: str
    audio: Path
    phones: tuple[str, ...]
    speaker: str = ""
    times: tuple[tuple[float, float], ...] | None = None
    channel: int | None = None


@dataclass(frozen=True)
class Rejected:
    """An utterance that cannot be used, and why, in words for the user."""

    id: str
    reason: str


@dataclass(frozen=True)
class Corpus:
    """The utterances of each split, in the order of their ids.

    Attributes
    ----------
    splits : dict of str to tuple of Utterance
        Under ``"train"``, ``"dev"`` and ``"test"``; a split may be empty, `train` never is.
    phone_set : str
        The name of the inventory of the labels (see `speechctc.phones.inventory.named_inventory`), or ``"found"``: the
        labels of the training split.
    rejected : dict of str to tuple of Rejected
        By split, what was left out and why.
    notes : tuple of str
        What the user should know of how the corpus was read: parts missing, how dev was chosen.
    warnings : tuple of str
        What the user should look at, because it may be a mistake.
    """

    splits: dict[str, tuple[Utterance, ...]]
    phone_set: str
    rejected: dict[str, tuple[Rejected, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def inventory(self) -> Inventory:
        """Return the set of the labels: the named one, or the labels of the training split."""
        if self.phone_set != FOUND:
            return named_inventory(self.phone_set)
        return found(phone for utterance in self.splits["train"] for phone in utterance.phones)
