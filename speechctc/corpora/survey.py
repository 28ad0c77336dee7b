"""Surveys a folder: finds recordings and their labels, and how to read them as a corpus.

Nothing is changed. The corpus is read by the readers of extraction, so that their errors are known in advance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.audio.recordings import find_recordings
from speechctc.audio.siblings import Siblings
from speechctc.config.corpus_config import CorpusConfig, TablesConfig
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.elan import eaf_files
from speechctc.corpora.phone_tier import phone_tier
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import read_rows
from speechctc.corpora.timit_files import find_files
from speechctc.errors import InputError
from speechctc.listing import some

TABLES = (".tsv", ".tab", ".csv", ".jsonl", ".ndjson", ".xlsx")
_SPLIT_WORDS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}


@dataclass
class Sound:
    """Facts from the headers of recordings.

    Attributes
    ----------
    seconds : float
        Duration of all recordings that can be read.
    rates, formats : Counter
        Number of recordings by sample rate in Hz, and by ending.
    long : int
        Number of recordings longer than a minute.
    unreadable : list of str
        The error for each recording that cannot be read.
    """

    seconds: float = 0.0
    rates: Counter[int] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    long: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def readable(self) -> int:
        """Return the number of recordings that can be read."""
        return sum(self.rates.values())


@dataclass(frozen=True)
class Survey:
    """The recordings and labels of a folder.

    Attributes
    ----------
    folder : Path
    config : CorpusConfig or None
        How to read the labelled recordings; None if there are none.
    corpus : Corpus or None
        The labelled recordings.
    sound : Sound
        Facts of the labelled recordings; of all recordings if none is labelled.
    unlabelled : int
        Number of recordings without labels.
    notes : tuple of str
        What was chosen, and files that could not be used as labels.
    """

    folder: Path
    config: CorpusConfig | None
    corpus: Corpus | None
    sound: Sound
    unlabelled: int
    notes: tuple[str, ...]

    @property
    def utterances(self) -> list[Utterance]:
        """Return the labelled recordings of all splits."""
        return [utterance for split in self.corpus.splits.values() for utterance in split] if self.corpus else []


def survey(folder: Path) -> Survey:
    """Find the recordings and labels in a folder, at any depth.

    Labels are read from tables, else from TextGrids, else from files of ELAN, else from .PHN files in TIMIT's layout.

    Raises
    ------
    InputError
        The folder does not exist or has no recordings.
    """
    if not folder.is_dir():
        what = "a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}", "name the folder that holds your recordings")
    recordings = _recordings(folder)
    notes: list[str] = []
    for look in (_as_tables, _as_textgrids, _as_elan, _as_timit):
        try:
            config = look(folder, recordings, notes)
            corpus = read_corpus(config) if config else None
        except InputError as error:
            notes.append(f"not used: {error}")
            continue
        if config and corpus:
            used = {utterance.audio for split in corpus.splits.values() for utterance in split}
            left = [path for path in recordings if path not in used]
            return Survey(folder, config, corpus, listen(used), len(left), tuple(notes))
    if not recordings:
        raise _nothing(folder, notes)
    return Survey(folder, None, None, listen(recordings), len(recordings), tuple(notes))


def listen(recordings: Iterable[Path]) -> Sound:
    """Return facts from the headers of recordings."""
    sound = Sound()
    for path in sorted(set(recordings)):
        try:
            about = sound_file.info(path)
        except InputError as error:
            sound.unreadable.append(str(error))
            continue
        sound.seconds += about.seconds
        sound.rates[about.rate] += 1
        sound.formats[path.suffix.lower().removeprefix(".")] += 1
        sound.long += about.seconds > 60
    return sound


def _recordings(folder: Path) -> list[Path]:
    try:
        return [recording.path for recording in find_recordings([folder])]
    except InputError:
        return []


def _as_tables(folder: Path, recordings: Sequence[Path], notes: list[str]) -> CorpusConfig | None:
    """Return the config for the tables that have the columns of a corpus; None if there are none."""
    rows: dict[Path, int] = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in TABLES and path.is_file()):
        try:
            rows[path] = len(read_rows(path))
        except InputError as error:
            notes.append(f"not used: {error}")
    if not rows:
        return None
    chosen = _splits(rows)
    left = [str(path) for path in rows if path not in chosen.values()]
    if left:
        notes.append(f"not used: {len(left)} more tables ({some(left, 3)})")
    tables = TablesConfig(**chosen)
    configs = [CorpusConfig(kind="table", tables=tables, phones="found", root=root) for root in (None, folder, Path())]
    return max(configs, key=_usable)


def _splits(rows: dict[Path, int]) -> dict[str, Path]:
    """Return the table of each split, by its name; if no name says train, that is the longest of the other tables."""
    chosen: dict[str, Path] = {}
    for path in sorted(rows, key=lambda path: (-rows[path], path)):
        name = path.stem.lower()
        split = next((split for split, words in _SPLIT_WORDS.items() if any(word in name for word in words)), None)
        if split:
            chosen.setdefault(split, path)
    others = [path for path in rows if path not in chosen.values()]
    if "train" not in chosen:
        chosen["train"] = max(others or rows, key=lambda path: rows[path])
        chosen = {split: path for split, path in chosen.items() if split == "train" or path != chosen["train"]}
    return chosen


def _usable(config: CorpusConfig) -> int:
    try:
        return sum(len(split) for split in read_corpus(config).splits.values())
    except InputError:
        return 0


def _as_textgrids(folder: Path, recordings: Sequence[Path], notes: list[str]) -> CorpusConfig | None:
    """Return the config for TextGrids beside recordings; None if there are none."""
    siblings = Siblings()
    grids = [grid for path in recordings if (grid := siblings.find(path, [".textgrid"])) is not None]
    if not grids:
        alone = sum(path.suffix.lower() == ".textgrid" for path in folder.rglob("*"))
        if alone:
            notes.append(f"not used: {alone} TextGrids without a recording of the same name in their folder")
        return None
    tier, note = phone_tier(grids)
    notes.append(note)
    return CorpusConfig(kind="textgrid", root=folder, tier=tier, phones="found") if tier else None


def _as_elan(folder: Path, recordings: Sequence[Path], notes: list[str]) -> CorpusConfig | None:
    """Return the config for files of ELAN; None if there are none."""
    files = eaf_files(folder)
    if not files:
        return None
    tier, note = phone_tier(files)
    notes.append(note)
    return CorpusConfig(kind="elan", root=folder, tier=tier, phones="found") if tier else None


def _as_timit(folder: Path, recordings: Sequence[Path], notes: list[str]) -> CorpusConfig | None:
    """Return the config for a corpus in TIMIT's layout; None if there are no .PHN files."""
    if not any(path.suffix.lower() == ".phn" for path in folder.rglob("*")):
        return None
    find_files(folder)
    return CorpusConfig(kind="timit", root=folder, phones="timit61")


def _nothing(folder: Path, notes: Sequence[str]) -> InputError:
    """Return the error for a folder without recordings, with the first note on the files that it has."""
    first = f" ({notes[0]})" if notes else ""
    return InputError(
        f"{folder}: no recordings in this folder, and no table that names recordings{first}",
        "name the folder that holds your recordings (WAV, FLAC, OGG, MP3, ...) and their TextGrids or tables",
    )
