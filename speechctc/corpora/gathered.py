"""A corpus in the making: what a reader has found so far, and what is the same for every kind of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speechctc.audio import ffmpeg
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.dev_split import hold_out
from speechctc.phones.inventory import SILENCES, Inventory, found
from speechctc.phones.labels import Spellings, counted, look_alikes, nfc, shape, some, spelt_out

PAUSES = SILENCES | {"-", "--", "pause", "<pau>", "<pause>", "silence", "<silence>"}
UNCLEAR = frozenset(("xxx", "xx", "yyy", "??", "???", "<unk>", "unk", "<nib>", "<usb>", "noise", "<noise>"))


def _per_split() -> dict[str, list[Utterance]]:
    return {split: [] for split in SPLITS}


def _rejected_per_split() -> dict[str, list[Rejected]]:
    return {split: [] for split in SPLITS}


@dataclass
class Gathered:
    """Utterances and what was left out, by split, while a corpus is read.

    Parameters
    ----------
    phones : Inventory, optional
        The set of the labels; None: what the training split holds.
    ignored : sequence of str
        Labels that are no phones.
    """

    phones: Inventory | None
    ignored: Sequence[str] = ()
    utterances: dict[str, list[Utterance]] = field(default_factory=_per_split)
    rejected: dict[str, list[Rejected]] = field(default_factory=_rejected_per_split)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spellings = Spellings()
        self._ignored = frozenset(map(nfc, self.ignored))
        self._left_out: Counter[str] = Counter()

    def labels(self, raw: Iterable[str]) -> tuple[list[str], list[int]]:
        """Return the labels as the set spells them, less those to ignore, and where in `raw` each was.

        Raises
        ------
        InputError
            A label that is not of the set.
        """
        labels = self._spellings.read(raw)
        if self._ignored.isdisjoint(labels):
            kept = list(range(len(labels)))
        else:
            kept = [k for k, label in enumerate(labels) if label not in self._ignored]
        chosen = [labels[k] for k in kept]
        if len(kept) < len(labels):
            self._left_out.update(label for label in labels if label in self._ignored)
        if self.phones is not None:
            chosen = self.phones.decode(self.phones.encode(chosen))
        return chosen, kept

    def to_corpus(self, dev_share: float, hold_out_dev: bool) -> Corpus:
        """Hold out dev where asked to, settle the phone set, and return the corpus with all there is to say of it."""
        if hold_out_dev:
            held, note = hold_out(self.utterances["train"], dev_share)
            train = self.utterances["train"]
            self.utterances["dev"] = [utterance for utterance in train if utterance.id in held]
            self.utterances["train"] = [utterance for utterance in train if utterance.id not in held]
            self.notes.append(note)
        phones = self.phones or self._find_phones()
        self.notes += self._spellings.notes()
        if self._left_out:
            self.notes.append(f"labels left out, as corpus.ignore says: {counted(self._left_out)}")
        if absent := sorted(self._ignored - set(self._left_out)):
            self.warnings.append(f"corpus.ignore names labels that do not occur: {some(absent)}")
        everything = [utterance for split in SPLITS for utterance in self.utterances[split]]
        if self.phones is None:
            self.warnings += _doubtful(Counter(phone for utterance in everything for phone in utterance.phones))
        return Corpus(
            {split: tuple(sorted(self.utterances[split], key=lambda utterance: utterance.id)) for split in SPLITS},
            phones.name,
            {split: tuple(self.rejected[split]) for split in SPLITS},
            tuple(self.notes),
            tuple(self.warnings),
        )

    def warn_of(self, paths: Sequence[Path], what: str) -> None:
        """Warn of files: what is with them, how many they are, and a few by name."""
        if paths:
            self.warnings.append(f"{what} ({len(paths)}): {some([str(path) for path in paths], 5)}")

    def warn_of_formats(self, paths: Iterable[Path]) -> None:
        """Warn of recordings that only ffmpeg reads, where it is not installed."""
        if missing := ffmpeg.missing_for(paths):
            self.warnings.append(missing)

    def _find_phones(self) -> Inventory:
        """Return the labels of the training split; utterances of the other splits with further labels are left out."""
        phones = found(phone for utterance in self.utterances["train"] for phone in utterance.phones)
        self.notes.append(f"phone set: the {len(phones.phones)} labels of the training split")
        looks = {shape(phone): phone for phone in phones.phones}
        for split in ("dev", "test"):
            known, unknown = [], Counter[str]()
            for utterance in self.utterances[split]:
                missing = sorted(set(utterance.phones) - set(phones.phones))
                if not missing:
                    known.append(utterance)
                    continue
                unknown.update(missing)
                said = [
                    f"{label} (looks like {looks[shape(label)]})" if shape(label) in looks else label
                    for label in missing
                ]
                reason = f"labels that the training split does not have: {' '.join(said)}"
                self.rejected[split].append(Rejected(utterance.id, reason))
            if unknown:
                count = len(self.utterances[split]) - len(known)
                self.warnings.append(
                    f"{split}: {count} utterances are left out, for labels that the training split does not have "
                    f"(in how many utterances): {counted(unknown)}"
                )
            self.utterances[split] = known
        return phones


def _doubtful(counts: Counter[str]) -> list[str]:
    """Warn of labels that may be mistakes: look-alikes, pauses, and what is said not to be understood."""
    warnings = []
    for group in look_alikes(counts):
        said = " and ".join(f"{spelt_out(label)} ({counts[label]} times)" for label in group)
        warnings.append(f"these labels look alike, but are read as different phones: {said}")
    for kind, labels in (("pauses", PAUSES), ("unclear speech", UNCLEAR)):
        if there := Counter({label: count for label, count in counts.items() if label in labels}):
            names = ", ".join(f"'{label}'" for label in sorted(there))
            warnings.append(
                f"labels that look like {kind} are learned as phones: {counted(there)}; "
                f'to leave them out: corpus.ignore="[{names}]"'
            )
    return warnings
