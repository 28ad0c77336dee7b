"""Reads a corpus of ELAN's files (.eaf), each with the recording that it links to.

Splits, dev and tiers are as for TextGrids. The speaker is the participant of a tier, else the part of its name for
which a ``*`` in ``corpus.tier`` stands, else the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from speechctc.audio import sound_file
from speechctc.audio.eaf import ENDING, find_media, read_eaf
from speechctc.audio.siblings import Siblings
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected
from speechctc.corpora.corpus_builder import CorpusBuilder
from speechctc.corpora.textgrid import speaker_of, split_of
from speechctc.corpora.tier_utterances import Labelled, TierReader

if TYPE_CHECKING:
    from speechctc.config.corpus_config import CorpusConfig


def eaf_files(root: Path) -> list[Path]:
    """Return the files of ELAN in a folder at any depth, without hidden ones, in order."""
    found = (path for path in root.rglob("*") if path.suffix.lower() == ENDING and path.is_file())
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
    if not builder.utterances["train"] and not builder.utterances[needed]:
        reasons = [each.reason for split in SPLITS for each in builder.rejected[split]]
        fix = reasons[0] if reasons else "there is no .eaf file in it"
        raise InputError(f"{root}: no file of ELAN can be used for training", fix)
    return reader.to_corpus()


def _ids(files: list[Path], root: Path) -> list[str]:
    """Return a distinct id for each file: its path below the corpus, without the ending."""
    ids: dict[str, None] = {}
    for path in files:
        name = path.relative_to(root).with_suffix("")
        plain = "-".join(name.parts)
        ids[plain if plain not in ids else name.as_posix()] = None  # a/b-c and a-b/c
    return list(ids)
