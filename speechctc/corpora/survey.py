"""What lies in a folder that nobody has described yet: recordings, and which labels there are for them.

Nothing is changed. What is found is read by the same readers that extraction uses, so that what they would refuse is
known before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.audio.recordings import find_recordings, sibling_file
from speechctc.config.corpus_config import CorpusConfig, TablesConfig
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.corpora.phone_tier import phone_tier
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import read_rows
from speechctc.corpora.timit_files import find_files
from speechctc.errors import InputError

TABLES = (".tsv", ".tab", ".csv", ".jsonl", ".ndjson")
_SPLIT_WORDS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}


@dataclass
class Sound:
    """What the headers of recordings say.

    Attributes
    ----------
    seconds : float
        Of all that can be read.
    rates, formats : Counter
        How many recordings have each sample rate in Hz, and each ending.
    long : int
        Recordings of more than a minute.
    unreadable : list of str
        What is wrong with each that cannot be read.
    """

    seconds: float = 0.0
    rates: Counter[int] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    long: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def readable(self) -> int:
        """How many recordings can be read."""
        return sum(self.rates.values())


@dataclass(frozen=True)
class Survey:
    """What was found in a folder.

    Attributes
    ----------
    folder : Path
    config : CorpusConfig or None
        How to read the labelled recordings; None where there are none.
    corpus : Corpus or None
        The labelled recordings.
    sound : Sound
        Of the labelled recordings; of all where none is labelled.
    unlabelled : int
        Recordings that nothing labels.
    notes : tuple of str
        What was chosen among what was found, and what could not be used as labels.
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
    """Look at what lies in a folder, at any depth.

    Tables go before TextGrids, and those before TIMIT's layout; what comes first and can be read is taken.

    Raises
    ------
    InputError
        No such folder, or nothing in it that can be listened to.
    """
    if not folder.is_dir():
        what = "a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {what}", "name the folder that holds your recordings")
    recordings = _recordings(folder)
    notes: list[str] = []
    for look in (_as_tables, _as_textgrids, _as_timit):
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
    """Read the headers of recordings."""
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
    """Return how to read the tables that have the columns of a corpus."""
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
        notes.append(f"{len(left)} more tables, not used: {', '.join(left[:3])}{' ...' if len(left) > 3 else ''}")
    tables = TablesConfig(**chosen)
    configs = [CorpusConfig(kind="table", tables=tables, phones="found", root=root) for root in (None, folder, Path())]
    return max(configs, key=_usable)


def _splits(rows: dict[Path, int]) -> dict[str, Path]:
    """Give each split the table named for it; where none is named for training, it gets the longest of the others."""
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
    """Return how to read the TextGrids beside recordings."""
    grids = [grid for path in recordings if (grid := sibling_file(path, [".textgrid"])) is not None]
    if not grids:
        alone = sum(path.suffix.lower() == ".textgrid" for path in folder.rglob("*"))
        if alone:
            notes.append(f"not used: {alone} TextGrids without a recording of the same name beside them")
        return None
    tier, said = phone_tier(grids)
    notes.append(said)
    return CorpusConfig(kind="textgrid", root=folder, tier=tier, phones="found") if tier else None


def _as_timit(folder: Path, recordings: Sequence[Path], notes: list[str]) -> CorpusConfig | None:
    """Return how to read TIMIT's layout, if .PHN files lie in it."""
    if not any(path.suffix.lower() == ".phn" for path in folder.rglob("*")):
        return None
    find_files(folder)
    return CorpusConfig(kind="timit", root=folder, phones="timit61")


def _nothing(folder: Path, notes: Sequence[str]) -> InputError:
    """Say that there is nothing to hear, and the first thing found that is of no use without."""
    first = f" ({notes[0]})" if notes else ""
    return InputError(
        f"{folder}: no recordings in this folder, and no table that names some{first}",
        "name the folder that holds your recordings (WAV, FLAC, OGG, MP3, ...) and their TextGrids or tables",
    )
