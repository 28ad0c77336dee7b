"""The corpus: utterances in named splits, and those that were rejected with the reason."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from speechctc.audio.tracks import Channel
from speechctc.core.bundled import bundled_texts
from speechctc.phones.inventory import FOUND, Inventory, Word, inventory_of, named_inventory

SPLITS = ("train", "dev", "test")
PHONES_FILE = "phones.tsv"  # beside the features: the counts of the phones in each split

REPEATED = 3, 0.1  # number and share of a split's utterances from which it is said that their labels are trained on

_NOTES = bundled_texts(__file__, "notes.yaml")


def note_text(note: str, **values: object) -> str:
    """Return a note or a warning on a corpus: a text of ``notes.yaml``, with values in it."""
    return str(_NOTES[note].format(**values))


@dataclass(frozen=True, slots=True)  # a corpus may have a million
class Utterance:
    """A recording and its phones.

    Attributes
    ----------
    id : str
        Unique within its corpus, the same in every run (``"dr1-fvmh0-sx206"``).
    audio : Path
        The recording, in any format that `speechctc.audio.sound_file` reads.
    phones : tuple of str
        Its phones in order, as labelled. Empty for a recording of silence.
    speaker : str
        The speaker; empty if not known.
    times : tuple of (float, float), optional
        Start and end of each phone in seconds from the start of the utterance, where the corpus has them; as long as
        `phones`.
    channel : int or Track, optional
        The channel of the recording, counted from 1; None: the mean of all channels.
    stretch : (float, float), optional
        Start and end in the recording in seconds; None: the utterance is the whole recording.
    words : tuple of str
        Its words, where the corpus has a tier of words.
    traits : tuple of (str, str)
        What else is known of the speaker, by name: ``("sex", "f")``, ``("dialect", "dr1")``. Scores are split by it.
    """

    id: str
    audio: Path
    phones: tuple[str, ...]
    speaker: str = ""
    times: tuple[tuple[float, float], ...] | None = None
    channel: Channel | None = None
    stretch: tuple[float, float] | None = None
    words: tuple[str, ...] = ()
    traits: tuple[tuple[str, str], ...] = ()

    def trait(self, name: str) -> str:
        """Return a trait of the speaker; ``""`` where it is not known."""
        return dict(self.traits).get(name, "")


@dataclass(frozen=True)
class Rejected:
    """An utterance that cannot be used, and the reason in words for the user."""

    id: str
    reason: str


@dataclass(frozen=True)
class Corpus:
    """The utterances of each split, sorted by id.

    Attributes
    ----------
    splits : dict of str to tuple of Utterance
        Under ``"train"``, ``"dev"`` and ``"test"``. A split may be empty; `train` only where
        another one was needed.
    phone_set : str
        Name of the inventory of the labels (see `speechctc.phones.inventory.named_inventory`), or ``"found"``: the
        labels of the training split.
    rejected : dict of str to tuple of Rejected
        By split, the utterances that cannot be used.
    notes : tuple of str
        What the user should know about how the corpus was read: missing parts, how dev was chosen.
    warnings : tuple of str
        What the user should check, because it may be a mistake.
    dev_from_train : bool
        The corpus has no dev split, and a share of its training utterances became dev.
    words : dict of str to tuple of Word, optional
        By the ids of utterances whose phones were read from words, these words, with all their pronunciations.
    """

    splits: dict[str, tuple[Utterance, ...]]
    phone_set: str
    rejected: dict[str, tuple[Rejected, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    dev_from_train: bool = False
    words: dict[str, tuple[Word, ...]] | None = None

    def utterances(self) -> list[Utterance]:
        """Return the utterances of all splits."""
        return [utterance for part in self.splits.values() for utterance in part]

    def inventory(self) -> Inventory:
        """Return the phone set: the named one, or the labels of the training split, or of all if that is empty."""
        if self.phone_set != FOUND:
            return named_inventory(self.phone_set)
        labelled = self.splits["train"] or self.utterances()
        return inventory_of(phone for utterance in labelled for phone in utterance.phones)

    def with_dev(self, ids: Collection[str], note: str) -> Corpus:
        """Return the corpus with these utterances of training and dev as dev, and a note on that in place of others."""
        pool = sorted((*self.splits["train"], *self.splits["dev"]), key=lambda each: each.id)
        dev = tuple(each for each in pool if each.id in ids)
        train = tuple(each for each in pool if each.id not in ids)
        notes, warnings = (
            tuple(text for text in texts if text[:5] != "dev: ") for texts in (self.notes, self.warnings)
        )
        splits = {**self.splits, "train": train, "dev": dev}
        return replace(self, splits=splits, notes=(*notes, note), warnings=warnings).with_repeats(["dev"])

    def with_repeats(self, splits: Sequence[str] = ("dev", "test")) -> Corpus:
        """Return the corpus with a warning where utterances of a split have the labels of one in training."""
        return replace(self, warnings=(*self.warnings, *filter(None, map(self.repeats, splits))))

    def repeats(self, split: str) -> str:
        """Return in words that utterances of a split have the labels of one in training; ``""`` where few have."""
        part, train = ([each.phones for each in self.splits[name]] for name in (split, "train"))
        return repeats_note(split, *count_repeats(part, train))


def count_repeats(part: Collection[Hashable], train: Iterable[Hashable]) -> tuple[int, int]:
    """Return how many of the label strings of a split, each of an utterance, are also in training, and of how many."""
    known = set(train)
    return sum(bool(labels) and labels in known for labels in part), len(part)


def repeats_note(split: str, count: int, everything: int) -> str:
    """Return in words that the labels of so many utterances of a split are also trained on; ``""`` where few are."""
    few, share = REPEATED
    return (
        note_text("repeated", split=split, count=count, all=everything) if count >= max(few, share * everything) else ""
    )
