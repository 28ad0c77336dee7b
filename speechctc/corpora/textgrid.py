"""Recordings with Praat TextGrids beside them, such as decoding wrote and a phonetician corrected.

Folders named train, dev and test, in either case, are the splits. Without them everything is for training, and a
share of the speakers (a folder each) or of the recordings is held out as dev. Intervals without a label are not phones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from speechctc import audio
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.held_out import hold_out
from speechctc.errors import InputError
from speechctc.phones import FOUND, Inventory, found, inventory
from speechctc.recognition.annotations import read_textgrid
from speechctc.recognition.recordings import beside, find_recordings

if TYPE_CHECKING:
    from speechctc.config import CorpusConfig

TAIL = 0.05  # seconds that labels may run past their recording


def read_textgrids(root: Path, config: CorpusConfig) -> Corpus:
    """Read a folder of recordings with TextGrids.

    Parameters
    ----------
    root : Path
    config : CorpusConfig
        Its ``tier``, ``phones`` and ``dev_share``.

    Raises
    ------
    InputError
        There is nothing usable for training; the first reason is given.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder", "set corpus.root to the folder of recordings and TextGrids")
    phones = None if config.phones in ("auto", FOUND) else inventory(config.phones)
    parts: dict[str, list[Utterance]] = {split: [] for split in SPLITS}
    rejected: dict[str, list[Rejected]] = {split: [] for split in SPLITS}
    for recording in find_recordings([root]):
        split = _split(recording.name)
        id = "-".join(recording.name.parts)
        try:
            parts[split].append(_utterance(id, recording.path, recording.name, config.tier, phones))
        except InputError as error:
            rejected[split].append(Rejected(id, str(error)))
    if not parts["train"]:
        reasons = [each.reason for split in SPLITS for each in rejected[split]]
        raise InputError(f"{root}: no recording can be used for training", reasons[0] if reasons else "add some")
    notes = []
    if not parts["dev"]:
        held, note = hold_out(parts["train"], config.dev_share)
        parts["dev"] = [utterance for utterance in parts["train"] if utterance.id in held]
        parts["train"] = [utterance for utterance in parts["train"] if utterance.id not in held]
        notes.append(note)
    if phones is None:
        phones = found(phone for utterance in parts["train"] for phone in utterance.phones)
        notes.append(f"phone set: the {len(phones.phones)} labels of the training split")
        for split in ("dev", "test"):
            _reject_unknown(parts[split], rejected[split], phones)
    return Corpus(
        {split: tuple(sorted(parts[split], key=lambda utterance: utterance.id)) for split in SPLITS},
        phones.name,
        {split: tuple(rejected[split]) for split in SPLITS},
        tuple(notes),
    )


def _split(name: Path) -> str:
    return next((part.lower() for part in name.parts[:-1] if part.lower() in SPLITS), "train")


def _utterance(id: str, path: Path, name: Path, tier: str, phones: Inventory | None) -> Utterance:
    grid = beside(path, [".textgrid"])
    if grid is None:
        raise InputError(f"{path}: no TextGrid beside it", "add one, or leave the recording out")
    intervals = read_textgrid(grid, tier)
    labels = [interval.label for interval in intervals]
    if bad := next((label for label in labels if label.split() != [label]), None):
        raise InputError(f"{grid}: the label {bad!r} has a space in it", "give each phone an interval")
    seconds = audio.info(path).seconds
    if intervals and intervals[-1].end > seconds + TAIL:
        what = f"labels up to {intervals[-1].end:.2f} s for a recording of {seconds:.2f} s"
        raise InputError(f"{grid}: {what}", "check that they belong together")
    if phones is not None:
        labels = phones.decode(phones.encode(labels))  # as the set spells them
    folders = [part for part in name.parts[:-1] if part.lower() not in SPLITS]
    times = tuple((interval.start, min(interval.end, seconds)) for interval in intervals)
    return Utterance(id, path, tuple(labels), "/".join(folders), times)


def _reject_unknown(utterances: list[Utterance], rejected: list[Rejected], phones: Inventory) -> None:
    """Take out those with a label that training does not have."""
    for utterance in list(utterances):
        if missing := sorted(set(utterance.phones) - set(phones.phones)):
            utterances.remove(utterance)
            reason = f"labels that the training split does not have: {' '.join(missing)}"
            rejected.append(Rejected(utterance.id, reason))
