"""Reads a corpus of recordings with TextGrids, such as decoding writes for correction, or of ELAN's files (.eaf).

Folders named train, dev and test, in any letter case, are the splits. Without them all recordings are for training, and
a share of the speakers or of the utterances becomes dev. Intervals without a label are left out, and long ones separate
utterances. With ``corpus.words_tier`` the labels are words, and are read as phones.

A file of ELAN comes with the recording that it links to. The speaker is the participant of a tier, else the part of its
name for which a ``*`` in ``corpus.tier`` stands, else the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.audio.eaf import ENDING as EAF
from speechctc.audio.eaf import find_media, read_eaf
from speechctc.audio.recordings import ENDINGS, Recording, find_recordings, left_out
from speechctc.audio.siblings import Siblings, belongs_to_another, differs_by_case
from speechctc.audio.textgrids import read_tiers
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.tier_utterances import Labelled, TierReader

if TYPE_CHECKING:
    from speechctc.config.corpus_config import CorpusConfig

ENDING = ".textgrid"


def read_textgrids(root: Path, config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read a folder of recordings with TextGrids.

    Parameters
    ----------
    root : Path
    config : CorpusConfig
        Its keys of tiers, of labels and of words are used, and ``dev_share``.
    needed : str
        The split that must have a usable recording, if training has none.

    Raises
    ------
    InputError
        No recording can be used for training; the message gives the first reason.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder", "set corpus.root to the folder of recordings and TextGrids")
    builder = CorpusBuilder.for_config(config)
    recordings = find_recordings([root])
    builder.warnings += left_out([root])
    grids = {path for path in root.rglob("*") if path.suffix.lower() == ENDING and path.is_file()}
    reader = TierReader(builder, config)
    siblings = Siblings()
    without, cased = [], []
    for recording, id, twin in _named(recordings, root):
        try:
            grid = siblings.find(recording.path, [ENDING])
            if grid is None:
                without.append(recording.path.relative_to(root))
                what = f"no TextGrid beside it{belongs_to_another(siblings.near(recording.path, [ENDING]))}"
                raise InputError(f"{recording.path}: {what}", "add one, or leave the recording out")
            grids.discard(grid)
            if differs_by_case(recording.path, grid):
                cased.append(grid.relative_to(root))
            if twin is not None:
                raise InputError(f"{recording.path}: {twin.name} has the same name, and is used", "rename one of them")
            tiers, note = read_tiers(grid)
            seconds = sound_file.info(recording.path).seconds
            labelled = Labelled(id, recording.path, grid, tiers, speaker_of(recording.name), seconds, 0.0, note)
            reader.add(labelled, split_of(recording.name))
        except InputError as error:
            builder.rejected[split_of(recording.name)].append(Rejected(id, str(error)))
    reader.read()
    for grid in sorted(grids):
        name = grid.relative_to(root)
        builder.rejected[split_of(name)].append(Rejected(str(name), f"{grid}: no recording beside it"))
    builder.warn_of(without, "recordings left out, because no TextGrid is beside them")
    builder.warn_of(cased, "TextGrids used whose names differ from their recordings' by letter case or Unicode form")
    builder.warn_of([grid.relative_to(root) for grid in sorted(grids)], "TextGrids without a recording beside them")
    builder.warn_of_formats(recording.path for recording in recordings)
    return _to_corpus(reader, builder, needed, f"{root}: no recording can be used for training", "add some")


def _to_corpus(reader: TierReader, builder: CorpusBuilder, needed: str, what: str, fix: str) -> Corpus:
    """Return the corpus of the files that a reader has; the error of one without utterances gives the first reason."""
    if not builder.utterances["train"] and not builder.utterances[needed]:
        reasons = [each.reason for split in SPLITS for each in builder.rejected[split]]
        raise InputError(what, reasons[0] if reasons else fix)
    return reader.to_corpus()


def _named(recordings: Sequence[Recording], root: Path) -> list[tuple[Recording, str, Path | None]]:
    """Return each recording with its id, and the recording of the same name that is used in place of it, or None."""
    first: dict[Path, Path] = {}
    for recording in sorted(recordings, key=lambda each: ENDINGS.index(each.path.suffix.lower())):
        first.setdefault(recording.path.with_suffix(""), recording.path)
    ids: set[str] = set()
    named: list[tuple[Recording, str, Path | None]] = []
    for recording in recordings:
        twin = first[recording.path.with_suffix("")]
        name = recording.path.with_suffix("").relative_to(root)
        id = "-".join(name.parts)
        if twin != recording.path:
            named.append((recording, id + recording.path.suffix, twin))
            continue
        if id in ids:  # a/b-c and a-b/c
            id = name.as_posix()
        ids.add(id)
        named.append((recording, id, None))
    return named


def split_of(name: Path) -> str:
    """Return the split of a file by its path below the corpus: the folder named train, dev or test, or else train."""
    return next((part.lower() for part in name.parts[:-1] if part.lower() in SPLITS), "train")


def speaker_of(name: Path) -> str:
    """Return the speaker of a file by its path below the corpus: its folders, without the split."""
    return "/".join(part for part in name.parts[:-1] if part.lower() not in SPLITS)


def eaf_files(root: Path) -> list[Path]:
    """Return the files of ELAN in a folder at any depth, without hidden ones, in order."""
    found = (path for path in root.rglob("*") if path.suffix.lower() == EAF and path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts))


def read_elan(root: Path, config: CorpusConfig, needed: str = "train") -> Corpus:
    """Read a folder of ELAN's files; `needed` is the split that must have a usable one, if training has none.

    Raises
    ------
    InputError
        No file can be used for training; the message gives the first reason.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder", "set corpus.root to the folder of the .eaf files")
    builder = CorpusBuilder.for_config(config)
    reader = TierReader(builder, config)
    files = eaf_files(root)
    without = []
    siblings = Siblings()
    for path, id in zip(files, _ids(files, root), strict=True):
        name = path.relative_to(root)
        split = split_of(name)
        try:
            tiers, media = read_eaf(path)
            try:
                audio, origin = find_media(path, media, siblings)
            except InputError:
                without.append(name)
                raise
            seconds = sound_file.info(audio).seconds
            reader.add(Labelled(id, audio, path, tiers, speaker_of(name), seconds, origin), split)
        except InputError as error:
            builder.rejected[split].append(Rejected(id, str(error)))
    reader.read()
    builder.warn_of(without, "files of ELAN left out, because their recordings are not there")
    builder.warn_of_formats(reader.recordings)
    what, fix = f"{root}: no file of ELAN can be used for training", "there is no .eaf file in it"
    return _to_corpus(reader, builder, needed, what, fix)


def _ids(files: list[Path], root: Path) -> list[str]:
    """Return a distinct id for each file: its path below the corpus, without the ending."""
    ids: dict[str, None] = {}
    for path in files:
        name = path.relative_to(root).with_suffix("")
        plain = "-".join(name.parts)
        ids[plain if plain not in ids else name.as_posix()] = None  # a/b-c and a-b/c
    return list(ids)
